package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// dropping returns a limiter of 1 token a second, burst 3, all of them taken, with a line of two in which the oldest makes room.
func dropping(t *testing.T, change func(*throttle.Config)) *throttle.Limiter {
	t.Helper()
	c := throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 3, MaxQueue: 2, QueueFull: throttle.DropOldest}
	if change != nil {
		change(&c)
	}
	l := newLimiter(t, c)
	mustTry(t, l, 3, 1)
	return l
}

// mustBeDropped asserts that c was told to make room, with the wait that it had left and its place.
func (c *caller) mustBeDropped(t *testing.T, wait time.Duration, ahead int) {
	t.Helper()
	if !c.over() {
		t.Fatal("the oldest still waits")
	}
	e, ok := errors.AsType[*throttle.NotYetError](c.err)
	switch {
	case !ok || e.Reason != throttle.Dropped || !errors.Is(c.err, throttle.ErrQueueFull):
		t.Fatalf("the oldest is told %v; want a *NotYetError, Dropped, which is ErrQueueFull", c.err)
	case e.RetryAfter != wait || e.Ahead != ahead || e.Limit != "MaxQueue 2":
		t.Fatalf("the oldest is told %+v; want %v more, %d ahead, MaxQueue 2", e, wait, ahead)
	case !strings.HasPrefix(e.Error(), `throttle: "api": MaxQueue 2: the oldest in line made room`):
		t.Fatalf("the text is %q", e.Error())
	}
}

// mustComeToStartAt has time pass until c has its answer, and asserts that it has started, at the instant at.
func (c *caller) mustComeToStartAt(t *testing.T, at time.Duration) {
	t.Helper()
	<-c.done
	c.mustStartAt(t, at)
}

func TestDropOldest_TheOldestIsToldItsWaitAndPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused []throttle.Event
		l := dropping(t, func(c *throttle.Config) {
			c.Trace = &throttle.Trace{Refused: func(e throttle.Event) { refused = append(refused, e) }}
		})
		first, second := join(t.Context(), l, 2, 1), join(t.Context(), l, 2, 1)
		time.Sleep(500 * time.Millisecond)
		third := join(t.Context(), l, 1, 1)
		first.mustBeDropped(t, 1500*time.Millisecond, 0)
		fourth := join(t.Context(), l, 1, 1)
		second.mustBeDropped(t, 1500*time.Millisecond, 1) // judged from now on, with what is in the bucket
		third.mustComeToStartAt(t, time.Second)
		fourth.mustComeToStartAt(t, 2*time.Second)
		if s := l.Stats(); s.RefusedQueueFull != 2 || s.Started != 3 || s.Waiting != 0 {
			t.Errorf("%+v; want 2 refused because of the queue, 3 started", s)
		}
		if len(refused) != 2 || refused[0].Wait != 1500*time.Millisecond || refused[0].Err != first.err {
			t.Errorf("the trace is told %+v", refused)
		}
	})
}

func TestDropOldest_ANewcomerThatIsRefusedAnywayTurnsNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := dropping(t, func(c *throttle.Config) { c.MaxWait = 3 * time.Second })
		first, second := join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)
		_, err := l.AcquireN(t.Context(), 4)
		if !errors.Is(err, throttle.ErrTooLarge) {
			t.Errorf("a cost above the burst is told %v; want ErrTooLarge", err)
		}
		// Behind the second alone, 3 tokens are due in 4 s, above MaxWait; 2 in 3 s, which is after this deadline.
		_, err = l.AcquireN(t.Context(), 3)
		if e, ok := errors.AsType[*throttle.NotYetError](err); !ok || e.Reason != throttle.PastMaxWait || e.RetryAfter != 4*time.Second {
			t.Errorf("above MaxWait it is told %v; want PastMaxWait, and a wait of 4s", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = l.AcquireN(ctx, 2)
		if e, ok := errors.AsType[*throttle.NotYetError](err); !ok || e.Reason != throttle.PastDeadline || e.RetryAfter != 3*time.Second {
			t.Errorf("with a deadline it is told %v; want PastDeadline, and a wait of 3s", err)
		}
		done, cancelNow := context.WithCancel(t.Context())
		cancelNow()
		if _, err = l.Acquire(done); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that is done it is told %v", err)
		}
		if _, err = l.TryAcquire(); err == nil {
			t.Error("a try overtook")
		}
		first.mustWait(t)
		second.mustWait(t)
		third := join(t.Context(), l, 2, 1) // exactly MaxWait
		first.mustBeDropped(t, time.Second, 0)
		second.mustComeToStartAt(t, time.Second)
		third.mustComeToStartAt(t, 3*time.Second)
	})
}

