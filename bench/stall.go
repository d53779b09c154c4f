package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	juju "github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

// The limits of the stall, of those who give up, and of the shared cap.
const (
	stallRate  = 100 // a second
	stallBurst = 10
	stallCap   = 20
)

// A guard waits for a token and a permit and calls f while it holds the permit.
type guard func(ctx context.Context, f func()) error

// A composition makes guards of a rate, a burst and a cap. Those that share a cap share its making.
type composition struct {
	name string
	make func(size int64) (at func(perSecond, burst int) guard)
}

func compositions() []composition {
	return []composition{
		{"Turnstile", func(size int64) func(int, int) guard {
			s, err := throttle.NewSemaphore(size)
			must(err)
			return func(perSecond, burst int) guard {
				l := limiter(throttle.Config{Rate: throttle.PerSecond(int64(perSecond)), Burst: int64(burst), Semaphore: s})
				return func(ctx context.Context, f func()) error {
					return l.Do(ctx, func(context.Context) error { f(); return nil })
				}
			}
		}},
		{rateThenSemaphore, weightedAfter(func(perSecond, burst int) func(context.Context) error {
			return rate.NewLimiter(rate.Limit(perSecond), burst).Wait
		})},
		{"x/sync/semaphore, then x/time/rate", func(size int64) func(int, int) guard {
			s := semaphore.NewWeighted(size)
			return func(perSecond, burst int) guard {
				l := rate.NewLimiter(rate.Limit(perSecond), burst)
				return func(ctx context.Context, f func()) error {
					if err := s.Acquire(ctx, 1); err != nil {
						return err
					}
					defer s.Release(1)
					if err := l.Wait(ctx); err != nil {
						return err
					}
					f()
					return nil
				}
			}
		}},
		{"go.uber.org/ratelimit, then x/sync/semaphore", weightedAfter(func(perSecond, burst int) func(context.Context) error {
			l := uber.New(perSecond, uber.WithSlack(burst-1))
			return func(context.Context) error { l.Take(); return nil }
		})},
		{"juju/ratelimit, then x/sync/semaphore", weightedAfter(func(perSecond, burst int) func(context.Context) error {
			b := juju.NewBucketWithRate(float64(perSecond), int64(burst))
			return func(context.Context) error { b.Wait(1); return nil }
		})},
		{"failsafe-go ratelimiter, then bulkhead", func(size int64) func(int, int) guard {
			b := bulkhead.New[any](uint(size))
			return func(perSecond, _ int) guard {
				l := ratelimiter.NewSmooth[any](uint(perSecond), time.Second)
				return func(ctx context.Context, f func()) error {
					if err := l.AcquirePermit(ctx); err != nil {
						return err
					}
					if err := b.AcquirePermit(ctx); err != nil {
						return err
					}
					defer b.ReleasePermit()
					f()
					return nil
				}
			}
		}},
	}
}

// weightedAfter composes a wait for a token with a semaphore after it.
func weightedAfter(token func(perSecond, burst int) func(context.Context) error) func(int64) func(int, int) guard {
	return func(size int64) func(int, int) guard {
		s := semaphore.NewWeighted(size)
		return func(perSecond, burst int) guard {
			wait := token(perSecond, burst)
			return func(ctx context.Context, f func()) error {
				if err := wait(ctx); err != nil {
					return err
				}
				if err := s.Acquire(ctx, 1); err != nil {
					return err
				}
				defer s.Release(1)
				f()
				return nil
			}
		}
	}
}

// A Virtual is how a composition fared in the cases that are run on virtual time.
type Virtual struct {
	Name string
	// After a stall of 5 s: the most starts in any window of the length, over burst + rate x length.
	InSecond, InTenth float64
	// Of callers that give up after 1 s, 300/s at a rate of 100/s: starts, over those that there could be.
	GiveUp float64
	// Of a limiter of 500/s that shares its cap with one of 5/s: starts, over its rate.
	Fast float64
}

