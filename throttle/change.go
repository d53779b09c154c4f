package throttle

// change puts another rate and burst in force. Whoever was due under the old ones starts first. It returns the
// sequence number of the change, which lies before those of the starts that it allows.
func (g *gate) change(r Rate, burst, now int64) (seq uint64) {
	g.fx.catchUp(now)
	seq = g.fx.next()
	g.look(now)
	p := g.bucket.p
	g.bucket.change(r, burst, now)
	if len(g.books) > 0 {
		g.books[0].rescale(p)
	}
	g.floor = now
	if !g.debt {
		g.turnAway(aboveBurst, "", func(_ *line, c *call) bool { return c.tokens > burst }, now)
	}
	g.fx.mark(g)
	g.fx.run(now)
	return seq
}

// refit puts another quota in force for the meter i, as change does for the rate.
func (g *gate) refit(i int, q Quota, now int64) (seq uint64) {
	g.fx.catchUp(now)
	seq = g.fx.next()
	m := &g.more[i]
	g.look(now)
	var p uint64
	b, isBucket := m.account.(*bucketAccount)
	if isBucket {
		p = b.p
	}
	m.account.refit(q, now)
	m.quota = q
	if isBucket && g.books != nil {
		g.books[len(g.books)-len(g.more)+i].rescale(p)
	}
	g.floor = now
	if most := m.most(); !g.debt {
		g.turnAway(aboveBurst, m.name, func(l *line, c *call) bool { return l.cost(c, m.name) > most }, now)
	}
	g.fx.mark(g)
	g.fx.run(now)
	return seq
}

// pause lets nobody start before the instant until, here and below; of several pauses the latest counts. Whoever was due
// starts first. Callers with a deadline look whether it lies within the pause.
func (g *gate) pause(until, now int64) {
	g.fx.catchUp(now)
	if until <= g.paused || until <= now {
		return
	}
	g.paused = until
	g.eachLeaf(func(leaf *gate) {
		for c := leaf.line.front; c != nil; c = c.next {
			if c.timed {
				g.fx.nudge(c)
			}
		}
	})
	g.fx.mark(g)
	g.fx.run(now)
}

// pauseLeft returns how much longer nobody starts, here and above, and the gate that is paused the longest.
func (g *gate) pauseLeft(now int64) (left int64, at *gate) {
	for x := g; x != nil; x = x.tree.parent {
		if x.paused-now > left {
			left, at = x.paused-now, x
		}
	}
	return left, at
}

// turnAway refuses, for the reason why, every waiting caller that is unfit, here and below; the line is
// to be judged then.
func (g *gate) turnAway(why refusal, limit string, unfit func(*line, *call) bool, now int64) {
	g.eachLeaf(func(leaf *gate) {
		for c := leaf.line.front; c != nil; {
			next := c.next
			if unfit(&leaf.line, c) {
				leaf.refuse(c, why, limit, now)
			}
			c = next
		}
	})
}

func (g *gate) refuse(c *call, why refusal, limit string, now int64) {
	if limit != "" && g.owner != nil { // of a quota with a name: its cost there, and which it was
		g.owner.sayLater(c.id, saying{cost: g.line.cost(c, limit), quota: limit})
	}
	if g.line.front == c {
		g.vacate(now)
	}
	g.remove(c)
	if why == byClose {
		g.counts.closed++
	} else {
		g.counts.never++
	}
	c.state, c.why, c.at, c.seq = callRefused, why, now, g.fx.next()
	g.fx.wake(c)
}