func TestDropOldest_CountsNamedCostsOfThoseWhoStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{
			Quotas: []throttle.Quota{
				{Name: "requests", Rate: throttle.PerSecond(10), Burst: 10}, {Name: "tokens", Rate: throttle.PerSecond(1), Burst: 10},
			},
			MaxQueue: 2, QueueFull: throttle.DropOldest, MaxWait: 12 * time.Second,
		})
		cost := func(tokens int64) throttle.Cost {
			return throttle.Cost{Tokens: 1, Quotas: map[string]int64{"tokens": tokens}}
		}
		if _, err := l.TryAcquireCost(cost(10)); err != nil {
			t.Fatal(err)
		}
		ask := func(tokens int64) chan error {
			told := make(chan error, 1)
			go func() { _, err := l.AcquireCost(t.Context(), cost(tokens)); told <- err }()
			synctest.Wait()
			return told
		}
		first, second := ask(9), ask(3)
		third := ask(9) // 9 behind 3 take 12 s, which is MaxWait; behind 12 it would be refused
		if err := <-first; !errors.Is(err, throttle.ErrQueueFull) {
			t.Errorf("the oldest is told %v; want ErrQueueFull", err)
		}
		if err := errors.Join(<-second, <-third); err != nil || sinceStart() != 12*time.Second {
			t.Errorf("the others: %v, at %v; want starts until 12s", err, sinceStart())
		}
	})
}

func TestDropOldest_ACallerThatCameAgainIsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := dropping(t, func(c *throttle.Config) { c.MaxInFlight = 5; c.Burst = 4 })
		old := mustTry(t, l, 1, 1)
		first := join(t.Context(), l, 1, 1)
		again := &caller{done: make(chan struct{})}
		go func() {
			defer close(again.done)
			_, again.err = l.AcquireAgain(t.Context(), old, throttle.One)
		}()
		synctest.Wait()
		newcomer := join(t.Context(), l, 1, 1)
		again.mustBeDropped(t, time.Second, 0)
		first.mustComeToStartAt(t, time.Second)
		newcomer.mustComeToStartAt(t, 2*time.Second)
	})
}

func TestDropOldest_AnOldestThatIsGoneLeavesInstead(t *testing.T) {
	var clock throttle.Clock = &stopped{}
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 1, QueueFull: throttle.DropOldest, Clock: clock})
	mustTry(t, l, 1, 1)
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error, 2)
		go func() { _, err := l.Acquire(ctx); told <- err }()
		for l.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		cancel()
		next, stop := context.WithCancel(t.Context())
		go func() { _, err := l.Acquire(next); told <- err }()
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Fatalf("one whose context was done before the newcomer came is told %v; want its context's error", err)
		}
		stop()
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// stopped is a clock on which nothing comes due.
type stopped struct{}

func (*stopped) Now() time.Time                                  { return time.Time{}.Add(time.Hour) }
func (*stopped) AfterFunc(time.Duration, func()) (s func() bool) { return func() bool { return true } }

// A line in which newcomers displace the oldest faster than permits come back would never be served if each time it went
// to the back of those that want a permit of the shared cap.
func TestDropOldest_ALineKeepsItsPlaceAtASharedCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := newSemaphore(t, 1)
		calm := newLimiter(t, throttle.Config{Name: "calm", Semaphore: both})
		hasty := newLimiter(t, throttle.Config{Name: "hasty", Semaphore: both, MaxQueue: 1, QueueFull: throttle.DropOldest})
		var calmStarts, hastyStarts atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		call := func(l *throttle.Limiter, starts *atomic.Int64) {
			if p, err := l.Acquire(ctx); err == nil {
				starts.Add(1)
				time.Sleep(10 * time.Millisecond)
				p.Release()
			}
		}
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					call(calm, &calmStarts)
				}
			})
		}
		all.Go(func() {
			for ctx.Err() == nil {
				all.Go(func() { call(hasty, &hastyStarts) })
				time.Sleep(time.Millisecond)
			}
		})
		time.Sleep(2 * time.Second)
		cancel()
		all.Wait()
		if a, b := calmStarts.Load(), hastyStarts.Load(); a < 95 || b < 95 {
			t.Errorf("%d starts of the calm line and %d of the hasty one in 2s; want 100 of each, or nearly", a, b)
		}
	})
}

