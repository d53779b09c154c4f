package throttle

import (
	"errors"
	"fmt"
)

// The check methods assert the truths written above the types, and return the first that does not hold.

// check asserts the truths of a bucket that is not in debt.
func (b *bucket) check() error {
	switch {
	case b.burst == 0:
		return nil // no rate
	case gcd(b.n, b.p) != 1:
		return fmt.Errorf("rate %d/%d is not reduced", b.n, b.p)
	case b.limit != mul(uint64(b.burst), b.p):
		return fmt.Errorf("limit %v is not burst %d x %d", b.limit, b.burst, b.p)
	case b.limit.less(b.missing):
		return fmt.Errorf("missing %v is above the limit %v: the bucket is in debt", b.missing, b.limit)
	}
	return nil
}

// check asserts the truths of a call that nobody is about to wake.
func (c *call) check() error {
	switch {
	case c.state != callWaiting && (c.next != nil || c.prev != nil):
		return errors.New("a call that does not wait is in a line")
	case c.state == callFree && c.id != 0:
		return errors.New("a free call has a name")
	case len(c.ready) != 0:
		return errors.New("a signal was left in ready")
	}
	return nil
}

// check asserts that the line is whole: links, number, sum and order.
func (q *line) check() error {
	var prev *call
	var n int
	var tokens u128
	for c := q.front; c != nil; prev, c = c, c.next {
		switch {
		case c.prev != prev:
			return fmt.Errorf("call %d in line does not point back at the one before it", n)
		case c.state != callWaiting:
			return fmt.Errorf("call %d in line is in state %d", n, c.state)
		case prev != nil && (prev.seq >= c.seq || prev.at > c.at):
			return fmt.Errorf("call %d stands behind one that joined after it", n)
		}
		n++
		tokens = tokens.add(u128{lo: uint64(c.tokens)})
	}
	switch {
	case q.back != prev:
		return errors.New("back is not the last call")
	case q.n != n:
		return fmt.Errorf("n is %d, and %d stand in line", q.n, n)
	case q.tokens != tokens:
		return fmt.Errorf("tokens is %v, and the costs in line sum to %v", q.tokens, tokens)
	}
	return nil
}

// check asserts that the ring is whole, and that of all gates exactly those are in it that belong.
func (r *ring) check(all []*gate, belongs func(*gate) bool) error {
	in := map[*gate]bool{}
	var prev *gate
	for g := r.front; g != nil; prev, g = g, g.ringed[r.at].next {
		l := g.ringed[r.at]
		if l.prev != prev || !l.in || in[g] {
			return errors.New("the ring is torn")
		}
		in[g] = true
	}
	if r.back != prev {
		return errors.New("back is not the ring's last gate")
	}
	for i, g := range all {
		switch {
		case g.ringed[r.at].in != in[g]:
			return fmt.Errorf("gate %d says %v, and is in the ring: %v", i, g.ringed[r.at].in, in[g])
		case belongs(g) != in[g]:
			return fmt.Errorf("gate %d belongs into the ring: %v; and is in it: %v", i, belongs(g), in[g])
		}
	}
	return nil
}

// check asserts the truths of a cap. all are the gates that share it.
func (s *inflight) check(all []*gate) error {
	var held int64
	for _, g := range all {
		held += g.held
	}
	switch {
	case s.size < 0 || s.held < 0:
		return fmt.Errorf("size is %d and held is %d", s.size, s.held)
	case s.held != held:
		return fmt.Errorf("held is %d, and its gates hold %d", s.held, held)
	case s.spare < 0 || s.spare > maxSpare:
		return fmt.Errorf("spare is %d; want 0 to %d", s.spare, maxSpare)
	}
	if err := s.checkPermits(); err != nil {
		return err
	}
	if err := s.waiting.check(all, func(g *gate) bool { return g.tree.waiters > 0 }); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	// Whose front is due, and neither started nor asking above, lacks its permit.
	if err := s.fifo.check(all, func(g *gate) bool { return g.lacksPermit() }); err != nil {
		return fmt.Errorf("fifo: %w", err)
	}
	if g := s.fifo.front; g != nil && g.front().weight <= s.free() {
		return fmt.Errorf("the first in fifo wants %d and is left standing, with %d free", g.front().weight, s.free())
	}
	return nil
}

// checkPermits asserts, by taking them all, that the permits that a start can have are max(0, size - held).
func (s *inflight) checkPermits() error {
	rest := max(0, s.size-s.held) - s.spare
	if rest < 0 || !s.permits.TryAcquire(rest) {
		return fmt.Errorf("size is %d, held %d, spare %d, and fewer permits are there than the rest", s.size, s.held, s.spare)
	}
	defer s.permits.Release(rest)
	if s.permits.TryAcquire(1) {
		s.permits.Release(1)
		return fmt.Errorf("size is %d, held %d, spare %d, and more permits are there than the rest", s.size, s.held, s.spare)
	}
	return nil
}

// limitsDue returns when no limit of g but its cap is in the way of its front, be it long ago.
func (g *gate) limitsDue(front *call) int64 {
	due := g.paused
	if g.bucket.burst != 0 {
		due = max(due, g.bucket.due(front.tokens))
	}
	for i := range g.more {
		due = max(due, g.more[i].due(front.tokens))
	}
	return due
}

// lacksPermit reports whether somebody is judged in g, and neither a limit nor a line above is in the way.
func (g *gate) lacksPermit() bool {
	front := g.front()
	return front != nil && g.due == never && !g.asking() && g.limitsDue(front) != never
}

// check asserts the truths of a gate after a move at the instant now.
func (g *gate) check(now int64) error {
	if err := errors.Join(g.line.check(), g.bucket.check()); err != nil {
		return err
	}
	front, inFifo, asks := g.front(), g.ringed[inFIFO].in, g.asking()
	switch {
	case g.floor > now:
		return fmt.Errorf("floor is %d, and now is %d", g.floor, now)
	case g.bucket.last > now:
		return fmt.Errorf("the bucket was charged at %d, and now is %d", g.bucket.last, now)
	case g.cap == nil && (g.held != 0 || inFifo || g.ringed[inWaiting] != ringLink{}):
		return errors.New("a gate without a cap holds permits, or stands in line for them")
	case front == nil && (g.due != never || inFifo || asks):
		return fmt.Errorf("nobody is judged here, and due is %d, in fifo %v, asks %v", g.due, inFifo, asks)
	case front == nil:
		return nil
	}
	// Exactly one of the rows holds.
	rows := 0
	for _, holds := range []bool{g.due != never, inFifo, asks} {
		if holds {
			rows++
		}
	}
	due := g.limitsDue(front)
	switch {
	case rows == 0 && due != never || rows > 1:
		return fmt.Errorf("due is %d, in fifo %v, asks %v: want one of them", g.due, inFifo, asks)
	case (inFifo || asks) && g.nominal(front, now) > now:
		return fmt.Errorf("the front has its tokens at %d, after now, %d, and the gate is past that", g.nominal(front, now), now)
	case asks && g.tree.ready > now:
		return fmt.Errorf("the gate asks as of %d, after now, %d", g.tree.ready, now)
	case g.due != never && g.due != due:
		return fmt.Errorf("due is %d, and no limit is in the way from %d on", g.due, due)
	case g.due != never && g.due > now && g.nominal(front, now) != g.due:
		return fmt.Errorf("due is %d, and the front may be charged as of %d", g.due, g.nominal(front, now))
	}
	return nil
}
