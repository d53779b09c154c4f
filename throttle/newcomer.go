package throttle

// begin starts a newcomer at the instant now, if nobody is in line and it lacks nothing.
func (g *gate) begin(tokens, weight int64, named map[string]int64, now int64) bool {
	if g.tree.parent != nil || g.more != nil || g.debt || g.books != nil {
		return g.beginAtAll(tokens, weight, named, now)
	}
	if g.line.front != nil || now < g.paused {
		return false
	}
	rated := g.bucket.burst != 0
	var missing u128
	if rated {
		var ok bool
		if missing, ok = g.bucket.spend(now, tokens); !ok {
			return false
		}
	}
	if g.cap != nil {
		if !g.cap.take(weight) {
			return false
		}
		g.held += weight
	}
	if rated {
		g.bucket.set(now, missing)
	}
	g.floor = now
	g.counts.started++
	return true
}

// beginAtAll is begin for a gate with several quotas or levels: the newcomer must lack nothing in any.
func (g *gate) beginAtAll(tokens, weight int64, named map[string]int64, now int64) bool {
	for x := g; x != nil; x = x.tree.parent {
		if x.line.front != nil || x.tree.turns.first() != nil || now < x.paused {
			return false
		}
		if x.bucket.burst != 0 {
			if _, ok := x.bucket.spend(now, min(tokens, x.bucket.burst)); !ok {
				return false
			}
		}
		for i := range x.more {
			m := &x.more[i]
			if !m.covers(now, min(costIn(m.name, tokens, named), m.most())) {
				return false
			}
		}
		if x.cap != nil && !x.cap.could(weight) {
			return false
		}
	}
	if !g.grab(weight, now) {
		return false
	}
	for x := g; x != nil; x = x.tree.parent {
		x.pay(tokens, weight, named, now, now)
	}
	return true
}

// pay charges this level for a start.
func (g *gate) pay(tokens, weight int64, named map[string]int64, at, now int64) {
	g.look(at)
	if g.bucket.burst != 0 {
		g.bucket.charge(at, tokens)
	}
	for i := range g.more {
		m := &g.more[i]
		m.charge(at, now, costIn(m.name, tokens, named))
	}
	if g.cap != nil {
		g.held += weight
	}
	g.floor = at
	g.counts.started++
}

const (
	ofBucket = -1
	ofPause  = -2
)

// reckon returns how long a caller would wait for its tokens and for the end of pauses, behind all costs in the line
// ahead, taking permits as free, and which limit binds: a meter's index at a gate, or ofBucket or ofPause.
func (g *gate) reckon(ahead *line, tokens int64, named map[string]int64, now int64) (wait int64, at *gate, meter int) {
	at, meter = g, ofBucket
	for x := g; x != nil; x = x.tree.parent {
		pause := max(0, x.paused-now)
		if pause > wait {
			wait, at, meter = pause, x, ofPause
		}
		if x.bucket.burst != 0 {
			all := ahead.tokens.add(u128{lo: uint64(min(tokens, x.bucket.burst))})
			if w := later(pause, x.bucket.wait(now+pause, all)); w > wait {
				wait, at, meter = w, x, ofBucket
			}
		}
		for i := range x.more {
			m := &x.more[i]
			all := u128{lo: uint64(min(costIn(m.name, tokens, named), m.most()))}
			if _, sliding := m.account.(*window); !sliding || !x.debt { // a debt passes through a window in one span, whatever its size
				all = all.add(ahead.ahead(m.name))
			}
			if w := later(pause, m.wait(now+pause, all)); w > wait {
				wait, at, meter = w, x, i
			}
		}
	}
	return wait, at, meter
}
