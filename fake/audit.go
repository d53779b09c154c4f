package fake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Limits are a rate, N tokens each Period, with a Burst, and a cap on the weight in flight. A zero field means no such
// limit; N, Period and Burst come together. N and Burst are 1 or more, Period above 0.
type Limits struct {
	N           int64
	Period      time.Duration
	Burst       int64
	MaxInFlight int64
}

// AuditConfig says what was promised when the ledger began. Changes after that are in the ledger.
type AuditConfig struct {
	Limits                   // of all lines together
	Lines  map[string]Limits // of single lines, besides

	// Slack is how far a real start may lie behind its nominal one: the limiter's Slack. Zero: not at all.
	Slack time.Duration
}

// Audit judges a ledger by clauses C1, C2, C3 and C8 of the contract, in O(n log n) for n events, exactly.
//
// C1, nominal starts: a token bucket, full at the beginning, is replayed in rational arithmetic through starts and limit
// changes in order of seq. A start that finds less than its cost is a violation; it is not charged, so that those after it do
// not suffer from it. A new rate keeps the level, its part-token rounded down to the new denominator; a higher burst adds no tokens; a lower one
// cuts the level. Instants earlier than one already seen add nothing. Where a start has no nominal instant, this rate's replay is left out.
//
// C1, real starts: over every window from one start to another, both included, the cost is at most the largest burst in
// force within slack before its beginning, and what the rate gives from slack before its beginning to its end. The worst window is in the report, and a
// violation if it exceeds that. An instant earlier than one of a lower seq counts as that one.
//
// C2: no start makes the weight held exceed the cap in force at that seq, and none happens at a cap of 0. A cap lowered below
// what is held is no violation.
//
// C3: on each line, the calls that started did so in the order in which they joined. A call not recorded as joined counts as having joined
// at its start.
//
// C8: no call joins, starts, ends or leaves twice, ends without a start, or both starts and leaves.
//
// A rate that begins with a limit change begins with a full bucket; starts before it are free. Limits out of range are
// reported as violations of clause "input". A ledger that is still being written to is judged as it is.
func Audit(l *Ledger, c AuditConfig) Report {
	a := auditor{slack: c.Slack, calls: make(map[callKey]*callState), lines: make(map[string]*lineOrder)}
	if l == nil {
		a.violate("input", "", 0, time.Time{}, "the ledger is nil: must be a ledger")
		return a.report
	}
	if c.Slack < 0 {
		a.violate("input", "", 0, time.Time{}, "AuditConfig.Slack is %v: must be 0 or more", c.Slack)
		return a.report
	}
	events := l.sorted()
	scopes := a.scopes(c, events)
	if !a.report.OK() {
		return a.report
	}
	for i, e := range events {
		if e.kind != limited {
			a.lifeAndOrder(i, e)
		}
		for _, s := range scopes {
			a.inFlight(s, e)
		}
	}
	for _, s := range scopes {
		if s.rated {
			a.nominal(s)
			a.real(s)
		}
	}
	return a.report
}

// auditor holds what one Audit has found so far.
type auditor struct {
	slack  time.Duration
	report Report
	calls  map[callKey]*callState
	lines  map[string]*lineOrder
}

// scope is a set of limits and the events under them: those of the whole ledger, or those of one line.
type scope struct {
	ofLine bool
	line   string
	first  Limits
	rated  bool    // some rate was in force at some time
	events []event // starts and limit changes, in order

	inFlight, cap int64 // as the events are gone through
	held          map[callKey]int64
}

func (a *auditor) violate(clause, line string, id uint64, at time.Time, format string, args ...any) {
	a.report.Violations = append(a.report.Violations,
		Violation{Clause: clause, Line: line, ID: id, At: at, Text: fmt.Sprintf(format, args...)})
}

