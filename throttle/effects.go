package throttle

// effects are what events leave to be done. In the state machine: the gates to be judged now, work, and later, dues. Outside
// of it: whom to wake, and when to come back; see domain.unlock.
//
// Truths: work is empty between events; dues has just the gates whose due is not never; after an event at
// the instant now, no due in it is at or before now.
type effects struct {
	seq uint64 // of the latest move

	work, lastWork *gate // to be judged, in the order in which they were marked
	dues           heap  // of the gates whose due is not never, by due
	woken          *call // in the order of their moves
	lastWoken      *call

	dry *dryRun // nil: callers wait themselves
}

// workLink is a gate's place in effects.
type workLink struct {
	next   *gate
	marked bool // in work
}

// next returns the sequence number of a move.
func (fx *effects) next() uint64 {
	fx.seq++
	return fx.seq
}

// mark has g judged by run.
func (fx *effects) mark(g *gate) {
	if g == nil || g.work.marked {
		return
	}
	g.work.marked = true
	if fx.work == nil {
		fx.work = g
	} else {
		fx.lastWork.work.next = g
	}
	fx.lastWork = g
}

// run judges the marked gates, and those that are marked by that, until none is left.
func (fx *effects) run(now int64) {
	for g := fx.work; g != nil; g = fx.work {
		fx.work = g.work.next
		g.work.next, g.work.marked = nil, false
		g.judge(now)
	}
}

// nextDue returns the first instant at which some gate is due; never if none is.
func (fx *effects) nextDue() int64 {
	if g := fx.dues.first(); g != nil {
		return g.due
	}
	return never
}

// catchUp judges the gates that have come due, in the order in which they did: all that a timer that is late has not told. Every
// event begins with it, so that a gate is judged by what was free when it came due.
func (fx *effects) catchUp(now int64) {
	for fx.nextDue() <= now {
		g, at := fx.dues.first(), now
		if fx.dry != nil {
			at = g.due // no timer of a dry run is late
		}
		g.judge(at) // which moves its due beyond that
		fx.run(at)
	}
}

// schedule notes that the due of g has changed.
func (fx *effects) schedule(g *gate) {
	if g.due == never {
		fx.dues.remove(g)
	} else {
		fx.dues.fix(g)
	}
}

// nudge has the caller of c, which waits, look at its deadline.
func (fx *effects) nudge(c *call) {
	if !c.nudged && c.ready != nil {
		c.nudged = true
		c.ready <- struct{}{} // has room: see call
	}
}

// wake has the caller of c woken.
func (fx *effects) wake(c *call) {
	if c.nudged {
		return
	}
	if fx.dry != nil {
		fx.dry.moved(c)
		return
	}
	if fx.woken == nil {
		fx.woken = c
	} else {
		fx.lastWoken.next = c
	}
	fx.lastWoken = c
}
