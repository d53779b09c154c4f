package throttle

// tree is a gate's place among others. A gate is a leaf, with a line, or an inner one, with children; a caller of a
// leaf passes the leaf and all gates above it. Once its own level could pay and has a permit free, a gate asks its parent.
// The parent judges the children that ask in turns, one at a time: its front is the front of the child whose turn it is. At the
// topmost gate the caller starts, and is charged at every level.
//
// Turns go by stride scheduling (Waldspurger and Weihl 1995): each child has a pass, which a start raises by its cost divided by the
// child's share, and the one with the least pass is next; among equals, the one that asked first. So children of equal shares and
// costs take one turn each, and one of share 3 starts three times what one of share 1 does, within one turn. A child that comes back
// after it had nothing to ask for goes on from the pass of the one served last: it has earned nothing meanwhile. Nor does it owe
// anything for starts that nobody else was asking for.
//
// Truths: a gate stands in its parent's turns if and only if it asks; waiters is the number of callers in
// line here and below; busy has the children where that is not 0.
type tree struct {
	parent *gate
	inner  bool // it has children, and callers stand in their lines, not here

	waiters int
	turns   heap   // of the children that ask, by turn: the first one's front is judged here
	busy    ring   // of the children in or below which somebody waits
	served  u128   // the pass of the child that was served last, before that
	asks    uint64 // how often a child has asked

	share int64  // at the parent: 1 to MaxShare
	pass  u128   // what it has started at the parent, by its share
	asked uint64 // asking: since which of the parent's asks
	ready int64  // asking: the instant as of which its own level lets the front through
	slack int64  // asking: the least of the levels that its front has passed
}

// passUnit is what a token adds to the pass of a child of share 1: enough for the shares' ratios, and little enough for
// tens of millions of the largest costs.
const passUnit = 1 << 40

// adopt puts the gate g below parent.
func (g *gate) adopt(parent *gate, share int64) {
	g.tree.parent, g.tree.share = parent, share
	parent.tree.inner = true
	parent.tree.turns.by, parent.tree.busy.at = byTurn, inBusy
}

// up returns the limiter above, or nil.
func (l *Limiter) up() *Limiter {
	if p := l.tree.parent; p != nil {
		return p.owner
	}
	return nil
}

// hasCap reports whether here or above there is an in-flight cap.
func (l *Limiter) hasCap() bool {
	for x := &l.gate; x != nil; x = x.tree.parent {
		if x.cap != nil {
			return true
		}
	}
	return false
}

// front returns the caller that is judged here, if there is one.
func (g *gate) front() *call {
	for g != nil && g.tree.inner {
		g = g.tree.turns.first()
	}
	if g == nil {
		return nil
	}
	return g.line.front
}

// since returns the instant as of which the front caller c came to be judged here, and the least slack of the levels up to here.
func (g *gate) since(c *call) (at, slack int64) {
	if first := g.tree.turns.first(); first != nil {
		return first.tree.ready, min(g.slack, first.tree.slack)
	}
	return c.at, g.slack
}

// leaf returns the gate in whose line the front caller stands.
func (g *gate) leaf() *gate {
	for g.tree.inner {
		g = g.tree.turns.first()
	}
	return g
}

// asking reports whether the gate stands in its parent's turns.
func (g *gate) asking() bool { return g.heaped[byTurn] > 0 }

// ask has the parent judge this gate's front, which was let through here as of the instant at.
func (g *gate) ask(c *call, at, now int64) {
	p := g.tree.parent
	_, g.tree.slack = g.since(c)
	g.tree.ready = at
	if !g.asking() {
		if g.tree.pass.less(p.tree.served) {
			g.tree.pass = p.tree.served
		}
		p.tree.asks++
		g.tree.asked = p.tree.asks
		p.tree.turns.fix(g)
		if p.tree.turns.first() == g {
			p.stopAsking(now) // what it has asked above was for another front
		}
	}
	g.fx.mark(p)
}

// stopAsking takes the gate out of its parent's turns. If it was its turn, the parent's front leaves unstarted.
func (g *gate) stopAsking(now int64) {
	if !g.asking() {
		return
	}
	p := g.tree.parent
	first := p.tree.turns.first() == g
	p.tree.turns.remove(g)
	if first {
		p.vacate(now)
	}
}

// served ends, from this leaf upwards, the asking for a caller that has started, and has all judged anew, the lower first.
func (g *gate) served(cost int64) {
	for x := g; ; x = x.tree.parent {
		x.fx.mark(x)
		p := x.tree.parent
		if p == nil {
			return
		}
		p.tree.turns.remove(x)
		p.tree.served = x.tree.pass
		x.tree.pass = x.tree.pass.add(mul(uint64(max(cost, 1)), (passUnit+uint64(x.tree.share)-1)/uint64(x.tree.share)))
		if p.tree.turns.first() == nil { // it took its turn from nobody, and owes it to nobody
			p.tree.served = x.tree.pass
		}
	}
}

// count notes that callers joined (n is 1) or left (-1) the line of this leaf.
func (g *gate) count(n int) {
	for x := g; x != nil; x = x.tree.parent {
		before := x.tree.waiters
		x.tree.waiters += n
		switch {
		case before == 0:
			if x.cap != nil {
				x.cap.waiting.join(x)
			}
			if x.tree.parent != nil {
				x.tree.parent.tree.busy.join(x)
			}
		case x.tree.waiters == 0:
			if x.cap != nil {
				x.cap.waiting.remove(x)
			}
			if x.tree.parent != nil {
				x.tree.parent.tree.busy.remove(x)
			}
		}
	}
}

// eachLeaf calls f for every gate here and below in whose line somebody waits. f may empty that line.
func (g *gate) eachLeaf(f func(*gate)) {
	if !g.tree.inner {
		f(g)
		return
	}
	for child := g.tree.busy.front; child != nil; {
		next := child.ringed[inBusy].next
		child.eachLeaf(f)
		child = next
	}
}
