package throttle

import "slices"

// What callers, timers and setters do to a model. Each is one move, as under the limiter's lock.

// arrive has a newcomer start if it lacks nothing and nobody waits, at every level. Otherwise it joins the line, unless it only tries;
// if it is an opDisplace, in the place of the oldest.
func (m *model) arrive(l *modelLine, c modelCaller, kind opKind) {
	m.catchUp()
	c.joined = m.now
	if m.lacksNothing(l, c) {
		for _, x := range l.path() {
			m.moveAsking(x.cap, true)
			m.charge(x, c, m.now)
		}
		m.tellStart(c, m.now)
		m.settle()
		return
	}
	if kind == opTry {
		return
	}
	if kind == opDisplace && len(l.queue) > 0 {
		m.displace(l)
	}
	l.push(c)
	if len(l.queue) == 1 {
		m.move(l)
	}
	m.settle()
}

// displace turns the front of l away, or has it leave if it is gone. The line keeps its place among those that lack a permit, here and above.
func (m *model) displace(l *modelLine) {
	oldest := l.queue[0]
	if oldest.gone {
		m.leave(l, oldest.who)
		return
	}
	for _, x := range l.path() {
		x.frontLeft = m.now
		m.move(x)
		if !x.asks() {
			break
		}
		wasFirst := x.up.judged() == x
		x.up.asking = without(x.up.asking, x)
		if !wasFirst {
			break
		}
	}
	l.remove(0)
	m.log = append(m.log, event{who: oldest.who, what: refused, at: m.now, why: byNewcomer})
}

func (m *model) lacksNothing(l *modelLine, c modelCaller) bool {
	for _, x := range l.path() {
		switch {
		case len(x.queue) > 0 || len(x.asking) > 0:
			return false
		case x.limitsDue(c.tokens) > m.now:
			return false
		case x.cap != nil && (len(x.cap.lacking) > 0 || x.cap.free() < c.weight):
			return false
		}
	}
	return true
}

// giveUp has a caller who waits leave by itself, unless its turn comes first, at which it is found gone.
func (m *model) giveUp(l *modelLine, who int) {
	l.queue[l.place(who)].gone = true
	m.catchUp()
	if l.place(who) >= 0 {
		m.leave(l, who)
	}
	m.settle()
}

// release gives permits back at every level. If nobody waits who might want them, nothing is looked at.
func (m *model) release(l *modelLine, weight int64) {
	if slices.ContainsFunc(l.path(), func(x *modelLine) bool { return x.cap != nil && len(x.cap.waiting) > 0 }) {
		m.catchUp()
	}
	for _, x := range l.path() {
		if x.cap != nil {
			x.held -= weight
			x.cap.held -= weight
			m.move(firstOf(x.cap.lacking))
		}
	}
	m.settle()
}

// setQuota puts another rate and burst in force.
func (m *model) setQuota(l *modelLine, r Rate, burst int64) {
	m.catchUp()
	m.changed()
	l.change(r, burst, m.now)
	l.limitChanged = m.now
	m.turnAway(l, aboveBurst, func(_ *modelLine, c modelCaller) bool { return c.tokens > burst })
	m.move(l)
	m.settle()
}

// refit puts another quota of the same kind in the place of one of several.
func (m *model) refit(l *modelLine, which int, q Quota) {
	m.catchUp()
	m.changed()
	l.quotas[which].refit(q, m.now)
	l.limitChanged = m.now
	m.turnAway(l, aboveBurst, func(_ *modelLine, c modelCaller) bool { return c.tokens > q.Burst })
	m.move(l)
	m.settle()
}

// resize puts another size in force.
func (m *model) resize(c *modelCap, size int64) {
	m.catchUp()
	m.changed()
	before := c.free()
	c.size = size
	if c.free() < before {
		m.moveAsking(c, false)
	}
	if size > 0 {
		for _, l := range c.waiting {
			m.turnAway(l, aboveCap, func(_ *modelLine, c modelCaller) bool { return c.weight > size })
		}
	}
	m.move(firstOf(c.lacking))
	m.settle()
}

// pause lets nobody in l and below start before the instant until; the latest counts.
func (m *model) pause(l *modelLine, until int64) {
	m.catchUp()
	if until > m.now && until > l.paused {
		l.paused = until
		m.move(l)
		m.settle()
	}
}

func (m *model) close(l *modelLine) {
	m.catchUp()
	m.turnAway(l, byClose, func(*modelLine, modelCaller) bool { return true })
	m.settle()
}
