package pool_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/pool"
	"github.com/turnstile-go/turnstile/throttle"
)

// An input is a sequence of 0, 1, ... that watches how it is used.
type input struct {
	n       int // items; below 0: without end
	pulled  atomic.Int64
	open    atomic.Int64 // ranges that have not ended
	stopped atomic.Int64 // ranges that were left early
}

func (in *input) seq(yield func(int) bool) {
	if in.open.Add(1) != 1 {
		panic("the sequence is ranged over by two goroutines")
	}
	defer in.open.Add(-1)
	for i := 0; i != in.n; i++ {
		in.pulled.Add(1)
		if !yield(i) {
			in.stopped.Add(1)
			return
		}
	}
}

// double returns twice the item after a time that depends on it.
func double(_ context.Context, i int) (int, error) {
	time.Sleep(time.Duration((i*7)%13) * time.Second)
	return 2 * i, nil
}

func TestMap_DeliversInTheOrderOfItemsOrAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(2), Burst: 1, MaxInFlight: 5})
		for _, asTheyCome := range []bool{false, true} {
			for _, ahead := range []int{0, 1, 2, 3, 8} {
				in := &input{n: 40}
				var got []int
				for r, err := range pool.Map(context.Background(), pool.Config{Limiter: lim, Ahead: ahead, AsTheyCome: asTheyCome}, in.seq, double) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, r/2)
				}
				if inOrder := slices.IsSorted(got); inOrder == (asTheyCome && ahead != 1) {
					t.Errorf("as they come %v, ahead %d: delivered %v", asTheyCome, ahead, got)
				}
				slices.Sort(got)
				if len(got) != 40 || len(slices.Compact(got)) != 40 {
					t.Errorf("as they come %v, ahead %d: %d results; want each of 40 once", asTheyCome, ahead, len(got))
				}
			}
		}
	})
}

// planned returns when each of n calls starts and is delivered, in order, by a slow and obvious model: a call starts once the one before has, a token
// is there (one each period, at burst 1), one of cap permits is free, and its item may be taken.
func planned(n, ahead, limit int, period time.Duration, takes func(int) time.Duration) (starts, delivered []time.Duration) {
	var ends []time.Duration
	for i := range n {
		var at time.Duration
		if i > 0 {
			at = starts[i-1] + period
		}
		if i >= ahead {
			at = max(at, delivered[i-ahead])
		}
		for { // until fewer than limit are in flight
			busy, next := 0, time.Duration(1<<62)
			for _, end := range ends {
				if end > at {
					busy, next = busy+1, min(next, end)
				}
			}
			if busy < limit {
				break
			}
			at = next
		}
		starts, ends = append(starts, at), append(ends, at+takes(i))
		delivered = append(delivered, ends[i])
		if i > 0 {
			delivered[i] = max(delivered[i], delivered[i-1])
		}
	}
	return starts, delivered
}

func TestMap_StartsAndDeliversWhenTheModelDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for round := range 200 {
			n, ahead, limit := 1+rng.IntN(30), 1+rng.IntN(8), 1+rng.IntN(6)
			period := time.Duration(1+rng.IntN(5)) * time.Second
			takes := make([]time.Duration, n)
			for i := range takes {
				takes[i] = time.Duration(rng.IntN(20)+1) * time.Second
			}
			lim := newLimiter(t, throttle.Config{Rate: throttle.Every(period), Burst: 1, MaxInFlight: int64(limit)})
			begin := time.Now()
			starts, delivered := make([]time.Duration, n), []time.Duration(nil)
			in := &input{n: n}
			for _, err := range pool.Map(context.Background(), pool.Config{Limiter: lim, Ahead: ahead}, in.seq, func(_ context.Context, i int) (int, error) {
				starts[i] = time.Since(begin)
				time.Sleep(takes[i])
				return i, nil
			}) {
				if err != nil {
					t.Fatal(err)
				}
				delivered = append(delivered, time.Since(begin))
			}
			wantStarts, wantDelivered := planned(n, ahead, limit, period, func(i int) time.Duration { return takes[i] })
			if !slices.Equal(starts, wantStarts) || !slices.Equal(delivered, wantDelivered) {
				t.Fatalf("round %d (%d items, ahead %d, cap %d, one per %v):\nstarts    %v\nmodel     %v\ndelivered %v\nmodel     %v",
					round, n, ahead, limit, period, starts, wantStarts, delivered, wantDelivered)
			}
		}
	})
}

