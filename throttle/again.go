package throttle

import "context"

// AcquireAgain is Acquire for a call that has failed and is to be made once more: it gives the permit p back, so that nothing is held
// while it waits, and has the caller stand in line where it would stand if it had never left: before all that came after it. It starts as
// any other does, with a token and a permit, and is charged anew: a retry is a start. MaxQueue does not count for it,
// but in a dry run, where nobody waits.
//
// It returns the permit of the new start, to be used in the place of p, which must be of l and not be released yet. If it returns an error, of
// those that Acquire has, p has been given back all the same. In a Trace the call keeps its ID.
func (l *Limiter) AcquireAgain(ctx context.Context, p Permit, c Cost) (Permit, error) {
	switch {
	case l == nil || l.dom == nil:
		p.Release()
		return Permit{}, errNotMade
	case ctx == nil:
		p.Release()
		return Permit{}, invalid(l.name, "AcquireAgain: the context is nil; want context.Background() or the caller's")
	case p.id == 0:
		return Permit{}, invalid(l.name, "AcquireAgain: the permit is the zero Permit; want one that this limiter gave")
	case p.c != nil && p.l != l:
		p.Release()
		return Permit{}, invalid(l.name, "AcquireAgain: the permit is one of %q; want one that this limiter gave", p.l.name)
	}
	d := l.dom
	d.mu.Lock()
	if p.c != nil && p.isThrough() { // its shadow may wait, or be in flight for longer yet: this call is another
		now := d.now()
		p.endThrough(now)
		d.unlock(now)
		return l.AcquireCost(ctx, c)
	}
	if p.c != nil && !p.open() {
		l.counts.doubles++
		d.mu.Unlock()
		return Permit{}, invalid(l.name, "AcquireAgain: the permit has been released; want one that has not")
	}
	now := d.now()
	d.catchUp(now)
	var released Event
	k := p.c
	if k != nil {
		released = Event{Seq: d.next(), ID: p.id, At: d.time(now), Weight: k.weight}
		l.giveBack(p.id, k.weight)
	}
	if l.trace != nil && k != nil {
		defer l.call(l.trace.Released, released) // events may arrive in another order than they happened in
	}

	g := l.entry()
	ahead := g.line.before(p.id)
	who := place{p.id, ahead.n}
	refused := func() {
		if k != nil {
			l.freeCall(k)
		}
		d.run(now)
	}
	if !l.fits(c.Tokens, c.Weight, c.Quotas) {
		refused()
		return l.refuseMisfit(who, c.Tokens, c.Weight, c.Quotas, now)
	}
	if ctx.Err() != nil {
		refused()
		return l.leaveAtOnce(ctx, who, c.Tokens, c.Weight, now)
	}
	if l.dry && l.maxQueue > 0 && g.line.n >= l.maxQueue { // nothing else would bound the line
		refused()
		return l.refuseYet(who, LineFull, c.Tokens, c.Weight, l.queueText, 0, 0, now)
	}
	wait, at, meter := g.reckon(&ahead, c.Tokens, c.Quotas, now)
	if l.maxWait > 0 && wait > l.maxWait {
		refused()
		return l.refuseYet(who, PastMaxWait, c.Tokens, c.Weight, l.limitThat(wait, at, meter, c.Weight), wait, l.maxWait, now)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if allowed := int64(deadline.Sub(d.time(now))); wait >= allowed {
			refused()
			return l.refuseYet(who, PastDeadline, c.Tokens, c.Weight, l.limitThat(wait, at, meter, c.Weight), wait, allowed, now)
		}
	}
	if l.dry {
		if k != nil {
			l.freeCall(k)
		}
		return l.follow(ctx, p.id, c, ahead.n, wait, now)
	}
	if k == nil {
		k = l.newCall(c.Tokens, c.Weight)
	}
	k.id, k.tokens, k.weight = p.id, c.Tokens, c.Weight
	l.bring(ctx, k, c.Quotas)
	g.rejoin(k, now)
	d.run(now)
	return l.stay(ctx, k, ahead.n, wait, now)
}

// AcquireAgain is Limiter.AcquireAgain for a call of key, which must be the key that p was given for.
func (k *Keyed[K]) AcquireAgain(ctx context.Context, key K, p Permit, c Cost) (again Permit, err error) {
	if e := k.with(key, func(r *resident) error {
		again, err = r.AcquireAgain(ctx, p, c)
		return nil
	}); e != nil {
		p.Release()
		return Permit{}, e
	}
	return again, err
}
