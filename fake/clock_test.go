package fake

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check asserts the heap's truths: every index is its place, and no timer precedes its parent.
func (c *Clock) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, timer := range c.timers {
		if timer.index != i {
			t.Fatalf("timer at %d says index %d", i, timer.index)
		}
		if i > 0 && c.timers.Less(i, (i-1)/2) {
			t.Fatalf("timer %d precedes its parent", i)
		}
		if timer.at.Before(c.line) && c.driver == 0 {
			t.Fatalf("timer %d was due at %v, now %v", i, timer.at, c.line)
		}
	}
	for w := range c.waits {
		if len(c.timers) >= w.n {
			t.Fatalf("a wait for %d timers sleeps while %d are armed", w.n, len(c.timers))
		}
	}
}

func TestCallbacksRunInOrderOfInstantThenOfArming(t *testing.T) {
	c := NewClock(time.Time{})
	var got []string
	arm := func(name string, d time.Duration) {
		c.AfterFunc(d, func() { got = append(got, fmt.Sprint(name, c.Now().Sub(Epoch))); c.check(t) })
	}
	arm("a", 3*time.Second)
	arm("b", time.Second)
	arm("c", 3*time.Second)
	arm("d", 2*time.Second)
	arm("e", 4*time.Second)
	stop := c.AfterFunc(2*time.Second, func() { got = append(got, "stopped") })
	c.check(t)
	if !stop() || stop() {
		t.Error("stop: want true, then false")
	}
	c.Advance(3 * time.Second)
	if want := []string{"b1s", "d2s", "a3s", "c3s"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c.Timers() != 1 {
		t.Errorf("Timers() = %d, want 1", c.Timers())
	}
	if now := c.Now().Sub(Epoch); now != 3*time.Second {
		t.Errorf("now %v, want 3s", now)
	}
}

func TestTimersArmedByACallbackFireInTheSameAdvance(t *testing.T) {
	c := NewClock(time.Time{})
	var at []time.Duration
	var tick func()
	tick = func() {
		at = append(at, c.Now().Sub(Epoch))
		c.AfterFunc(time.Second, tick)
		if len(at) == 1 {
			c.AfterFunc(0, func() { at = append(at, c.Now().Sub(Epoch)) })
		}
	}
	c.AfterFunc(time.Second, tick)
	c.Advance(3500 * time.Millisecond)
	if want := []time.Duration{1e9, 1e9, 2e9, 3e9}; !slices.Equal(at, want) {
		t.Errorf("fired at %v, want %v", at, want)
	}
}

func TestNoDelayFiresAtTheNextAdvanceNeverInsideAfterFunc(t *testing.T) {
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		c := NewClock(time.Time{})
		fired := false
		stop := c.AfterFunc(d, func() { fired = true })
		if fired {
			t.Fatalf("d %v: fired inside AfterFunc", d)
		}
		c.Advance(0)
		if !fired || stop() {
			t.Errorf("d %v: fired %v after Advance(0)", d, fired)
		}
	}
}

func TestAdvanceToNextStopsAtTheNextTimer(t *testing.T) {
	c := NewClock(time.Time{})
	if d, ok := c.AdvanceToNext(); d != 0 || ok {
		t.Errorf("no timer: %v %v, want 0 false", d, ok)
	}
	n := 0
	c.AfterFunc(2*time.Second, func() { n++; c.AfterFunc(0, func() { n++ }) })
	c.AfterFunc(2*time.Second, func() { n++ })
	c.AfterFunc(math.MaxInt64, func() { n++ })
	if d, ok := c.AdvanceToNext(); d != 2*time.Second || !ok || n != 3 {
		t.Errorf("got %v %v with %d calls, want 2s true 3", d, ok, n)
	}
	if d, ok := c.AdvanceToNext(); d != math.MaxInt64-2*time.Second || !ok || n != 4 {
		t.Errorf("got %v %v with %d calls, want the rest of the longest duration", d, ok, n)
	}
}

func TestAStepLeavesTheDurationsOfTimers(t *testing.T) {
	c := NewClock(time.Time{})
	var at time.Time
	c.AfterFunc(10*time.Second, func() { at = c.Now() })
	c.Advance(4 * time.Second)
	c.Step(-time.Hour)
	if got := c.Now().Sub(Epoch); got != 4*time.Second-time.Hour {
		t.Errorf("now %v", got)
	}
	c.Advance(6*time.Second - 1)
	if !at.IsZero() {
		t.Error("fired early after a step back")
	}
	c.Step(3 * time.Hour)
	c.Advance(1)
	if got := at.Sub(Epoch); got != 10*time.Second+2*time.Hour {
		t.Errorf("fired at %v, want 2h0m10s", got)
	}
}

