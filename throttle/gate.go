package throttle

// A gate is what decides for one limiter: its line, its quotas and its cap, as a state machine
// on explicit instants. It has no clock, waits for nothing and calls nobody: what the world must
// do about a move is left in effects. The Limiter drives it under the lock; a simulation or a test can
// do the same.
//
// The front caller alone may spend. The gate's row follows from what that caller lacks:
//
//	lacks        so                                               until
//	its token    due is the instant at which it will be there     effects.catchUp, at due
//	its permit   the gate stands in the cap's fifo                a permit comes (inflight.give)
//	the parent   the gate asks: it stands in the parent's turns   the parent lets it through
//	nothing      (does not happen: it is started at once)
//
// Every event marks the gates that it may have moved, and effects.run judges those, one by one, until
// none is left: judge is the one place that decides.
//
// Truths, after every event: exactly one of the rows holds if somebody waits, and none if nobody does; quotas are
// charged and permits taken, at all levels, in one move (start), and at no other; nominal starts never go back (floor),
// are due, and lie within slack before the clock.
type gate struct {
	line   line
	bucket bucket    // of Config.Rate; without one, burst is 0
	more   []meter   // of Config.Quotas
	books  []*book   // of all these, where calls are settled; nil: none has been
	debt   bool      // a cost above a burst is let through as debt
	cap    *inflight // nil: no cap
	held   int64     // weight in flight through this gate

	slack int64 // how far a nominal start may lie before the clock, in nanoseconds
	floor int64 // no start is counted from before this: the latest of the last nominal start, and the
	// instants at which a front left, a permit came to one that waited for it, or a limit changed
	paused int64 // no start before this instant
	due    int64 // when the gate must be judged; never if no instant alone changes anything

	isClosed bool
	owner    *Limiter // whose gate it is; nil when driven by hand

	tree   tree
	ringed [nRings]ringLink
	heaped [nHeaps]int // its place in each heap, from 1; 0: not there
	work   workLink

	attend func(now int64) // what is done in the place of judging, by a gate that stands for something else; see dryRun

	fx     *effects
	counts counts
}

// counts are a limiter's totals; every caller that asked validly is in one of the first six, or in line.
type counts struct {
	started, left, never, notYet, queueFull, closed uint64
	doubles                                         uint64
}

func (g *gate) init(fx *effects, cap *inflight, slack int64) {
	g.fx, g.cap, g.slack, g.due = fx, cap, slack, never
}

// join puts c at the back of the line, and carries out what was left to be judged.
func (g *gate) join(c *call, now int64) {
	c.at, c.seq = now, g.fx.next()
	c.id = c.seq
	g.line.join(c)
	g.count(+1)
	if g.line.front == c {
		g.fx.mark(g)
	}
	g.fx.run(now)
}

// rejoin puts c, which has stood in this line before, back in its place. As the front it has whoever is judged above for another
// front of this line stop that; in a cap's fifo it takes over the line's place. Run is to follow.
func (g *gate) rejoin(c *call, now int64) {
	c.at, c.seq = now, g.fx.next()
	g.line.rejoin(c)
	g.count(+1)
	if g.line.front == c {
		g.stopAsking(now)
		g.fx.mark(g)
	}
}

// leave takes c, whose caller gave up, out of the line.
func (g *gate) leave(c *call, now int64) {
	g.drop(c, now)
	g.fx.run(now)
}

// judge starts the front caller for as long as it lacks nothing at the instant now, and leaves the gate
// waiting for what the next one lacks.
func (g *gate) judge(now int64) {
	if g.attend != nil {
		g.attend(now)
		return
	}
	for {
		c := g.front()
		if c == nil {
			g.rest(never, now)
			return
		}
		at := g.nominal(c, now)
		if at > now {
			g.rest(at, now)
			return
		}
		if c.gone() {
			g.leaf().drop(c, now)
			continue
		}
		g.setDue(never)
		if g.cap != nil {
			waited := g.ringed[inFIFO].in
			if !g.cap.lets(g, c.weight) {
				g.stopAsking(now)
				return
			}
			if waited {
				g.floor, at = now, now // waiting for a permit earns nothing
			}
		}
		if g.tree.parent != nil {
			g.ask(c, at, now)
			return
		}
		if !g.start(c, at, now) {
			return
		}
	}
}

