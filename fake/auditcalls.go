package fake

// callState is how far a call has come: the kinds of event seen, and where it joined.
type callState struct {
	seen   [limited]bool
	joined place
}

// place is where an event stands in the ledger's order, with its seq for messages.
type place struct {
	index int
	id    uint64
	seq   uint64
}

// lineOrder is the call that joined last among those of a line that have started.
type lineOrder struct {
	any  bool
	last place
}

// lifeAndOrder judges one event of a call, the index-th in order, by C8 and C3.
func (a *auditor) lifeAndOrder(index int, e event) {
	key := callKey{e.line, e.id}
	call := a.calls[key]
	if call == nil {
		call = &callState{joined: place{index, e.id, e.seq}}
		a.calls[key] = call
		a.report.Calls++
	}
	var wrong string
	switch {
	case call.seen[e.kind]:
		wrong = "a second time"
	case e.kind == joined && call.seen[started]:
		wrong = "after its start"
	case e.kind == joined && call.seen[left]:
		wrong = "after it left"
	case e.kind == started && call.seen[left]:
		wrong = "after it left"
	case e.kind == left && call.seen[started]:
		wrong = "after its start"
	case e.kind == ended && !call.seen[started]:
		wrong = "without a start"
	}
	if wrong != "" {
		a.violate("C8", e.line, e.id, e.at, "call %d %v %s, at %s, seq %d", e.id, e.kind, wrong, instant(e.at), e.seq)
	}
	if call.seen[e.kind] {
		return
	}
	call.seen[e.kind] = true
	switch e.kind {
	case started:
		a.report.Started++
		a.order(call.joined, e)
	case ended:
		a.report.Ended++
	case left:
		a.report.Left++
	}
}

// order judges a start by C3: among the calls of its line that started before it, none may have joined after it.
func (a *auditor) order(joined place, e event) {
	line := a.lines[e.line]
	if line == nil {
		line = &lineOrder{}
		a.lines[e.line] = line
	}
	if line.any && joined.index < line.last.index {
		a.violate("C3", e.line, e.id, e.at, "call %d, which joined at seq %d, started at seq %d, after call %d, which joined at seq %d",
			e.id, joined.seq, e.seq, line.last.id, line.last.seq)
		return
	}
	line.any, line.last = true, joined
}

// inFlight judges one event by C2 under the limits of a scope.
func (a *auditor) inFlight(s *scope, e event) {
	key := callKey{e.line, e.id}
	switch {
	case e.kind == limited:
		if e.ofLine == s.ofLine && e.line == s.line {
			s.cap = max(e.weight, NoCap)
		}
		return
	case s.ofLine && e.line != s.line:
		return
	case e.kind == started:
		if _, twice := s.held[key]; twice {
			return
		}
		before := s.inFlight
		s.held[key] = e.weight
		s.inFlight += e.weight
		if s.cap == 0 || s.cap > 0 && e.weight > 0 && e.weight > s.cap-before {
			a.violate("C2", s.line, e.id, e.at, "call %d, weight %d, started at %s, seq %d, with %d in flight: the cap is %d",
				e.id, e.weight, instant(e.at), e.seq, before, s.cap)
		}
		if !s.ofLine {
			a.report.PeakWeight = max(a.report.PeakWeight, s.inFlight)
		}
	case e.kind == ended:
		s.inFlight -= s.held[key]
		delete(s.held, key)
	}
}
