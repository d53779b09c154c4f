package throttle

import (
	"math/big"
	"slices"
)

// A model is the whole limiter once more: several lines, each with its quota and its cap, two of which
// may be one. It is written after the contract, to be slow and obvious: levels are rational numbers, lines
// are slices, and whatever can be derived is derived anew each time. Whatever happens to a caller goes to log.
//
// A line is judged when something moves it: its timer, an arrival of its own while that is late, its front leaving,
// a change of its quota or its cap, its closing, permits coming back, or a permit for which it stands in line.
type model struct {
	now   int64
	lines []*modelLine
	log   []event
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
	rate  *big.Rat // tokens a nanosecond; nil: no rate
	burst int64
	level *big.Rat // as of the instant asOf
	asOf  int64

	cap   *modelCap // nil: no cap
	slack int64
	queue []modelCaller
	held  int64

	lastStart, frontLeft, permitCame, limitChanged int64 // instants
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
	lacking    []*modelLine // whose front lacks its permits, in the order in which they came to lack them
	waiting    []*modelLine // with callers, in the order in which they began to have some
}

// What was read of big numbers is never written to: each of these returns a new one.

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func rational(r Rate) *big.Rat { return big.NewRat(r.N, int64(r.Period)) }

// ceil returns the least whole number that is at least x, or never if that is beyond an int64.
func ceil(x *big.Rat) int64 {
	q, rest := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return never
	}
	return q.Int64()
}

// levelAt returns the tokens that are there at the instant t.
func (l *modelLine) levelAt(t int64) *big.Rat {
	earned := new(big.Rat).Mul(l.rate, whole(t-l.asOf))
	return least(whole(l.burst), earned.Add(earned, l.level))
}

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// tokensDue returns the first whole instant at which k tokens are there.
func (l *modelLine) tokensDue(k int64) int64 {
	if l.rate == nil {
		return 0
	}
	if l.level.Cmp(whole(k)) >= 0 {
		return l.asOf
	}
	lack := new(big.Rat).Sub(whole(k), l.level)
	return ceil(lack.Add(lack.Quo(lack, l.rate), whole(l.asOf)))
}

// reckon returns the wait of a newcomer who would take k tokens: until the costs of all ahead of it and
// its own are earned, permits taken as free.
func (m *model) reckon(l *modelLine, k int64) int64 {
	if l.rate == nil {
		return 0
	}
	lack := new(big.Rat).Sub(whole(k), l.levelAt(m.now))
	for _, c := range l.queue {
		lack.Add(lack, whole(c.tokens))
	}
	if lack.Sign() <= 0 {
		return 0
	}
	return ceil(lack.Quo(lack, l.rate))
}

// nominal returns the instant as of which the front caller of l may be charged; in the future, it is due then.
func (m *model) nominal(l *modelLine) int64 {
	c := l.queue[0]
	s := max(c.joined, l.floor(), m.now-l.slack)
	return max(s, l.tokensDue(c.tokens))
}

func (l *modelLine) lacksPermit() bool { return l.cap != nil && slices.Contains(l.cap.lacking, l) }

// due returns when the timer of l must move it on.
func (l *modelLine) due() int64 {
	if len(l.queue) == 0 || l.lacksPermit() {
		return never
	}
	return l.tokensDue(l.queue[0].tokens)
}

func (c *modelCap) free() int64 { return max(0, c.size-c.held) }

// has reports whether l may have weight permits now: nobody who lacks any stands before it.
func (c *modelCap) has(weight int64) bool {
	return len(c.lacking) == 0 && weight <= c.free()
}

// judge lets callers of l through until its front lacks something.
func (m *model) judge(l *modelLine) {
	for len(l.queue) > 0 && !l.lacksPermit() {
		s := m.nominal(l)
		if s > m.now {
			return
		}
		switch c := l.queue[0]; {
		case c.gone:
			m.leave(l, c.who)
		case l.cap != nil && !l.cap.has(c.weight):
			l.cap.lacking = append(l.cap.lacking, l)
		default:
			m.startFront(l, s)
		}
	}
}

// handOut gives free permits to the fronts that lack them, in order, and one line one front at a time.
func (m *model) handOut(c *modelCap) {
	for c != nil && len(c.lacking) > 0 {
		l := c.lacking[0]
		front := l.queue[0]
		switch {
		case front.gone:
			m.leave(l, front.who)
		case front.weight > c.free():
			return
		default:
			c.lacking = c.lacking[1:]
			l.permitCame = m.now
			m.startFront(l, m.now)
		}
		m.judge(l)
	}
}

func (m *model) moveOn(l *modelLine) {
	m.judge(l)
	m.handOut(l.cap)
}

func (m *model) startFront(l *modelLine, nominal int64) {
	c := m.take(l, 0)
	m.charge(l, c, nominal)
}

// charge takes the cost of a start, tokens and permits at once.
func (m *model) charge(l *modelLine, c modelCaller, nominal int64) {
	if l.rate != nil {
		l.level = new(big.Rat).Sub(l.levelAt(nominal), whole(c.tokens))
		l.asOf = nominal
	}
	if l.cap != nil {
		l.cap.held += c.weight
		l.held += c.weight
	}
	l.lastStart = nominal
	m.log = append(m.log, event{who: c.who, what: starts, at: m.now, nominal: nominal})
}

// take takes the caller at place i out of the line.
func (m *model) take(l *modelLine, i int) modelCaller {
	c := l.queue[i]
	l.queue = slices.Delete(slices.Clone(l.queue), i, i+1)
	if l.cap != nil && len(l.queue) == 0 {
		l.cap.waiting = without(l.cap.waiting, l)
	}
	return c
}

func without(lines []*modelLine, l *modelLine) []*modelLine {
	return slices.DeleteFunc(slices.Clone(lines), func(x *modelLine) bool { return x == l })
}

func (l *modelLine) place(who int) int {
	return slices.IndexFunc(l.queue, func(c modelCaller) bool { return c.who == who })
}

// vacate takes the caller at place i out unstarted. Where it was the front, its line asks the cap anew.
func (m *model) vacate(l *modelLine, i int) {
	if i == 0 {
		l.frontLeft = m.now
		if l.cap != nil {
			l.cap.lacking = without(l.cap.lacking, l)
		}
	}
	m.take(l, i)
}

func (m *model) leave(l *modelLine, who int) {
	m.vacate(l, l.place(who))
	m.log = append(m.log, event{who: who, what: leaves, at: m.now})
}

// turnAway refuses those of l who are unfit.
func (m *model) turnAway(l *modelLine, why refusal, unfit func(modelCaller) bool) {
	for _, c := range slices.Clone(l.queue) {
		if unfit(c) {
			m.vacate(l, l.place(c.who))
			m.log = append(m.log, event{who: c.who, what: refused, at: m.now, why: why})
		}
	}
	m.judge(l)
}

func (m *model) changed() {
	m.log = append(m.log, event{who: -1, what: changes, at: m.now})
}
