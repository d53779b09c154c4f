package throttle

import (
	"math/big"
	"slices"
)

// A model is the whole once more: lines in a tree, each with its quotas and its cap, some of which
// may be one. It is written after the contract, to be slow and obvious: levels are rational numbers, lines
// are slices, and whatever can be derived is derived anew each time. Whatever happens to a caller goes to log.
//
// Every operation first lets all lines start that have come due, in the order of their dues. Then a line is judged again
// only when something moves it: its front coming or leaving, a change of its limits, a permit for which it stands in line, or the
// lines below it.
type model struct {
	now   int64
	lines []*modelLine
	caps  []*modelCap
	log   []event

	moved []*modelLine // to be judged, in the order in which they were moved
	ties  []int        // of how many that came due at one instant one was taken, each time
	picks []int        // which one was; the first, where it does not say
}

// An event is what became of one caller, or a change of limits, in the order in which it came about.
type event struct {
	who     int // -1: a limit changed
	what    outcome
	at      int64
	nominal int64   // of a start
	why     refusal // of a refusal
}

type outcome string

const (
	starts  outcome = "starts"
	leaves  outcome = "leaves"
	refused outcome = "is refused"
	changes outcome = "limit changes"
)

type modelLine struct {
	modelBucket
	quotas []modelQuota
	cap    *modelCap // nil: no cap
	slack  int64
	queue  []modelCaller // of a line without others below it
	held   int64
	paused int64 // no start before this instant

	lastStart, frontLeft, permitCame, limitChanged int64 // instants

	modelPlace
}

// floor is the instant before which no time counts.
func (l *modelLine) floor() int64 { return max(l.lastStart, l.frontLeft, l.permitCame, l.limitChanged) }

type modelCaller struct {
	who            int
	tokens, weight int64
	joined         int64
	gone           bool // its context is done
}

type modelCap struct {
	size, held int64
	shared     bool
	lacking    []*modelLine // whose front lacks its permits, in the order in which they came to lack them
	waiting    []*modelLine // with callers, here or below, in the order in which they began to have some
}

func (c *modelCap) free() int64 { return max(0, c.size-c.held) }

// has reports whether l may have weight permits now: nobody else who lacks any stands before it.
func (c *modelCap) has(l *modelLine, weight int64) bool {
	return (len(c.lacking) == 0 || c.lacking[0] == l) && weight <= c.free()
}

func (l *modelLine) lacksPermit() bool { return l.cap != nil && slices.Contains(l.cap.lacking, l) }

// nominal returns the instant as of which the front caller of l may be charged; in the future, it is due then.
func (m *model) nominal(l *modelLine) int64 {
	since := l.front().joined
	if l.isInner() {
		since = l.judged().ready
	}
	return max(since, l.floor(), m.now-l.leastSlack(), l.limitsDue(l.front().tokens))
}

// limitsDue returns when no limit of l but its cap is in the way of a front that costs so much, be it long ago.
func (l *modelLine) limitsDue(tokens int64) int64 {
	due := l.paused
	if l.rate != nil {
		due = max(due, l.tokensDue(tokens))
	}
	for i := range l.quotas {
		due = max(due, l.quotas[i].due(tokens))
	}
	return due
}

// due returns when l must be judged though nothing moves it.
func (l *modelLine) due() int64 {
	if l.front() == nil || l.lacksPermit() || l.asks() {
		return never
	}
	return l.limitsDue(l.front().tokens)
}

// catchUp lets all that have come due start, in the order of their dues.
func (m *model) catchUp() {
	for {
		due := m.firstDue()
		if len(due) == 0 {
			return
		}
		l := due[0]
		if len(due) > 1 {
			l = due[m.pick(len(due))]
		}
		m.judge(l)
		m.settle()
	}
}

// firstDue returns the lines that are due at the first instant at which one is, if that has come.
func (m *model) firstDue() (first []*modelLine) {
	at := int64(never)
	for _, l := range m.lines {
		at = min(at, l.due())
	}
	for _, l := range m.lines {
		if at <= m.now && l.due() == at {
			first = append(first, l)
		}
	}
	return first
}

// behind returns how many lines have come due and are not judged yet.
func (m *model) behind() (n int) {
	for _, l := range m.lines {
		if l.due() <= m.now {
			n++
		}
	}
	return n
}

// pick returns one of n lines that came due at one instant: no order is promised among them.
func (m *model) pick(n int) int {
	i := 0
	if len(m.ties) < len(m.picks) {
		i = m.picks[len(m.ties)]
	}
	m.ties = append(m.ties, n)
	return i
}

