package throttle_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// PauseFor and PauseUntil: nobody starts before the end, and the line is kept.

// joinWithin has a new caller ask l for one token with a deadline.
func joinWithin(t testing.TB, l *throttle.Limiter, d time.Duration) *caller {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return join(ctx, l, 1, 1)
}

// mustBeToldOfPause asserts that c was refused at that instant, because its deadline lies in a pause that goes on for rest.
func mustBeToldOfPause(t testing.TB, c *caller, at, rest time.Duration) {
	t.Helper()
	if !c.over() {
		t.Fatalf("it waits on; want it told of the pause")
	}
	mustSay(t, c.err, context.DeadlineExceeded, "a pause")
	mustSay(t, c.err, throttle.ErrWouldExceed)
	mustTellNotYet(t, c.err, rest, "a pause")
	if c.at != at {
		t.Fatalf("it was told at %v; want %v", c.at, at)
	}
	if errors.Is(c.err, context.Canceled) {
		t.Fatal("it says that the caller gave up")
	}
}

// pausable is a limiter of each shape that a pause may meet: alone, and in a tree as the level that is paused.
func pausable(t testing.TB, c throttle.Config) map[string]struct{ ask, paused *throttle.Limiter } {
	with := func(c throttle.Config, parent *throttle.Limiter) *throttle.Limiter {
		c.Parent = parent
		return newLimiter(t, c)
	}
	alone := with(c, nil)
	top := with(c, nil)
	mid := with(c, top)
	leaf := with(c, mid)
	return map[string]struct{ ask, paused *throttle.Limiter }{
		"alone": {alone, alone}, "leaf": {leaf, leaf}, "parent": {leaf, mid}, "grandparent": {leaf, top}, "parent's own": {mid, mid},
	}
}

// eachPausable runs f on each of pausable's shapes.
func eachPausable(t *testing.T, c throttle.Config, f func(t *testing.T, ask, paused *throttle.Limiter)) {
	for _, name := range []string{"alone", "leaf", "parent", "grandparent", "parent's own"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := pausable(t, c)[name]
				f(t, x.ask, x.paused)
			})
		})
	}
}

func TestPause_NobodyStartsBeforeItsEndAndTheLineIsKept(t *testing.T) {
	c := throttle.Config{Name: "x", Rate: throttle.PerSecond(1), Burst: 2, MaxInFlight: 9}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		mustDo(t, paused.PauseFor(10*time.Second))
		if got := paused.Stats().Paused; got != 10*time.Second {
			t.Fatalf("Stats has a pause of %v; want 10s", got)
		}
		mustRefuse(t, l, 10*time.Second, "a pause")
		var line []*caller
		for range 5 {
			line = append(line, join(t.Context(), l, 1, 1))
		}
		time.Sleep(10*time.Second - 1)
		for _, c := range line {
			c.mustWait(t)
		}
		mustRefuse(t, l, 14*time.Second-(10*time.Second-1), "rate")
		time.Sleep(time.Minute)
		for i, want := range []time.Duration{10, 10, 11, 12, 13} { // its burst, and no more
			line[i].mustStartAt(t, want*time.Second)
		}
		if got := paused.Stats().Paused; got != 0 {
			t.Errorf("Stats has a pause of %v; want none", got)
		}
	})
}

func TestPause_OfSeveralTheOneThatEndsLastCounts(t *testing.T) {
	c := throttle.Config{Name: "x", MaxInFlight: 9}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		mustDo(t, paused.PauseFor(10*time.Second))
		c := join(t.Context(), l, 1, 1)
		mustDo(t, paused.PauseFor(3*time.Second))
		mustDo(t, paused.PauseUntil(bubbleStart.Add(9*time.Second)))
		mustRefuse(t, l, 10*time.Second, "a pause")
		time.Sleep(4 * time.Second)
		c.mustWait(t)
		mustDo(t, paused.PauseFor(7*time.Second)) // to 11 s
		mustRefuse(t, l, 7*time.Second, "a pause")
		mustDo(t, paused.PauseUntil(bubbleStart.Add(12*time.Second)))
		time.Sleep(time.Minute)
		c.mustStartAt(t, 12*time.Second)
	})
}

