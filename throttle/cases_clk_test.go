package throttle_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestCLK_01_AStaleInstantMintsNothing(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	b := newBucket(t, throttle.PerSecond(100), 100)
	b.Take(start, 1)
	if d := b.Take(at(10*time.Second), 100); !d.Allowed || d.Remaining != 0 {
		t.Fatalf("100 of 100 at 10s: %+v", d)
	}
	for _, n := range []int64{0, 1} {
		if d := b.Take(at(9500*time.Millisecond), n); d.Allowed || d.Remaining != 0 {
			t.Fatalf("%d at 9.5s, after 10s: %+v; want none", n, d)
		}
	}
	// A tenth of a token at 10.001 s: the rest of one comes 9 ms later.
	if d := b.Take(at(10001*time.Millisecond), 1); d != (throttle.Decision{RetryAfter: 9 * time.Millisecond}) {
		t.Fatalf("at 10.001s: %+v; want 0.1 tokens: a wait of 9ms", d)
	}

	// Nor does a stale take that is let through move the mark back.
	b.Take(at(20*time.Second), 99)
	if d := b.Take(at(19500*time.Millisecond), 1); d != (throttle.Decision{Allowed: true}) {
		t.Fatalf("the last one, at 19.5s after 20s: %+v", d)
	}
	if d := b.Take(at(20001*time.Millisecond), 1); d != (throttle.Decision{RetryAfter: 9 * time.Millisecond}) {
		t.Fatalf("at 20.001s: %+v; want 0.1 tokens: a wait of 9ms", d)
	}

	// The same of a limiter, whose clock goes back.
	clock := fake.NewClock(start)
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 100, Clock: clock})
	clock.Advance(10 * time.Second)
	mustTry(t, l, 99, 1)
	clock.Step(-500 * time.Millisecond)
	mustPass(t, l, 5, 1)
	mustHaveTokens(t, l, 0)
	clock.Step(501 * time.Millisecond)
	_, err := l.TryAcquire()
	var wait *throttle.NotYetError
	if !errors.As(err, &wait) || wait.RetryAfter != 9*time.Millisecond {
		t.Fatalf("at 10.001s: %v; want a wait of 9ms", err)
	}
}

// A racingClock moves on by 100 µs whenever it is read: a reader that dawdles before it uses what it read is late.
type racingClock struct{ reads atomic.Int64 }

func (c *racingClock) elapsed() time.Duration {
	return time.Duration(c.reads.Load()) * 100 * time.Microsecond
}

func (c *racingClock) Now() time.Time {
	return time.Unix(0, 0).Add(time.Duration(c.reads.Add(1)) * 100 * time.Microsecond)
}

func (c *racingClock) AfterFunc(time.Duration, func()) func() bool {
	return func() bool { return true }
}

func TestCLK_01_ManyGoroutinesGetNoMoreThanTheRate(t *testing.T) {
	clock := new(racingClock)
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 1, Clock: clock})
	created := clock.elapsed()
	var allowed atomic.Int64
	var asking sync.WaitGroup
	for range 5000 {
		asking.Go(func() {
			for range 4 {
				if _, err := l.TryAcquire(); err == nil {
					allowed.Add(1)
				}
			}
		})
	}
	asking.Wait()
	most := 1 + int64(clock.elapsed()-created)*10/int64(time.Second)
	if got := allowed.Load(); got > most || got < most-1 {
		t.Fatalf("%d were allowed in %v; want %d, or 1 less", got, clock.elapsed()-created, most)
	}
}

func TestCLK_02_AClockSetBackTakesNoTokensAndAStepForwardGivesNone(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Clock: clock})
	mustPass(t, l, 3, 3)
	clock.Step(-11 * time.Second)
	mustHaveTokens(t, l, 7)
	mustPass(t, l, 1, 1)
	mustHaveTokens(t, l, 6)
	clock.Step(11 * time.Second)
	mustHaveTokens(t, l, 6)
	clock.Advance(time.Second) // real time goes on to earn
	mustHaveTokens(t, l, 7)
	mustPass(t, l, 10, 7)

	b, start := newBucket(t, throttle.PerSecond(1), 10), clock.Now()
	b.Take(start, 3)
	if d := b.Take(start.Add(-11*time.Second), 1); d != (throttle.Decision{Allowed: true, Remaining: 6}) {
		t.Fatalf("the fourth take, 11 s back: %+v; want allowed, and 6 remaining", d)
	}
	if d := b.Take(start, 7); d.Allowed || d.Remaining != 6 || d.RetryAfter != time.Second {
		t.Fatalf("forward again: %+v; want 6 remaining", d)
	}
}

