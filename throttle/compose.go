package throttle

import (
	"context"
	"fmt"
	"time"
)

// A Limiter lets callers through at a rate and up to so many at a time. They form one line: the
// caller in front waits for its token, then for its permit, and both are taken at the instant at which it
// starts. While it waits it holds neither.
//
// Which method do I want?
//
//   - Do runs a function under the limits. Begin here.
//   - Acquire waits and returns a Permit, to be released when the call has ended.
//   - TryAcquire never waits: it is for those who shed load.
//   - Wait is for a limiter without a cap: there is nothing to release.
//
// AcquireN takes n tokens, and AcquireCost a weight of the cap besides. A try does not overtake
// those who wait, and nor does a small cost a large one.
//
// All methods may be called from many goroutines. None leaves a goroutine behind.
// A Limiter must be made by New, and not copied.
type Limiter struct {
	gate
	dom      *domain
	name     string
	maxQueue int
	maxWait  int64
	shared   bool // the cap is a Semaphore
	isClosed bool
	trace    *Trace
	rate     Rate
	rateText string        // the rate and burst, for errors
	emptied  chan struct{} // closed when nothing is in flight any more; nil if nobody drains

	calls  *call // free ones, to be used again
	nCalls int
}

// maxFree bounds the calls that a limiter keeps for reuse: about 48 KiB with their channels.
const maxFree = 256

// A Cost is what one call takes: tokens of the rate, and weight of the in-flight cap. A field is 1 or
// more where the limiter has that limit, and 0 or more, and ignored, where it has not.
type Cost struct {
	Tokens int64
	Weight int64
}

// A Permit is the right to be in flight, from a start to its Release. It is a small value: copies
// share one release. The zero Permit, as returned with an error, is released already.
type Permit struct {
	l  *Limiter
	c  *call // nil: nothing to release, for there is no cap
	id uint64
}

// Acquire waits for its turn, a token and a permit. It returns an error, and no permit, if ctx is
// done (a *LeftError), if the wait would exceed ctx's deadline, MaxWait or MaxQueue (a *NotYetError, at
// once), or if the limiter is closed (ErrClosed). Without a wait it allocates nothing.
//
// It fails if ctx is done already; if ctx ends at the moment of the start, whichever came first stands.
func (l *Limiter) Acquire(ctx context.Context) (Permit, error) {
	return l.acquire(ctx, 1, 1)
}

// AcquireN is Acquire for a cost of n tokens and weight 1. A cost above the burst is told ErrTooLarge at once.
func (l *Limiter) AcquireN(ctx context.Context, n int64) (Permit, error) {
	return l.acquire(ctx, n, 1)
}

// AcquireCost is Acquire for a cost of its own. Tokens above the burst, or a weight above the cap, are
// told ErrTooLarge at once.
func (l *Limiter) AcquireCost(ctx context.Context, c Cost) (Permit, error) {
	return l.acquire(ctx, c.Tokens, c.Weight)
}

// TryAcquire is Acquire without waiting: if somebody waits already, or a token or permit lacks, it
// returns a *NotYetError that tells how long the wait would have been. A refusal allocates its error.
func (l *Limiter) TryAcquire() (Permit, error) { return l.try(1, 1) }

// TryAcquireN is TryAcquire for a cost of n tokens and weight 1.
func (l *Limiter) TryAcquireN(n int64) (Permit, error) { return l.try(n, 1) }

// TryAcquireCost is TryAcquire for a cost of its own.
func (l *Limiter) TryAcquireCost(c Cost) (Permit, error) { return l.try(c.Tokens, c.Weight) }

// Do acquires, calls f and releases, also if f panics or exits its goroutine. It returns the error of
// Acquire, and then has not called f, or else that of f.
func (l *Limiter) Do(ctx context.Context, f func(context.Context) error) error {
	p, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	defer p.Release()
	return f(ctx)
}

// Wait waits for a token, as Acquire does. Where the limiter has a cap it returns ErrCapped at once: a
// permit taken so could not be released.
func (l *Limiter) Wait(ctx context.Context) error {
	if l != nil && l.cap != nil {
		return fmt.Errorf("throttle: %q: Wait takes a token only and could not release a permit; use Do or Acquire: %w", l.name, ErrCapped)
	}
	_, err := l.acquire(ctx, 1, 1)
	return err
}

// acquire starts the caller if it lacks nothing; else it refuses it or lets it wait.
func (l *Limiter) acquire(ctx context.Context, tokens, weight int64) (Permit, error) {
	if ctx == nil {
		return Permit{}, fmt.Errorf("throttle: Acquire: the context is nil; want context.Background() or the caller's: %w", ErrInvalid)
	}
	if l == nil || l.dom == nil {
		return Permit{}, errNotMade
	}
	var deadline time.Time
	hasDeadline := false
	done := ctx.Done()
	if done != nil {
		deadline, hasDeadline = ctx.Deadline()
	}
	d := l.dom
	d.mu.Lock()
	now := d.now()
	if !l.fits(tokens, weight) {
		return l.refuseMisfit(tokens, weight, now)
	}
	allowed := int64(never)
	if done != nil {
		select {
		case <-done:
			return l.leaveAtOnce(ctx, tokens, weight, now)
		default:
		}
		if hasDeadline {
			allowed = int64(deadline.Sub(d.time(now)))
		}
	}
	if l.due <= now {
		l.settle(now)
	}
	if allowed > 0 && l.begin(tokens, weight, now) {
		return l.admit(tokens, weight, now)
	}
	wait := l.reckon(tokens, now)
	switch {
	case l.maxQueue > 0 && l.line.n >= l.maxQueue:
		return l.refuseYet(queueFull, tokens, weight, wait, 0, now)
	case l.maxWait > 0 && wait > l.maxWait:
		return l.refuseYet(pastMaxWait, tokens, weight, wait, l.maxWait, now)
	case hasDeadline && wait >= allowed:
		return l.refuseYet(pastDeadline, tokens, weight, wait, allowed, now)
	}
	return l.wait(ctx, tokens, weight, wait, now)
}

