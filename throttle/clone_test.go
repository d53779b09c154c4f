package throttle

import (
	"slices"

	"golang.org/x/sync/semaphore"
)

// clone returns a twin in the same state, which shares nothing that is ever written to.
func (t *twin) clone() *twin {
	n := &twin{
		setup: t.setup, now: t.now, late: t.late, behind: t.behind, fx: t.fx,
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
	twinOf := func(c *call) *call {
		if c == nil {
			return nil
		}
		return n.callers[t.who(c)].call
	}
	for i, c := range t.callers {
		*n.callers[i].call = *c.call
		n.callers[i].call.next, n.callers[i].call.prev = twinOf(c.call.next), twinOf(c.call.prev)
	}
	to := func(g *gate) *gate {
		if g == nil {
			return nil
		}
		return n.gates[slices.Index(t.gates, g)]
	}
	all := func(gates []*gate) (out []*gate) {
		for _, g := range gates {
			out = append(out, to(g))
		}
		return out
	}
	for i, g := range t.gates {
		x := n.gates[i]
		*x = *g
		x.fx = &n.fx
		x.cap = at(n.caps, slices.Index(t.caps, g.cap))
		x.line.front, x.line.back = twinOf(g.line.front), twinOf(g.line.back)
		x.more = slices.Clone(g.more)
		for j := range x.more {
			x.more[j].account = cloneAccount(g.more[j].account)
		}
		for r, link := range g.ringed {
			x.ringed[r] = ringLink{next: to(link.next), prev: to(link.prev), in: link.in}
		}
		x.tree.parent = to(g.tree.parent)
		x.tree.turns.gates = all(g.tree.turns.gates)
		x.tree.busy.front, x.tree.busy.back = to(g.tree.busy.front), to(g.tree.busy.back)
	}
	for i, s := range t.caps {
		c := n.caps[i]
		c.fifo.front, c.fifo.back = to(s.fifo.front), to(s.fifo.back)
		c.waiting.front, c.waiting.back = to(s.waiting.front), to(s.waiting.back)
	}
	n.fx.dues.gates = all(t.fx.dues.gates)
	n.fx.lastWork = nil // work is empty
	n.model = t.model.clone()
	return n
}

func cloneAccount(a account) account {
	switch a := a.(type) {
	case *bucketAccount:
		c := *a
		return &c
	case *interval:
		c := *a
		return &c
	case *window:
		c := *a
		c.starts = slices.Clone(a.starts)
		return &c
	}
	panic("another kind of account")
}

// at returns the element at index i, or nil below 0.
func at[T any](of []*T, i int) *T {
	if i < 0 {
		return nil
	}
	return of[i]
}

// clone returns a model in the same state. Slices that change are replaced, never written to, so that they may be shared.
func (m *model) clone() *model {
	n := &model{now: m.now, log: slices.Clone(m.log)}
	for _, l := range m.lines {
		x := *l
		x.queue, x.quotas = slices.Clone(l.queue), slices.Clone(l.quotas)
		n.lines = append(n.lines, &x)
	}
	to := func(l *modelLine) *modelLine { return at(n.lines, slices.Index(m.lines, l)) }
	all := func(lines []*modelLine) (out []*modelLine) {
		for _, l := range lines {
			out = append(out, to(l))
		}
		return out
	}
	for _, c := range m.caps {
		x := *c
		x.lacking, x.waiting = all(c.lacking), all(c.waiting)
		n.caps = append(n.caps, &x)
	}
	for i, l := range m.lines {
		x := n.lines[i]
		x.cap = at(n.caps, slices.Index(m.caps, l.cap))
		x.up = to(l.up)
		x.below, x.busy, x.asking = all(l.below), all(l.busy), all(l.asking)
	}
	return n
}
