package throttle_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind TIM: idle time, fast refusals and the cost of waiting. Late timers are in cases_tim_late_test.go.

func TestTIM_01_IdleCreditIsGivenOnce(t *testing.T) {
	for _, c := range []struct {
		burst int64
		slack time.Duration
		last  time.Duration
	}{
		{burst: 2, last: 24 * time.Second}, // 1 + slack of the report is a burst of 2 here
		{burst: 2, slack: throttle.MaxSlack, last: 24 * time.Second},
		{burst: 1, slack: throttle.MaxSlack, last: 25 * time.Second}, // without lateness, slack gives nothing
		{burst: 1, slack: throttle.NoSlack, last: 25 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: c.burst, Slack: c.slack, Trace: rec.trace()})
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			for range 24 {
				if err := l.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if at := sinceStart(); at != c.last {
				t.Errorf("burst %d, slack %v: the last call returned at %v; want %v", c.burst, c.slack, at, c.last)
			}
			mustKeepRate(t, instants(rec.starts()), throttle.PerSecond(1), c.burst)
		})
	}
}

// instants returns the real instants of the starts.
func instants(starts []throttle.Event) []time.Time {
	var at []time.Time
	for _, e := range starts {
		at = append(at, e.At)
	}
	return at
}

// nominals returns the instants as of which the starts were charged.
func nominals(starts []throttle.Event) []time.Time {
	var at []time.Time
	for _, e := range starts {
		at = append(at, e.Nominal)
	}
	return at
}

// Two calls for each token: one that is told the wait, one that starts.
func TestTIM_03_HopelessWaitIsRefusedAtOnceWithTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.Every(10 * time.Second), Burst: 1})
		mustTry(t, l, 1, 1)
		calls := 0
		for started := 0; started < 5; calls++ {
			before := sinceStart()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err := l.Acquire(ctx)
			cancel()
			if sinceStart() != before {
				t.Fatalf("the call took %v; want its answer at once", sinceStart()-before)
			}
			if err == nil {
				started++
				continue
			}
			var no *throttle.NotYetError
			if !errors.As(err, &no) || no.RetryAfter != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v; want a wait of 10 s and DeadlineExceeded", err)
			}
			time.Sleep(no.RetryAfter)
		}
		if calls != 10 {
			t.Errorf("%d calls for 5 tokens; want 2 each", calls)
		}
	})
}

func TestTIM_04_LimitersHaveNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	limiters := make([]*throttle.Limiter, 10_000)
	for i := range limiters {
		limiters[i] = newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 1})
		if err := limiters[i].Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines with 10,000 limiters; want %d, as before", n, before)
	}
	for _, l := range limiters {
		l.Close()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines after Close; want %d, as before", n, before)
	}
}

func TestTIM_05_SmallDeficitHasAWaitAndOneWakeUp(t *testing.T) {
	b := newBucket(t, throttle.PerSecond(3), 1)
	now := bubbleStart
	b.Take(now, 1)
	now = now.Add(333_300_000) // 0.9999 of a token
	const wait = 33_334        // 0.0001 / 3 s, rounded up to the nanosecond
	if d := b.Take(now, 1); d.Allowed || d.RetryAfter != wait {
		t.Fatalf("0.9999 of a token: %+v; want a wait of 33334 ns", d)
	}
	if d := b.Take(now.Add(wait-1), 1); d.Allowed || d.RetryAfter != 1 {
		t.Errorf("a nanosecond early: %+v; want a wait of 1 ns", d)
	}
	if d := b.Take(now.Add(wait), 1); !d.Allowed {
		t.Errorf("after exactly the wait: %+v; want allowed", d)
	}

	synctest.Test(t, func(t *testing.T) {
		clock := new(lateClock)
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(3), Burst: 1, Clock: clock})
		mustTry(t, l, 1, 1)
		time.Sleep(333_300_000)
		if got := retryAfter(t, l); got != wait {
			t.Errorf("a try is told %v; want 33334 ns", got)
		}
		var callers []*caller
		for range 3 {
			callers = append(callers, join(t.Context(), l, 1, 1))
		}
		time.Sleep(2 * time.Second)
		// Each empties a full bucket, which may lose it less than 1 ns (C5).
		for i, at := range []time.Duration{333_333_334, 666_666_668, 1_000_000_002} {
			callers[i].mustStartAt(t, at)
		}
		if clock.fired != 3 {
			t.Errorf("timers went off %d times for 3 starts; want 3", clock.fired)
		}
	})
}

func TestTIM_06_LongIdlenessSavesUpTheBurstOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 10, Trace: rec.trace()})
		time.Sleep(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() { _ = l.Wait(ctx) })
		}
		synctest.Wait()
		if n := len(rec.starts()); n != 10 {
			t.Errorf("%d of 1,000 passed at once after an hour; want 10", n)
		}
		time.Sleep(100*time.Millisecond - 1)
		synctest.Wait()
		if n := len(rec.starts()); n != 10 {
			t.Errorf("%d passed before 100 ms; want 10", n)
		}
		time.Sleep(1)
		synctest.Wait()
		if n := len(rec.starts()); n != 11 {
			t.Errorf("%d passed by 100 ms; want 11", n)
		}
		cancel()
		callers.Wait()
	})
}

// The boundary is documented in C6: a wait equal to MaxWait is admitted; a deadline must be after the start.
func TestTIM_07_WaitEqualToTheAllowedWaitIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxWait: time.Second})
		for i := range 4 {
			join(t.Context(), l, 1, 1)
			time.Sleep(time.Duration(min(i, 1)) * time.Second)
			synctest.Wait()
			if s := l.Stats(); s.Started != uint64(i+1) || sinceStart() != time.Duration(i)*time.Second {
				t.Fatalf("%d started by %v; want %d by %d s", s.Started, sinceStart(), i+1, i)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxWait: 900 * time.Millisecond})
		mustTry(t, l, 1, 1)
		_, err := l.Acquire(t.Context())
		var no *throttle.NotYetError
		if !errors.As(err, &no) || no.RetryAfter != time.Second || no.Allowed != 900*time.Millisecond || sinceStart() != 0 {
			t.Errorf("%v at %v; want refused at once, with a wait of 1 s where 900 ms are allowed", err, sinceStart())
		}
		time.Sleep(time.Second)
		join(t.Context(), l, 1, 1).mustStartAt(t, time.Second) // the refusal took nothing
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustTry(t, l, 1, 1)
		for _, c := range []struct {
			within time.Duration
			admit  bool
		}{{900 * time.Millisecond, false}, {time.Second, false}, {time.Second + 1, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			w := join(ctx, l, 1, 1)
			if w.over() == c.admit {
				t.Errorf("a deadline in %v: admitted %v; want %v", c.within, !w.over(), c.admit)
			}
			if c.admit {
				time.Sleep(time.Second)
				w.mustStartAt(t, time.Second)
			}
		}
	})
}
