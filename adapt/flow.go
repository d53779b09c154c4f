package adapt

import (
	"context"
	"fmt"
	"math"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Flow is a flowcontrol.RateLimiter of Kubernetes client-go, without that being imported here: give it to rest.Config's RateLimiter. Several clients
// may share one, and each gets its turn in the order in which it came.
//
// All methods may be called from many goroutines. The zero Flow is unusable.
type Flow struct {
	lim *throttle.Limiter
	qps float32
}

// NewFlow returns a Flow of lim; rate is what QPS reports, commonly that of lim. It returns an error that is throttle.ErrCapped if permits of lim
// must be released, and one that is throttle.ErrInvalid if the rate is not one.
func NewFlow(lim *throttle.Limiter, rate throttle.Rate) (*Flow, error) {
	if err := uncapped("NewFlow", lim); err != nil {
		return nil, err
	}
	if rate.N < 1 || rate.Period < 1 {
		return nil, fmt.Errorf("adapt: NewFlow: the rate is %d per %v; want 1 or more per 1ns or more, as throttle.PerSecond(20): %w", rate.N, rate.Period, throttle.ErrInvalid)
	}
	qps := float64(rate.N) / rate.Period.Seconds()
	return &Flow{lim, float32(min(qps, math.MaxFloat32))}, nil
}

// Wait waits for its turn and a token. Its errors are those of throttle.Limiter.Acquire. It is what client-go's requests call.
func (f *Flow) Wait(ctx context.Context) error { return f.lim.Wait(ctx) }

// TryAccept reports whether a token was there, and nobody in line, and takes it.
func (f *Flow) TryAccept() bool {
	_, err := f.lim.TryAcquire()
	return err == nil
}

// Accept is Wait for callers that have no context. It has no way to say no, and panics where the limiter does: see Pacer.
func (f *Flow) Accept() { accept("Flow.Accept", f.lim) }

// QPS returns the rate that NewFlow was told, in starts a second.
func (f *Flow) QPS() float32 { return f.qps }

// Stop does nothing: there is nothing to stop, and the limiter is closed by whoever made it.
func (f *Flow) Stop() {}
