package throttle_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// Both say whether a deadline was it, as the errors of package net do.
var (
	_ interface{ Timeout() bool } = (*throttle.NotYetError)(nil)
	_ interface{ Timeout() bool } = (*throttle.LeftError)(nil)
)

// notYet returns err as a *NotYetError, or ends the test.
func notYet(t testing.TB, err error) *throttle.NotYetError {
	t.Helper()
	var e *throttle.NotYetError
	if !errors.As(err, &e) {
		t.Fatalf("got %v; want a *NotYetError", err)
	}
	return e
}

// left returns err as a *LeftError, or ends the test.
func left(t testing.TB, err error) *throttle.LeftError {
	t.Helper()
	var e *throttle.LeftError
	if !errors.As(err, &e) {
		t.Fatalf("got %v; want a *LeftError", err)
	}
	return e
}

// empty returns a limiter of config c, with every token spent.
func empty(t testing.TB, c throttle.Config) *throttle.Limiter {
	t.Helper()
	l := newLimiter(t, c)
	mustTry(t, l, c.Burst, 1).Release()
	return l
}

// within returns a context whose deadline is d from now.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// refusals returns one error of each way in which a caller is told not yet, each after a token of 1/s lacks.
func refusals(t *testing.T) map[string]error {
	rate := throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 1}
	_, try := empty(t, rate).TryAcquire()
	_, deadline := empty(t, rate).Acquire(within(t, 300*time.Millisecond))
	rate.MaxWait = 200 * time.Millisecond
	_, maxWait := empty(t, rate).Acquire(t.Context())
	rate.MaxWait, rate.MaxQueue = 0, 1
	full := empty(t, rate)
	c := join(t.Context(), full, 1, 1)
	_, queue := full.Acquire(t.Context())
	c.leave()
	return map[string]error{"try": try, "deadline": deadline, "MaxWait": maxWait, "MaxQueue": queue}
}

func TestNotYetError_IsWhatRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := map[string][]error{
			"try":      nil,
			"deadline": {throttle.ErrWouldExceed, context.DeadlineExceeded},
			"MaxWait":  {throttle.ErrWouldExceed},
			"MaxQueue": {throttle.ErrQueueFull},
		}
		all := []error{
			throttle.ErrTooLarge, throttle.ErrClosed, throttle.ErrQueueFull, throttle.ErrWouldExceed, throttle.ErrCapped,
			throttle.ErrUncapped, throttle.ErrInvalid, context.DeadlineExceeded, context.Canceled, nil,
		}
		for name, err := range refusals(t) {
			for _, target := range all {
				want := false
				for _, w := range is[name] {
					want = want || w == target
				}
				if got := errors.Is(err, target); got != want {
					t.Errorf("%s: errors.Is(%v, %v) is %v; want %v", name, err, target, got, want)
				}
			}
			if e := notYet(t, err); e.Timeout() != (name == "deadline") {
				t.Errorf("%s: Timeout is %v", name, e.Timeout())
			}
		}
	})
}

func TestNotYetError_TextsAndFieldsTellTheLimitAndTheNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		texts := map[string]string{
			"try":      `throttle: "api": not yet: rate 1/s (burst 1): wait 1s`,
			"deadline": `throttle: "api": rate 1/s (burst 1): wait 1s, and the deadline is in 300ms: context deadline exceeded`,
			"MaxWait":  `throttle: "api": rate 1/s (burst 1): wait 1s, above MaxWait 200ms`,
		}
		allowed := map[string]time.Duration{"deadline": 300 * time.Millisecond, "MaxWait": 200 * time.Millisecond}
		for name, err := range refusals(t) {
			e := notYet(t, err)
			wait, limit := time.Second, "rate 1/s (burst 1)"
			if name == "MaxQueue" {
				limit = "MaxQueue 1"
				wait = 2 * time.Second // the one in line is ahead
				mustSay(t, err, throttle.ErrQueueFull, `throttle: "api": `, "MaxQueue 1", "would be 2s")
			} else if err.Error() != texts[name] {
				t.Errorf("%s says\n%s\nwant\n%s", name, err, texts[name])
			}
			if e.Limiter != "api" || e.Limit != limit || e.RetryAfter != wait || e.Allowed != allowed[name] {
				t.Errorf("%s: %+v", name, e)
			}
		}
		sem := newSemaphore(t, 1)
		for limit, c := range map[string]throttle.Config{
			"MaxInFlight 1": {Name: "db", MaxInFlight: 1, Rate: throttle.PerSecond(9), Burst: 9},
			"Semaphore 1":   {Name: "db", Semaphore: sem},
		} {
			l := newLimiter(t, c)
			mustPass(t, l, 1, 1)
			_, err := l.TryAcquire()
			e := notYet(t, err)
			if e.Limit != limit || e.RetryAfter != 0 || err.Error() != `throttle: "db": not yet: `+limit+`: no permit is free` {
				t.Errorf("%s: %+v says %q", limit, e, err)
			}
		}
	})
}

