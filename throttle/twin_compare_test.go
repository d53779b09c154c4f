package throttle

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// compare returns the first difference between the state machine and its model.
func (t *twin) compare() error {
	if !slices.Equal(t.log, t.model.log) {
		return fmt.Errorf("what became of whom:\n  is    %v\n  model %v", t.log, t.model.log)
	}
	for i, c := range t.caps {
		m := t.model.caps[i]
		if c.size != m.size || c.held != m.held || c.free() != m.free() {
			return fmt.Errorf("cap %d is of size %d, held %d; model %d, %d", i, c.size, c.held, m.size, m.held)
		}
		if err := errors.Join(t.compareRing(&c.fifo, m.lacking), t.compareRing(&c.waiting, m.waiting)); err != nil {
			return fmt.Errorf("cap %d: %w", i, err)
		}
	}
	for i, g := range t.gates {
		if err := t.compareLine(g, t.model.lines[i]); err != nil {
			return fmt.Errorf("line %d: %w", i, err)
		}
	}
	return t.compareCounts()
}

// compareRing asserts that the gates of r are those lines, in that order.
func (t *twin) compareRing(r *ring, lines []*modelLine) error {
	g := r.front
	for _, l := range lines {
		if g == nil || g != t.gates[slices.Index(t.model.lines, l)] {
			return fmt.Errorf("ring %d has other lines, or another order, than the model", r.at)
		}
		g = g.ringed[r.at].next
	}
	if g != nil {
		return fmt.Errorf("ring %d has more lines than the model", r.at)
	}
	return nil
}

// compareCounts asserts that each line has counted what became of its callers.
func (t *twin) compareCounts() error {
	want := make([]counts, len(t.gates))
	for _, e := range t.model.log {
		if e.who < 0 {
			continue
		}
		n := &want[t.callers[e.who].line]
		switch {
		case e.what == starts:
			for g := t.gates[t.callers[e.who].line]; g != nil; g = g.tree.parent {
				want[slices.Index(t.gates, g)].started++
			}
		case e.what == leaves:
			n.left++
		case e.why == byClose:
			n.closed++
		case e.why == byNewcomer:
			n.queueFull++
		default:
			n.never++
		}
	}
	for i, g := range t.gates {
		if g.counts != want[i] {
			return fmt.Errorf("line %d has counted %+v; want %+v", i, g.counts, want[i])
		}
	}
	return nil
}

func (t *twin) compareLine(g *gate, m *modelLine) error {
	c := g.line.front
	for _, w := range m.queue {
		if c == nil || t.who(c) != w.who || c.at != w.joined {
			return fmt.Errorf("others wait than in the model, or in another order: want %v", m.queue)
		}
		c = c.next
	}
	if c != nil {
		return fmt.Errorf("caller %d waits, and not in the model", t.who(c))
	}
	if g.due != m.due() {
		return fmt.Errorf("due is %d; model %d", g.due, m.due())
	}
	if floor := m.floor(); g.floor != floor {
		return fmt.Errorf("floor is %d; model %d", g.floor, floor)
	}
	if g.held != m.held {
		return fmt.Errorf("held is %d; model %d", g.held, m.held)
	}
	if m.rate != nil {
		level := m.levelAt(t.now)
		if is := unitsLeft(&g.bucket, t.now); is.Cmp(level) != 0 {
			return fmt.Errorf("the level is %v; model %v", is, level)
		}
	}
	if m.isInner() {
		return t.compareTurns(g, m)
	}
	for _, k := range []int64{1, t.largest(slices.Index(t.gates, g))} {
		if is, want := waitOf(g.reckon(&g.line, k, nil, t.now)), t.model.reckon(m, k); is != want {
			return fmt.Errorf("the reckoned wait of a newcomer for %d is %d; model %d", k, is, want)
		}
	}
	return nil
}

func waitOf(wait int64, _ *gate, _ int) int64 { return wait }

// compareTurns asserts that the same children ask, that it is the same one's turn, and what each has had for its share.
func (t *twin) compareTurns(g *gate, m *modelLine) error {
	if err := t.compareRing(&g.tree.busy, m.busy); err != nil {
		return err
	}
	is, want := slices.Index(t.gates, g.tree.turns.first()), slices.Index(t.model.lines, m.judged())
	if is != want {
		return fmt.Errorf("it is the turn of line %d; model %d", is, want)
	}
	for _, l := range m.below {
		x := t.gates[slices.Index(t.model.lines, l)]
		switch {
		case x.asking() != l.asks():
			return fmt.Errorf("a child asks: %v; model %v", x.asking(), l.asks())
		case x.tree.pass.big().Cmp(l.pass) != 0:
			return fmt.Errorf("the pass of a child is %v; model %v", x.tree.pass, l.pass)
		case l.asks() && x.tree.ready != l.ready:
			return fmt.Errorf("a child asks as of %d; model %d", x.tree.ready, l.ready)
		}
	}
	return nil
}

// unitsLeft returns the exact level of b at the instant at.
func unitsLeft(b *bucket, at int64) *big.Rat {
	missing := new(big.Rat).SetFrac(b.missingAt(at).big(), new(big.Int).SetUint64(b.p))
	return missing.Sub(whole(b.burst), missing)
}

func (a u128) big() *big.Int {
	hi := new(big.Int).Lsh(new(big.Int).SetUint64(a.hi), 64)
	return hi.Or(hi, new(big.Int).SetUint64(a.lo))
}
