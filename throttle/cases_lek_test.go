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

// The cases of kind LEK: panics, errors, double releases and shut-downs leak no permit and mint none. The soak is
// in cases_lek_soak_test.go.

// mustHold asserts that the weight in flight is want.
func mustHold(t *testing.T, l *throttle.Limiter, want int64) {
	t.Helper()
	if s := l.Stats(); s.InFlight != want {
		t.Fatalf("in flight %d; want %d", s.InFlight, want)
	}
}

// doPanics runs a function under l that panics with value, and returns what was recovered.
func doPanics(t *testing.T, l *throttle.Limiter, value any) (recovered any) {
	t.Helper()
	defer func() { recovered = recover() }()
	err := l.Do(t.Context(), func(context.Context) error { panic(value) })
	t.Errorf("Do returned %v; want the panic", err)
	return nil
}

func TestLEK_01_PanicAndGoexitRelease(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 2})
	boom := errors.New("boom")
	for range 2 {
		if r := doPanics(t, l, boom); r != boom {
			t.Errorf("recovered %v; want the function's own panic", r)
		}
		mustHold(t, l, 0)
	}
	for range 2 {
		var exited sync.WaitGroup
		exited.Go(func() {
			_ = l.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		})
		exited.Wait()
		mustHold(t, l, 0)
	}
	ran := false
	err := l.Do(t.Context(), func(context.Context) error { ran = true; mustHold(t, l, 1); return boom })
	if !ran || err != boom {
		t.Errorf("the third ran %v and gave %v; want it run and its own error", ran, err)
	}
	mustHold(t, l, 0)
}

func TestLEK_02_SecondReleaseIsCountedAndDoesNothing(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 2})
	a, b := mustTry(t, l, 1, 1), mustTry(t, l, 1, 1)
	a.Release()
	a.Release()
	if s := l.Stats(); s.InFlight != 1 || s.DoubleReleases != 1 {
		t.Errorf("in flight %d, double releases %d; want 1 and 1", s.InFlight, s.DoubleReleases)
	}
	c := mustTry(t, l, 1, 1)
	a.Release() // a's place is c's now
	mustHold(t, l, 2)
	if _, err := l.TryAcquire(); err == nil {
		t.Fatal("a third started where the cap is 2")
	}
	b.Release()

	var all []func()
	for range 100 {
		all = append(all, c.Release)
	}
	together(all...)
	if s := l.Stats(); s.InFlight != 0 || s.DoubleReleases != 2+99 {
		t.Errorf("in flight %d, double releases %d; want 0 and 101: one of the 100 counts", s.InFlight, s.DoubleReleases)
	}
	mustTry(t, l, 1, 2).Release()
	if _, err := l.TryAcquireCost(throttle.Cost{Weight: 3}); !errors.Is(err, throttle.ErrTooLarge) {
		t.Errorf("weight 3: %v; want ErrTooLarge, as the cap is still 2", err)
	}
}

func TestLEK_03_RefusalInsideReleases(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 5})
	open, errOpen := true, errors.New("breaker is open")
	ran := 0
	guarded := func(context.Context) error {
		if open {
			return errOpen
		}
		ran++
		return nil
	}
	for range 5 {
		if err := l.Do(t.Context(), guarded); err != errOpen {
			t.Errorf("%v; want the breaker's error", err)
		}
		mustHold(t, l, 0)
	}
	open = false
	if err := l.Do(t.Context(), guarded); err != nil || ran != 1 {
		t.Errorf("%v, run %d times; want it run once", err, ran)
	}
}

func TestLEK_04_ReleaseOfAFailedAcquireDoesNothing(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 1})
	held := mustTry(t, l, 1, 1)
	func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p, err := l.Acquire(ctx)
		defer p.Release()
		if err == nil || p != (throttle.Permit{}) {
			t.Errorf("permit %v, error %v; want the zero Permit and an error", p, err)
		}
	}()
	p, err := l.TryAcquire()
	p.Release()
	if err == nil {
		t.Error("a second started where the cap is 1")
	}
	if s := l.Stats(); s.InFlight != 1 || s.MaxInFlight != 1 || s.DoubleReleases != 0 {
		t.Errorf("in flight %d of %d, double releases %d; want 1 of 1, and none", s.InFlight, s.MaxInFlight, s.DoubleReleases)
	}
	held.Release()
}

func TestLEK_06_PanicThenDoubleDoneLeaveNothingInFlight(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 1})
	if r := doPanics(t, l, "downstream"); r != "downstream" {
		t.Errorf("recovered %v; want the downstream's panic", r)
	}
	mustHold(t, l, 0)
	p := mustTry(t, l, 1, 1)
	p.Release()
	mustHold(t, l, 0)
	p.Release()
	mustHold(t, l, 0)
	mustTry(t, l, 1, 1).Release()
}

func TestLEK_07_FailedValidationAndRetriesRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 3})
		errBad := errors.New("invalid request")
		for range 3 {
			if err := l.Do(t.Context(), func(context.Context) error { return errBad }); err != errBad {
				t.Errorf("%v; want the validation's error", err)
			}
			mustHold(t, l, 0)
		}
		for _, target := range []string{"1", "2"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := l.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); mustHold(t, l, 1); return ctx.Err() })
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("target %s: %v; want DeadlineExceeded", target, err)
			}
			mustHold(t, l, 0)
		}
		mustTry(t, l, 1, 3).Release()
	})
}

func TestLEK_08_CancelNeverLooksLikeAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		held := mustTry(t, l, 1, 1)
		second := join(t.Context(), l, 1, 1)
		second.leave()
		if !second.over() || second.err == nil || second.permit != (throttle.Permit{}) {
			t.Fatalf("the second has permit %v, error %v; want no permit and an error", second.permit, second.err)
		}
		second.permit.Release() // deferred, in the report
		mustHold(t, l, 1)
		third := join(t.Context(), l, 1, 1)
		third.mustWait(t) // else 2 inside
		held.Release()
		third.mustStartAt(t, 0)
		mustHold(t, l, 1)
		third.permit.Release()
	})
}
