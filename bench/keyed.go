package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

const (
	oneLevel     = "one level"
	mapOfLimiter = "sync.Map of x/time/rate"
)

// levelContest is acquire and release through three levels, each with a rate and a cap, beside one level.
func levelContest() contest {
	through := func(levels int) func() func(int) {
		return func() func(int) {
			var l *throttle.Limiter
			for range levels {
				l = limiter(throttle.Config{Rate: throttle.PerSecond(trickle), Burst: ample, MaxInFlight: 64, Parent: l})
			}
			ctx := context.Background()
			return func(n int) {
				for range n {
					p, err := l.Acquire(ctx)
					must(err)
					p.Release()
				}
			}
		}
	}
	return contest{what: "acquire + release through three levels, uncontended", method: "Acquire", name: "levels", goroutines: 1,
		subjects: []subject{{"Turnstile", through(3)}, {oneLevel, through(1)}}, goals: map[string]float64{oneLevel: 2.2}}
}

// keyedContest is a try on one of 10,000 known keys, which 8 goroutines go through in an order of their own.
func keyedContest() contest {
	const keys = 10_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("key-%012d", i)
	}
	// each goroutine begins elsewhere, and goes in steps that are prime to the number of keys
	var turn atomic.Uint64
	over := func(n int, try func(key string)) {
		at := turn.Add(1) * 7919
		for range n {
			at += 3331
			try(names[at%keys])
		}
	}
	return contest{what: "try on one of 10,000 known keys, 8 goroutines", method: "TryAcquire", name: "keyed", goroutines: 8,
		goals: map[string]float64{mapOfLimiter: 0.8},
		subjects: []subject{
			{"Turnstile", func() func(int) {
				k, err := throttle.NewKeyed[string](throttle.Config{Rate: throttle.PerHour(1), Burst: ample})
				must(err)
				try := func(key string) {
					_, err := k.TryAcquire(key)
					must(err)
				}
				for _, name := range names {
					try(name)
				}
				return func(n int) { over(n, try) }
			}},
			{mapOfLimiter, func() func(int) {
				var m sync.Map
				try := func(key string) {
					l, ok := m.Load(key)
					if !ok {
						l, _ = m.LoadOrStore(key, rate.NewLimiter(rate.Every(time.Hour), ample))
					}
					mustBe(true, l.(*rate.Limiter).Allow())
				}
				for _, name := range names {
					try(name)
				}
				return func(n int) { over(n, try) }
			}},
		}}
}