// scopes lists the whole ledger and each line with limits of its own, and checks all limits given.
func (a *auditor) scopes(c AuditConfig, events []event) []*scope {
	whole := &scope{first: c.Limits}
	byLine := make(map[string]*scope)
	for name, first := range c.Lines {
		byLine[name] = &scope{ofLine: true, line: name, first: first}
	}
	for _, e := range events {
		if e.ofLine && byLine[e.line] == nil {
			byLine[e.line] = &scope{ofLine: true, line: e.line}
		}
	}
	all := []*scope{whole}
	for _, name := range slices.Sorted(maps.Keys(byLine)) {
		all = append(all, byLine[name])
	}
	for _, s := range all {
		if err := checkRate(s.first.N, s.first.Period, s.first.Burst); err != nil {
			a.violate("input", s.line, 0, time.Time{}, "AuditConfig: %v", err)
		}
		if s.first.MaxInFlight < 0 {
			a.violate("input", s.line, 0, time.Time{}, "AuditConfig: MaxInFlight is %d: must be 0 or more", s.first.MaxInFlight)
		}
		s.rated = s.first.N > 0
		s.cap = cmp.Or(s.first.MaxInFlight, NoCap)
		s.held = make(map[callKey]int64)
	}
	for _, e := range events {
		switch e.kind {
		case started:
			if e.cost < 0 || e.weight < 0 {
				a.violate("input", e.line, e.id, e.at, "call %d costs %d tokens at weight %d: must be 0 or more", e.id, e.cost, e.weight)
			}
			whole.events = append(whole.events, e)
			if s := byLine[e.line]; s != nil {
				s.events = append(s.events, e)
			}
		case limited:
			s := whole
			if e.ofLine {
				s = byLine[e.line]
			}
			if e.cost == 0 {
				continue
			}
			if err := checkRate(e.cost, e.period, e.burst); err != nil {
				a.violate("input", s.line, 0, e.at, "limit change at %s, seq %d: %v", instant(e.at), e.seq, err)
			}
			s.rated = true
			s.events = append(s.events, e)
		}
	}
	return all
}

// nominal replays the nominal starts of a scope on a token bucket.
func (a *auditor) nominal(s *scope) {
	for _, e := range s.events {
		if e.kind == started && e.nominal.IsZero() {
			return
		}
	}
	var bucket *tokenBucket
	if s.first.N > 0 {
		bucket = newTokenBucket(s.first.N, s.first.Period, s.first.Burst)
	}
	for _, e := range s.events {
		switch {
		case e.kind == limited && bucket == nil:
			bucket = newTokenBucket(e.cost, e.period, e.burst)
			bucket.to(e.at)
		case e.kind == limited:
			bucket.change(e.at, e.cost, e.period, e.burst)
		case bucket != nil:
			a.report.Replayed++
			if !bucket.take(e.nominal, e.cost) {
				a.violate("C1", s.line, e.id, e.nominal, "call %d, nominal start %s, cost %d: the bucket held %s of %d",
					e.id, instant(e.nominal), e.cost, decimal(bucket.tokens()), bucket.burst)
			}
		}
	}
}

// real finds the worst window of the real starts of a scope.
func (a *auditor) real(s *scope) {
	// Before a rate that begins with a change, no tokens come and none are needed.
	changes := []limits{{n: s.first.N, period: s.first.Period, burst: s.first.Burst}}
	var starts []spending
	var latest time.Time
	began := s.first.N > 0
	for i, e := range s.events {
		if i == 0 || e.at.After(latest) {
			latest = e.at
		}
		switch {
		case e.kind == limited:
			began = true
			changes = append(changes, limits{latest, e.cost, e.period, e.burst})
		case began:
			starts = append(starts, spending{latest, e.cost})
		}
	}
	w := worstWindow(starts, changes, a.slack)
	w.Line = s.line
	a.report.Windows = append(a.report.Windows, w)
	if w.Excess != nil && (a.report.Worst.Excess == nil || w.Excess.Cmp(a.report.Worst.Excess) > 0) {
		a.report.Worst = w
	}
	if !w.OK() {
		a.violate("C1", s.line, 0, w.From, "real starts, slack %v: %v", a.slack, w)
	}
}
