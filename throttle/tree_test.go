package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// A tree: a caller passes its limiter and all above it, at one instant, and while it waits it holds nothing of any.

// mustHoldAll asserts the weights in flight through each of the limiters.
func mustHoldAll(t testing.TB, want int64, of ...*throttle.Limiter) {
	t.Helper()
	for i, l := range of {
		if got := l.Stats().InFlight; got != want {
			t.Fatalf("level %d: weight %d in flight; want %d", i, got, want)
		}
	}
}

// threeLevels is a limiter with a parent and a grandparent, each with a rate and a cap.
func threeLevels(t testing.TB, rates [3]int64, bursts [3]int64, caps [3]int64) (leaf, mid, top *throttle.Limiter) {
	limiter := func(name string, i int, parent *throttle.Limiter) *throttle.Limiter {
		return newLimiter(t, throttle.Config{
			Name: name, Rate: throttle.PerSecond(rates[i]), Burst: bursts[i], MaxInFlight: caps[i], Parent: parent,
		})
	}
	top = limiter("top", 2, nil)
	mid = limiter("mid", 1, top)
	return limiter("leaf", 0, mid), mid, top
}

func TestTree_AStartIsChargedAndHeldAtEveryLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf, mid, top := threeLevels(t, [3]int64{1, 1, 1}, [3]int64{5, 6, 7}, [3]int64{8, 9, 10})
		p, err := leaf.TryAcquireCost(throttle.Cost{Tokens: 2, Weight: 3})
		mustDo(t, err)
		mustHoldAll(t, 3, leaf, mid, top)
		mustHaveTokens(t, leaf, 3)
		mustHaveTokens(t, mid, 4)
		mustHaveTokens(t, top, 5)
		q := mustTry(t, mid, 4, 1)
		mustHaveTokens(t, leaf, 3)
		mustHaveTokens(t, top, 1)
		if got := [3]uint64{leaf.Stats().Started, mid.Stats().Started, top.Stats().Started}; got != [3]uint64{1, 2, 2} {
			t.Errorf("started %v; want 1 2 2", got)
		}
		p.Release()
		p.Release()
		mustHoldAll(t, 0, leaf)
		mustHoldAll(t, 1, mid, top)
		q.Release()
		mustHoldAll(t, 0, leaf, mid, top)
		if got := leaf.Stats().DoubleReleases; got != 1 {
			t.Errorf("%d double releases; want 1", got)
		}
	})
}

// A waiter starts at the latest due of all levels, is charged at each as of that instant, and holds nothing before.
func TestTree_AWaiterStartsAtTheLatestDueOfAllLevels(t *testing.T) {
	for slowest := range 3 {
		synctest.Test(t, func(t *testing.T) {
			rates := [3]int64{10, 10, 10}
			rates[slowest] = 1
			leaf, mid, top := threeLevels(t, rates, [3]int64{1, 1, 1}, [3]int64{9, 9, 9})
			mustTry(t, leaf, 1, 1)
			a, b := join(t.Context(), leaf, 1, 2), join(t.Context(), leaf, 1, 1)
			mustHoldAll(t, 1, leaf, mid, top)
			time.Sleep(time.Second - 1)
			mustHoldAll(t, 1, leaf, mid, top)
			for i, l := range []*throttle.Limiter{leaf, mid, top} {
				want := int64(1)
				if i == slowest {
					want = 0
				}
				mustHaveTokens(t, l, want)
			}
			time.Sleep(1)
			a.mustStartAt(t, time.Second)
			mustHoldAll(t, 3, leaf, mid, top)
			for _, l := range []*throttle.Limiter{leaf, mid, top} {
				mustHaveTokens(t, l, 0)
			}
			time.Sleep(time.Second)
			b.mustStartAt(t, 2*time.Second)
		})
	}
}

// The permits of all levels are taken at once or not at all.
func TestTree_WhileOneLevelLacksAPermitNoneIsHeld(t *testing.T) {
	for full := range 3 {
		synctest.Test(t, func(t *testing.T) {
			caps := [3]int64{5, 5, 5}
			caps[full] = 1
			leaf, mid, top := threeLevels(t, [3]int64{100, 100, 100}, [3]int64{9, 9, 9}, caps)
			p := mustTry(t, leaf, 1, 1)
			a := join(t.Context(), leaf, 1, 1)
			a.mustWait(t)
			mustHoldAll(t, 1, leaf, mid, top)
			time.Sleep(3 * time.Second)
			mustHoldAll(t, 1, leaf, mid, top)
			p.Release()
			a.mustStartAt(t, 3*time.Second)
			mustHoldAll(t, 1, leaf, mid, top)
			a.permit.Release()
			mustHoldAll(t, 0, leaf, mid, top)
		})
	}
}

