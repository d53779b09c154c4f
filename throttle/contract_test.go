package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestC8_APermitIsReleasedOnceHoweverOften(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 2})
	first, other := mustTry(t, l, 1, 1), mustTry(t, l, 1, 1)
	var all sync.WaitGroup
	for range 100 {
		all.Go(first.Release)
	}
	all.Wait()
	if s := l.Stats(); s.InFlight != 1 || s.DoubleReleases != 99 {
		t.Errorf("%+v; want 1 in flight and 99 double releases", s)
	}
	reused := mustTry(t, l, 1, 1) // stands where the first one stood
	first.Release()
	if s := l.Stats(); s.InFlight != 2 {
		t.Errorf("%+v; an old permit released another's", s)
	}
	other.Release()
	reused.Release()
}

func TestC8_APanicInDoReleasesAndGoesOn(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 1})
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v; want the panic unchanged", got)
			}
		}()
		l.Do(t.Context(), func(context.Context) error { panic("boom") })
	}()
	if s := l.Stats(); s.InFlight != 0 {
		t.Errorf("%+v; want nothing in flight", s)
	}
}

// Many limiters of one tree, each with a caller that waits for its own token: one timer, and none once all have gone.
func TestC9_AtMostOneTimerIsArmedAndNoneOnceTheLastCallerHasGone(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	parent := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1000), Burst: 1000, Clock: clock})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var lims []*throttle.Limiter
	for i := range 20 {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerMinute(int64(i + 1)), Burst: 1, Parent: parent})
		mustTry(t, l, 1, 1)
		lims = append(lims, l)
		all.Go(func() {
			if _, err := l.Acquire(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	fake.Until(t.Context(), func() bool {
		waiting := 0
		for _, l := range lims {
			waiting += l.Stats().Waiting
		}
		return waiting == len(lims)
	})
	if n := clock.Timers(); n != 1 {
		t.Errorf("%d timers are armed for 20 waiting callers; want 1", n)
	}
	clock.Advance(3 * time.Second) // the fastest of them starts, and the timer is for the next
	if n := clock.Timers(); n != 1 {
		t.Errorf("%d timers are armed after a start; want 1", n)
	}
	cancel()
	all.Wait()
	if n := clock.Timers(); n != 0 {
		t.Errorf("%d timers are armed for nobody", n)
	}
}