func TestNotYetError_AfterExactlyTheWaitATrySucceeds(t *testing.T) {
	for _, c := range []struct {
		rate            throttle.Rate
		burst, spent, n int64
	}{
		{throttle.PerSecond(10), 1, 1, 1},
		{throttle.PerSecond(3), 1, 1, 1},
		{throttle.PerSecond(3), 7, 7, 5},
		{throttle.Per(7, 11), 5, 5, 3},
		{throttle.Per(1_000_003, 1_000_033), 9, 9, 9},
		{throttle.Per(167, 10_000*time.Second), 3, 3, 1},
		{throttle.Per(1, 100*year), 2, 1, 2},
		{throttle.PerSecond(1e9), 1, 1, 1},
		{throttle.Per(999_999_937, time.Second), throttle.MaxBurst, throttle.MaxBurst, 1e15},
		{throttle.Per(math.MaxInt64-1, math.MaxInt64), 3, 3, 2},
	} {
		for _, early := range []time.Duration{1, 0} {
			clock := fake.NewClock(time.Time{})
			l := newLimiter(t, throttle.Config{Rate: c.rate, Burst: c.burst, Clock: clock})
			mustTry(t, l, c.spent, 1)
			_, err := l.TryAcquireN(c.n)
			clock.Advance(notYet(t, err).RetryAfter - early)
			_, err = l.TryAcquireN(c.n)
			switch {
			case early == 0 && err != nil:
				t.Errorf("%v burst %d, cost %d: after exactly the wait: %v", c.rate, c.burst, c.n, err)
			case early == 1 && (err == nil || notYet(t, err).RetryAfter != 1):
				t.Errorf("%v burst %d, cost %d: 1ns before: %v; want a wait of 1ns", c.rate, c.burst, c.n, err)
			}
		}
	}
}

func TestNotYetError_AWaitBeyondADurationIsTheLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := empty(t, throttle.Config{Rate: throttle.Per(1, 200*year), Burst: 2})
		_, err := l.TryAcquireN(2)
		if e := notYet(t, err); e.RetryAfter != math.MaxInt64 {
			t.Fatalf("the wait is %v; want the largest Duration", e.RetryAfter)
		}
		c := join(t.Context(), l, 2, 1)
		time.Sleep(250 * year)
		c.mustWait(t)
		c.leave()
		mustPass(t, l, 2, 1) // of the two, one has come
	})
}

func TestMaxWait_AdmitsAWaitOfExactlyThat(t *testing.T) {
	for wait, admits := range map[time.Duration]bool{100*time.Millisecond - 1: false, 100 * time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			l := empty(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 1, MaxWait: wait})
			_, err := l.Acquire(t.Context())
			if !admits {
				mustSay(t, err, throttle.ErrWouldExceed, "wait 100ms", "MaxWait 99.999999ms")
				return
			}
			if err != nil || sinceStart() != wait {
				t.Fatalf("MaxWait %v: %v at %v; want a start after 100ms", wait, err, sinceStart())
			}
		})
	}
}