func TestPause_OfNoLengthDoesNothing(t *testing.T) {
	c := throttle.Config{Name: "x", MaxInFlight: 1}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		time.Sleep(time.Hour)
		for _, err := range []error{
			paused.PauseFor(0), paused.PauseFor(-1), paused.PauseFor(math.MinInt64), paused.PauseUntil(time.Time{}),
			paused.PauseUntil(bubbleStart), paused.PauseUntil(time.Now()), paused.PauseUntil(bubbleStart.Add(-1000 * time.Hour)),
		} {
			mustDo(t, err)
		}
		mustTry(t, l, 1, 1).Release()
		if got := paused.Stats().Paused; got != 0 {
			t.Errorf("a pause of %v; want none", got)
		}
	})
	var none *throttle.Limiter
	mustSay(t, none.PauseFor(1), throttle.ErrInvalid)
	mustSay(t, new(throttle.Limiter).PauseUntil(time.Now()), throttle.ErrInvalid)
}

// The longest pauses there are: told so, and no instant overflows.
func TestPause_ForEver(t *testing.T) {
	c := throttle.Config{Name: "x", Rate: throttle.PerSecond(1), Burst: 2, MaxInFlight: 1, Quotas: []throttle.Quota{throttle.AtMost(9, time.Hour), throttle.FixedWindow(9, time.Hour)}}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		time.Sleep(time.Hour)
		c, d := join(t.Context(), l, 1, 1), joinWithin(t, l, time.Hour)
		c.mustStartAt(t, time.Hour)
		d.mustWait(t)
		mustDo(t, paused.PauseFor(math.MaxInt64))
		mustDo(t, paused.PauseUntil(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
		if !d.over() {
			t.Fatal("a caller with a deadline waits on")
		}
		mustSay(t, d.err, context.DeadlineExceeded)
		c.permit.Release()
		e := join(t.Context(), l, 1, 1)
		f := joinWithin(t, l, time.Hour)
		if !f.over() {
			t.Fatal("a newcomer with a deadline waits")
		}
		mustSay(t, f.err, context.DeadlineExceeded)
		time.Sleep(1000 * time.Hour)
		e.mustWait(t)
		e.leave()
		paused.Close()
	})
}

func TestPause_DeadlinesWithinItAreToldAtOnce(t *testing.T) {
	c := throttle.Config{Name: "x", Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 9}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		mustTry(t, l, 1, 1)
		// These wait already; the starts reckoned are at 1, 2, 3 and 4 s.
		inside := joinWithin(t, l, 5*time.Second)
		atEnd := joinWithin(t, l, 10500*time.Millisecond)
		after := joinWithin(t, l, 10500*time.Millisecond+1)
		never := join(t.Context(), l, 1, 1)
		time.Sleep(500 * time.Millisecond)
		mustDo(t, paused.PauseFor(10*time.Second)) // to 10.5 s
		mustBeToldOfPause(t, inside, 500*time.Millisecond, 10*time.Second)
		mustBeToldOfPause(t, atEnd, 500*time.Millisecond, 10*time.Second)
		after.mustWait(t)
		never.mustWait(t)
		if got := l.Stats(); got.RefusedNotYet != 2 || got.Waiting != 2 || got.Left != 0 {
			t.Fatalf("%+v; want 2 told not yet and 2 waiting", got)
		}
		// Newcomers: the pause, or what they wait for behind the line after it.
		time.Sleep(500 * time.Millisecond)
		newcomer := joinWithin(t, l, 9*time.Second)
		if !newcomer.over() {
			t.Fatal("it waits; want it told")
		}
		mustSay(t, newcomer.err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		after.mustStartAt(t, 10500*time.Millisecond)
		never.mustStartAt(t, 11500*time.Millisecond)
	})
}

// The text for a waiter names the level that is paused, as that for a newcomer does.
func TestPause_AWaiterIsToldWhichLevelIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := newLimiter(t, throttle.Config{Name: "top", Rate: throttle.PerSecond(1), Burst: 1})
		l := newLimiter(t, throttle.Config{Name: "x", Parent: top})
		mustTry(t, l, 1, 1)
		waiter := joinWithin(t, l, 5*time.Second)
		mustDo(t, top.PauseFor(time.Minute))
		newcomer := joinWithin(t, l, 5*time.Second)
		mustSay(t, newcomer.err, throttle.ErrWouldExceed, `"top" above`)
		mustSay(t, waiter.err, throttle.ErrWouldExceed, `"top" above`)
	})
}

// A longer second pause tells those whom the first one let wait.
func TestPause_ASecondLongerOneTellsThoseItReaches(t *testing.T) {
	c := throttle.Config{Name: "x", MaxInFlight: 9}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		mustDo(t, paused.PauseFor(time.Second))
		a, b := joinWithin(t, l, 5*time.Second), joinWithin(t, l, 20*time.Second)
		mustDo(t, paused.PauseFor(time.Second/2))
		a.mustWait(t)
		mustDo(t, paused.PauseFor(10*time.Second))
		mustBeToldOfPause(t, a, 0, 10*time.Second)
		b.mustWait(t)
		time.Sleep(time.Minute)
		b.mustStartAt(t, 10*time.Second)
	})
}

