package throttle

import (
	"slices"

	"golang.org/x/sync/semaphore"
)

// clone returns a twin in the same state, which shares nothing that is ever written to.
func (t *twin) clone() *twin {
	n := &twin{
		setup: t.setup, now: t.now, late: t.late, fx: t.fx,
		log: slices.Clone(t.log), seqs: slices.Clone(t.seqs), ops: slices.Clone(t.ops), upTo: slices.Clone(t.upTo),
	}
	for _, s := range t.caps {
		c := *s
		c.fx = &n.fx
		c.permits = semaphore.NewWeighted(MaxCap)
		c.permits.TryAcquire(MaxCap - (max(0, s.size-s.held) - s.spare))
		n.caps = append(n.caps, &c)
	}
	for range t.gates {
		n.gates = append(n.gates, new(gate))
	}
	for _, c := range t.callers {
		copied := *c
		copied.call = new(call)
		n.callers = append(n.callers, &copied)
	}
	to := func(g *gate) *gate { return at(n.gates, slices.Index(t.gates, g)) }
	twinOf := func(c *call) *call {
		if c == nil {
			return nil
		}
		return n.callers[c.id].call
	}
	for i, c := range t.callers {
		*n.callers[i].call = *c.call
		n.callers[i].call.next, n.callers[i].call.prev = twinOf(c.call.next), twinOf(c.call.prev)
	}
	for i, g := range t.gates {
		x := n.gates[i]
		*x = *g
		x.fx = &n.fx
		x.cap = at(n.caps, slices.Index(t.caps, g.cap))
		x.line.front, x.line.back = twinOf(g.line.front), twinOf(g.line.back)
		for r, link := range g.ringed {
			x.ringed[r] = ringLink{next: to(link.next), prev: to(link.prev), in: link.in}
		}
	}
	for i, s := range t.caps {
		for _, r := range []struct{ new, old *ring }{{&n.caps[i].fifo, &s.fifo}, {&n.caps[i].waiting, &s.waiting}} {
			r.new.front, r.new.back = to(r.old.front), to(r.old.back)
		}
	}
	n.model, n.slow = t.model.clone(t.slow)
	return n
}

// at returns the element at index i, or nil below 0.
func at[T any](of []*T, i int) *T {
	if i < 0 {
		return nil
	}
	return of[i]
}

// clone returns a model in the same state, and the clones of its caps.
func (m *model) clone(caps []*modelCap) (*model, []*modelCap) {
	n := &model{now: m.now, log: slices.Clone(m.log)}
	for _, l := range m.lines {
		x := *l
		x.queue = slices.Clone(l.queue)
		n.lines = append(n.lines, &x)
	}
	to := func(lines []*modelLine) (out []*modelLine) {
		for _, l := range lines {
			out = append(out, n.lines[slices.Index(m.lines, l)])
		}
		return out
	}
	var slow []*modelCap
	for _, c := range caps {
		x := *c
		x.lacking, x.waiting = to(c.lacking), to(c.waiting)
		slow = append(slow, &x)
	}
	for i, l := range m.lines {
		if l.cap != nil {
			n.lines[i].cap = slow[slices.Index(caps, l.cap)]
		}
	}
	return n, slow
}