func TestMap_TakesAtMostAheadItemsBeyondThoseDeliveredAndNoneBeforeItIsRangedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, asTheyCome := range []bool{false, true} {
			for _, ahead := range []int{1, 2, 5} {
				in := &input{n: -1}
				results := pool.Map(context.Background(), pool.Config{Ahead: ahead, AsTheyCome: asTheyCome}, in.seq, double)
				time.Sleep(time.Hour)
				if n := in.pulled.Load(); n != 0 {
					t.Fatalf("%d items were taken before the result is ranged over", n)
				}
				delivered := int64(0)
				for range results {
					delivered++
					time.Sleep(time.Minute) // a slow consumer, so that everything else comes to rest
					synctest.Wait()
					if n := in.pulled.Load(); n != delivered+int64(ahead) {
						t.Fatalf("as they come %v: %d items were taken with %d delivered; want %d more", asTheyCome, n, delivered, ahead)
					}
					if delivered == 20 {
						break
					}
				}
				if in.open.Load() != 0 || in.stopped.Load() != 1 {
					t.Errorf("the sequence was not left when the loop was")
				}
			}
		}
	})
}

func TestMap_LeavingTheLoopEndsCallsInFlightAndInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 3})
		for _, how := range []string{"break", "panic", "goexit"} {
			in := &input{n: -1}
			var ended, causes atomic.Int64
			over := make(chan any)
			go func() {
				defer func() { over <- recover() }()
				for range pool.Map(context.Background(), pool.Config{Limiter: lim}, in.seq, func(ctx context.Context, i int) (int, error) {
					if i > 0 {
						<-ctx.Done()
						ended.Add(1)
						if !errors.Is(context.Cause(ctx), context.Canceled) {
							causes.Add(1)
						}
					}
					return i, nil
				}) {
					time.Sleep(time.Second)
					switch how {
					case "panic":
						panic("the consumer's")
					case "goexit":
						runtime.Goexit()
					}
					break
				}
			}()
			v := <-over
			if how == "panic" && v != "the consumer's" || how != "panic" && v != nil {
				t.Errorf("%s: the loop ended with %v", how, v)
			}
			if ended.Load() != 3 || in.open.Load() != 0 || lim.Stats().InFlight != 0 || lim.Stats().Waiting != 0 {
				t.Errorf("%s: %d of 3 calls ended, %d ranges open, limiter %+v", how, ended.Load(), in.open.Load(), lim.Stats())
			}
			if causes.Load() != 3 {
				t.Errorf("%s: calls were not told why their context ended", how)
			}
		}
	})
}

// failing returns errors for items 3 and 5, of which that for 5 comes first.
func failing(_ context.Context, i int) (int, error) {
	switch i {
	case 3:
		time.Sleep(3 * time.Second)
		return -3, errTask
	case 5:
		return -5, errTask
	}
	time.Sleep(time.Second)
	return i, nil
}

func TestMap_TheFirstErrorDeliveredIsTheLastOrEachItemHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			config pool.Config
			want   string
		}{
			{pool.Config{}, "0 1 2 -3!"},
			{pool.Config{KeepGoing: true}, "0 1 2 -3! 4 -5! 6 7"},
			{pool.Config{AsTheyCome: true}, "-5!"},
			{pool.Config{AsTheyCome: true, KeepGoing: true, Ahead: 3}, "0 1 2 -5! 4 6 -3! 7"},
		} {
			in := &input{n: 8}
			var got []string
			for r, err := range pool.Map(context.Background(), c.config, in.seq, failing) {
				text := fmt.Sprint(r)
				if err != nil {
					text += "!"
				}
				got = append(got, text)
			}
			if c.config.AsTheyCome && c.config.KeepGoing { // those that end at one instant come in any order
				want := strings.Fields(c.want)
				slices.Sort(want)
				slices.Sort(got)
				c.want = strings.Join(want, " ")
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%+v: delivered %s; want %s", c.config, text, c.want)
			}
		}
	})
}