func TestDeadline_EqualToTheStartIsRefusedAtOnce(t *testing.T) {
	for patience, admits := range map[time.Duration]bool{100 * time.Millisecond: false, 100*time.Millisecond + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			l := empty(t, throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1})
			_, err := l.Acquire(within(t, patience))
			if admits {
				if err != nil || sinceStart() != 100*time.Millisecond {
					t.Fatalf("a deadline 1ns after the start: %v at %v; want a start after 100ms", err, sinceStart())
				}
				return
			}
			mustSay(t, err, context.DeadlineExceeded, "api", "wait 100ms", "the deadline is in 100ms")
			if e := notYet(t, err); sinceStart() != 0 || e.RetryAfter != e.Allowed || !errors.Is(err, throttle.ErrWouldExceed) {
				t.Fatalf("got %+v after %v; want an answer at once", e, sinceStart())
			}
			mustHaveTokens(t, l, 0)
			time.Sleep(100 * time.Millisecond)
			mustPass(t, l, 2, 1)
		})
	}
}

// A fixedDeadline is a context that is not done, whatever its deadline says.
type fixedDeadline struct {
	context.Context
	at time.Time
}

func (c fixedDeadline) Deadline() (time.Time, bool) { return c.at, true }

func TestDeadline_NotAfterNowIsRefusedAtOnceWithATokenThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1, MaxInFlight: 1})
		time.Sleep(time.Hour)
		now := time.Now()
		for _, at := range []time.Time{now, now.Add(-1), now.Add(-2 * time.Hour), now.Add(-290 * year)} {
			_, err := l.Acquire(fixedDeadline{t.Context(), at})
			mustSay(t, err, context.DeadlineExceeded, "api", "deadline passed")
			if e := notYet(t, err); e.Allowed > 0 || e.RetryAfter != 0 {
				t.Fatalf("deadline %v: %+v", at, e)
			}
		}
		if s := l.Stats(); s.Started != 0 || s.InFlight != 0 || s.Tokens != 1 || s.RefusedNotYet != 4 {
			t.Fatalf("got %+v; want nothing taken, and 4 refused", s)
		}
	})
}

// A deadline further back than a Duration reaches, such as the zero Time, is past too.
func TestDeadline_OfCenturiesAgoIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1})
		time.Sleep(time.Hour)
		for _, at := range []time.Time{{}, time.Now().Add(-292 * year).Add(-292 * year)} {
			_, err := l.Acquire(fixedDeadline{t.Context(), at})
			mustSay(t, err, context.DeadlineExceeded, "api", "deadline passed")
		}
		mustHaveTokens(t, l, 1)
	})
}

func TestLeftError_KeepsTheCauseAndTheContextsError(t *testing.T) {
	cause := errors.New("the user closed the tab")
	for _, c := range []struct {
		name    string
		make    func(context.Context) (context.Context, context.CancelFunc)
		err     error
		text    string
		timeout bool
	}{
		{"cancel with cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled, cause.Error(), false},
		{"deadline with cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 50*time.Millisecond, cause)
		}, context.DeadlineExceeded, cause.Error(), true},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		}, context.DeadlineExceeded, context.DeadlineExceeded.Error(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, throttle.Config{Name: "api", MaxInFlight: 1})
				held := mustTry(t, l, 1, 1)
				defer held.Release()
				ctx, cancel := c.make(t.Context())
				defer cancel()
				_, inLine := l.Acquire(ctx) // waits for a permit, whose return nobody knows
				_, onArrival := l.Acquire(ctx)
				for err, waited := range map[error]time.Duration{inLine: 50 * time.Millisecond, onArrival: 0} {
					e := left(t, err)
					if e.Limiter != "api" || e.Waited != waited || e.Cause() != context.Cause(ctx) || e.Err != c.err || e.Timeout() != c.timeout {
						t.Errorf("got %+v; want it to have waited %v", e, waited)
					}
					if !errors.Is(err, context.Cause(ctx)) || !errors.Is(err, c.err) {
						t.Errorf("%v is not its cause and %v", err, c.err)
					}
					want := `throttle: "api": gave up after ` + waited.String() + ` in line, before the start: ` + c.text
					if err.Error() != want {
						t.Errorf("says\n%s\nwant\n%s", err, want)
					}
				}
				if s := l.Stats(); s.Left != 2 || s.Started != 1 || s.Waiting != 0 {
					t.Errorf("got %+v; want 2 left", s)
				}
			})
		})
	}
}