// onVirtualTime runs the cases with c, each in a bubble of its own.
func onVirtualTime(t *testing.T, c composition) Virtual {
	v := Virtual{Name: c.name}
	synctest.Test(t, func(t *testing.T) {
		at := stalled(c.make(stallCap)(stallRate, stallBurst))
		v.InSecond = mostWithin(at, time.Second) / (stallBurst + stallRate)
		v.InTenth = mostWithin(at, time.Second/10) / (stallBurst + stallRate/10)
	})
	synctest.Test(t, func(t *testing.T) { v.GiveUp = givenUp(c.make(stallCap)(stallRate, stallBurst)) })
	synctest.Test(t, func(t *testing.T) { v.Fast = fastShare(c.make(stallCap)) })
	return v
}

// stalled makes 90 calls a second for 60 s, of 50 ms each, to a downstream that is frozen from 10 s to 15 s, and
// returns the instants at which they started.
func stalled(g guard) []time.Time {
	const service, from, to = 50 * time.Millisecond, 10 * time.Second, 15 * time.Second
	begun := time.Now()
	var mu sync.Mutex
	var starts []time.Time
	var calls sync.WaitGroup
	for i := range 90 * 60 {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / 90)))
		calls.Go(func() {
			must(g(context.Background(), func() {
				now := time.Now()
				mu.Lock()
				starts = append(starts, now)
				mu.Unlock()
				at, ends := now.Sub(begun), now.Sub(begun)+service
				switch {
				case at >= from && at < to:
					ends = to + service
				case at < from && ends > from:
					ends += to - from
				}
				time.Sleep(ends - at)
			}))
		})
	}
	calls.Wait()
	return starts
}

// mostWithin returns the largest number of instants in any window of that length, both ends included.
func mostWithin(at []time.Time, long time.Duration) float64 {
	slices.SortFunc(at, time.Time.Compare)
	most, first := 0, 0
	for last := range at {
		for at[last].Sub(at[first]) > long {
			first++
		}
		most = max(most, last-first+1)
	}
	return float64(most)
}

// givenUp makes 300 calls a second for 30 s, each by a caller that cancels after 1 s of waiting, and returns the share of
// the starts that the rate and burst allow. A rival that cannot be cancelled starts its callers all the same;
// what it starts after they gave up is of no use to them and not counted.
func givenUp(g guard) float64 {
	begun := time.Now()
	var mu sync.Mutex
	useful := 0
	var calls sync.WaitGroup
	for i := range 300 * 30 {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / 300)))
		calls.Go(func() {
			came := time.Now()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			patience := time.AfterFunc(time.Second, cancel)
			_ = g(ctx, func() { // an error says that the caller gave up
				patience.Stop()
				if time.Since(came) <= time.Second && time.Since(begun) <= 30*time.Second {
					mu.Lock()
					useful++
					mu.Unlock()
					time.Sleep(50 * time.Millisecond)
				}
			})
		})
	}
	calls.Wait()
	return float64(useful) / (stallRate*30 + stallBurst)
}

// fastShare lets 40 callers each of a 5/s and a 500/s limiter share a cap for 10 s, 20 ms a call, and returns
// the share of its rate that the fast one reached.
func fastShare(at func(perSecond, burst int) guard) float64 {
	const perSecond, burst = 500, 5
	begun := time.Now()
	ends := begun.Add(10 * time.Second)
	ctx := context.Background()
	var mu sync.Mutex
	started := 0
	var loops sync.WaitGroup
	slow, fast := at(5, burst), at(perSecond, burst)
	loop := func(g guard, count int) {
		for range 40 {
			loops.Go(func() {
				for time.Now().Before(ends) {
					must(g(ctx, func() {
						if !time.Now().After(ends) {
							mu.Lock()
							started += count
							mu.Unlock()
						}
						time.Sleep(20 * time.Millisecond)
					}))
				}
			})
		}
	}
	loop(slow, 0)
	loop(fast, 1)
	loops.Wait()
	return float64(started) / (perSecond*10 + burst)
}
