package throttle

import (
	"fmt"
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
	quotas []auditQuota // that of its rate first, if it has one
	paused int64
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
		x := &auditLine{setup: l}
		if l.burst != 0 {
			x.quotas = append(x.quotas, newAuditBucket(l.rate, l.burst, l.slack))
		}
		for _, q := range l.quotas {
			switch q.kind {
			case bucketKind:
				x.quotas = append(x.quotas, newAuditBucket(q.Rate, q.Burst, l.slack))
			case windowKind:
				x.quotas = append(x.quotas, &auditWindow{Quota: q})
			default:
				x.quotas = append(x.quotas, &auditInterval{Quota: q})
			}
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
		if o.kind == opPause && o.n > 0 { // whoever was due has started before
			l := a.lines[o.line]
			l.paused = max(l.paused, a.now+o.n)
		}
		if o.kind != opPass && !t.late {
			if err := a.idle(); err != nil {
				return fmt.Errorf("audit: operation %d, %v: %w\nafter: %v", i, o, err, t)
			}
		}
	}
	return nil
}

// path returns the line and those above it.
func (a *auditor) path(line int) (up []*auditLine) {
	for {
		up = append(up, a.lines[line])
		if line = a.lines[line].setup.above - 1; line < 0 {
			return up
		}
	}
}

// idle asserts C5: nobody waits in front of a line whose limits let it through a nanosecond ago, and whose permit is
// free, unless somebody else stands before it at the cap or above: then of those some front lacks something.
func (a *auditor) idle() error {
	isTree := slices.ContainsFunc(a.lines, func(l *auditLine) bool { return l.setup.above > 0 })
	paid := make([]int, len(a.caps))  // fronts that have asked the cap
	lack := make([]bool, len(a.caps)) // some of those that may have asked it ask for more than is free
	fronts, ready := 0, 0
	for line, l := range a.lines {
		who := slices.IndexFunc(a.costs, func(c auditCaller) bool { return c.line == line && c.waits })
		if who < 0 {
			continue
		}
		front := a.costs[who]
		cap := l.setup.cap
		fronts++
		switch {
		case isTree:
			if !front.quit && a.lacksNothing(front) {
				ready++
			}
		case cap < 0 && l.lets(front.tokens, a.now-1) && !front.quit:
			return fmt.Errorf("C5: caller %d lacks nothing, and waits", who)
		case cap >= 0 && l.lets(front.tokens, a.now): // if only now, its timer may be about to go off
			lack[cap] = lack[cap] || front.quit || front.weight > a.caps[cap].size-a.caps[cap].held
			if l.lets(front.tokens, a.now-1) {
				paid[cap]++
			}
		}
	}
	if fronts > 0 && ready == fronts {
		return fmt.Errorf("C5: %d fronts wait, and none lacks anything", fronts)
	}
	for cap, n := range paid {
		if n > 0 && !lack[cap] {
			return fmt.Errorf("C5: %d fronts wait for permits of cap %d, and it has enough for each", n, cap)
		}
	}
	return nil
}

// lets reports whether no limit of this level is in the way of such a cost at the instant t.
func (l *auditLine) lets(tokens, t int64) bool {
	return t >= l.paused && !slices.ContainsFunc(l.quotas, func(q auditQuota) bool { return !q.has(tokens, t) })
}

// lacksNothing reports whether no level lets c wait, since a nanosecond ago.
func (a *auditor) lacksNothing(c auditCaller) bool {
	for _, l := range a.path(c.line) {
		if !l.lets(c.tokens, a.now-1) || l.setup.cap >= 0 && c.weight > a.caps[l.setup.cap].size-a.caps[l.setup.cap].held {
			return false
		}
	}
	return true
}

// read takes in what an operation does by itself.
func (a *auditor) read(o op) {
	switch o.kind {
	case opArrive, opTry, opDisplace:
		a.costs = append(a.costs, auditCaller{o.line, o.tokens, o.weight, a.now, o.kind != opTry, false})
	case opPass:
		for _, c := range a.caps {
			c.spans = append(c.spans, auditSpan{a.now, a.now + o.n, c.size - c.held})
		}
		a.now += o.n
	case opQuit, opLeave:
		a.costs[o.who].quit = true
	case opRelease:
		c := a.costs[o.who]
		for _, l := range a.path(c.line) {
			if l.setup.cap >= 0 {
				a.caps[l.setup.cap].held -= c.weight
			}
		}
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
	case e.what == changes && o.kind == opRefit:
		l := a.lines[o.line]
		switch q := l.quotas[len(l.quotas)-len(l.setup.quotas)+o.who].(type) {
		case *auditBucket:
			q.change(op{rate: o.quota.Rate, n: o.quota.Burst}, a.now)
		case *auditWindow:
			q.change(o.quota, a.now)
		case *auditInterval:
			q.change(o.quota, a.now)
		}
		return nil
	case e.what == changes:
		a.lines[o.line].quotas[0].(*auditBucket).change(o, a.now)
		return nil
	case e.what == leaves && !a.costs[e.who].quit:
		return fmt.Errorf("C4: caller %d leaves, and its context is not done", e.who)
	}
	c := &a.costs[e.who]
	c.waits = false
	if e.what != starts {
		return nil
	}
	for i := range e.who {
		if a.costs[i].line == c.line && a.costs[i].waits {
			return fmt.Errorf("C3: caller %d starts before caller %d, who waits in the same line", e.who, i)
		}
	}
	switch {
	case c.quit:
		return fmt.Errorf("C4: caller %d starts after its context was done", e.who)
	case e.nominal > e.at || e.nominal < c.joined:
		return fmt.Errorf("caller %d joined at %d, starts at %d: not as of %d", e.who, c.joined, e.at, e.nominal)
	case e.nominal != e.at && !a.late:
		return fmt.Errorf("C1: caller %d starts at %d as of %d on a clock that is never late", e.who, e.at, e.nominal)
	}
	for level, l := range a.path(c.line) {
		switch {
		case e.nominal < e.at-l.setup.slack:
			return fmt.Errorf("caller %d starts at %d as of %d; %d above its line the slack is %d", e.who, e.at, e.nominal, level, l.setup.slack)
		case e.nominal < l.paused:
			return fmt.Errorf("C8: caller %d starts as of %d; %d above its line is a pause until %d", e.who, e.nominal, level, l.paused)
		}
		if l.setup.cap >= 0 {
			if err := a.caps[l.setup.cap].grant(*c, e); err != nil {
				return err
			}
		}
		for _, q := range l.quotas {
			if err := q.start(*c, e); err != nil {
				return fmt.Errorf("%d above its line: %w", level, err)
			}
		}
	}
	return nil
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