// The choice: the default clock is the process's monotonic one, on which the time of a suspend does not pass. Whoever
// gives a Clock that jumps gets, after the jump, a full bucket and no more.
func TestCLK_03_ASuspendEarnsNothingAndAJumpAtMostTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock stands still as long as nobody sleeps
		l := newLimiter(t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1})
		mustPass(t, l, 1, 1)
		_, err := l.TryAcquire()
		var wait *throttle.NotYetError
		if !errors.As(err, &wait) || wait.RetryAfter != time.Hour {
			t.Fatalf("got %v; want a wait of 1h", err)
		}
		time.Sleep(time.Hour)
		mustPass(t, l, 2, 1)
	})

	for _, slack := range []time.Duration{throttle.NoSlack, 0} {
		synctest.Test(t, func(t *testing.T) {
			const burst = 5
			clock := fake.NewClock(time.Time{})
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: burst, Clock: clock, Slack: slack})
			mustPass(t, l, burst+1, burst)
			var queue []*caller
			for range 100 {
				queue = append(queue, join(t.Context(), l, 1, 1))
			}
			started := func() (n int) {
				synctest.Wait()
				return 100 - l.Stats().Waiting
			}
			clock.Step(10 * time.Hour)
			clock.Advance(time.Second) // the timer kept the second that it had to go
			if n := started(); n != burst {
				t.Fatalf("after a jump of 10 h %d of 100 started at once; want %d", n, burst)
			}
			mustHaveTokens(t, l, 0)
			// With slack, the burst is charged as of 10 ms before, which the first wait after it makes up for.
			if slack == 0 {
				clock.Advance(time.Second - throttle.DefaultSlack - 1)
			} else {
				clock.Advance(time.Second - 1)
			}
			for n := burst; n < 100; n++ {
				if got := started(); got != n {
					t.Fatalf("%d have started; want %d", got, n)
				}
				clock.Advance(1)
				if got := started(); got != n+1 {
					t.Fatalf("%d have started; want %d: one a second", got, n+1)
				}
				clock.Advance(time.Second - 1)
			}
			for _, c := range queue {
				c.mustStartAt(t, 0) // of the bubble, whose time stood still
			}
		})
	}
}

func TestCLK_04_WithWaitTimersEveryWaiterOnAFakeClockFinishes(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	l := newLimiter(t, throttle.Config{Rate: throttle.Per(1, 2*time.Second), Burst: 1, Clock: clock})
	mustPass(t, l, 1, 1)
	answers := make(chan error)
	for i := range 10_000 {
		go func() { answers <- l.Wait(context.Background()) }()
		mustDo(t, clock.WaitTimers(context.Background(), 1))
		clock.Advance(2 * time.Second)
		if err := <-answers; err != nil {
			t.Fatalf("waiter %d of 10000: %v", i+1, err)
		}
	}
	if n := clock.Timers(); n != 0 {
		t.Fatalf("%d timers are armed with nobody waiting", n)
	}

	synctest.Test(t, func(t *testing.T) { // a wrong n fails by its context: any number of waiters arm one timer
		clock := fake.NewClock(time.Time{})
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock})
		mustPass(t, l, 1, 1)
		a, b := join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := clock.WaitTimers(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waiting for 2 timers: %v; want the deadline", err)
		}
		a.leave()
		b.leave()
	})
}

// A countingClock counts how often it is read.
type countingClock struct {
	*fake.Clock
	reads atomic.Int64
}

func (c *countingClock) Now() time.Time {
	c.reads.Add(1)
	return c.Clock.Now()
}

func TestCLK_05_AWaiterParksOnATimerOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &countingClock{Clock: fake.NewClock(time.Time{})}
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock})
		mustPass(t, l, 1, 1)
		a, b := join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)
		reads := clock.reads.Load()
		time.Sleep(time.Hour) // of the bubble; the fake clock stands
		a.mustWait(t)
		if n := clock.reads.Load() - reads; n != 0 || clock.Timers() != 1 {
			t.Fatalf("while it waited the clock was read %d times and %d timers were armed; want 0 and 1", n, clock.Timers())
		}
		clock.Advance(time.Second - 1)
		a.mustWait(t)
		clock.Advance(1)
		a.mustStartAt(t, time.Hour)
		b.mustWait(t)
		b.leave() // a cancel ends the wait too
		if !b.over() || !errors.Is(b.err, context.Canceled) || clock.Timers() != 0 {
			t.Fatalf("after the cancel: %v, %d timers; want Canceled and none", b.err, clock.Timers())
		}
	})
}

func TestCLK_06_AClockPutRightUnblocksWithinAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := fake.NewClock(time.Time{})
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock})
		mustPass(t, l, 2, 1)
		clock.Step(-time.Hour)
		mustPass(t, l, 1, 0)
		clock.Advance(400 * time.Millisecond)
		clock.Step(time.Hour)
		clock.Advance(599 * time.Millisecond)
		mustPass(t, l, 1, 0)
		clock.Advance(time.Millisecond) // one period after it was spent
		mustPass(t, l, 2, 1)

		waiter := join(t.Context(), l, 1, 1)
		clock.Step(-time.Hour)
		clock.Advance(700 * time.Millisecond)
		clock.Step(time.Hour)
		clock.Advance(300 * time.Millisecond)
		waiter.mustStartAt(t, 0)
	})

	// The default clock cannot be set back: its time is the time that has passed.
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustPass(t, l, 2, 1)
		time.Sleep(time.Second)
		mustPass(t, l, 2, 1)
	})
}

func TestCLK_07_ALimiterMayBeUsedByManyWhileTheClockMoves(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	var l *throttle.Limiter
	l = newLimiter(t, throttle.Config{
		Rate: throttle.PerSecond(1000), Burst: 10, MaxInFlight: 50, Clock: clock,
		Trace: &throttle.Trace{Started: func(throttle.Event) {
			l.Stats() // no lock is held while a callback runs
			clock.Now()
			if p, err := l.TryAcquireN(11); err == nil {
				p.Release()
			}
		}},
	})
	var asking sync.WaitGroup
	for range 100 {
		asking.Go(func() {
			for range 10 {
				ctx, cancel := clock.WithTimeout(context.Background(), 50*time.Millisecond)
				if p, err := l.Acquire(ctx); err == nil {
					p.Release()
				}
				if p, err := l.TryAcquire(); err == nil {
					p.Release()
				}
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		asking.Wait()
	}()
	for advanced := 0; ; advanced++ {
		clock.Advance(time.Millisecond)
		select {
		case <-done:
			if advanced >= 1000 {
				if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.Started == 0 {
					t.Fatalf("at rest: %+v", s)
				}
				return
			}
		default:
		}
	}
}
