package throttle

import (
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
		m := t.slow[i]
		if c.size != m.size || c.held != m.held || c.free() != m.free() {
			return fmt.Errorf("cap %d is of size %d, held %d; model %d, %d", i, c.size, c.held, m.size, m.held)
		}
		for _, r := range []struct {
			of    *ring
			model []*modelLine
		}{{&c.fifo, m.lacking}, {&c.waiting, m.waiting}} {
			g := r.of.front
			for _, l := range r.model {
				if g == nil || g != t.gates[slices.Index(t.model.lines, l)] {
					return fmt.Errorf("cap %d: ring %d has other lines, or another order, than the model", i, r.of.at)
				}
				g = g.ringed[r.of.at].next
			}
			if g != nil {
				return fmt.Errorf("cap %d: ring %d has more lines than the model", i, r.of.at)
			}
		}
	}
	for i, g := range t.gates {
		if err := t.compareLine(g, t.model.lines[i]); err != nil {
			return fmt.Errorf("line %d: %w", i, err)
		}
	}
	return t.compareCounts()
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
			n.started++
		case e.what == leaves:
			n.left++
		case e.why == byClose:
			n.closed++
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
		if c == nil || int(c.id) != w.who || c.at != w.joined {
			return fmt.Errorf("others wait than in the model, or in another order: want %v", m.queue)
		}
		c = c.next
	}
	if c != nil {
		return fmt.Errorf("caller %d waits, and not in the model", c.id)
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
	if m.rate == nil {
		if w := g.reckon(1, t.now); w != 0 {
			return fmt.Errorf("reckoned wait is %d without a rate", w)
		}
		return nil
	}
	level := m.levelAt(t.now)
	if is := unitsLeft(&g.bucket, t.now); is.Cmp(level) != 0 {
		return fmt.Errorf("the level is %v; model %v", is, level)
	}
	for _, k := range []int64{1, m.burst} {
		if is, want := g.reckon(k, t.now), t.model.reckon(m, k); is != want {
			return fmt.Errorf("the reckoned wait of a newcomer for %d is %d; model %d", k, is, want)
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
