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
	direct    *gate // where its own callers stand in line, if it is a parent; else nil, and they stand in gate
	dom       *domain
	name      string
	maxQueue  int
	queueFull QueueFull
	maxWait   int64
	shared    bool                // the cap is a Semaphore
	tracked   bool                // permits must be released: here or above there is a cap, or costs are settled
	inTree    bool                // it has a parent or children
	dry       bool                // callers are let through, and shadows of them wait: see dryRun
	through   int64               // weight of the calls under way, here and below, that a dry run let through without a start
	lingering int64               // weight in flight, here and below, that is that of shadows
	lists     bool                // holders are listed here or above
	holders   map[uint64]*holding // by call, where Config.Holders is set; else nil
	bills     map[uint64]bill     // of the calls in flight, by id, where costs are settled; else nil
	sayings   map[uint64]saying   // what waiting callers by id were refused for, where that was a quota with a name
	trace     *Trace
	rate      Rate
	rateText  string        // the rate and burst, for errors
	queueText string        // MaxQueue, for errors
	emptied   chan struct{} // closed when nothing is in flight any more; nil if nobody drains

	calls  *call // free ones, to be used again
	nCalls int
}

// A Cost is what one call takes: tokens of the rate, and weight of the in-flight cap. A field is 1 or
// more where the limiter has that limit, and 0 or more, and ignored, where it has not.
type Cost struct {
	Tokens int64
	Weight int64
	// Quotas is what the call costs in the quotas of these names, here or above, where that is not Tokens: 0 or
	// more each. A call of 1 request and 1800 model tokens is Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"tokens": 1800}}.
	// The map is not to be changed until Acquire returns.
	Quotas map[string]int64
}

// Acquire waits for its turn, a token and a permit. It returns an error, and no permit, if ctx is
// done (a *LeftError), if the wait would exceed ctx's deadline, MaxWait or MaxQueue (a *NotYetError, at
// once), or if the limiter, or one above it, is closed (ErrClosed). Without a wait it allocates nothing.
//
// It fails if ctx is done already; if ctx ends at the moment of the start, whichever came first stands.
func (l *Limiter) Acquire(ctx context.Context) (Permit, error) {
	return l.acquire(ctx, 1, 1, nil)
}

// AcquireN is Acquire for a cost of n tokens and weight 1. A cost above the burst is told ErrTooLarge at once.
func (l *Limiter) AcquireN(ctx context.Context, n int64) (Permit, error) {
	return l.acquire(ctx, n, 1, nil)
}

// AcquireCost is Acquire for a cost of its own. Tokens above the burst, or a weight above the cap, are
// told ErrTooLarge at once.
func (l *Limiter) AcquireCost(ctx context.Context, c Cost) (Permit, error) {
	return l.acquire(ctx, c.Tokens, c.Weight, c.Quotas)
}

// TryAcquire is Acquire without waiting: if somebody waits already, or a token or permit lacks, it
// returns a *NotYetError that tells how long the wait would have been. A refusal allocates its error.
func (l *Limiter) TryAcquire() (Permit, error) { return l.try(1, 1, nil) }

// TryAcquireN is TryAcquire for a cost of n tokens and weight 1.
func (l *Limiter) TryAcquireN(n int64) (Permit, error) { return l.try(n, 1, nil) }

// TryAcquireCost is TryAcquire for a cost of its own.
func (l *Limiter) TryAcquireCost(c Cost) (Permit, error) { return l.try(c.Tokens, c.Weight, c.Quotas) }

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
	if l != nil && l.tracked {
		return fmt.Errorf("throttle: %q: Wait takes a token only and could not release a permit; use Do or Acquire: %w", l.name, ErrCapped)
	}
	_, err := l.acquire(ctx, 1, 1, nil)
	return err
}

