package throttle_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// TIM-02: timers that go off late cost no throughput, and are made up for by Slack at the most.

// A lateClock is the bubble's time with timers that go off late. It counts them.
type lateClock struct {
	late  time.Duration
	mu    sync.Mutex
	fired int
}

func (c *lateClock) Now() time.Time { return time.Now() }

func (c *lateClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d+c.late, func() {
		c.mu.Lock()
		c.fired++
		c.mu.Unlock()
		f()
	}).Stop
}

// The lateness of the report, 1 ms, is given to the clock. Waiters are always there; a single caller in a loop is
// not one, as nobody waits between its calls.
func TestTIM_02_LateTimersCostNoThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 30_000
		var rec recorder
		l := newLimiter(t, throttle.Config{
			Rate: throttle.PerSecond(rate), Burst: 1, Trace: rec.trace(), Clock: &lateClock{late: time.Millisecond},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				for l.Wait(ctx) == nil {
				}
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		starts := rec.starts()
		cancel()
		callers.Wait()
		// At the end of the second only those due in its last late timer are missing.
		if n, least := len(starts), rate-2*rate/1000; n < least {
			t.Errorf("%d starts in a second; want %d or more, though each timer is 1 ms late", n, least)
		}
		mustKeepRate(t, nominals(starts), throttle.PerSecond(rate), 1)
		for i, e := range starts {
			if most := 1 + int64(e.At.Sub(bubbleStart))*rate/int64(time.Second); int64(i+1) > most {
				t.Fatalf("%d starts by %v; want %d at most over the whole run", i+1, e.At.Sub(bubbleStart), most)
			}
			if late := e.At.Sub(e.Nominal); late < 0 || late > throttle.DefaultSlack {
				t.Fatalf("start %d is charged %v before it happened; want 0 to %v", i, late, throttle.DefaultSlack)
			}
		}
	})
}

// The catch-up is bounded by Slack, here after one timer that goes off a second late.
func TestTIM_02_CatchUpIsBoundedBySlack(t *testing.T) {
	for _, c := range []struct {
		slack  time.Duration
		starts int // those due at most slack before 1010 ms
	}{{0, 2}, {throttle.NoSlack, 1}, {55 * time.Millisecond, 6}, {throttle.MaxSlack, 101}} {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			l := newLimiter(t, throttle.Config{
				Rate: throttle.PerSecond(100), Burst: 1, Slack: c.slack, Trace: rec.trace(), Clock: &lateClock{late: time.Second},
			})
			mustTry(t, l, 1, 1)
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			for range 200 {
				callers.Go(func() { _ = l.Wait(ctx) })
			}
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			starts := rec.starts()[1:]
			if len(starts) != c.starts {
				t.Errorf("slack %v: %d starts when the timer went off; want %d", c.slack, len(starts), c.starts)
			}
			mustKeepRate(t, nominals(starts), throttle.PerSecond(100), 1)
			cancel()
			callers.Wait()
		})
	}
}

// The time without a free permit is no lateness of a timer, and is not made up for.
func TestTIM_02_WaitingForAPermitIsNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		var rec recorder
		l := newLimiter(t, throttle.Config{
			Rate: throttle.Every(100 * ms), Burst: 1, MaxInFlight: 1, Trace: rec.trace(), Clock: &lateClock{late: 5 * ms},
		})
		held := mustTry(t, l, 1, 1)
		w := join(t.Context(), l, 1, 1) // its token is due at 100 ms, which the timer would tell at 105 ms
		time.Sleep(103 * ms)
		held.Release()
		w.mustStartAt(t, 103*ms) // the release moves the line on, though the timer is late
		if e := rec.starts()[1]; e.Nominal.Sub(bubbleStart) != 103*ms {
			t.Errorf("charged as of %v; want 103 ms, when the permit came", e.Nominal.Sub(bubbleStart))
		}
		w.permit.Release()
	})
}