func TestTree_TheRefusalNamesTheLevelAboveAndTheLatestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf, mid, top := threeLevels(t, [3]int64{100, 10, 1}, [3]int64{3, 2, 1}, [3]int64{3, 4, 5})
		mustTry(t, leaf, 1, 1)
		mustRefuse(t, leaf, time.Second, `"top" above: rate 1/s (burst 1)`)
		mustRefuse(t, mid, time.Second, `"top" above: rate 1/s (burst 1)`)
		mustRefuse(t, top, time.Second, `rate 1/s (burst 1)`)
		mustDo(t, top.SetRate(throttle.PerSecond(1000)))
		mustDo(t, top.SetBurst(100))
		time.Sleep(100 * time.Millisecond)
		_, err := leaf.TryAcquireN(3)
		mustSay(t, err, throttle.ErrTooLarge, `"leaf"`, `"mid" above`, "the burst 2")
		_, err = leaf.TryAcquireN(4)
		mustSay(t, err, throttle.ErrTooLarge, `"leaf"`, "the burst 3")
		_, err = mid.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 6})
		mustSay(t, err, throttle.ErrTooLarge, "the in-flight cap 4")
		mustTry(t, mid, 2, 1)
		mustRefuse(t, leaf, 100*time.Millisecond, `"mid" above: rate 10/s (burst 2)`)
		mustDo(t, top.SetMaxInFlight(2))
		time.Sleep(time.Second)
		mustRefuse(t, leaf, 0, `"top" above: MaxInFlight 2`)
		mustDo(t, mid.SetMaxInFlight(1))
		mustRefuse(t, leaf, 0, `"mid" above: MaxInFlight 1`)
		mustDo(t, leaf.SetMaxInFlight(1))
		mustRefuse(t, leaf, 0, `MaxInFlight 1`)
		mustDo(t, top.PauseFor(time.Minute))
		mustRefuse(t, leaf, time.Minute, `"top" above: a pause`)
		mustRefuse(t, top, time.Minute, `a pause`)
	})
}

// Nobody's permit lacks: the turn is another child's. The text says whom one waits for.
func TestTree_ARefusalForAnothersTurnNamesTheLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := newLimiter(t, throttle.Config{Name: "top", Rate: throttle.PerSecond(1), Burst: 5})
		a := newLimiter(t, throttle.Config{Name: "a", Parent: top})
		b := newLimiter(t, throttle.Config{Name: "b", Parent: top})
		mustTry(t, a, 2, 1)
		join(t.Context(), a, 5, 1)
		_, err := b.TryAcquire()
		var no *throttle.NotYetError
		if !errors.As(err, &no) {
			t.Fatalf("got %v; want not yet: it is the turn of a", err)
		}
		mustTellNotYet(t, err, 0, `"top"`)
		time.Sleep(time.Minute)
	})
}

func TestTree_TheReckonedWaitIsTheLatestOverTheLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf, mid, top := threeLevels(t, [3]int64{1, 2, 4}, [3]int64{3, 3, 3}, [3]int64{100, 100, 100})
		mustTry(t, mid, 3, 1) // mid and top are empty, leaf is full
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := leaf.Acquire(ctx)
		mustTellNotYet(t, err, 500*time.Millisecond, `"mid" above`)
		mustSay(t, err, context.DeadlineExceeded)
		var line []*caller
		for i := range 6 {
			// mid: (i+1)/2 s; leaf, which has 3: i-2 s.
			want := max(time.Duration(i+1)*500*time.Millisecond, time.Duration(i-2)*time.Second)
			_, err := leaf.TryAcquire()
			mustTellNotYet(t, err, want, "rate")
			line = append(line, join(t.Context(), leaf, 1, 1))
		}
		_ = top
		time.Sleep(time.Minute)
		line[0].mustStartAt(t, 500*time.Millisecond)
	})
}

