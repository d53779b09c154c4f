package throttle

import "slices"

// What callers, timers and setters do to a model. Each is one move, as under the limiter's lock.

// arrive has a newcomer start if it lacks nothing and nobody waits, at every level. Otherwise it joins the line, unless it only tries.
func (m *model) arrive(l *modelLine, c modelCaller, tries bool) {
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
	if tries {
		return
	}
	l.push(c)
	if len(l.queue) == 1 {
		m.move(l)
		m.settle()
	}
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
