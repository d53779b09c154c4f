package throttle

import (
	"fmt"
	"math/big"
	"slices"
)

// An auditor reads the history of a twin from the outside, operation by operation, and asserts what is
// promised: C1 to C5, and that nominal starts lie where they may. It knows neither gate nor model, but
// for the sizes, quotas and costs that the operations tell.
type auditor struct {
	*twin
	now   int64
	lines []*auditLine
	caps  []*auditCap
	costs []auditCaller
}

type auditLine struct {
	setup  lineSetup
	level  *big.Rat // replayed
	asOf   int64
	earned *big.Rat // up to the latest start or change, had the bucket no top
	starts []auditStart
	change int // how many of starts came before the latest change
}

type auditStart struct {
	real, nominal, burst, tokens int64
	earned                       *big.Rat // as of the nominal start
}

type auditCap struct {
	size, held int64
	spans      []auditSpan
}

// An auditSpan is a time in which so many permits were free.
type auditSpan struct{ from, to, free int64 }

type auditCaller struct {
	line                   int
	tokens, weight, joined int64
	waits, quit            bool
}

// audit reads the whole history.
func (t *twin) audit() error {
	a := &auditor{twin: t}
	for _, l := range t.lines {
		x := &auditLine{setup: l, earned: new(big.Rat)}
		if l.burst != 0 {
			x.level = whole(l.burst)
		}
		a.lines = append(a.lines, x)
	}
	for _, size := range t.setup.caps {
		a.caps = append(a.caps, &auditCap{size: size})
	}
	from := 0
	for i, o := range t.ops {
		a.read(o)
		for _, e := range t.log[from:t.upTo[i]] {
			if err := a.judge(o, e); err != nil {
				return fmt.Errorf("audit: operation %d, %v: %w\nafter: %v", i, o, err, t)
			}
		}
		from = t.upTo[i]
		if o.kind != opPass && !t.late {
			if err := a.idle(); err != nil {
				return fmt.Errorf("audit: operation %d, %v: %w\nafter: %v", i, o, err, t)
			}
		}
	}
	return nil
}

// idle asserts C5: nobody waits in front of a line whose tokens were there a nanosecond ago, and whose permit is
// free, unless somebody else stands before it at the cap.
func (a *auditor) idle() error {
	paid := make([]int, len(a.caps))  // fronts that have asked the cap
	lack := make([]bool, len(a.caps)) // some of those that may have asked it ask for more than is free
	for line, l := range a.lines {
		who := slices.IndexFunc(a.costs, func(c auditCaller) bool { return c.line == line && c.waits })
		if who < 0 {
			continue
		}
		front := a.costs[who]
		hasAt := func(t int64) bool {
			return l.level == nil || l.levelAt(max(l.asOf, t)).Cmp(whole(front.tokens)) >= 0
		}
		cap := l.setup.cap
		switch {
		case cap < 0 && hasAt(a.now-1) && !front.quit:
			return fmt.Errorf("C5: caller %d lacks nothing, and waits", who)
		case cap >= 0 && hasAt(a.now): // if only now, its timer may be about to go off
			lack[cap] = lack[cap] || front.quit || front.weight > a.caps[cap].size-a.caps[cap].held
			if hasAt(a.now - 1) {
				paid[cap]++
			}
		}
	}
	for cap, n := range paid {
		if n > 0 && !lack[cap] {
			return fmt.Errorf("C5: %d fronts wait for permits of cap %d, and it has enough for each", n, cap)
		}
	}
	return nil
}

// read takes in what an operation does by itself.
func (a *auditor) read(o op) {
	switch o.kind {
	case opArrive, opTry:
		a.costs = append(a.costs, auditCaller{o.line, o.tokens, o.weight, a.now, o.kind == opArrive, false})
	case opPass:
		for _, c := range a.caps {
			c.spans = append(c.spans, auditSpan{a.now, a.now + o.n, c.size - c.held})
		}
		a.now += o.n
	case opQuit, opLeave:
		a.costs[o.who].quit = true
	case opRelease:
		c := a.costs[o.who]
		a.caps[a.lines[c.line].setup.cap].held -= c.weight
	}
}