// move has l judged.
func (m *model) move(l *modelLine) {
	if l != nil && !slices.Contains(m.moved, l) {
		m.moved = append(m.moved, l)
	}
}

// settle judges what was moved, until nothing is.
func (m *model) settle() {
	for len(m.moved) > 0 {
		l := m.moved[0]
		m.moved = slices.Clone(m.moved[1:])
		m.judge(l)
	}
}

// judge lets callers of l through until its front lacks something here or, in a line below another, has all.
func (m *model) judge(l *modelLine) {
	for l.front() != nil {
		c, s := *l.front(), m.nominal(l)
		switch {
		case s > m.now:
			m.withdraw(l)
			return
		case c.gone:
			m.leave(l.leaf(), c.who)
			continue
		case l.cap != nil && !l.cap.has(l, c.weight):
			if !l.lacksPermit() {
				l.cap.lacking = append(slices.Clone(l.cap.lacking), l)
			}
			m.stopAsking(l)
			return
		case l.lacksPermit():
			m.stopLacking(l)
			l.permitCame, s = m.now, m.now
		}
		if l.up != nil {
			m.ask(l, s)
			return
		}
		if !m.startFront(l, s) || l.isInner() {
			return
		}
	}
	m.withdraw(l)
}

// withdraw has l stand nowhere.
func (m *model) withdraw(l *modelLine) {
	m.stopLacking(l)
	m.stopAsking(l)
}

// stopLacking takes l out of those that lack a permit; the first of the others may have it now.
func (m *model) stopLacking(l *modelLine) {
	if l.lacksPermit() {
		l.cap.lacking = without(l.cap.lacking, l)
		m.move(firstOf(l.cap.lacking))
	}
}

// charge takes the cost of a start from one level, tokens and permits at once.
func (m *model) charge(l *modelLine, c modelCaller, nominal int64) {
	if l.rate != nil {
		l.take(c.tokens, nominal)
	}
	for i := range l.quotas {
		l.quotas[i].charge(c.tokens, nominal, m.now)
	}
	if l.cap != nil {
		l.cap.held += c.weight
		l.held += c.weight
	}
	l.lastStart = nominal
}

func (m *model) tellStart(c modelCaller, nominal int64) {
	m.log = append(m.log, event{who: c.who, what: starts, at: m.now, nominal: nominal})
}

// vacate ends the turn of the front of l, which leaves unstarted. Whoever follows it asks anew.
func (m *model) vacate(l *modelLine) {
	l.frontLeft = m.now
	m.withdraw(l)
	m.move(l)
}

// takeOut takes the caller who, who does not start, out of the line.
func (m *model) takeOut(l *modelLine, who int) {
	if l.place(who) == 0 {
		m.vacate(l)
	}
	l.remove(l.place(who))
}

func (m *model) leave(l *modelLine, who int) {
	m.takeOut(l, who)
	m.log = append(m.log, event{who: who, what: leaves, at: m.now})
}

// turnAway refuses those in l and below who are unfit.
func (m *model) turnAway(l *modelLine, why refusal, unfit func(*modelLine, modelCaller) bool) {
	for _, leaf := range l.leaves() {
		for _, c := range slices.Clone(leaf.queue) {
			if unfit(leaf, c) {
				m.takeOut(leaf, c.who)
				m.log = append(m.log, event{who: c.who, what: refused, at: m.now, why: why})
			}
		}
	}
}

func (m *model) changed() {
	m.log = append(m.log, event{who: -1, what: changes, at: m.now})
}

func without(lines []*modelLine, l *modelLine) []*modelLine {
	return slices.DeleteFunc(slices.Clone(lines), func(x *modelLine) bool { return x == l })
}

func firstOf(lines []*modelLine) *modelLine {
	if len(lines) == 0 {
		return nil
	}
	return lines[0]
}

// reckon returns the wait of a newcomer to l who would take k tokens: until, at every level, the pause is over and the costs of
// all ahead of it in its line and its own have come, permits taken as free.
func (m *model) reckon(l *modelLine, k int64) int64 {
	ahead := new(big.Rat)
	for _, c := range l.queue {
		ahead.Add(ahead, whole(c.tokens))
	}
	ahead.Add(ahead, whole(k))
	wait := int64(0)
	for x := l; x != nil; x = x.up {
		pause := max(0, x.paused-m.now)
		wait = max(wait, pause)
		if x.rate != nil {
			wait = max(wait, later(pause, x.earned(ahead, m.now+pause)))
		}
		for i := range x.quotas {
			wait = max(wait, later(pause, x.quotas[i].wait(ceil(ahead), m.now+pause)))
		}
	}
	return wait
}
