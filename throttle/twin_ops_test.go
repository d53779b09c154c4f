package throttle

import "fmt"

// An op is one operation on a twin. Which fields count depends on its kind.
type op struct {
	kind           opKind
	line, who      int
	tokens, weight int64
	n              int64 // of a pass: by how much; of a resize: the size; of setQuota: the burst; of a pause: its length
	rate           Rate
	quota          Quota // of a refit, which puts it in the place of the line's quota who
}

type opKind uint8

const (
	opArrive   opKind = iota // a newcomer, who waits if need be
	opTry                    // one who does not
	opPass                   // time passes; timers are late
	opTimer                  // the timer goes off: on time, late, early or for nothing
	opQuit                   // a caller's context is done; nobody has seen it yet
	opLeave                  // the caller, whose context is done, takes itself out
	opRelease                // a permit comes back
	opSetQuota               // another rate and burst
	opRefit                  // another quota in the place of one of several
	opResize                 // another size of a cap
	opPause                  // nobody starts for some time, in a line and below
	opClose                  // a line is closed
	opDisplace               // a newcomer, for whom the oldest in line goes, if it has to wait
	opKinds
)

// byCaller reports whether o is done by a caller who has come before.
func (o op) byCaller() bool { return o.kind == opQuit || o.kind == opLeave || o.kind == opRelease }

func (o op) String() string {
	switch o.kind {
	case opArrive:
		return fmt.Sprintf("arrive at line %d: %d tokens, weight %d", o.line, o.tokens, o.weight)
	case opDisplace:
		return fmt.Sprintf("arrive at line %d, whose oldest goes: %d tokens, weight %d", o.line, o.tokens, o.weight)
	case opTry:
		return fmt.Sprintf("try at line %d: %d tokens, weight %d", o.line, o.tokens, o.weight)
	case opPass:
		return fmt.Sprintf("%d pass", o.n)
	case opTimer:
		return "the timer goes off"
	case opQuit:
		return fmt.Sprintf("the context of caller %d is done", o.who)
	case opLeave:
		return fmt.Sprintf("caller %d leaves", o.who)
	case opRelease:
		return fmt.Sprintf("caller %d releases", o.who)
	case opSetQuota:
		return fmt.Sprintf("line %d has rate %v and burst %d", o.line, o.rate, o.n)
	case opRefit:
		return fmt.Sprintf("line %d has, as its quota %d, %v", o.line, o.who, o.quota)
	case opPause:
		return fmt.Sprintf("line %d pauses for %d", o.line, o.n)
	case opResize:
		return fmt.Sprintf("cap %d has size %d", o.line, o.n)
	}
	return fmt.Sprintf("line %d is closed", o.line)
}

// apply does o to the state machine, as the Limiter does it under its lock.
func (t *twin) apply(o op) {
	t.behind = t.behind && (o.kind == opQuit || o.kind == opRelease)
	switch o.kind {
	case opArrive, opTry, opDisplace:
		t.arrive(o)
	case opPass:
		t.now += o.n
		t.behind = true
		t.late = t.late || t.fx.nextDue() < t.now
	case opTimer:
		t.fx.catchUp(t.now)
	case opQuit, opLeave:
		t.quit(o)
	case opRelease:
		t.release(o.who)
	case opSetQuota:
		t.tellChange(t.gates[o.line].change(o.rate, o.n, t.now))
	case opRefit:
		t.tellChange(t.gates[o.line].refit(o.who, o.quota, t.now))
	case opResize:
		t.tellChange(t.caps[o.line].resize(o.n, t.now))
	case opPause:
		t.gates[o.line].pause(t.now+o.n, t.now)
	case opClose:
		t.fx.catchUp(t.now)
		t.gates[o.line].turnAway(byClose, "", func(*line, *call) bool { return true }, t.now)
		t.fx.run(t.now)
	}
}

// tell does o to the model.
func (o op) tell(m *model, t *twin) {
	switch o.kind {
	case opArrive, opTry, opDisplace:
		m.arrive(m.lines[o.line], modelCaller{who: len(t.callers) - 1, tokens: o.tokens, weight: o.weight}, o.kind)
	case opPass:
		m.now += o.n
	case opTimer:
		m.catchUp()
	case opQuit:
		l := m.lines[t.callers[o.who].line]
		l.queue[l.place(o.who)].gone = true
	case opLeave:
		m.giveUp(m.lines[t.callers[o.who].line], o.who)
	case opRelease:
		c := t.callers[o.who]
		m.release(m.lines[c.line], c.call.weight)
	case opSetQuota:
		m.setQuota(m.lines[o.line], o.rate, o.n)
	case opRefit:
		m.refit(m.lines[o.line], o.who, o.quota)
	case opResize:
		m.resize(m.caps[o.line], o.n)
	case opPause:
		m.pause(m.lines[o.line], m.now+o.n)
	case opClose:
		m.close(m.lines[o.line])
	}
}

func (t *twin) tellChange(seq uint64) {
	t.tell(event{who: -1, what: changes, at: t.now}, seq)
}

// arrive does what Limiter.acquire and Limiter.try do.
func (t *twin) arrive(o op) {
	g, who := t.gates[o.line], len(t.callers)
	c := &call{tokens: o.tokens, weight: o.weight}
	caller := &twinCaller{call: c, line: o.line}
	t.callers = append(t.callers, caller)
	t.fx.catchUp(t.now)
	switch {
	case g.begin(o.tokens, o.weight, nil, t.now):
		c.seq = t.fx.next()
		c.id, c.state, c.at, caller.starts = c.seq, callStarted, t.now, true
		t.tell(event{who: who, what: starts, at: t.now, nominal: t.now}, c.seq)
		t.fx.run(t.now)
	case o.kind == opTry:
		c.state, caller.over = callRefused, true
	default:
		if oldest := g.line.front; o.kind == opDisplace && oldest != nil {
			if oldest.gone() { // as Limiter.makeRoom does
				g.drop(oldest, t.now)
			} else {
				g.displace(t.now)
			}
		}
		g.join(c, t.now)
	}
}

// quit has the context of a caller end. Where it leaves, it has seen that itself, and does what Limiter.abandon does.
func (t *twin) quit(o op) {
	c := t.callers[o.who]
	c.gone, c.call.done = true, alwaysDone
	if o.kind == opLeave {
		t.fx.catchUp(t.now)
		if c.call.state == callWaiting {
			t.gates[c.line].leave(c.call, t.now)
		}
	}
}

// release gives a caller's permits back, as Permit.Release does.
func (t *twin) release(who int) {
	c := t.callers[who]
	c.over = true
	for g := t.gates[c.line]; g != nil; g = g.tree.parent {
		if g.cap != nil && g.cap.waiting.front != nil {
			t.fx.catchUp(t.now)
			t.behind = false
		}
	}
	for g := t.gates[c.line]; g != nil; g = g.tree.parent {
		if g.cap != nil {
			g.held -= c.call.weight
			g.cap.release(c.call.weight)
		}
	}
	t.fx.run(t.now)
}