func TestLatenessDelaysTimersArmedAfterIt(t *testing.T) {
	c := NewClock(time.Time{})
	var at []time.Duration
	note := func() { at = append(at, c.Now().Sub(Epoch)) }
	c.AfterFunc(time.Second, note)
	lates := []time.Duration{time.Millisecond, -time.Second, math.MaxInt64}
	c.SetLateness(func() time.Duration { l := lates[0]; lates = lates[1:]; c.Now(); return l })
	c.AfterFunc(time.Second, note)
	c.AfterFunc(2*time.Second, note)
	c.AfterFunc(3*time.Second, note)
	c.SetLateness(nil)
	c.AfterFunc(3*time.Second, note)
	c.Advance(time.Hour)
	if want := []time.Duration{1e9, 1001e6, 2e9, 3e9}; !slices.Equal(at, want) || c.Timers() != 1 {
		t.Errorf("fired at %v with %d left, want %v with 1", at, c.Timers(), want)
	}
}

func TestAnAdvanceInsideACallbackMovesTheClockThereAndThen(t *testing.T) {
	c := NewClock(time.Time{})
	var got []string
	note := func(s string) { got = append(got, fmt.Sprint(s, c.Now().Sub(Epoch))) }
	c.AfterFunc(time.Second, func() {
		note("in")
		c.Advance(5 * time.Second)
		note("out")
	})
	c.AfterFunc(time.Second, func() { note("same") })
	c.AfterFunc(4*time.Second, func() { note("later") })
	c.Advance(2 * time.Second)
	if want := []string{"in1s", "same1s", "later4s", "out6s"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if now := c.Now().Sub(Epoch); now != 6*time.Second {
		t.Errorf("now %v, want 6s", now)
	}
}

func TestAdvancesOfSeveralGoroutinesTakeTurnsAndAddUp(t *testing.T) {
	c := NewClock(time.Time{})
	inside, calls := 0, 0 // unguarded: the race detector sees an overlap
	var tick func()
	tick = func() {
		inside++
		if inside != 1 {
			t.Error("two callbacks at once")
		}
		calls++
		inside--
		c.AfterFunc(time.Millisecond, tick)
	}
	c.AfterFunc(time.Millisecond, tick)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c.Advance(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if now := c.Now().Sub(Epoch); now != 800*time.Millisecond || calls != 800 {
		t.Errorf("now %v after %d calls, want 800ms, 800", now, calls)
	}
}

func TestAPanickingCallbackLeavesTheClockUsable(t *testing.T) {
	c := NewClock(time.Time{})
	c.AfterFunc(time.Second, func() { panic("boom") })
	fired := false
	c.AfterFunc(2*time.Second, func() { fired = true })
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not pass through")
			}
		}()
		c.Advance(5 * time.Second)
	}()
	if now := c.Now().Sub(Epoch); now != time.Second {
		t.Errorf("now %v, want 1s", now)
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.Advance(time.Second) }) // from another goroutine: the turn was given back
	wg.Wait()
	if !fired {
		t.Error("the next Advance fired nothing")
	}
}

func TestBugsOfTheCallerPanicWithTheValue(t *testing.T) {
	c := NewClock(time.Time{})
	for want, f := range map[string]func(){
		"fake: Clock.Advance: d is -1s: must be 0 or more (Step sets a clock back)": func() { c.Advance(-time.Second) },
		"fake: Clock.AfterFunc: f is nil: must be a function":                       func() { c.AfterFunc(0, nil) },
		"fake: Clock.WithDeadline: parent is nil: must be a context":                func() { c.WithTimeout(nil, 1) },
		"fake: Clock: more than 1048576 callbacks at one instant: does one arm itself again with no delay?": func() {
			var again func()
			again = func() { c.AfterFunc(0, again) }
			again()
			c.Advance(0)
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %v", got, want)
				}
			}()
			f()
		}()
	}
}

func TestAStartHasNoMonotonicReading(t *testing.T) {
	start := time.Now()
	if now := NewClock(start).Now(); now != start.Round(0) { // as structs: a reading would differ
		t.Errorf("now %v, want it without the reading of %v", now, start)
	}
}

func TestTheZeroClockWorks(t *testing.T) {
	var c Clock
	c.AfterFunc(time.Second, func() {})
	c.Advance(time.Minute)
	if got := c.Now(); !got.Equal(time.Time{}.Add(time.Minute)) || c.Timers() != 0 {
		t.Errorf("now %v, %d timers", got, c.Timers())
	}
}
