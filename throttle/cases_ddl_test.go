package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestDDL_01_AnEndedContextNeverAcquires(t *testing.T) {
	ended := errors.New("ended before")
	for name, c := range map[string]throttle.Config{
		"permit": {MaxInFlight: 1},
		"token":  {Rate: throttle.Per(1, 100*year), Burst: 1},
		"both":   {Rate: throttle.Per(1, 100*year), Burst: 1, MaxInFlight: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, c)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(ended)
			for range 1000 {
				_, err := l.Acquire(ctx)
				var left *throttle.LeftError
				if !errors.As(err, &left) || !errors.Is(err, context.Canceled) || !errors.Is(err, ended) || left.Waited != 0 {
					t.Fatalf("got %v; want that the context was cancelled, and why", err)
				}
				if err := l.Do(ctx, func(context.Context) error { panic("called") }); !errors.Is(err, context.Canceled) {
					t.Fatalf("Do: %v; want Canceled", err)
				}
			}
			if s := l.Stats(); s.Started != 0 || s.InFlight != 0 || s.Waiting != 0 || s.Left != 2000 {
				t.Fatalf("got %+v; want 2000 left and nothing else", s)
			}
			mustPass(t, l, 2, 1) // nothing was taken
		})
	}
}

func TestDDL_02_AnEarlyRefusalIsRecognisableAsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustPass(t, l, 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.Wait(ctx)
		if sinceStart() != 0 || ctx.Err() != nil {
			t.Fatalf("the answer came after %v; want it at once", sinceStart())
		}
		var wait *throttle.NotYetError
		if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, throttle.ErrWouldExceed) {
			t.Fatalf("got %v; want a *NotYetError that is DeadlineExceeded and ErrWouldExceed", err)
		}
		if wait.RetryAfter != time.Second || wait.Allowed != 100*time.Millisecond || !wait.Timeout() {
			t.Fatalf("got %+v; want a wait of 1s where 100ms were allowed", wait)
		}
		time.Sleep(time.Second)
		mustPass(t, l, 2, 1) // no token was booked
	})
}

func TestDDL_03_CallersThatTimedOutLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustPass(t, l, 1, 1)
		var callers []*caller
		for i := range 1000 {
			// Half have a deadline, and are refused at once; half are cut off from outside, and wait.
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if i%2 == 0 {
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			defer cancel()
			callers = append(callers, join(ctx, l, 1, 1))
		}
		if n := l.Stats().Waiting; n != 500 {
			t.Fatalf("%d wait; want those 500 that have no deadline", n)
		}
		time.Sleep(200 * time.Millisecond)
		for i, c := range callers {
			want := context.DeadlineExceeded
			if i%2 == 0 {
				want = context.Canceled
			}
			if !c.over() || !errors.Is(c.err, want) {
				t.Fatalf("caller %d: answered %v, %v; want %v", i, c.over(), c.err, want)
			}
		}
		if s := l.Stats(); s.Waiting != 0 || s.Left != 500 || s.RefusedNotYet != 500 {
			t.Fatalf("after 200ms: %+v; want nobody in line", s)
		}
		c := join(t.Context(), l, 1, 1)
		time.Sleep(time.Second)
		c.mustStartAt(t, time.Second)
	})
}

func TestDDL_04_AStartUpBurstBooksNoMoreThanMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asking, burst, queued = 36_000, 100, 1_200
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: burst, MaxWait: 2 * time.Minute})
		answers := make(chan error, asking)
		for i := range asking {
			go func() { answers <- l.Wait(context.Background()) }()
			if i%1000 == 999 {
				synctest.Wait()
			}
		}
		s := l.Stats()
		if s.Started != burst || s.Waiting != queued || s.RefusedNotYet != asking-burst-queued {
			t.Fatalf("at once: %+v; want %d started, %d waiting and the rest refused", s, burst, queued)
		}
		for range asking - queued {
			err := <-answers
			var wait *throttle.NotYetError
			if err != nil && (!errors.As(err, &wait) || !errors.Is(err, throttle.ErrWouldExceed) ||
				wait.RetryAfter != 2*time.Minute+100*time.Millisecond || wait.Allowed != 2*time.Minute) {
				t.Fatalf("got %v; want the wait of 2m0.1s, above MaxWait 2m0s", err)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := l.Stats(); s.Started != burst+queued || s.Waiting != 0 {
			t.Fatalf("at 120s: %+v; want those who waited started", s)
		}
		if err := l.Wait(context.Background()); err != nil || sinceStart() != 2*time.Minute+100*time.Millisecond {
			t.Fatalf("a call at 120s: %v at %v; want it to wait 100ms", err, sinceStart())
		}
		for range queued {
			mustDo(t, <-answers)
		}
	})
}

func TestDDL_05_ACancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.Per(1, 10*time.Second), Burst: 1})
		mustPass(t, l, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		err := l.Wait(ctx)
		if sinceStart() != 50*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v after %v; want Canceled after 50ms", err, sinceStart())
		}
		var left *throttle.LeftError
		if !errors.As(err, &left) || left.Waited != 50*time.Millisecond {
			t.Fatalf("got %v; want that it waited 50ms", err)
		}
		time.Sleep(10*time.Second - 51*time.Millisecond)
		mustPass(t, l, 1, 0)
		time.Sleep(time.Millisecond)
		mustPass(t, l, 2, 1) // the token was not used
	})
}
