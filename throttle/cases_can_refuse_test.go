package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind CAN on asks that are refused: nothing was taken.

// retryAfter asserts that a try of one token is told not yet, and returns the wait that it is told.
func retryAfter(t *testing.T, l *throttle.Limiter) time.Duration {
	t.Helper()
	_, err := l.TryAcquire()
	var no *throttle.NotYetError
	if !errors.As(err, &no) {
		t.Fatalf("the try got %v; want a *NotYetError", err)
	}
	return no.RetryAfter
}

func TestCAN_08_RefusedAskChangesNothing(t *testing.T) {
	for _, bound := range []string{"MaxWait", "deadline"} {
		synctest.Test(t, func(t *testing.T) {
			c := throttle.Config{Rate: throttle.PerSecond(10), Burst: 10}
			twin := newLimiter(t, c) // is asked nothing that is refused
			if bound == "MaxWait" {
				c.MaxWait = 100 * time.Millisecond
			}
			l := newLimiter(t, c)
			mustTry(t, l, 10, 1)
			mustTry(t, twin, 10, 1)
			time.Sleep(500 * time.Millisecond)

			ctx := t.Context()
			if bound == "deadline" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			if _, err := l.AcquireN(ctx, 11); !errors.Is(err, throttle.ErrTooLarge) {
				t.Errorf("11 of a burst of 10: %v; want ErrTooLarge", err)
			}
			_, err := l.AcquireN(ctx, 10)
			var no *throttle.NotYetError
			if !errors.As(err, &no) || !errors.Is(err, throttle.ErrWouldExceed) || no.RetryAfter != 500*time.Millisecond {
				t.Errorf("10 within 100 ms: %v; want ErrWouldExceed with a wait of 500 ms", err)
			}
			if s := l.Stats(); s.Tokens != 5 || s.Waiting != 0 {
				t.Errorf("%d tokens, %d waiting; want 5 and 0", s.Tokens, s.Waiting)
			}
			join(t.Context(), l, 5, 1).mustStartAt(t, 500*time.Millisecond)
			mustTry(t, twin, 5, 1)
			time.Sleep(33_333_333)
			if got, want := retryAfter(t, l), retryAfter(t, twin); got != want {
				t.Errorf("the next token is due in %v; want %v, as without refusals", got, want)
			}
		})
	}
}

func TestCAN_09_NoPermitTakesNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 1)
		held := mustTry(t, newLimiter(t, throttle.Config{Semaphore: sem}), 1, 1)
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Semaphore: sem})
		four := throttle.Cost{Tokens: 4, Weight: 1}
		tokensAre := func(want int64) {
			t.Helper()
			if s := l.Stats(); s.Tokens != want || s.InFlight != 0 || sem.InFlight() != 1 {
				t.Errorf("%d tokens, in flight %d of %d; want %d, 0 of 1", s.Tokens, s.InFlight, sem.InFlight(), want)
			}
		}
		if _, err := l.TryAcquireCost(four); err == nil {
			t.Fatal("started without a permit")
		}
		tokensAre(10)
		waits := join(t.Context(), l, 4, 1)
		waits.mustWait(t)
		tokensAre(10)
		waits.leave()
		tokensAre(10)

		// With tokens spent, those earned meanwhile are there.
		held.Release()
		mustTry(t, l, 7, 1).Release()
		held = mustTry(t, newLimiter(t, throttle.Config{Semaphore: sem}), 1, 1)
		waits = join(t.Context(), l, 4, 1)
		time.Sleep(2 * time.Second)
		waits.leave()
		tokensAre(5)
		held.Release()
	})
}

func TestCAN_13_TryThatFindsTooFewTakesNone(t *testing.T) {
	century := throttle.Per(1, 100*365*24*time.Hour)
	b := newBucket(t, century, 5)
	now := bubbleStart
	b.Take(now, 2)
	if d := b.Take(now, 5); d.Allowed || d.Remaining != 3 {
		t.Errorf("Take of 5 of 3: %+v; want refused with 3 left", d)
	}
	if d := b.Take(now, 3); !d.Allowed || d.Remaining != 0 {
		t.Errorf("Take of 3 of 3: %+v; want allowed", d)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: century, Burst: 5})
		mustTry(t, l, 2, 1)
		if _, err := l.TryAcquireN(5); err == nil {
			t.Error("a try of 5 of 3 was let through")
		}
		mustTry(t, l, 3, 1)
	})
}