func TestMap_AfterAnErrorNoMoreItemsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &input{n: -1}
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		for range pool.Map(context.Background(), pool.Config{Limiter: lim}, in.seq, func(_ context.Context, i int) (int, error) {
			if i == 0 {
				time.Sleep(30 * time.Second) // holds back what has been done meanwhile
			}
			if i == 2 {
				return 0, errTask
			}
			return i, nil
		}) {
		}
		if n := in.pulled.Load(); n > 4 { // 3, and one that was in line when 2 failed
			t.Errorf("%d items were taken; want 4 at most", n)
		}
	})
}

func TestMap_APanicOfTheFunctionOrTheSequenceReachesTheConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 3})
		ofFunc := func(_ context.Context, i int) (int, error) {
			if i == 4 {
				panicsHere()
			}
			return i, nil
		}
		ofSeq := func(yield func(int) bool) {
			if yield(0) && yield(1) {
				panicsHere()
			}
		}
		same := func(_ context.Context, i int) (int, error) { return i, nil }
		for name, results := range map[string]iter.Seq2[int, error]{
			"function": pool.Map(context.Background(), pool.Config{Limiter: lim}, (&input{n: -1}).seq, ofFunc),
			"sequence": pool.Map(context.Background(), pool.Config{Limiter: lim}, ofSeq, same),
		} {
			err, _ := caught(func() {
				for range results {
				}
			}).(*pool.PanicError)
			if err == nil || !strings.Contains(err.Error(), "panicsHere") {
				t.Errorf("%s: the consumer got %v; want a PanicError with the place", name, err)
			}
			if s := lim.Stats(); s.InFlight != 0 || s.Waiting != 0 {
				t.Errorf("%s: the limiter is left with %+v", name, s)
			}
		}
		for name, results := range map[string]iter.Seq2[int, error]{
			"function": pool.Map(context.Background(), pool.Config{}, (&input{n: 3}).seq, func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil }),
			"sequence": pool.Map(context.Background(), pool.Config{}, func(func(int) bool) { runtime.Goexit() }, same),
		} {
			returned := make(chan bool)
			go func() {
				defer close(returned)
				for range results {
				}
				returned <- true
			}()
			if <-returned {
				t.Errorf("%s: the range ended as if nothing had happened; want a Goexit", name)
			}
		}
	})
}

func TestMap_ACancelledContextIsToldAndCutsTheSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keepGoing := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(context.Background(), 10500*time.Millisecond)
			in := &input{n: -1}
			lim := newLimiter(t, throttle.Config{MaxInFlight: 1})
			var good int
			var last error
			for _, err := range pool.Map(ctx, pool.Config{Limiter: lim, KeepGoing: keepGoing}, in.seq, func(context.Context, int) (int, error) {
				time.Sleep(time.Second)
				return 0, nil // whatever the context says
			}) {
				if err == nil {
					good++
				}
				last = err
			}
			cancel()
			if good != 11 || !errors.Is(last, context.DeadlineExceeded) {
				t.Errorf("keep going %v: %d results, then %v; want 11, and the context's error", keepGoing, good, last)
			}
		}
		// No item waits in line when the context ends: the error belongs to none.
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		in := &input{n: -1}
		var results, errs []error
		for _, err := range pool.Map(ctx, pool.Config{Ahead: 1}, in.seq, func(context.Context, int) (int, error) { return 0, nil }) {
			if err == nil {
				results = append(results, err)
				cancel(errTask)
			} else {
				errs = append(errs, err)
			}
			synctest.Wait()
		}
		if len(errs) != 1 || !errors.Is(errs[0], errTask) {
			t.Errorf("%d results, errors %v; want one with the cause", len(results), errs)
		}
	})
}