// try starts the caller if it lacks nothing, and else refuses it.
func (l *Limiter) try(tokens, weight int64) (Permit, error) {
	if l == nil || l.dom == nil {
		return Permit{}, errNotMade
	}
	d := l.dom
	d.mu.Lock()
	now := d.now()
	if !l.fits(tokens, weight) {
		return l.refuseMisfit(tokens, weight, now)
	}
	if l.due <= now {
		l.settle(now)
	}
	if l.begin(tokens, weight, now) {
		return l.admit(tokens, weight, now)
	}
	return l.refuseYet(notNow, tokens, weight, l.reckon(tokens, now), 0, now)
}

// fits reports whether such a cost may ever start here.
func (l *Limiter) fits(tokens, weight int64) bool {
	if l.isClosed || tokens < 0 || weight < 0 {
		return false
	}
	if l.bucket.burst != 0 && (tokens == 0 || tokens > l.bucket.burst) {
		return false
	}
	return l.cap == nil || weight > 0 && (weight <= l.cap.size || l.cap.size == 0)
}

// admit makes the permit of a caller that has just started without waiting, and lets go of the lock.
func (l *Limiter) admit(tokens, weight, now int64) (Permit, error) {
	d := l.dom
	id := d.next()
	p := Permit{l: l, id: id}
	if l.cap != nil {
		p.c = l.newCall(tokens, weight)
		p.c.id, p.c.state = id, callStarted
	}
	d.unlock(now)
	if l.trace != nil {
		l.announce(p, Event{Seq: id, ID: id, At: d.time(now), Nominal: d.time(now), Tokens: tokens, Weight: weight})
	}
	return p, nil
}

// announce traces a start. Should the trace panic, the permit is not lost.
func (l *Limiter) announce(p Permit, e Event) {
	told := false
	defer func() {
		if !told {
			p.Release()
		}
	}()
	l.call(l.trace.Started, e)
	told = true
}

// Release gives the permit back, once; every further release of it, by any copy, does nothing but count in
// Stats.DoubleReleases. It may start callers that wait. It allocates nothing and never blocks for long.
func (p Permit) Release() {
	if p.c == nil {
		return
	}
	l := p.l
	d := l.dom
	d.mu.Lock()
	if p.c.id != p.id {
		l.counts.doubles++
		d.mu.Unlock()
		return
	}
	weight := p.c.weight
	l.freeCall(p.c)
	seq := d.next()
	var now int64
	if l.cap.waiting.front != nil || l.trace != nil {
		now = d.now()
	}
	l.held -= weight
	if l.held == 0 && l.emptied != nil {
		close(l.emptied)
		l.emptied = nil
	}
	l.cap.release(weight, now)
	d.unlock(now)
	if l.trace != nil {
		l.call(l.trace.Released, Event{Seq: seq, ID: p.id, At: d.time(now), Weight: weight})
	}
}

// newCall returns a free call.
func (l *Limiter) newCall(tokens, weight int64) *call {
	c := l.calls
	if c == nil {
		c = new(call)
	} else {
		l.calls, c.next = c.next, nil
		l.nCalls--
	}
	c.tokens, c.weight = tokens, weight
	return c
}

// freeCall takes c back, for reuse up to maxFree.
func (l *Limiter) freeCall(c *call) {
	c.id, c.state = 0, callFree
	if c.done != nil {
		c.done = nil
	}
	if l.nCalls < maxFree {
		c.next, l.calls = l.calls, c
		l.nCalls++
	}
}

// Close turns everybody away: those who wait and those who come later are told ErrClosed. What is in
// flight goes on, and its permits are released as ever. Close returns at once, and may be called again.
func (l *Limiter) Close() {
	if l == nil || l.dom == nil {
		return
	}
	l.dom.mu.Lock()
	now := l.dom.now()
	if !l.isClosed {
		l.isClosed = true
		l.settle(now)
		l.turnAway(byClose, func(*call) bool { return true }, now)
		l.settle(now)
	}
	l.dom.unlock(now)
}

// Drain waits until nothing is in flight through this limiter, or ctx is done. Without Close before it, callers go
// on starting. Where there is no cap, what is in flight is not counted, and Drain returns ErrUncapped.
func (l *Limiter) Drain(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("throttle: Drain: the context is nil; want context.Background() or the caller's: %w", ErrInvalid)
	}
	if l == nil || l.dom == nil {
		return errNotMade
	}
	if l.cap == nil {
		return fmt.Errorf("throttle: %q: Drain: what is in flight is not counted: %w", l.name, ErrUncapped)
	}
	l.dom.mu.Lock()
	if l.held == 0 {
		l.dom.mu.Unlock()
		return nil
	}
	if l.emptied == nil {
		l.emptied = make(chan struct{})
	}
	emptied, start := l.emptied, l.dom.now()
	l.dom.mu.Unlock()
	select {
	case <-emptied:
		return nil
	case <-ctx.Done():
	}
	l.dom.mu.Lock()
	held, now := l.held, l.dom.now()
	l.dom.mu.Unlock()
	return fmt.Errorf("throttle: %q: Drain: weight %d still in flight after %v: %w", l.name, held, time.Duration(now-start), context.Cause(ctx))
}