func TestDropOldest_EachLevelHasItsOwnLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		above := newLimiter(t, throttle.Config{Name: "above", Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 1, QueueFull: throttle.DropOldest})
		below := newLimiter(t, throttle.Config{Name: "api", Parent: above, MaxQueue: 2, QueueFull: throttle.DropOldest})
		mustTry(t, above, 1, 1)
		direct := join(t.Context(), above, 1, 1)
		first, second := join(t.Context(), below, 1, 1), join(t.Context(), below, 1, 1)
		direct.mustWait(t) // the line is its own
		third := join(t.Context(), below, 1, 1)
		first.mustBeDropped(t, time.Second, 0)
		again := join(t.Context(), above, 1, 1)
		if !direct.over() || !errors.Is(direct.err, throttle.ErrQueueFull) {
			t.Errorf("the parent's own oldest is told %v; want ErrQueueFull", direct.err)
		}
		for _, c := range []*caller{second, third, again} {
			<-c.done
			if c.err != nil {
				t.Error(c.err)
			}
		}
		if a, b := above.Stats().RefusedQueueFull, below.Stats().RefusedQueueFull; a != 1 || b != 1 {
			t.Errorf("%d refused above and %d below; want 1 and 1", a, b)
		}
	})
}

func TestDropOldest_WhoeverLacksLessStartsInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := dropping(t, nil)
		first, second := join(t.Context(), l, 3, 1), join(t.Context(), l, 3, 1)
		time.Sleep(2 * time.Second)
		join(t.Context(), l, 1, 1)
		first.mustBeDropped(t, time.Second, 0)
		third := join(t.Context(), l, 1, 1)
		second.mustBeDropped(t, time.Second, 1)
		third.mustComeToStartAt(t, 2*time.Second) // both: 2 tokens are there
	})
}

// A grant made first stands; and of those who wait, each is told once, whatever races.
func TestDropOldest_EachIsToldOnceUnderLoad(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 2, MaxQueue: 3, QueueFull: throttle.DropOldest})
	var started, dropped, left, inFlight atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 400 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+j)%7 == 0 {
					go cancel()
				}
				p, err := l.Acquire(ctx)
				switch {
				case err == nil:
					if inFlight.Add(1) > 2 {
						t.Error("C2: more than 2 in flight")
					}
					started.Add(1)
					inFlight.Add(-1)
					p.Release()
				case errors.Is(err, throttle.ErrQueueFull):
					dropped.Add(1)
				case errors.Is(err, context.Canceled):
					left.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	s := l.Stats()
	if s.Started != uint64(started.Load()) || s.RefusedQueueFull != uint64(dropped.Load()) || s.Left != uint64(left.Load()) || s.Waiting != 0 || s.InFlight != 0 {
		t.Errorf("%+v; the callers say %d started, %d dropped, %d left", s, started.Load(), dropped.Load(), left.Load())
	}
}

func TestDropOldest_WrongConfigsAreNamed(t *testing.T) {
	for _, c := range []throttle.Config{
		{MaxInFlight: 1, QueueFull: throttle.DropOldest},
		{MaxInFlight: 1, MaxQueue: 1, QueueFull: 2},
	} {
		if _, err := throttle.New(c); !errors.Is(err, throttle.ErrInvalid) || !strings.Contains(err.Error(), "QueueFull is ") {
			t.Errorf("%+v: %v; want ErrInvalid, which names QueueFull", c, err)
		}
	}
}

func TestDropOldest_HoldsForEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := throttle.NewKeyed[string](throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 1, QueueFull: throttle.DropOldest})
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]chan error{}
		ask := func(key, name string) {
			answer := make(chan error, 1)
			told[name] = answer
			go func() { _, err := k.Acquire(t.Context(), key); answer <- err }()
			synctest.Wait()
		}
		ask("a", "a0")
		ask("a", "a1")
		ask("b", "b0")
		ask("b", "b1")
		ask("a", "a2")
		if err := <-told["a1"]; !errors.Is(err, throttle.ErrQueueFull) {
			t.Errorf("the oldest of its key is told %v; want ErrQueueFull", err)
		}
		for _, name := range []string{"a0", "a2", "b0", "b1"} {
			if err := <-told[name]; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func ExampleQueueFull() {
	quotes, err := throttle.New(throttle.Config{
		Name: "quotes", MaxInFlight: 1, MaxQueue: 1, QueueFull: throttle.DropOldest,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := quotes.Acquire(context.Background()) // a call under way
	if err != nil {
		fmt.Println(err)
		return
	}
	var both sync.WaitGroup
	ask := func(name string) {
		defer both.Done()
		p, err := quotes.Acquire(context.Background())
		if errors.Is(err, throttle.ErrQueueFull) {
			fmt.Println(name, "is out of date by now: a newer one came")
			permit.Release()
			return
		}
		fmt.Println(name, "starts")
		p.Release()
	}
	both.Add(2)
	go ask("the old quote")
	for quotes.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	go ask("the new quote")
	both.Wait()
	// Output:
	// the old quote is out of date by now: a newer one came
	// the new quote starts
}