func TestTree_CloseTurnsAwayAllBelowAndNobodyElse(t *testing.T) {
	for closed := range 3 {
		synctest.Test(t, func(t *testing.T) {
			leaf, mid, top := threeLevels(t, [3]int64{1, 1, 1}, [3]int64{1, 1, 1}, [3]int64{9, 9, 9})
			levels := []*throttle.Limiter{leaf, mid, top}
			p := mustTry(t, leaf, 1, 1)
			var line [3]*caller
			for i, l := range levels {
				line[i] = join(t.Context(), l, 1, 1)
			}
			levels[closed].Close()
			levels[closed].Close()
			for i, c := range line {
				if i > closed {
					c.mustWait(t)
					continue
				}
				if !c.over() {
					t.Fatalf("level %d waits on, below a closed one", i)
				}
				mustSay(t, c.err, throttle.ErrClosed)
				_, err := levels[i].TryAcquire()
				mustSay(t, err, throttle.ErrClosed, `"`+[]string{"leaf", "mid", "top"}[closed]+`"`)
				if s := levels[i].Stats(); s.RefusedClosed != 2 || s.Waiting != 0 {
					t.Errorf("level %d: %+v; want two told that it is closed", i, s)
				}
			}
			mustHoldAll(t, 1, leaf, mid, top)
			p.Release()
			mustHoldAll(t, 0, leaf, mid, top)
			time.Sleep(10 * time.Second)
			for i, c := range line {
				if i > closed {
					c.mustStartAt(t, time.Duration(3-i)*time.Second) // top's own came to ask top first
				}
			}
		})
	}
}

func TestTree_DrainWaitsForWhatIsInFlightBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf, mid, top := threeLevels(t, [3]int64{9, 9, 9}, [3]int64{9, 9, 9}, [3]int64{9, 9, 9})
		p, q, r := mustTry(t, leaf, 1, 1), mustTry(t, mid, 1, 2), mustTry(t, top, 1, 1)
		var drained [3]time.Duration
		for i, l := range []*throttle.Limiter{leaf, mid, top} {
			go func() {
				if err := l.Drain(context.Background()); err != nil {
					t.Error(err)
				}
				drained[i] = sinceStart()
			}()
		}
		for _, x := range []throttle.Permit{p, q, r} {
			time.Sleep(time.Second)
			synctest.Wait()
			x.Release()
		}
		synctest.Wait()
		if drained != [3]time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			t.Errorf("drained at %v; want 1s, 2s, 3s", drained)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustTry(t, leaf, 1, 4)
		mustSay(t, top.Drain(ctx), context.DeadlineExceeded, `"top"`, "weight 4")
	})
}

func TestTree_AParentWithoutACapCannotBeDrainedButIsPassed(t *testing.T) {
	top := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 2})
	mid := newLimiter(t, throttle.Config{Parent: top})
	leaf := newLimiter(t, throttle.Config{Parent: mid, MaxInFlight: 1})
	mustSay(t, top.Drain(t.Context()), throttle.ErrUncapped)
	mustDo(t, mid.Wait(t.Context()))
	mustSay(t, leaf.Wait(t.Context()), throttle.ErrCapped)
	p := mustTry(t, leaf, 1, 1)
	_, err := mid.TryAcquire()
	mustTellNotYet(t, err, err.(*throttle.NotYetError).RetryAfter, `above: rate 1/s (burst 2)`)
	p.Release()
	mustHoldAll(t, 0, leaf)
}

