package throttle

import (
	"math/big"
	"slices"
)

// What callers, timers and setters do to a model. Each is one move, as under the limiter's lock.

// arrive has a newcomer start if it lacks nothing and nobody waits. Otherwise it joins the line, unless it only tries.
func (m *model) arrive(l *modelLine, c modelCaller, tries bool) {
	if l.due() <= m.now {
		m.moveOn(l)
	}
	c.joined = m.now
	if len(l.queue) == 0 && (l.rate == nil || l.levelAt(m.now).Cmp(whole(c.tokens)) >= 0) && (l.cap == nil || l.cap.has(c.weight)) {
		m.charge(l, c, m.now)
		return
	}
	if tries {
		return
	}
	l.queue = append(slices.Clone(l.queue), c)
	if len(l.queue) == 1 {
		if l.cap != nil {
			l.cap.waiting = append(slices.Clone(l.cap.waiting), l)
		}
		m.judge(l)
	}
}

// giveUp has a caller who waits leave by itself. From behind the front it changes nobody's start.
func (m *model) giveUp(l *modelLine, who int) {
	wasFront := l.place(who) == 0
	m.leave(l, who)
	if wasFront {
		m.moveOn(l)
	}
}

func (m *model) release(l *modelLine, weight int64) {
	m.judgeAll(l.cap)
	l.held -= weight
	l.cap.held -= weight
	m.handOut(l.cap)
}

// judgeAll judges the lines of a cap, before its permits change.
func (m *model) judgeAll(c *modelCap) {
	for _, l := range c.waiting {
		m.judge(l)
	}
}

// setQuota puts another quota in force. The level stays, but for its part-token, which is rounded down to the
// new denominator, and for what a lower burst cuts off.
func (m *model) setQuota(l *modelLine, r Rate, burst int64) {
	m.moveOn(l)
	m.changed()
	level := l.levelAt(m.now)
	l.rate, l.burst, l.asOf, l.limitChanged = rational(r), burst, m.now, m.now
	p := new(big.Rat).SetInt(l.rate.Denom())
	units := new(big.Rat).Mul(level, p)
	down := new(big.Rat).SetInt(new(big.Int).Div(units.Num(), units.Denom()))
	l.level = least(whole(burst), down.Quo(down, p))
	m.turnAway(l, aboveBurst, func(c modelCaller) bool { return c.tokens > burst })
	m.moveOn(l)
}

// resize puts another size in force. What a growth brings is handed out last, to those who lack it, in their order.
func (m *model) resize(c *modelCap, size int64) {
	m.judgeAll(c)
	m.handOut(c)
	m.changed()
	old := c.size
	c.size = min(old, size)
	if size > 0 {
		for _, l := range c.waiting {
			m.turnAway(l, aboveCap, func(c modelCaller) bool { return c.weight > size })
		}
	}
	c.size = size
	m.handOut(c)
}

func (m *model) close(l *modelLine) {
	m.moveOn(l)
	m.turnAway(l, byClose, func(modelCaller) bool { return true })
	m.moveOn(l)
}
