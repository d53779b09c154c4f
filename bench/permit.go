package main

import (
	"context"
	"runtime"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	juju "github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

const (
	rateThenSemaphore = "x/time/rate, then x/sync/semaphore"
	weightedAlone     = "x/sync/semaphore alone (no rate)"
)

// permitContests are acquire and release of a rate and a cap: with room for all, and 1,000 goroutines on 4 permits.
func permitContests() []contest {
	cancellable, cancel := context.WithCancel(context.Background())
	_ = cancel // never: it lives as long as the program
	return []contest{
		{what: "acquire + release, rate and cap, uncontended", method: "Acquire", name: "background", goroutines: 1,
			subjects: permitSubjects(context.Background(), 64, false), goals: map[string]float64{rateThenSemaphore: 0.48}},
		{what: "the same, with a context that can be cancelled", method: "Acquire", name: "cancellable", goroutines: 1,
			subjects: permitSubjects(cancellable, 64, false), goals: map[string]float64{rateThenSemaphore: 0.48}},
		{what: "1,000 goroutines on 4 permits", method: "Acquire", name: "1000-on-4", goroutines: 1000,
			subjects: permitSubjects(context.Background(), 4, true), goals: map[string]float64{weightedAlone: 1.05}},
	}
}

// permitSubjects acquire a token and one of size permits, and release it. If contended, the holder lets others
// run before it releases, so that nearly every acquire has to wait; without that a goroutine would come and go
// unopposed until its time slice ends.
func permitSubjects(ctx context.Context, size int64, contended bool) []subject {
	hold := func() {
		if contended {
			runtime.Gosched()
		}
	}
	subjects := []subject{
		{"Turnstile", func() func(int) {
			l := limiter(throttle.Config{Rate: throttle.PerSecond(trickle), Burst: ample, MaxInFlight: size})
			return func(n int) {
				for range n {
					p, err := l.Acquire(ctx)
					must(err)
					hold()
					p.Release()
				}
			}
		}},
		{rateThenSemaphore, func() func(int) {
			r, s := rate.NewLimiter(trickle, ample), semaphore.NewWeighted(size)
			return func(n int) {
				for range n {
					must(r.Wait(ctx))
					must(s.Acquire(ctx, 1))
					hold()
					s.Release(1)
				}
			}
		}},
		{"x/sync/semaphore, then x/time/rate", func() func(int) {
			r, s := rate.NewLimiter(trickle, ample), semaphore.NewWeighted(size)
			return func(n int) {
				for range n {
					must(s.Acquire(ctx, 1))
					must(r.Wait(ctx))
					hold()
					s.Release(1)
				}
			}
		}},
		{"go.uber.org/ratelimit, then x/sync/semaphore", func() func(int) {
			r, s := uber.New(1e9), semaphore.NewWeighted(size)
			return func(n int) {
				for range n {
					r.Take()
					must(s.Acquire(ctx, 1))
					hold()
					s.Release(1)
				}
			}
		}},
		{"juju/ratelimit, then x/sync/semaphore", func() func(int) {
			r, s := juju.NewBucketWithRate(trickle, ample), semaphore.NewWeighted(size)
			return func(n int) {
				for range n {
					r.Wait(1)
					must(s.Acquire(ctx, 1))
					hold()
					s.Release(1)
				}
			}
		}},
		{"failsafe-go ratelimiter, then bulkhead", func() func(int) {
			r, b := ratelimiter.NewBursty[any](ample, time.Hour), bulkhead.New[any](uint(size))
			return func(n int) {
				for range n {
					must(r.AcquirePermit(ctx))
					must(b.AcquirePermit(ctx))
					hold()
					b.ReleasePermit()
				}
			}
		}},
	}
	if !contended {
		return subjects
	}
	return append(subjects, subject{weightedAlone, func() func(int) {
		s := semaphore.NewWeighted(size)
		return func(n int) {
			for range n {
				must(s.Acquire(ctx, 1))
				hold()
				s.Release(1)
			}
		}
	}})
}