// Where a cap is above, a permit must be released, though its own limiter has none.
func TestTree_ACapAboveMakesPermitsOfAllBelow(t *testing.T) {
	top := newLimiter(t, throttle.Config{MaxInFlight: 1})
	mid := newLimiter(t, throttle.Config{Parent: top})
	leaf := newLimiter(t, throttle.Config{Parent: mid, Rate: throttle.PerSecond(1), Burst: 9})
	mustSay(t, leaf.Wait(t.Context()), throttle.ErrCapped)
	for range 3 {
		if err := leaf.Do(t.Context(), func(context.Context) error { mustHoldAll(t, 1, top); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	mustHoldAll(t, 0, top)
}

func TestTree_AConfigThatIsWrongSaysSo(t *testing.T) {
	top := newLimiter(t, throttle.Config{Name: "top", Rate: throttle.PerSecond(1), Burst: 1})
	clock := fake.NewClock(bubbleStart)
	onPath, elsewhere, above := newSemaphore(t, 1), newSemaphore(t, 1), newSemaphore(t, 1)
	withSem := newLimiter(t, throttle.Config{Name: "has it", Parent: top, Semaphore: onPath})
	between := newLimiter(t, throttle.Config{Name: "between", Parent: withSem})
	newLimiter(t, throttle.Config{Semaphore: elsewhere})
	ofTop := newLimiter(t, throttle.Config{Name: "root with it", Semaphore: above})
	for _, test := range []struct {
		name  string
		c     throttle.Config
		words []string
	}{
		{"a zero parent", throttle.Config{Parent: new(throttle.Limiter)}, []string{"Parent was not made by New"}},
		{"a share without a parent", throttle.Config{Share: 2, MaxInFlight: 1}, []string{"Share is 2"}},
		{"a negative share", throttle.Config{Share: -1, Parent: top}, []string{"Share is -1"}},
		{"a huge share", throttle.Config{Share: throttle.MaxShare + 1, Parent: top}, []string{"Share is 1048577"}},
		{"another clock", throttle.Config{Clock: clock, Parent: top}, []string{"Clock"}},
		{"the semaphore of another tree", throttle.Config{Parent: top, Semaphore: elsewhere}, []string{"Semaphore"}},
		{"that of the parent", throttle.Config{Parent: withSem, Semaphore: onPath}, []string{"Semaphore", `"has it"`}},
		{"that of the grandparent", throttle.Config{Parent: between, Semaphore: onPath}, []string{"Semaphore", `"has it"`}},
		{"that of the root", throttle.Config{Parent: ofTop, Semaphore: above}, []string{"Semaphore", `"root with it"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.c.Name = "x"
			_, err := throttle.New(test.c)
			mustSay(t, err, throttle.ErrInvalid, append(test.words, `"x"`)...)
		})
	}
	// Nothing came of those: the parent is as it was.
	mustPass(t, top, 2, 1)
	// A child has the Clock of its parent, said or not.
	root := newLimiter(t, throttle.Config{Clock: clock, Rate: throttle.PerSecond(1), Burst: 1})
	for _, c := range []throttle.Clock{nil, clock} {
		newLimiter(t, throttle.Config{Clock: c, Parent: root})
	}
	mustPass(t, root, 2, 1)
	clock.Advance(time.Second)
	mustPass(t, root, 2, 1)
}

// New must not hang, whatever others make at the same time: each of these is refused.
func TestTree_SemaphoresOfTwoTreesAreRefusedFromBothAtOnce(t *testing.T) {
	var root [2]*throttle.Limiter
	var sem [2]*throttle.Semaphore
	for i := range root {
		sem[i] = newSemaphore(t, 1)
		root[i] = newLimiter(t, throttle.Config{Semaphore: sem[i]})
	}
	done := make(chan struct{}, 2)
	for i := range root {
		go func() {
			for range 20_000 {
				if _, err := throttle.New(throttle.Config{Parent: root[i], Semaphore: sem[1-i]}); err == nil {
					t.Error("a semaphore of another tree was taken")
				}
			}
			done <- struct{}{}
		}()
	}
	for range root {
		select {
		case <-done:
		case <-time.After(time.Minute): // they lock each other out
			t.Fatal("New hangs")
		}
	}
}

func TestTree_StatsAreOfTheLevelAndItsOwnCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf, mid, top := threeLevels(t, [3]int64{1, 1, 1}, [3]int64{2, 2, 2}, [3]int64{5, 6, 7})
		mustTry(t, leaf, 2, 1)
		a := join(t.Context(), leaf, 1, 1)
		b := join(t.Context(), mid, 1, 1)
		c := join(t.Context(), mid, 1, 1)
		mid.TryAcquire()
		c.leave()
		want := []throttle.Stats{
			{Waiting: 1, InFlight: 1, MaxInFlight: 5, Started: 1},
			{Waiting: 1, InFlight: 1, MaxInFlight: 6, Started: 1, Left: 1, RefusedNotYet: 1},
			{Waiting: 0, InFlight: 1, MaxInFlight: 7, Started: 1},
		}
		for i, l := range []*throttle.Limiter{leaf, mid, top} {
			if got := l.Stats(); got != want[i] {
				t.Errorf("level %d: %+v; want %+v", i, got, want[i])
			}
		}
		time.Sleep(time.Minute)
		b.mustStartAt(t, time.Second) // asked mid first
		a.mustStartAt(t, 2*time.Second)
		if got := [3]uint64{leaf.Stats().Started, mid.Stats().Started, top.Stats().Started}; got != [3]uint64{2, 3, 3} {
			t.Errorf("started %v; want 2 3 3", got)
		}
	})
}
