package throttle

import (
	"math/big"
	"slices"
)

// A modelPlace is a line's place in the tree. Callers stand in the lines that have none below.
type modelPlace struct {
	up         *modelLine
	share      int64
	ready      int64    // asking: as of when its own level lets its front through
	slackBelow int64    // asking: the least of the levels passed
	pass       *big.Int // what it has started above, in tokens by its share

	below  []*modelLine
	busy   []*modelLine // of these, in which or below which somebody waits, in the order in which they began to have some
	asking []*modelLine // of these, whose front lacks nothing in its own line, in the order in which they came to ask
	served *big.Int     // the pass, before its start, of the one that was served last
}

func (l *modelLine) isInner() bool { return len(l.below) > 0 }

func (l *modelLine) asks() bool { return l.up != nil && slices.Contains(l.up.asking, l) }

func (l *modelLine) path() (up []*modelLine) {
	for ; l != nil; l = l.up {
		up = append(up, l)
	}
	return up
}

func (l *modelLine) waiters() int {
	n := len(l.queue)
	for _, x := range l.below {
		n += x.waiters()
	}
	return n
}

// leaves returns the lines here and below in which somebody waits.
func (l *modelLine) leaves() (all []*modelLine) {
	if !l.isInner() {
		return []*modelLine{l}
	}
	for _, x := range l.busy {
		all = append(all, x.leaves()...)
	}
	return all
}

// front returns the caller that is judged in l, if one is.
func (l *modelLine) front() *modelCaller {
	switch {
	case l.isInner() && l.judged() != nil:
		return l.judged().front()
	case l.isInner() || len(l.queue) == 0:
		return nil
	}
	return &l.queue[0]
}

// leaf returns the line in which the front of l stands.
func (l *modelLine) leaf() *modelLine {
	if l.isInner() {
		return l.judged().leaf()
	}
	return l
}

// judged returns the line below whose front is the front here: of those that ask the one that has had the least for its share, and
// of these the one that asked first.
func (l *modelLine) judged() (least *modelLine) {
	for _, x := range l.asking {
		if least == nil || x.pass.Cmp(least.pass) < 0 {
			least = x
		}
	}
	return least
}

// leastSlack returns the least of the levels up to l that its front passes.
func (l *modelLine) leastSlack() int64 {
	if l.isInner() {
		return min(l.slack, l.judged().slackBelow)
	}
	return l.slack
}

// ask has l, whose front lacks nothing here as of the instant s, stand in line above.
func (m *model) ask(l *modelLine, s int64) {
	l.ready, l.slackBelow = s, l.leastSlack()
	if !l.asks() {
		if l.pass.Cmp(l.up.served) < 0 {
			l.pass = l.up.served // it has earned nothing meanwhile
		}
		l.up.asking = append(slices.Clone(l.up.asking), l)
		if l.up.judged() == l {
			m.stopAsking(l.up) // what it has asked above was for another front
		}
	}
	m.move(l.up)
}

// stopAsking takes l out of those that ask. If it was its turn, that is over, and the front above leaves unstarted.
func (m *model) stopAsking(l *modelLine) {
	if !l.asks() {
		return
	}
	up, wasFirst := l.up, l.up.judged() == l
	up.asking = without(up.asking, l)
	if wasFirst {
		m.vacate(up)
	}
}

// startFront charges the front of l, a topmost line, at all levels at once, if at all its permits are free.
func (m *model) startFront(l *modelLine, nominal int64) bool {
	leaf := l.leaf()
	c := leaf.queue[0]
	for _, x := range leaf.path() {
		if x.cap != nil && x.cap.free() < c.weight {
			m.stopAsking(x) // somebody who shares the cap was first
			m.move(x)
			return false
		}
		m.moveAsking(x.cap, true)
	}
	leaf.remove(0)
	for _, x := range leaf.path() {
		m.charge(x, c, nominal)
	}
	m.tellStart(c, nominal)
	if leaf == l {
		return true
	}
	for _, x := range leaf.path() {
		m.move(x)
		if x.up != nil {
			x.up.asking = without(x.up.asking, x)
			x.up.served = x.pass
			step := big.NewInt((passUnit + x.share - 1) / x.share) // rounded up
			x.pass = step.Add(step.Mul(step, big.NewInt(max(c.tokens, 1))), x.pass)
			if len(x.up.asking) == 0 { // it took its turn from nobody
				x.up.served = x.pass
			}
		}
	}
	return true
}

// moveAsking has those judged anew who had their permits of c free and ask above: they may be gone. taken says that a start took them, which
// matters only where others share c.
func (m *model) moveAsking(c *modelCap, taken bool) {
	if c == nil || taken && !c.shared {
		return
	}
	for _, l := range c.waiting {
		if l.asks() {
			m.move(l)
		}
	}
}

func (l *modelLine) place(who int) int {
	return slices.IndexFunc(l.queue, func(c modelCaller) bool { return c.who == who })
}

// push puts c at the back.
func (l *modelLine) push(c modelCaller) {
	for _, x := range l.path() {
		if x.waiters() > 0 {
			continue
		}
		if x.cap != nil {
			x.cap.waiting = append(slices.Clone(x.cap.waiting), x)
		}
		if x.up != nil {
			x.up.busy = append(slices.Clone(x.up.busy), x)
		}
	}
	l.queue = append(slices.Clone(l.queue), c)
}

// remove takes the caller at place i out of the line.
func (l *modelLine) remove(i int) {
	l.queue = slices.Delete(slices.Clone(l.queue), i, i+1)
	for _, x := range l.path() {
		if x.waiters() > 0 {
			continue
		}
		if x.cap != nil {
			x.cap.waiting = without(x.cap.waiting, x)
		}
		if x.up != nil {
			x.up.busy = without(x.up.busy, x)
		}
	}
}
