package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	juju "github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

// A pacer waits for one start; burst 1, at the rate that it was made for.
type pacer struct {
	name string
	make func(perSecond int) (wait func(context.Context) error)
}

func pacers() []pacer {
	return []pacer{
		{"Turnstile", func(perSecond int) func(context.Context) error {
			return limiter(throttle.Config{Rate: throttle.PerSecond(int64(perSecond)), Burst: 1}).Wait
		}},
		{"x/time/rate", func(perSecond int) func(context.Context) error {
			return rate.NewLimiter(rate.Limit(perSecond), 1).Wait
		}},
		{"go.uber.org/ratelimit, no slack", func(perSecond int) func(context.Context) error {
			l := uber.New(perSecond, uber.WithoutSlack)
			return func(context.Context) error { l.Take(); return nil }
		}},
		{"juju/ratelimit", func(perSecond int) func(context.Context) error {
			b := juju.NewBucketWithRate(float64(perSecond), 1)
			return func(context.Context) error { b.Wait(1); return nil }
		}},
		{"failsafe-go ratelimiter, smooth", func(perSecond int) func(context.Context) error {
			return ratelimiter.NewSmooth[any](uint(perSecond), time.Second).AcquirePermit
		}},
	}
}

// A pace is what a pacer reached.
type pace struct {
	share  float64 // starts, less the burst of 1, over rate x elapsed, at the end
	excess float64 // the most starts there ever were above 1 + rate x elapsed; below 0 if there never were
}

// demand has callers wait for starts, over and over, for so long, and counts.
//
// A start counts once its caller is back from the wait, and the time is read after the count: what is counted at
// an instant has started by then. So a limiter that keeps its promise cannot be seen above it.
func demand(p pacer, perSecond, callers int, long time.Duration) pace {
	var starts atomic.Int64
	var over atomic.Bool
	ctx, cancel := context.WithCancel(context.Background())
	gate := make(chan struct{})
	var crowd sync.WaitGroup
	wait := p.make(perSecond)
	for range callers {
		crowd.Go(func() {
			<-gate
			for !over.Load() {
				if wait(ctx) != nil {
					return
				}
				starts.Add(1)
			}
		})
	}
	awaitParked(callers)
	opened := time.Now() // the bucket has been full since it was made, and cannot be more than that
	close(gate)
	result := pace{excess: -1}
	for last := false; !last; {
		time.Sleep(10 * time.Millisecond) // seldom: timers are later in a process that is idle
		n := float64(starts.Load())
		now := time.Now()
		result.excess = max(result.excess, n-1-float64(perSecond)*now.Sub(opened).Seconds())
		if last = now.Sub(opened) >= long; last {
			result.share = (n - 1) / (float64(perSecond) * now.Sub(opened).Seconds())
		}
	}
	over.Store(true)
	cancel()
	crowd.Wait()
	return result
}

// reach lets the pacers reach for a rate in turn, round after round.
func reach(perSecond, rounds int, long time.Duration) [][]pace {
	all := pacers()
	results := make([][]pace, len(all))
	for round := range rounds {
		for i := range all {
			i := (i + round) % len(all)
			results[i] = append(results[i], demand(all[i], perSecond, 1000, long))
		}
	}
	return results
}