// acquire starts the caller if it lacks nothing; else it refuses it or lets it wait.
func (l *Limiter) acquire(ctx context.Context, tokens, weight int64, named map[string]int64) (Permit, error) {
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
	if !l.fits(tokens, weight, named) {
		return l.refuseMisfit(l.behindAll(), tokens, weight, named, now)
	}
	allowed := int64(never)
	if done != nil {
		select {
		case <-done:
			return l.leaveAtOnce(ctx, l.behindAll(), tokens, weight, now)
		default:
		}
		if hasDeadline {
			allowed = int64(deadline.Sub(d.time(now)))
		}
	}
	g := l.entry()
	if d.nextDue() <= now {
		d.catchUp(now)
	}
	if allowed > 0 && g.begin(tokens, weight, named, now) {
		return l.admit(ctx, tokens, weight, named, now)
	}
	full, ahead := l.maxQueue > 0 && g.line.n >= l.maxQueue, &g.line
	if full && l.queueFull == DropOldest {
		rest := g.line.behindFront()
		ahead = &rest
	}
	wait, at, meter := g.reckon(ahead, tokens, named, now)
	switch {
	case full && l.queueFull == RefuseNewcomer:
		return l.refuseYet(l.behindAll(), LineFull, tokens, weight, l.queueText, wait, 0, now)
	case l.maxWait > 0 && wait > l.maxWait:
		return l.refuseYet(l.behindAll(), PastMaxWait, tokens, weight, l.limitThat(wait, at, meter, weight), wait, l.maxWait, now)
	case hasDeadline && wait >= allowed:
		return l.refuseYet(l.behindAll(), PastDeadline, tokens, weight, l.limitThat(wait, at, meter, weight), wait, allowed, now)
	}
	if full {
		l.makeRoom(g, now)
	}
	if l.dry {
		return l.follow(ctx, 0, Cost{tokens, weight, named}, g.line.n, wait, now)
	}
	return l.wait(ctx, tokens, weight, named, wait, now)
}

// try starts the caller if it lacks nothing, and else refuses it.
func (l *Limiter) try(tokens, weight int64, named map[string]int64) (Permit, error) {
	if l == nil || l.dom == nil {
		return Permit{}, errNotMade
	}
	d := l.dom
	d.mu.Lock()
	now := d.now()
	if !l.fits(tokens, weight, named) {
		return l.refuseMisfit(l.behindAll(), tokens, weight, named, now)
	}
	if d.nextDue() <= now {
		d.catchUp(now)
	}
	g := l.entry()
	if g.begin(tokens, weight, named, now) {
		return l.admit(nil, tokens, weight, named, now)
	}
	wait, at, meter := g.reckon(&g.line, tokens, named, now)
	return l.refuseYet(l.behindAll(), NotNow, tokens, weight, l.limitThat(wait, at, meter, weight), wait, 0, now)
}

// entry returns the gate in whose line the limiter's own callers stand.
func (l *Limiter) entry() *gate {
	if l.direct != nil {
		return l.direct
	}
	return &l.gate
}

// fits reports whether such a cost may ever start here.
func (l *Limiter) fits(tokens, weight int64, named map[string]int64) bool {
	if l.inTree || l.more != nil || named != nil || l.debt {
		_, err := l.misfit(tokens, weight, named)
		return err == nil
	}
	if l.isClosed || tokens < 0 || weight < 0 {
		return false
	}
	if l.bucket.burst != 0 && (tokens == 0 || tokens > l.bucket.burst) {
		return false
	}
	return l.cap == nil || weight > 0 && (weight <= l.cap.size || l.cap.size == 0)
}

// admit makes the permit of a caller that has just started without waiting, and lets go of the lock.
func (l *Limiter) admit(ctx context.Context, tokens, weight int64, named map[string]int64, now int64) (Permit, error) {
	d := l.dom
	if d.work != nil {
		d.run(now)
	}
	id := d.next()
	p := Permit{l: l, id: id}
	if l.tracked {
		p.c = l.newCall(tokens, weight)
		p.c.id, p.c.state, p.c.at = id, callStarted, now
		if l.bills != nil {
			l.entry().openBill(id, tokens, named, now, now)
		}
	}
	d.unlock(now)
	if l.lists {
		l.keep(ctx, p.c)
	}
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
