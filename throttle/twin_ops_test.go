package throttle

import "fmt"

// An op is one operation on a twin. Which fields count depends on its kind.
type op struct {
	kind           opKind
	line, who      int
	tokens, weight int64
	n              int64 // of a pass: by how much; of a resize: the size; of setQuota: the burst
	rate           Rate
}

type opKind uint8

const (
	opArrive   opKind = iota // a newcomer, who waits if need be
	opTry                    // one who does not
	opPass                   // time passes; timers are late
	opTimer                  // a timer goes off: on time, late, early or for nothing
	opQuit                   // a caller's context is done; nobody has seen it yet
	opLeave                  // the caller, whose context is done, takes itself out
	opRelease                // a permit comes back
	opSetQuota               // another rate and burst
	opResize                 // another size of a cap
	opClose                  // a line is closed
	opKinds
)

// byCaller reports whether o is done by a caller who has come before.
func (o op) byCaller() bool { return o.kind == opQuit || o.kind == opLeave || o.kind == opRelease }

func (o op) String() string {
	switch o.kind {
	case opArrive:
		return fmt.Sprintf("arrive at line %d: %d tokens, weight %d", o.line, o.tokens, o.weight)
	case opTry:
		return fmt.Sprintf("try at line %d: %d tokens, weight %d", o.line, o.tokens, o.weight)
	case opPass:
		return fmt.Sprintf("%d pass", o.n)
	case opTimer:
		return fmt.Sprintf("the timer of line %d goes off", o.line)
	case opQuit:
		return fmt.Sprintf("the context of caller %d is done", o.who)
	case opLeave:
		return fmt.Sprintf("caller %d leaves", o.who)
	case opRelease:
		return fmt.Sprintf("caller %d releases", o.who)
	case opSetQuota:
		return fmt.Sprintf("line %d has rate %v and burst %d", o.line, o.rate, o.n)
	case opResize:
		return fmt.Sprintf("cap %d has size %d", o.line, o.n)
	}
	return fmt.Sprintf("line %d is closed", o.line)
}

// apply does o to both sides.
func (t *twin) apply(o op) {
	switch o.kind {
	case opArrive, opTry:
		t.arrive(o)
	case opPass:
		t.now += o.n
		t.model.now = t.now
		for _, g := range t.gates {
			t.late = t.late || g.due < t.now
		}
	case opTimer:
		g := t.gates[o.line]
		t.moved[g] = true
		g.touch()
		g.settle(t.now)
		t.model.moveOn(t.model.lines[o.line])
	case opQuit, opLeave:
		t.quit(o)
	case opRelease:
		t.release(o.who)
	case opSetQuota:
		g := t.gates[o.line]
		t.moved[g] = true
		t.tellChange(g.change(o.rate, o.n, t.now))
		t.model.setQuota(t.model.lines[o.line], o.rate, o.n)
	case opResize:
		c := t.caps[o.line]
		for _, g := range t.whose(c) {
			t.moved[g] = true
		}
		t.tellChange(c.resize(o.n, t.now))
		t.model.resize(t.slow[o.line], o.n)
	case opClose:
		g := t.gates[o.line]
		t.moved[g] = true
		g.settle(t.now)
		g.turnAway(byClose, func(*call) bool { return true }, t.now)
		g.settle(t.now)
		t.model.close(t.model.lines[o.line])
	}
}

func (t *twin) tellChange(seq uint64) {
	t.tell(event{who: -1, what: changes, at: t.now}, seq)
}

// arrive does what Limiter.acquire and Limiter.try do.
func (t *twin) arrive(o op) {
	g, who := t.gates[o.line], len(t.callers)
	c := &call{id: uint64(who), tokens: o.tokens, weight: o.weight}
	caller := &twinCaller{call: c, line: o.line}
	t.callers = append(t.callers, caller)
	t.model.arrive(t.model.lines[o.line], modelCaller{who: who, tokens: o.tokens, weight: o.weight}, o.kind == opTry)
	if g.due <= t.now {
		t.moved[g] = true
		g.settle(t.now)
	}
	switch {
	case g.begin(o.tokens, o.weight, t.now):
		c.state, c.at, c.seq, caller.starts = callStarted, t.now, t.fx.next(), true
		t.tell(event{who: who, what: starts, at: t.now, nominal: t.now}, c.seq)
	case o.kind == opTry:
		c.state, caller.over = callRefused, true
	default:
		g.join(c, t.now)
	}
}

// quit has the context of a caller end. Where it leaves, it has seen that itself.
func (t *twin) quit(o op) {
	c := t.callers[o.who]
	l := t.model.lines[c.line]
	c.gone, c.call.done = true, alwaysDone
	l.queue[l.place(o.who)].gone = true
	if o.kind == opLeave {
		g := t.gates[c.line]
		t.moved[g] = g.line.front == c.call
		g.leave(c.call, t.now)
		t.model.giveUp(l, o.who)
	}
}

// release gives a caller's permits back, as Permit.Release does.
func (t *twin) release(who int) {
	c := t.callers[who]
	g := t.gates[c.line]
	c.over = true
	for _, other := range t.whose(g.cap) {
		t.moved[other] = true
	}
	g.held -= c.call.weight
	g.cap.release(c.call.weight, t.now)
	t.model.release(t.model.lines[c.line], c.call.weight)
}
