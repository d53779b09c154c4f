package throttle

import (
	"context"
	"time"
)

// An Admitter lets calls through under limits: a Limiter, a key of a Keyed (see Keyed.For), or a limiter whose limits several
// processes share. Adapters and pools take an Admitter, so that they work with any of them; to call one limiter, use its own methods.
//
// All methods may be called from many goroutines.
type Admitter interface {
	// Admit waits as Limiter.AcquireCost does, with the same kinds of error. On success it returns what is to be released once the call
	// has ended, and the context to make the call with: ctx itself, or one derived from it that is also done if the permit can no
	// longer be counted on, with the reason as its cause.
	Admit(ctx context.Context, c Cost) (context.Context, Held, error)
	// TryAdmit is Admit without waiting in line. Where limits are shared it may take a round trip, for which ctx counts.
	TryAdmit(ctx context.Context, c Cost) (context.Context, Held, error)
}

// A Held is a permit, of whatever Admitter. That of a Limiter or Keyed is a Permit, which can do more.
type Held interface {
	// Release gives the permit back, once; further releases do nothing but count.
	Release()
}

// A Readmitter is an Admitter that keeps the place of a call that failed and is to be made once more: all Admitters of this package are.
type Readmitter interface {
	Admitter
	// Readmit is Limiter.AcquireAgain: h, of this Admitter and not released, is given back in any case.
	Readmit(ctx context.Context, h Held, c Cost) (context.Context, Held, error)
}

// One is the Cost of a call of one token and weight 1, as Acquire takes it.
var One = Cost{Tokens: 1, Weight: 1}

// Admit is AcquireCost, as adapters call it; the context that it returns is ctx. Where there is something to release it allocates
// the Held, of 24 bytes.
func (l *Limiter) Admit(ctx context.Context, c Cost) (context.Context, Held, error) {
	p, err := l.AcquireCost(ctx, c)
	return held(ctx, p, err)
}

// TryAdmit is TryAcquireCost, as adapters call it. It fails, as Admit does, if ctx is done.
func (l *Limiter) TryAdmit(ctx context.Context, c Cost) (context.Context, Held, error) {
	if l != nil && ctx != nil && ctx.Err() != nil {
		p, err := l.AcquireCost(ctx, c) // answers at once
		return held(ctx, p, err)
	}
	p, err := l.TryAcquireCost(c)
	return held(ctx, p, err)
}

// Readmit is AcquireAgain, as adapters call it; the context that it returns is ctx.
func (l *Limiter) Readmit(ctx context.Context, h Held, c Cost) (context.Context, Held, error) {
	p, err := l.AcquireAgain(ctx, permitOf(h), c)
	return held(ctx, p, err)
}

// permitOf returns what an Admit of this package gave, or the zero Permit.
func permitOf(h Held) Permit {
	p, _ := h.(Permit)
	return p
}

func held(ctx context.Context, p Permit, err error) (context.Context, Held, error) {
	if err != nil {
		return nil, nil, err
	}
	return ctx, p, nil
}

// For returns the Admitter of a key: what adapters and pools that know one key take. It is a Readmitter too, and has the methods PauseFor,
// LowerTo and Stats of Limiter.
func (k *Keyed[K]) For(key K) Admitter { return keyOf[K]{k, key} }

type keyOf[K comparable] struct {
	keyed *Keyed[K]
	key   K
}

func (k keyOf[K]) Admit(ctx context.Context, c Cost) (context.Context, Held, error) {
	p, err := k.keyed.AcquireCost(ctx, k.key, c)
	return held(ctx, p, err)
}

func (k keyOf[K]) TryAdmit(ctx context.Context, c Cost) (context.Context, Held, error) {
	if ctx != nil && ctx.Err() != nil {
		return k.Admit(ctx, c)
	}
	p, err := k.keyed.TryAcquireCost(k.key, c)
	return held(ctx, p, err)
}

func (k keyOf[K]) Readmit(ctx context.Context, h Held, c Cost) (context.Context, Held, error) {
	p, err := k.keyed.AcquireAgain(ctx, k.key, permitOf(h), c)
	return held(ctx, p, err)
}

func (k keyOf[K]) PauseFor(d time.Duration) error { return k.keyed.PauseFor(k.key, d) }

func (k keyOf[K]) LowerTo(quota string, tokens int64) error {
	return k.keyed.LowerTo(k.key, quota, tokens)
}

func (k keyOf[K]) Stats() Stats {
	s, _ := k.keyed.Stats(k.key)
	return s.Stats
}