// nominal returns the instant as of which the front caller c is to be charged, seen from now; one
// that is later than now is when its token is due.
//
// It is the token's due, counted from the floor and from the instant at which the caller came to be judged here, but no
// earlier than slack before now: so a timer that fires late costs no throughput, and a pause of the process is made up for by
// slack at the most. Time without a free permit counts for nothing.
func (g *gate) nominal(c *call, now int64) int64 {
	since, slack := g.since(c)
	at := max(g.floor, g.paused, since, now-slack)
	if g.bucket.burst != 0 {
		at = max(at, g.bucket.due(min(c.tokens, g.bucket.burst)))
	}
	if g.more != nil {
		line := &g.leaf().line
		for i := range g.more {
			m := &g.more[i]
			at = max(at, m.due(min(line.cost(c, m.name), m.most())))
		}
	}
	return at
}

// start lets c through, which is at the front of this gate, the topmost, and of all below on its way: the one place at
// which a waiting caller is charged. It reports whether the gate is to be judged again here and now.
func (g *gate) start(c *call, at, now int64) bool {
	leaf := g.leaf()
	if !leaf.grab(c.weight, now) {
		return false
	}
	named := leaf.line.named[c]
	leaf.remove(c)
	for x := leaf; x != nil; x = x.tree.parent {
		x.pay(c.tokens, c.weight, named, at, now)
	}
	if leaf.owner != nil && leaf.owner.bills != nil {
		leaf.openBill(c.id, c.tokens, named, at, now)
	}
	c.state, c.at, c.late, c.seq = callStarted, now, uint32(now-at), g.fx.next()
	g.fx.wake(c)
	if leaf == g {
		return true
	}
	leaf.served(c.tokens)
	return false
}

// grab takes the permits of all levels, or none.
func (g *gate) grab(weight, now int64) bool {
	for x := g; x != nil; x = x.tree.parent {
		if x.cap == nil || x.cap.grab(weight) {
			continue
		}
		// Somebody else who shares this cap was first: wait for it, and for nothing above.
		for y := g; y != x; y = y.tree.parent {
			if y.cap != nil {
				y.cap.putBack(weight)
			}
		}
		x.stopAsking(now)
		g.fx.mark(x)
		return false
	}
	return true
}

// drop takes c out of the line because its caller is gone. Nothing is owed for the time before: if it was
// the front, the next one is judged from now on, and asks for its own permit.
func (g *gate) drop(c *call, now int64) {
	if g.line.front == c {
		g.vacate(now)
	}
	g.remove(c)
	g.counts.left++
	c.state, c.at, c.seq = callLeft, now, g.fx.next()
	if g.fx.dry != nil {
		g.fx.dry.moved(c)
	}
}

// dismiss takes c out of the line because it has been told not yet.
func (g *gate) dismiss(c *call, now int64) {
	if g.line.front == c {
		g.vacate(now)
	}
	g.remove(c)
	g.counts.notYet++
	c.state, c.at, c.seq = callRefused, now, g.fx.next()
}

// vacate ends the turn of the front, which leaves unstarted.
func (g *gate) vacate(now int64) {
	g.floor = now
	if g.cap != nil {
		g.cap.forget(g)
	}
	g.stopAsking(now)
	g.fx.mark(g)
}

func (g *gate) remove(c *call) {
	g.line.remove(c)
	g.count(-1)
}

// rest leaves the gate waiting for its token, due at that instant, and for nothing else; never if nobody waits.
func (g *gate) rest(due, now int64) {
	g.setDue(due)
	if g.cap != nil {
		g.cap.forget(g)
	}
	g.stopAsking(now)
}

func (g *gate) setDue(due int64) {
	if g.due != due {
		g.due = due
		g.fx.schedule(g)
	}
}
