package throttle

import (
	byInstant "container/heap"
	"context"
	"errors"
	"maps"
	"time"
)

// A dryRun is what limiters that run dry (Config.DryRun) share besides their domain's lock and time. Where a caller would have waited, it is
// let through, and a shadow of it stands in line: the line, quotas and caps are those of a real run, and do not know the difference. What a caller
// in a real run does by itself, leave and release, is on the agenda, at instants of its own.
//
// The gate stands in the domain's dues for the first of these; it has no callers. Everything happens at the instant at which it is
// due, however late the timer is that finds it so.
type dryRun struct {
	gate
	of   map[*call]*shadow // by the call in line or in flight, and by the ticket of a caller whose call is under way
	list agenda
	told []func() // events to be traced, outside of the lock
}

// A shadow stands in line for a caller that was let through.
//
//	from       event                                   to         moved by
//	(new)      join                                    waiting    the caller
//	waiting    its turn, its token, its permit         in flight  whoever moves the line on; (over) where nothing is held
//	waiting    cut: its deadline, or the caller's      (over)     the agenda
//	           release with its context done
//	waiting    its context found done at its turn,     (over)     as a call in a real run
//	           close, a limit, a newcomer, a pause
//	in flight  as long after its start as the call     (over)     the agenda
//	           took, once that is known, or cut
//
// Truths: its state is that of call; it is in of until it is over, and its ticket until the caller's release; ticket is
// nil if took is known, and where nothing is held.
type shadow struct {
	call
	l        *Limiter
	ctx      context.Context
	ticket   *call
	ahead    int   // callers in line when it came
	came     int64 // when its caller was let through
	deadline int64 // of the context; never if it has none
	cut      int64 // when it ends at the latest, by its context
	took     int64 // how long the caller's call lasted; unsure while it does
	settled  int64 // how long after its start its cost is known; unsure: not yet, or done
	actual   Cost  // and what it is then
	due      int64 // on the agenda; never if it is not
	place    int   // there
}

func newDryRun(fx *effects) *dryRun {
	y := &dryRun{of: make(map[*call]*shadow)}
	y.gate.init(fx, nil, 0)
	y.attend = y.keepAgenda
	return y
}

// follow lets a caller through that would have to wait, and has its shadow join the line, or join again under an old id. It is called
// with the lock held, and returns without it.
func (l *Limiter) follow(ctx context.Context, id uint64, c Cost, ahead int, reckoned, now int64) (Permit, error) {
	d, g := l.dom, l.entry()
	s := &shadow{l: l, ctx: ctx, ahead: ahead, came: now, deadline: never, took: unsure, settled: unsure}
	s.tokens, s.weight, s.due, s.place = c.Tokens, c.Weight, never, -1
	if deadline, ok := ctx.Deadline(); ok {
		s.timed, s.deadline = true, later(now, int64(deadline.Sub(d.time(now))))
	}
	s.cut = s.deadline
	if l.tracked {
		s.done = ctx.Done()
	}
	if c.Quotas != nil {
		g.line.name(&s.call, maps.Clone(c.Quotas))
	}
	d.dry.of[&s.call] = s
	if id == 0 {
		g.join(&s.call, now)
	} else {
		s.id = id
		g.rejoin(&s.call, now)
		d.run(now)
	}
	p := Permit{l: l, id: s.call.id}
	queued := l.trace != nil && s.state == callWaiting
	e := Event{Seq: s.seq, ID: s.id, At: d.time(now), Wait: time.Duration(reckoned), Tokens: c.Tokens, Weight: c.Weight}
	if l.tracked {
		s.ticket = l.ticket(p.id, c.Weight)
		p.c = s.ticket
		d.dry.of[p.c] = s
	}
	d.dry.plan(s, now)
	d.unlock(now)
	if l.lists {
		l.keep(ctx, &s.call)
	}
	if queued {
		l.call(l.trace.Queued, e)
	}
	return p, nil
}

// ticket returns the record of a call that is under way, and holds nothing, or not yet. The caller holds the lock.
func (l *Limiter) ticket(id uint64, weight int64) *call {
	t := l.newCall(0, weight)
	t.id, t.state = id, callThrough
	for x := l; x != nil; x = x.up() {
		x.through += weight
	}
	return t
}

// answer is what a caller gets that was refused: err; or, in a dry run, a permit all the same, unless the limiter is closed.
func (l *Limiter) answer(id uint64, weight int64, err error) (Permit, error) {
	if !l.dry || errors.Is(err, ErrClosed) {
		return Permit{}, err
	}
	p := Permit{l: l, id: id}
	if l.tracked {
		l.dom.mu.Lock()
		p.c = l.ticket(id, max(weight, 1)) // also of one that is no weight
		l.dom.mu.Unlock()
	}
	return p, nil
}

// isThrough reports whether p is that of a call under way that was let through by a dry run alone. The caller holds the lock.
func (p Permit) isThrough() bool { return p.c.id == p.id && p.c.state == callThrough }

// endThrough ends such a call: from now on it is known how long its shadow is in flight. The caller holds the lock.
func (p Permit) endThrough(now int64) {
	l, t := p.l, p.c
	d, y := l.dom, l.dom.dry
	d.catchUp(now)
	if s := y.of[t]; s != nil {
		delete(y.of, t)
		s.ticket, s.took = nil, now-s.came
		switch {
		case now > s.cut:
			s.cut = never // it does not heed its context
		case s.gone():
			s.cut = now
		}
		s.done = nil // from now on its context is being tidied up
		y.plan(s, now)
	}
	for x := l; x != nil; x = x.up() {
		x.through -= t.weight
		x.tellIfDrained()
	}
	l.freeCall(t)
	d.catchUp(now)
}

