package throttle

import (
	"errors"
	"fmt"
	"slices"
)

// below returns the children of g.
func (g *gate) below(all []*gate) []*gate {
	return slices.DeleteFunc(slices.Clone(all), func(x *gate) bool { return x.tree.parent != g })
}

// checkTree asserts the truths of a gate's place among all.
func (g *gate) checkTree(all []*gate) error {
	t := &g.tree
	below := g.below(all)
	waiters := g.line.n
	for _, x := range below {
		waiters += x.tree.waiters
	}
	switch {
	case t.inner != (len(below) > 0):
		return fmt.Errorf("the gate has %d children, and inner is %v", len(below), t.inner)
	case t.waiters != waiters:
		return fmt.Errorf("waiters is %d, and %d wait", t.waiters, waiters)
	case t.parent == nil && g.asking():
		return errors.New("a topmost gate asks")
	case !t.inner:
		return nil
	case g.line.front != nil:
		return errors.New("somebody waits in the line of an inner gate itself")
	}
	return errors.Join(
		t.turns.check(below),
		t.busy.check(below, func(x *gate) bool { return x.tree.waiters > 0 }))
}

// check asserts that h is a heap of gates of these, each at the place that it knows.
func (h *heap) check(all []*gate) error {
	n := 0
	for i, g := range h.gates {
		switch {
		case g.heaped[h.by] != i+1:
			return fmt.Errorf("the gate at %d in heap %d says %d", i, h.by, g.heaped[h.by]-1)
		case i > 0 && h.less(g, h.gates[(i-1)/2]):
			return fmt.Errorf("the gate at %d in heap %d is less than the one above it", i, h.by)
		}
	}
	for _, g := range all {
		if h.has(g) {
			n++
		}
	}
	if n != len(h.gates) {
		return fmt.Errorf("%d gates are in heap %d, which has %d", n, h.by, len(h.gates))
	}
	return nil
}

// check asserts the truths of effects: work is empty, and dues is a heap of just the gates with a due. caughtUp says that it
// is after an event at the instant now.
func (fx *effects) check(all []*gate, now int64, caughtUp bool) error {
	if fx.work != nil {
		return errors.New("work is left over from an event")
	}
	if due := fx.nextDue(); caughtUp && due <= now {
		return fmt.Errorf("a gate is due at %d, after an event at %d", due, now)
	}
	for i, g := range all {
		switch {
		case g.work.marked || g.work.next != nil:
			return fmt.Errorf("gate %d is still marked after an event", i)
		case (g.due != never) != fx.dues.has(g):
			return fmt.Errorf("gate %d has due %d; in dues: %v", i, g.due, fx.dues.has(g))
		}
	}
	return fx.dues.check(all)
}
