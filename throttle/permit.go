package throttle

// maxFree bounds the calls that a limiter keeps for reuse: about 48 KiB with their channels.
const maxFree = 256

// A Permit is the right to be in flight, from a start to its Release. It is a small value: copies
// share one release. The zero Permit, as returned with an error, is released already.
type Permit struct {
	l  *Limiter
	c  *call // nil: nothing to release, for there is no cap
	id uint64
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
	if !p.open() {
		if p.isThrough() {
			now := d.now()
			p.endThrough(now)
			d.unlock(now)
			return
		}
		l.counts.doubles++
		d.mu.Unlock()
		return
	}
	weight := p.c.weight
	l.freeCall(p.c)
	seq := d.next()
	var now int64
	if l.trace != nil || l.awaited() {
		now = d.now()
		d.catchUp(now)
	}
	l.giveBack(p.id, weight)
	d.run(now)
	d.unlock(now)
	if l.trace != nil {
		l.call(l.trace.Released, Event{Seq: seq, ID: p.id, At: d.time(now), Weight: weight})
	}
}

// open reports whether p is not released, nor in line again. The caller holds the lock.
func (p Permit) open() bool { return p.c.id == p.id && p.c.state == callStarted }

// giveBack ends the flight of the call named id; run is to follow. Who has come due before has been judged.
func (l *Limiter) giveBack(id uint64, weight int64) {
	if l.bills != nil {
		l.closeBill(id)
	}
	for x := &l.gate; x != nil; x = x.tree.parent {
		if x.cap == nil {
			continue
		}
		x.held -= weight
		x.owner.tellIfDrained()
		x.cap.release(weight)
	}
}

// ID names the call that p was given to, as the events of a Trace do. It is 0 for the zero Permit, and where nothing is to
// be released.
func (p Permit) ID() uint64 {
	if p.c == nil {
		return 0
	}
	return p.id
}

// awaited reports whether somebody is in line who might wait for a permit of this limiter's.
func (l *Limiter) awaited() bool {
	for x := &l.gate; x != nil; x = x.tree.parent {
		if x.cap != nil && x.cap.waiting.front != nil {
			return true
		}
	}
	return false
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
	if l.lists && c.state != callThrough {
		l.unkeep(c)
	}
	c.id, c.state = 0, callFree
	if c.done != nil {
		c.done = nil
	}
	if l.nCalls < maxFree {
		c.next, l.calls = l.calls, c
		l.nCalls++
	}
}