// plan puts what s has to do next on the agenda.
func (y *dryRun) plan(s *shadow, now int64) {
	due := int64(never)
	switch {
	case s.state == callWaiting:
		due = s.cut
	case s.state == callStarted && s.settles():
		due = max(now, later(s.at, s.settled))
	case s.state == callStarted && s.took != unsure:
		due = max(now, min(later(s.at, s.took), s.cut))
	}
	y.list.put(s, due)
	y.setDue(y.list.first())
}

// settles reports whether its cost is yet to be settled, before it is cut.
func (s *shadow) settles() bool { return s.settled != unsure && later(s.at, s.settled) <= s.cut }

// keepAgenda has shadows do what is due.
func (y *dryRun) keepAgenda(now int64) {
	for y.list.first() <= now {
		s := y.list[0]
		l := s.l
		switch {
		case s.state == callWaiting:
			l.entry().drop(&s.call, now) // tells moved
		case s.settles():
			l.settle(s.id, s.actual, now)
			s.settled = unsure
			y.plan(s, now)
		default:
			e := Event{Seq: y.fx.next(), ID: s.id, At: l.dom.time(now), Weight: s.weight}
			s.linger(-s.weight)
			l.giveBack(s.id, s.weight)
			y.tell(l, e, func(t *Trace) func(Event) { return t.Released })
			y.end(s)
		}
		y.fx.run(now)
	}
	y.setDue(y.list.first())
}

// moved is told of a call in line that has been started, refused, or found gone.
func (y *dryRun) moved(c *call) {
	s := y.of[c]
	l := s.l
	d := l.dom
	switch c.state {
	case callStarted:
		y.tell(l, Event{Seq: c.seq, ID: c.id, At: d.time(c.at), Nominal: d.time(c.at - int64(c.late)),
			Wait: time.Duration(c.at - s.came), Tokens: c.tokens, Weight: c.weight}, func(t *Trace) func(Event) { return t.Started })
		if l.tracked {
			s.linger(s.weight)
			y.plan(s, c.at)
			return
		}
	case callRefused:
		k, said := l.sayings[c.id]
		delete(l.sayings, c.id)
		y.tell(l, l.refusal(*c, s.came, s.ahead, k, said), func(t *Trace) func(Event) { return t.Refused })
	case callLeft:
		err := &LeftError{Limiter: l.name, Waited: time.Duration(c.at - s.came), Ahead: s.ahead, Err: context.DeadlineExceeded}
		if c.at < s.deadline {
			err.Err, err.ctx = context.Canceled, s.ctx
		}
		y.tell(l, Event{Seq: c.seq, ID: c.id, At: d.time(c.at), Wait: err.Waited, Tokens: c.tokens, Weight: c.weight, Err: err},
			func(t *Trace) func(Event) { return t.Left })
	}
	y.end(s)
}

// tell has an event traced once the lock is free.
func (y *dryRun) tell(l *Limiter, e Event, which func(*Trace) func(Event)) {
	if l.trace != nil {
		y.told = append(y.told, func() { l.call(which(l.trace), e) })
	}
}

// end forgets a shadow that is over. Its caller's call may last.
func (y *dryRun) end(s *shadow) {
	if s.l.lists {
		s.l.unkeep(&s.call)
	}
	delete(y.of, &s.call)
	if s.ticket != nil {
		delete(y.of, s.ticket)
	}
	s.state = callFree
	y.plan(s, 0)
}

// linger notes that n more is in flight by shadows.
func (s *shadow) linger(n int64) {
	for x := s.l; x != nil; x = x.up() {
		x.lingering += n
	}
}

// refusePaused refuses the shadows in line, here and below, whose deadlines lie within a pause, as callers do that look at theirs.
func (l *Limiter) refusePaused(now int64) {
	y := l.dom.dry
	l.gate.eachLeaf(func(leaf *gate) {
		pause, at := leaf.pauseLeft(now)
		for c := leaf.line.front; c != nil; {
			next := c.next
			if s := y.of[c]; pause > 0 && s.deadline <= later(now, pause) {
				leaf.dismiss(c, now)
				y.tell(s.l, s.l.pausedOut(*c, pause, s.deadline-now, at, s.ahead), func(t *Trace) func(Event) { return t.Refused })
				y.end(s)
			}
			c = next
		}
	})
	l.dom.run(now)
}

// An agenda has the shadows that have something to do at an instant that is known, the first one first.
type agenda []*shadow

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due < a[j].due }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i]; a[i].place, a[j].place = i, j }
func (a *agenda) Push(x any)        { s := x.(*shadow); s.place = len(*a); *a = append(*a, s) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	s := (*a)[last]
	(*a)[last], s.place = nil, -1
	*a = (*a)[:last]
	return s
}

// put has s on the agenda at the instant due, or not at all.
func (a *agenda) put(s *shadow, due int64) {
	s.due = due
	switch {
	case s.place >= 0 && due == never:
		byInstant.Remove(a, s.place)
	case s.place >= 0:
		byInstant.Fix(a, s.place)
	case due != never:
		byInstant.Push(a, s)
	}
}

// first returns when there is something to do; never if there is not.
func (a agenda) first() int64 {
	if len(a) == 0 {
		return never
	}
	return a[0].due
}
