package migrate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/ratelimit"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/adapt"
	"github.com/turnstile-go/turnstile/pool"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// took runs f in virtual time and returns how long it took, or ends the test with its error.
func took(t *testing.T, f func() error) (d time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := f(); err != nil {
			t.Error(err)
		}
		d = time.Since(begin)
	})
	return d
}

func work(context.Context) error { time.Sleep(time.Second); return nil }

func TestXTimeRate(t *testing.T) {
	ctx := context.Background()
	before := func() error {
		lim := rate.NewLimiter(10, 5)
		for range 7 {
			if err := lim.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	after := func() error {
		lim, err := throttle.New(throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 5})
		if err != nil {
			return err
		}
		for range 7 {
			if err := lim.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if a, b := took(t, before), took(t, after); a != b || a != 200*time.Millisecond {
		t.Errorf("before %v, after %v; want 200ms", a, b)
	}
}

func TestUberRatelimit(t *testing.T) {
	before := func() error {
		limiter := ratelimit.New(10, ratelimit.WithoutSlack)
		for range 3 {
			limiter.Take()
		}
		return nil
	}
	after := func() error {
		lim, err := throttle.New(throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1})
		if err != nil {
			return err
		}
		limiter, err := adapt.NewPacer(lim)
		if err != nil {
			return err
		}
		for range 3 {
			limiter.Take()
		}
		return nil
	}
	if a, b := took(t, before), took(t, after); a != b || a != 200*time.Millisecond {
		t.Errorf("before %v, after %v; want 200ms", a, b)
	}
}

func TestSemaphore(t *testing.T) {
	ctx := context.Background()
	before := func() error {
		sem := semaphore.NewWeighted(3)
		if err := sem.Acquire(ctx, 2); err != nil {
			return err
		}
		defer sem.Release(2)
		return work(ctx)
	}
	after := func() error {
		lim, err := throttle.New(throttle.Config{Name: "db", MaxInFlight: 3})
		if err != nil {
			return err
		}
		permit, err := lim.AcquireCost(ctx, throttle.Cost{Tokens: 1, Weight: 2})
		if err != nil {
			return err
		}
		defer permit.Release()
		return work(ctx)
	}
	if a, b := took(t, before), took(t, after); a != b || a != time.Second {
		t.Errorf("before %v, after %v; want 1s", a, b)
	}
}

func TestErrgroup(t *testing.T) {
	before := func() error {
		g, ctx := errgroup.WithContext(context.Background())
		g.SetLimit(2)
		for range 5 {
			g.Go(func() error { return work(ctx) })
		}
		return g.Wait()
	}
	after := func() error {
		lim, err := throttle.New(throttle.Config{Name: "work", MaxInFlight: 2})
		if err != nil {
			return err
		}
		g, ctx := pool.WithContext(context.Background(), lim)
		for range 5 {
			g.Go(ctx, work)
		}
		return g.Wait()
	}
	if a, b := took(t, before), took(t, after); a != b || a != 3*time.Second {
		t.Errorf("before %v, after %v; want 3s", a, b)
	}
}
