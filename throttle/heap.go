package throttle

// A heap keeps gates so that the least one stands first: by due, or by turn. Each change costs O(log n).
//
// Truths: a gate is in it at most once, at the place that it knows; none is less than the one above it.
type heap struct {
	by    int
	gates []*gate
}

const (
	byDue  = iota // of effects: the gate that comes due first
	byTurn        // of a parent: the child that has had the least for its share, then the one that asked first
	nHeaps
)

func (h *heap) less(a, b *gate) bool {
	if h.by == byDue {
		return a.due < b.due
	}
	if a.tree.pass != b.tree.pass {
		return a.tree.pass.less(b.tree.pass)
	}
	return a.tree.asked < b.tree.asked
}

// first returns the least gate, or nil.
func (h *heap) first() *gate {
	if len(h.gates) == 0 {
		return nil
	}
	return h.gates[0]
}

// has reports whether g is in.
func (h *heap) has(g *gate) bool { return g.heaped[h.by] > 0 }

// fix puts g in its place, after its order has changed or because it is new.
func (h *heap) fix(g *gate) {
	if !h.has(g) {
		h.gates = append(h.gates, g)
		g.heaped[h.by] = len(h.gates)
	}
	h.down(h.up(g.heaped[h.by] - 1))
}

// remove takes g out, if it is in.
func (h *heap) remove(g *gate) {
	if !h.has(g) {
		return
	}
	i, last := g.heaped[h.by]-1, len(h.gates)-1
	moved := h.gates[last]
	h.gates[last] = nil
	h.gates = h.gates[:last]
	g.heaped[h.by] = 0
	if i != last {
		h.place(moved, i)
		h.down(h.up(i))
	}
}

func (h *heap) place(g *gate, i int) { h.gates[i], g.heaped[h.by] = g, i+1 }

// up moves the gate at i towards the front for as long as it is less than the one above it, and returns its place.
func (h *heap) up(i int) int {
	for g := h.gates[i]; i > 0; {
		above := (i - 1) / 2
		if !h.less(g, h.gates[above]) {
			break
		}
		h.place(h.gates[above], i)
		h.place(g, above)
		i = above
	}
	return i
}

// down moves the gate at i away from the front for as long as one below it is less.
func (h *heap) down(i int) {
	for g := h.gates[i]; ; {
		below := 2*i + 1
		if below+1 < len(h.gates) && h.less(h.gates[below+1], h.gates[below]) {
			below++
		}
		if below >= len(h.gates) || !h.less(h.gates[below], g) {
			return
		}
		h.place(h.gates[below], i)
		h.place(g, below)
		i = below
	}
}