// The front waits for a permit when the pause comes: one that comes back meanwhile starts nobody, and the line goes
// on at the end; a pause that ends first changes nothing.
func TestPause_WhileTheFrontWaitsForAPermit(t *testing.T) {
	c := throttle.Config{Name: "x", MaxInFlight: 1}
	eachPausable(t, c, func(t *testing.T, l, paused *throttle.Limiter) {
		p := mustTry(t, l, 1, 1)
		a, b := join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)
		mustDo(t, paused.PauseFor(10*time.Second))
		time.Sleep(5 * time.Second)
		p.Release()
		a.mustWait(t)
		time.Sleep(5 * time.Second)
		a.mustStartAt(t, 10*time.Second)
		b.mustWait(t)
		mustDo(t, paused.PauseFor(10*time.Second)) // to 20 s
		time.Sleep(20 * time.Second)
		b.mustWait(t)
		a.permit.Release()
		b.mustStartAt(t, 30*time.Second)
	})
}

// One that stood for a permit of a shared cap gives way while it is paused.
func TestPause_APausedLimiterDoesNotHoldASharedCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 1)
		a, b := newLimiter(t, throttle.Config{Semaphore: sem}), newLimiter(t, throttle.Config{Semaphore: sem})
		p := mustTry(t, a, 1, 1)
		a1, b1 := join(t.Context(), a, 1, 1), join(t.Context(), b, 1, 1)
		mustDo(t, a.PauseFor(time.Minute))
		p.Release()
		b1.mustStartAt(t, 0)
		time.Sleep(time.Minute)
		a1.mustWait(t)
		b1.permit.Release()
		a1.mustStartAt(t, time.Minute)
	})
}

func TestPause_APausedChildDoesNotHoldItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		a, b := child(t, &rec, top, "a", 1), child(t, &rec, top, "b", 1)
		joinMany(t.Context(), a, 4, 1)
		joinMany(t.Context(), b, 6, 1)
		time.Sleep(1500 * time.Millisecond)
		mustDo(t, a.PauseFor(3*time.Second)) // to 4.5 s
		time.Sleep(time.Hour)
		mustOrder(t, &rec, "a b b b b a b a b a") // who was alone in asking owes nothing, and who comes back has earned nothing
		for i, e := range rec.starts() {
			if want := time.Duration(i+1) * time.Second; e.At.Sub(bubbleStart) != want {
				t.Errorf("start %d at %v; want %v", i, e.At.Sub(bubbleStart), want)
			}
		}
	})
}

// Time in a pause fills each quota to its burst and no further, and late timers make up for none of it.
func TestPause_ResumingDoesNotBurstBeyondTheQuotas(t *testing.T) {
	for _, late := range []time.Duration{0, 3 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			clock := &lateClock{late: late}
			top := newLimiter(t, throttle.Config{Clock: clock, Rate: throttle.PerSecond(300), Burst: 20, Quotas: []throttle.Quota{throttle.AtMost(25, 50*time.Millisecond)}})
			l := newLimiter(t, throttle.Config{Clock: clock, Parent: top, Rate: throttle.PerSecond(400), Burst: 10, Trace: rec.trace()})
			var line []*caller
			for range 600 {
				line = append(line, join(t.Context(), l, 1, 1))
			}
			for i := range 6 {
				paused := []*throttle.Limiter{l, top}[i%2]
				time.Sleep(100 * time.Millisecond)
				mustDo(t, paused.PauseFor(time.Duration(i)*100*time.Millisecond))
				ends := time.Now().Add(time.Duration(i) * 100 * time.Millisecond)
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				for _, e := range rec.starts() {
					if from := ends.Add(-time.Duration(i) * 100 * time.Millisecond); e.Nominal.After(from) && e.Nominal.Before(ends) {
						t.Fatalf("a start is charged as of %v, within the pause", e.Nominal.Sub(bubbleStart))
					}
				}
			}
			time.Sleep(time.Minute)
			for _, c := range line {
				if !c.over() || c.err != nil {
					t.Fatalf("a caller has no start (%v)", c.err)
				}
			}
			starts := rec.starts()
			mustKeepRate(t, nominals(starts), throttle.PerSecond(400), 10)
			mustKeepRate(t, nominals(starts), throttle.PerSecond(300), 20)
			mustKeepWindow(t, spentIn(starts), 25, 50*time.Millisecond)
		})
	}
}
