package throttleredis

import (
	"context"
	"time"
)

// A Permit is the right to be in flight, until its Release or the end of its lease.
type Permit struct {
	l     *Limiter
	lease *lease
	ctx   context.Context
	held  interface{ Release() } // of the local share
}

// A lease is what Redis has given to this process. The limiter's lock guards it.
type lease struct {
	id     string
	fence  int64
	epoch  string    // of the state that it was last confirmed in
	until  time.Time // it is counted on until then, by this process's monotonic clock
	cancel context.CancelCauseFunc
	lost   bool
	over   bool // released
}

// permit makes the permit of a caller that has started.
func (l *Limiter) permit(ctx context.Context, h *lease) *Permit {
	p := &Permit{l: l, lease: h, ctx: ctx}
	if l.asked.limit == 0 {
		return p // nothing to lose
	}
	inner, cancel := context.WithCancelCause(ctx)
	p.ctx = inner
	l.mu.Lock()
	h.cancel = cancel
	lost := h.lost
	l.mu.Unlock()
	if lost {
		cancel(ErrLeaseLost)
	}
	return p
}

// Context returns the context to make the call with. It is also done when the lease is lost, with ErrLeaseLost as its cause, before
// Redis can have given the lease to another; and after Release.
func (p *Permit) Context() context.Context { return p.ctx }

// Fence returns a number that is higher than that of every permit granted before by the same limiter: a resource that remembers the highest it has
// seen can refuse a holder that was paused beyond its lease. It is 0 where Redis was not asked.
func (p *Permit) Fence() int64 {
	if p.lease == nil {
		return 0
	}
	return p.lease.fence
}

// Release gives the permit back, once; further releases do nothing. It returns at once: Redis is told in the background, with the next call of this
// process where there is one, and until the lease has ended anyway.
func (p *Permit) Release() {
	if p.held != nil {
		p.held.Release()
	}
	h := p.lease
	if h == nil {
		return
	}
	l := p.l
	l.mu.Lock()
	if h.over {
		l.mu.Unlock()
		return
	}
	h.over = true
	if _, ok := l.held[h.id]; ok {
		delete(l.held, h.id)
		l.depart(h.id)
		l.kick()
	}
	l.mu.Unlock()
	if h.cancel != nil {
		h.cancel(context.Canceled)
	}
}
