package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/turnstile-go/turnstile/throttle"
)

// Every Admitter of the package: one token is there, and one permit.
func admitters(t *testing.T) map[string]throttle.Admitter {
	t.Helper()
	c := throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 2, MaxInFlight: 1}
	lim, err := throttle.New(c)
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := throttle.NewKeyed[string](c)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]throttle.Admitter{"Limiter": lim, "a key": keyed.For("k")}
}

func TestAdmittersHoldAndReleaseAPermit(t *testing.T) {
	for name, a := range admitters(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			held, p, err := a.Admit(ctx, throttle.One)
			if err != nil || held != ctx {
				t.Fatalf("Admit = %v, %v; want the caller's context and no error", held, err)
			}
			var notYet *throttle.NotYetError
			if _, p, err := a.TryAdmit(ctx, throttle.One); !errors.As(err, &notYet) || p != nil {
				t.Fatalf("TryAdmit while the permit is held = %v, %v; want a *NotYetError and nothing held", p, err)
			}
			p.Release()
			p.Release()
			if _, p, err = a.TryAdmit(ctx, throttle.One); err != nil {
				t.Fatalf("TryAdmit after the release: %v", err)
			}
			p.Release()
		})
	}
}

func TestAdmittersRefuseAContextThatIsDone(t *testing.T) {
	for name, a := range admitters(t) {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("no longer wanted")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			for _, admit := range []func(context.Context, throttle.Cost) (context.Context, throttle.Held, error){a.Admit, a.TryAdmit} {
				_, p, err := admit(ctx, throttle.One)
				var left *throttle.LeftError
				if !errors.As(err, &left) || !errors.Is(err, cause) || p != nil {
					t.Errorf("got %v, %v; want a *LeftError with the cause, and nothing held", p, err)
				}
			}
			if _, p, err := a.TryAdmit(t.Context(), throttle.One); err != nil {
				t.Errorf("a refusal took something: %v", err)
			} else {
				p.Release()
			}
		})
	}
}

func TestErrorsTellThePlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := throttle.New(throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lim.TryAcquire(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := lim.Acquire(ctx)
				errs <- err
			}()
			synctest.Wait()
		}
		var full *throttle.NotYetError
		if _, err := lim.Acquire(ctx); !errors.As(err, &full) || full.Ahead != 2 || full.Reason != throttle.LineFull {
			t.Errorf("a third caller got %#v; want Ahead 2, Reason LineFull", err)
		}
		if _, err := lim.TryAcquire(); !errors.As(err, &full) || full.Ahead != 2 || full.Reason != throttle.NotNow {
			t.Errorf("a try got %#v; want Ahead 2, Reason NotNow", err)
		}
		cancel()
		ahead := map[int]bool{}
		for range 2 {
			var left *throttle.LeftError
			if err := <-errs; errors.As(err, &left) {
				ahead[left.Ahead] = true
			}
		}
		if !ahead[0] || !ahead[1] {
			t.Errorf("those who left had %v ahead; want 0 and 1", ahead)
		}
	})
}