func TestMap_MayBeRangedOverAgainAndChained(t *testing.T) {
	in := &input{n: 5}
	results := pool.Map(context.Background(), pool.Config{}, in.seq, func(_ context.Context, i int) (int, error) { return i + 1, nil })
	for range 2 {
		var sum int
		for r := range results {
			sum += r
		}
		if sum != 15 {
			t.Errorf("the sum is %d; want 15", sum)
		}
	}
}

func TestForEach_TakesOneItemBeyondThoseStartedAndStopsAtTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &input{n: -1}
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 4})
		var calls []int
		err := pool.ForEach(context.Background(), pool.Config{Limiter: lim}, in.seq, func(ctx context.Context, i int) error {
			calls = append(calls, i)
			if n := in.pulled.Load(); n > int64(i)+2 {
				t.Errorf("%d items were taken at the start of item %d", n, i)
			}
			if i == 5 {
				time.Sleep(500 * time.Millisecond)
				return errTask
			}
			return nil
		})
		if err != errTask || !slices.Equal(calls, []int{0, 1, 2, 3, 4, 5}) || in.pulled.Load() != 7 || in.stopped.Load() != 1 {
			t.Errorf("error %v, calls %v, %d items taken", err, calls, in.pulled.Load())
		}
	})
}

func TestForEach_KeepGoingTriesAllUntilTheContextOrTheLimiterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(_ context.Context, i int) error { return fmt.Errorf("error %d", i) }
		err := pool.ForEach(context.Background(), pool.Config{KeepGoing: true}, (&input{n: 3}).seq, fails)
		if err == nil || err.Error() != "error 0\nerror 1\nerror 2" {
			t.Errorf("ForEach returned %v", err)
		}
		good := func(context.Context, int) error { return nil }
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		time.AfterFunc(5500*time.Millisecond, cancel)
		if err := pool.ForEach(ctx, pool.Config{Limiter: lim, KeepGoing: true}, (&input{n: -1}).seq, good); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		time.AfterFunc(5500*time.Millisecond, lim.Close)
		if err := pool.ForEach(context.Background(), pool.Config{Limiter: lim, KeepGoing: true}, (&input{n: -1}).seq, good); !errors.Is(err, throttle.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestForEach_APanicOfTheSequencePassesThroughOnceNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		v := caught(func() {
			pool.ForEach(context.Background(), pool.Config{}, func(yield func(int) bool) {
				yield(0)
				panic("the sequence's")
			}, func(ctx context.Context, _ int) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended.Store(true)
				return nil
			})
		})
		if v != "the sequence's" || !ended.Load() {
			t.Errorf("ForEach panicked with %v; the call had ended: %v", v, ended.Load())
		}
	})
}

func TestBadArgumentsAreErrorsThatNameThem(t *testing.T) {
	ctx, seq := context.Background(), slices.Values([]int{1})
	each := func(context.Context, int) error { return nil }
	for want, err := range map[string]error{
		"pool: ForEach: Config: Ahead is -1; want 1 or more, or 0 for 64": pool.ForEach(ctx, pool.Config{Ahead: -1}, seq, each),
		"pool: ForEach: the context is nil; want":                         pool.ForEach(nil, pool.Config{}, seq, each),
		"pool: ForEach: the sequence is nil; want":                        pool.ForEach(ctx, pool.Config{}, nil, each),
		"pool: ForEach: the function is nil; want":                        pool.ForEach(ctx, pool.Config{}, seq, nil),
	} {
		if !errors.Is(err, throttle.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	n := 0
	for _, err := range pool.Map(ctx, pool.Config{Ahead: -1}, seq, double) {
		if n++; !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("Map: got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("Map delivered %d times; want the error once", n)
	}
}
