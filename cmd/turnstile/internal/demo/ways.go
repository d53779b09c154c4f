package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/turnstile-go/turnstile/throttle"
)

// A way is one way to hold a rate and a cap at once.
type way struct {
	name  string
	short string
	// build returns a gate for each rate; they share a cap of that size.
	build func(began time.Time, inFlight int64, quotas []throttle.Quota) ([]gate, error)
}

// A gate lets callers through. After pass has returned without an error, done must be called, once.
type gate interface {
	// pass waits until the caller may start. held is when it took its permit, started when both
	// limits had let it through, since began. On an error, held is when it took the permit that it
	// gave back, or -1.
	pass(ctx context.Context) (held, started int64, done func(), err error)
	// starts returns the instants of all starts, in order.
	starts() []int64
}

// ways are those compared, Turnstile last.
var ways = []way{
	{"rate.Wait, then sem.Acquire", "rate, then sem", byHand(true)},
	{"sem.Acquire, then rate.Wait", "sem, then rate", byHand(false)},
	{"Turnstile", "Turnstile", turnstile},
}

// byHand composes x/time/rate and x/sync/semaphore as people do.
func byHand(rateFirst bool) func(time.Time, int64, []throttle.Quota) ([]gate, error) {
	return func(began time.Time, inFlight int64, quotas []throttle.Quota) ([]gate, error) {
		sem := semaphore.NewWeighted(inFlight)
		var gates []gate
		for _, q := range quotas {
			every := rate.Limit(float64(q.Rate.N) / q.Rate.Period.Seconds())
			h := &handmade{began: began, rate: rate.NewLimiter(every, int(q.Burst)), sem: sem}
			if rateFirst {
				gates = append(gates, &rateThenSem{h})
			} else {
				gates = append(gates, &semThenRate{h})
			}
		}
		return gates, nil
	}
}

// handmade is what both compositions consist of.
type handmade struct {
	began time.Time
	rate  *rate.Limiter
	sem   *semaphore.Weighted
	mu    sync.Mutex
	list  []int64
}

func (h *handmade) now() int64 { return int64(time.Since(h.began)) }

func (h *handmade) done() { h.sem.Release(1) }

func (h *handmade) note(started int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, started)
}

func (h *handmade) starts() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.list))
}

type rateThenSem struct{ *handmade }

func (h *rateThenSem) pass(ctx context.Context) (held, started int64, done func(), err error) {
	if err := h.rate.Wait(ctx); err != nil {
		return -1, 0, nil, err
	}
	if err := h.sem.Acquire(ctx, 1); err != nil {
		return -1, 0, nil, err
	}
	started = h.now()
	h.note(started)
	return started, started, h.done, nil
}

type semThenRate struct{ *handmade }

func (h *semThenRate) pass(ctx context.Context) (held, started int64, done func(), err error) {
	if err := h.sem.Acquire(ctx, 1); err != nil {
		return -1, 0, nil, err
	}
	held = h.now()
	if err := h.rate.Wait(ctx); err != nil {
		h.sem.Release(1)
		return held, 0, nil, err
	}
	started = h.now()
	h.note(started)
	return held, started, h.done, nil
}

// turnstile builds one limiter for each rate, with a shared cap if there are several.
func turnstile(began time.Time, inFlight int64, quotas []throttle.Quota) ([]gate, error) {
	shared, err := throttle.NewSemaphore(inFlight)
	if err != nil {
		return nil, err
	}
	var gates []gate
	for _, q := range quotas {
		g := &turnstileGate{began: began}
		c := throttle.Config{
			Name: q.Name, Rate: q.Rate, Burst: q.Burst,
			Trace: &throttle.Trace{Started: g.onStarted},
		}
		if len(quotas) == 1 {
			c.MaxInFlight = inFlight
		} else {
			c.Semaphore = shared
		}
		if g.limiter, err = throttle.New(c); err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	return gates, nil
}

type turnstileGate struct {
	began   time.Time
	limiter *throttle.Limiter
	mu      sync.Mutex
	list    []int64
}

func (g *turnstileGate) onStarted(e throttle.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, int64(e.At.Sub(g.began)))
}

func (g *turnstileGate) starts() []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(slices.Values(g.list))
}

func (g *turnstileGate) pass(ctx context.Context) (held, started int64, done func(), err error) {
	permit, err := g.limiter.Acquire(ctx)
	if err != nil {
		return -1, 0, nil, err
	}
	now := int64(time.Since(g.began))
	return now, now, permit.Release, nil
}
