package main

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

const (
	weighted  = "x/sync/semaphore"
	rateAlone = "x/time/rate"
	bulkheads = "failsafe-go bulkhead"
	plain     = "floor: a plain channel, closed"
)

// A hall makes houses of one kind.
type hall struct {
	name string
	make func() house
}

// fullHalls are caps of size permits, all held until the house opens: then one permit is passed on from each
// waiter to the next (size 1), or all start at once.
func fullHalls(size int64) []hall {
	ctx := context.Background()
	return []hall{
		{"Turnstile", func() house {
			l := limiter(throttle.Config{Rate: throttle.PerSecond(1e9), Burst: ample, MaxInFlight: size})
			var held throttle.Permit
			return house{pass: acquireAndRelease(l), shut: func() {
				var err error
				held, err = l.AcquireCost(ctx, throttle.Cost{Tokens: 1, Weight: size})
				must(err)
			}, open: func() { held.Release() }}
		}},
		{weighted, func() house {
			s := semaphore.NewWeighted(size)
			return house{pass: func(ctx context.Context) error {
				if err := s.Acquire(ctx, 1); err != nil {
					return err
				}
				s.Release(1)
				return nil
			}, shut: func() { must(s.Acquire(ctx, size)) }, open: func() { s.Release(size) }}
		}},
		{rateThenSemaphore, func() house {
			r, s := rate.NewLimiter(1e9, ample), semaphore.NewWeighted(size)
			return house{pass: func(ctx context.Context) error {
				if err := r.Wait(ctx); err != nil {
					return err
				}
				if err := s.Acquire(ctx, 1); err != nil {
					return err
				}
				s.Release(1)
				return nil
			}, shut: func() { must(s.Acquire(ctx, size)) }, open: func() { s.Release(size) }}
		}},
		{bulkheads, func() house {
			b := bulkhead.New[any](uint(size))
			return house{pass: func(ctx context.Context) error {
				if err := b.AcquirePermit(ctx); err != nil {
					return err
				}
				b.ReleasePermit()
				return nil
			}, shut: func() {
				for range size {
					must(b.AcquirePermit(ctx))
				}
			}, open: func() {
				for range size {
					b.ReleasePermit()
				}
			}}
		}},
	}
}

// spentHalls are rates of one token an hour, whose token is gone.
func spentHalls() []hall {
	return []hall{
		{"Turnstile", func() house {
			l := limiter(throttle.Config{Rate: throttle.PerHour(1), Burst: 1, MaxInFlight: 1})
			p, err := l.TryAcquire()
			must(err)
			p.Release()
			return house{pass: acquireAndRelease(l), shut: alreadyShut}
		}},
		{rateAlone, func() house {
			l := rate.NewLimiter(rate.Every(time.Hour), 1)
			mustBe(true, l.Allow())
			return house{pass: l.Wait, shut: alreadyShut}
		}},
		{"failsafe-go ratelimiter", func() house {
			// Its waits add up, and beyond 292 years they overflow: 100,000 hours do not.
			l := ratelimiter.NewSmooth[any](1, time.Hour)
			mustBe(true, l.TryAcquirePermit())
			return house{pass: l.AcquirePermit, shut: alreadyShut}
		}},
		{weighted, func() house { // full for ever
			s := semaphore.NewWeighted(1)
			must(s.Acquire(context.Background(), 1))
			return house{pass: func(ctx context.Context) error { return s.Acquire(ctx, 1) }, shut: alreadyShut}
		}},
		{plain, control},
	}
}

func alreadyShut() {}

// control waits on a plain channel, and, if they may leave, for the end of the context: what the
// runtime allocates for that is taken off the waiters' bytes and objects.
func control() house {
	opened := make(chan struct{})
	return house{pass: func(ctx context.Context) error {
		if ctx.Done() == nil {
			<-opened
			return nil
		}
		select {
		case <-opened:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, shut: alreadyShut, open: func() { close(opened) }}
}

func acquireAndRelease(l *throttle.Limiter) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		p.Release()
		return nil
	}
}
