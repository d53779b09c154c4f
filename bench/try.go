package main

import (
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	juju "github.com/juju/ratelimit"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

// ample is a burst that no run uses up, at a rate that does not fill it up either: each try
// refills, takes, and is admitted.
const (
	ample   = 1 << 40
	trickle = 1e6 // tokens a second
)

// The floors, by their names in the table.
const (
	floor   = "floor: clock and CAS"
	oneWord = "one-word GCRA, no queue"
)

func limiter(c throttle.Config) *throttle.Limiter {
	l, err := throttle.New(c)
	must(err)
	return l
}

// tryContests are tries that are admitted, and denied, by 1 and by 8 goroutines.
func tryContests() []contest {
	admitted := []subject{
		{"Turnstile", func() func(int) {
			return tries(limiter(throttle.Config{Rate: throttle.PerSecond(trickle), Burst: ample}), true)
		}},
		{floor, clockAndCAS},
		{oneWord, func() func(int) { return gcraTries(1, ample) }},
		{"x/time/rate", func() func(int) { return rateTries(rate.NewLimiter(trickle, ample), true) }},
		{"juju/ratelimit", func() func(int) { return jujuTries(juju.NewBucketWithRate(trickle, ample), 1) }},
		{"failsafe-go ratelimiter", func() func(int) {
			return failsafeTries(ratelimiter.NewBursty[any](ample, time.Hour), true)
		}},
	}
	denied := []subject{
		{"Turnstile", func() func(int) {
			l := limiter(throttle.Config{Rate: throttle.PerHour(1), Burst: 1})
			_, err := l.TryAcquire()
			must(err)
			return tries(l, false)
		}},
		{floor, clockAndCAS},
		{"x/time/rate, yes or no", func() func(int) {
			l := rate.NewLimiter(rate.Every(time.Hour), 1)
			mustBe(true, l.Allow())
			return rateTries(l, false)
		}},
		{"x/time/rate, with the wait", func() func(int) {
			l := rate.NewLimiter(rate.Every(time.Hour), 1)
			mustBe(true, l.Allow())
			return rateAsks(l)
		}},
		{"juju/ratelimit", func() func(int) {
			b := juju.NewBucket(time.Hour, 1)
			mustBe(true, b.TakeAvailable(1) == 1)
			return jujuTries(b, 0)
		}},
		{"failsafe-go ratelimiter", func() func(int) {
			l := ratelimiter.NewBursty[any](1, time.Hour)
			mustBe(true, l.TryAcquirePermit())
			return failsafeTries(l, false)
		}},
	}
	return []contest{
		{what: "try admitted, 1 goroutine", method: "TryAcquire", name: "admitted, 1", goroutines: 1,
			subjects: admitted, goals: map[string]float64{floor: 1.25}},
		{what: "try denied, 1 goroutine", method: "TryAcquire", name: "denied, 1", goroutines: 1,
			subjects: denied, goals: map[string]float64{floor: 2}, objects: 1},
		{what: "try admitted, 8 goroutines", method: "TryAcquire", name: "admitted, 8", goroutines: 8,
			subjects: admitted, goals: map[string]float64{"x/time/rate": 0.45}},
		{what: "try denied, 8 goroutines", method: "TryAcquire", name: "denied, 8", goroutines: 8,
			subjects: denied, goals: map[string]float64{"x/time/rate, yes or no": 0.45}, objects: 1},
	}
}

func tries(l *throttle.Limiter, admitted bool) func(int) {
	return func(n int) {
		for range n {
			_, err := l.TryAcquire()
			mustBe(admitted, err == nil)
		}
	}
}

func rateTries(l *rate.Limiter, admitted bool) func(int) {
	return func(n int) {
		for range n {
			mustBe(admitted, l.Allow())
		}
	}
}

// rateAsks is what one does with x/time/rate to learn the wait, as Turnstile's refusal tells it.
func rateAsks(l *rate.Limiter) func(int) {
	return func(n int) {
		for range n {
			now := time.Now()
			r := l.ReserveN(now, 1)
			mustBe(true, r.DelayFrom(now) > 0)
			r.CancelAt(now)
		}
	}
}

func jujuTries(b *juju.Bucket, got int64) func(int) {
	return func(n int) {
		for range n {
			mustBe(true, b.TakeAvailable(1) == got)
		}
	}
}

func failsafeTries(l ratelimiter.RateLimiter[any], admitted bool) func(int) {
	return func(n int) {
		for range n {
			mustBe(admitted, l.TryAcquirePermit())
		}
	}
}

// padded keeps the word to a cache line of its own.
type padded struct {
	_    [64]byte
	word atomic.Int64
	_    [56]byte
}

// clockAndCAS is the least that a shared limiter does: it reads the clock and swaps one word.
func clockAndCAS() func(int) {
	epoch, p := time.Now(), new(padded)
	return func(n int) {
		for range n {
			for {
				old := p.word.Load()
				now := int64(time.Since(epoch))
				if p.word.CompareAndSwap(old, max(old+1, now)) {
					break
				}
			}
		}
	}
}

// gcraTries are tries of a rate limit in one word: the instant at which the bucket will be full again.
func gcraTries(interval, burst int64) func(int) {
	epoch, p := time.Now(), new(padded)
	return func(n int) {
		for range n {
			for {
				full := p.word.Load()
				now := int64(time.Since(epoch))
				next := max(full, now) + interval
				mustBe(true, next-now <= interval*burst)
				if p.word.CompareAndSwap(full, next) {
					break
				}
			}
		}
	}
}

// bucketContest is a token bucket's arithmetic alone, on instants 50 ns apart.
func bucketContest() contest {
	start := time.Now()
	return contest{what: "Bucket.Take, on a given instant", method: "BucketTake", name: "admitted", goroutines: 1, subjects: []subject{
		{"Turnstile", func() func(int) {
			b, err := throttle.NewBucket(throttle.Quota{Rate: throttle.PerSecond(trickle), Burst: ample})
			must(err)
			return func(n int) {
				now := start
				for range n {
					now = now.Add(50)
					mustBe(true, b.Take(now, 1).Allowed)
				}
			}
		}},
		{"x/time/rate AllowN", func() func(int) {
			l := rate.NewLimiter(trickle, ample)
			return func(n int) {
				now := start
				for range n {
					now = now.Add(50)
					mustBe(true, l.AllowN(now, 1))
				}
			}
		}},
	}}
}
