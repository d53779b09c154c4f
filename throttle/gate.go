package throttle

// A gate is what decides for one limiter: its line, its bucket and its cap, as a state machine
// on explicit instants. It has no clock, waits for nothing and calls nobody: what the world must
// do about a move is left in effects. The Limiter drives it under the lock; a simulation or a test can
// do the same.
//
// The front caller alone may spend. Its state follows from what it lacks:
//
//	lacks          so                                                until
//	its token      due is the instant at which it will be there      the timer at due
//	its permit     the gate stands in the cap's fifo, due is never   a permit comes (inflight.serve)
//	nothing        (does not happen: it is started at once)
//
// Truths, after every move: at most one of the two rows holds, and one of them does if and only if
// somebody waits; the bucket is charged and the permit taken in one move (start), and at no other; nominal
// starts never go back (floor), are due, and lie within slack before the clock.
type gate struct {
	line   line
	bucket bucket    // without a rate, burst is 0
	cap    *inflight // nil: no cap
	held   int64     // weight in flight through this gate

	slack int64 // how far a nominal start may lie before the clock, in nanoseconds
	floor int64 // no start is counted from before this: the latest of the last nominal start, and the
	// instants at which a front left, a permit came to one that waited for it, or a limit changed
	due int64 // when the timer must move the line on; never if it need not

	ringed    [2]ringLink
	dirty     bool // due has changed
	nextDirty *gate
	alarm     alarm

	fx     *effects
	counts counts
}

// counts are a limiter's totals; every caller that asked validly is in one of the first six, or in line.
type counts struct {
	started, left, never, notYet, queueFull, closed uint64
	doubles                                         uint64
}

// effects are what a move leaves to be done: whom to wake, and whose timer to set.
type effects struct {
	seq        uint64 // of the latest move
	woken      *call  // in the order of their moves
	lastWoken  *call
	dirtyGates *gate
}

func (fx *effects) next() uint64 {
	fx.seq++
	return fx.seq
}

func (fx *effects) wake(c *call) {
	if fx.woken == nil {
		fx.woken = c
	} else {
		fx.lastWoken.next = c
	}
	fx.lastWoken = c
}

func (g *gate) init(fx *effects, cap *inflight, slack int64) {
	g.fx, g.cap, g.slack, g.due = fx, cap, slack, never
}

// begin starts a newcomer at the instant now, if nobody is in line and it lacks nothing.
func (g *gate) begin(tokens, weight, now int64) bool {
	if g.line.front != nil {
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

// reckon returns how long a newcomer would wait for its tokens, behind all costs in line, taking permits as free.
func (g *gate) reckon(tokens, now int64) int64 {
	if g.bucket.burst == 0 {
		return 0
	}
	return g.bucket.wait(now, g.line.tokens.add(u128{lo: uint64(tokens)}))
}

// join puts c at the back of the line.
func (g *gate) join(c *call, now int64) {
	c.at, c.seq = now, g.fx.next()
	g.line.join(c)
	if g.line.front == c {
		if g.cap != nil {
			g.cap.waiting.join(g)
		}
		g.advance(now)
	}
}

// leave takes c, whose caller gave up, out of the line.
func (g *gate) leave(c *call, now int64) {
	wasFront := g.line.front == c
	g.drop(c, now)
	if wasFront {
		g.settle(now)
	}
}

// settle moves the line on, and the lines that share the cap.
func (g *gate) settle(now int64) {
	g.advance(now)
	if g.cap != nil {
		g.cap.serve(now)
	}
}

// advance starts the callers at the front for as long as they lack nothing at the instant now,
// and leaves the gate waiting for what the next one lacks.
func (g *gate) advance(now int64) {
	for {
		c := g.line.front
		if c == nil || g.ringed[inFIFO].in {
			g.setDue(never)
			return
		}
		at := g.nominal(c, now)
		switch {
		case at > now:
			g.setDue(at)
			return
		case c.gone():
			g.drop(c, now)
		case g.cap != nil && !g.cap.take(c.weight):
			g.cap.fifo.join(g)
		default:
			g.start(c, at, now)
		}
	}
}

// nominal returns the instant as of which the front caller c is to be charged, seen from now; one
// that is later than now is when its token is due.
//
// It is the token's due, counted from the floor and from the caller's arrival, but no earlier than slack
// before now: so a timer that fires late costs no throughput, and a pause of the process is made up for by
// slack at the most. Time without a free permit counts for nothing.
func (g *gate) nominal(c *call, now int64) int64 {
	at := max(g.floor, c.at, now-g.slack)
	if g.bucket.burst != 0 {
		at = max(at, g.bucket.due(c.tokens))
	}
	return at
}

// start lets the front caller c through: the one place at which a waiting caller is charged. Its permit,
// where there is a cap, is taken already.
func (g *gate) start(c *call, at, now int64) {
	g.remove(c)
	if g.bucket.burst != 0 {
		g.bucket.charge(at, c.tokens)
	}
	if g.cap != nil {
		g.held += c.weight
	}
	g.floor = at
	g.counts.started++
	c.state, c.at, c.late, c.seq = callStarted, now, uint32(now-at), g.fx.next()
	g.fx.wake(c)
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
}

// vacate ends the turn of the front, which leaves unstarted.
func (g *gate) vacate(now int64) {
	g.floor = now
	if g.cap != nil {
		g.cap.fifo.remove(g)
	}
}

func (g *gate) remove(c *call) {
	g.line.remove(c)
	if g.line.front == nil && g.cap != nil {
		g.cap.waiting.remove(g)
	}
}

// turnAway refuses, for the reason why, every waiting caller that is unfit.
func (g *gate) turnAway(why refusal, unfit func(*call) bool, now int64) {
	for c := g.line.front; c != nil; {
		next := c.next
		if unfit(c) {
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
		c = next
	}
	g.advance(now)
}

// change puts another rate and burst in force. Whoever was due under the old ones starts first. It returns the
// sequence number of the change, which lies before those of the starts that it allows.
func (g *gate) change(r Rate, burst, now int64) (seq uint64) {
	g.settle(now)
	seq = g.fx.next()
	g.bucket.change(r, burst, now)
	g.floor = now
	g.turnAway(aboveBurst, func(c *call) bool { return c.tokens > burst }, now)
	g.settle(now)
	return seq
}

func (g *gate) setDue(due int64) {
	if g.due == due {
		return
	}
	g.due = due
	g.touch()
}

// touch has the timer set anew after this move.
func (g *gate) touch() {
	if !g.dirty {
		g.dirty, g.nextDirty = true, g.fx.dirtyGates
		g.fx.dirtyGates = g
	}
}
