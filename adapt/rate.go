package adapt

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Rate has those methods of x/time/rate's Limiter that wait or try. Callers start in the order in which they came, and one that gives
// up has taken nothing. It has no Reserve, since nothing is taken before a start, and no AllowN, which takes an instant of the caller's.
//
// All methods may be called from many goroutines. The zero Rate is unusable; its methods say so.
type Rate struct{ lim *throttle.Limiter }

// NewRate returns a Rate of lim, or an error that is throttle.ErrCapped if permits of lim must be released.
func NewRate(lim *throttle.Limiter) (*Rate, error) {
	if err := uncapped("NewRate", lim); err != nil {
		return nil, err
	}
	return &Rate{lim}, nil
}

// Wait waits for its turn and a token. Its errors are those of throttle.Limiter.Acquire: a caller whose deadline comes too soon
// is told at once.
func (r *Rate) Wait(ctx context.Context) error { return r.limiter().Wait(ctx) }

// WaitN is Wait for n tokens. 0 tokens are there at once; fewer are an error.
func (r *Rate) WaitN(ctx context.Context, n int) error {
	if n == 0 && ctx != nil {
		return context.Cause(ctx)
	}
	_, err := r.limiter().AcquireN(ctx, int64(n))
	return err
}

// Allow reports whether a token was there, and nobody in line, and takes it.
func (r *Rate) Allow() bool {
	_, err := r.limiter().TryAcquire()
	return err == nil
}

func (r *Rate) limiter() *throttle.Limiter {
	if r == nil {
		return nil
	}
	return r.lim
}

// uncapped returns what is wrong with lim, for a shape in which nothing is ever released.
func uncapped(what string, lim *throttle.Limiter) error {
	if lim == nil {
		return fmt.Errorf("adapt: %s: the limiter is nil; want one made by throttle.New: %w", what, throttle.ErrInvalid)
	}
	// Without a context Wait is an error in any case, and takes nothing: of which kind, tells whether there is something to release.
	if err := lim.Wait(nil); errors.Is(err, throttle.ErrCapped) {
		return fmt.Errorf("adapt: %s: the limiter, or one above it, has an in-flight cap, or is Settled, and in this shape nobody releases; want a limiter of rates and quotas: %w",
			what, throttle.ErrCapped)
	}
	return nil
}