// judge asserts that e, which came of o, was right.
func (a *auditor) judge(o op, e event) error {
	if e.at != a.now {
		return fmt.Errorf("happened at %d; now is %d", e.at, a.now)
	}
	switch {
	case e.what == changes && o.kind == opResize:
		a.caps[o.line].size = o.n
		return nil
	case e.what == changes:
		a.lines[o.line].setQuota(o, a.now)
		return nil
	case e.what == leaves && !a.costs[e.who].quit:
		return fmt.Errorf("C4: caller %d leaves, and its context is not done", e.who)
	}
	c := &a.costs[e.who]
	c.waits = false
	if e.what != starts {
		return nil
	}
	l := a.lines[c.line]
	for i := range e.who {
		if a.costs[i].line == c.line && a.costs[i].waits {
			return fmt.Errorf("C3: caller %d starts before caller %d, who waits in the same line", e.who, i)
		}
	}
	switch {
	case c.quit:
		return fmt.Errorf("C4: caller %d starts after its context was done", e.who)
	case e.nominal > e.at || e.nominal < e.at-l.setup.slack || e.nominal < c.joined:
		return fmt.Errorf("caller %d joined at %d, starts at %d, slack %d: not as of %d", e.who, c.joined, e.at, l.setup.slack, e.nominal)
	case e.nominal != e.at && !a.late:
		return fmt.Errorf("C1: caller %d starts at %d as of %d on a clock that is never late", e.who, e.at, e.nominal)
	}
	if l.setup.cap >= 0 {
		if err := a.caps[l.setup.cap].grant(*c, e); err != nil {
			return err
		}
	}
	return l.start(*c, e)
}

// grant asserts C2, and that the time for which a caller is given credit had its permits free.
func (c *auditCap) grant(caller auditCaller, e event) error {
	c.held += caller.weight
	if c.held > c.size {
		return fmt.Errorf("C2: the start of caller %d makes %d of %d held", e.who, c.held, c.size)
	}
	for _, s := range c.spans {
		if s.to > e.nominal && s.free < caller.weight {
			return fmt.Errorf("caller %d, of weight %d, starts at %d as of %d; from %d to %d only %d permits were free",
				e.who, caller.weight, e.at, e.nominal, s.from, s.to, s.free)
		}
	}
	return nil
}

func (l *auditLine) levelAt(t int64) *big.Rat {
	earned := new(big.Rat).Mul(rational(l.setup.rate), whole(t-l.asOf))
	return least(whole(l.setup.burst), earned.Add(earned, l.level))
}

// pass brings the level and what was earned to the instant t.
func (l *auditLine) pass(t int64) {
	more := new(big.Rat).Mul(rational(l.setup.rate), whole(t-l.asOf))
	l.earned = more.Add(more, l.earned)
	l.level, l.asOf = l.levelAt(t), t
}

func (l *auditLine) setQuota(o op, now int64) {
	l.pass(now)
	l.setup.rate, l.setup.burst, l.change = o.rate, o.n, len(l.starts)
	p := rational(o.rate).Denom()
	units := new(big.Rat).Mul(l.level, new(big.Rat).SetInt(p))
	l.level = least(whole(o.n), new(big.Rat).SetFrac(new(big.Int).Quo(units.Num(), units.Denom()), p))
}

// start asserts C1 for all windows that end with this start.
func (l *auditLine) start(c auditCaller, e event) error {
	if l.setup.burst == 0 {
		return nil
	}
	if e.nominal < l.asOf {
		return fmt.Errorf("C1: caller %d starts as of %d; before it came a start or change of %d", e.who, e.nominal, l.asOf)
	}
	l.pass(e.nominal)
	l.level = new(big.Rat).Sub(l.level, whole(c.tokens))
	if l.level.Sign() < 0 {
		return fmt.Errorf("C1: caller %d starts as of %d, when %v tokens more were there", e.who, e.nominal, l.level)
	}
	l.starts = append(l.starts, auditStart{e.at, e.nominal, l.setup.burst, c.tokens, l.earned})
	sum := new(big.Rat)
	for i := len(l.starts) - 1; i >= 0; i-- {
		s := l.starts[i]
		sum.Add(sum, whole(s.tokens))
		budget := new(big.Rat).Sub(l.earned, s.earned)
		if budget.Add(budget, whole(s.burst)).Cmp(sum) < 0 {
			return fmt.Errorf("C1: %v tokens started as of %d to %d; promised are %v", sum, s.nominal, e.nominal, budget)
		}
		if i >= l.change { // real starts, while the quota was one
			budget.Mul(rational(l.setup.rate), whole(e.at-s.real+l.setup.slack))
			if budget.Add(budget, whole(s.burst)).Cmp(sum) < 0 {
				return fmt.Errorf("C1: %v tokens started from %d to %d; promised are %v", sum, s.real, e.at, budget)
			}
		}
	}
	return nil
}
