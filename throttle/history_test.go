package throttle

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	modelN    = flag.Int("model.n", 2000, "how many random histories are compared with the model")
	modelSeed = flag.Uint64("model.seed", 0, "the one history to run, as a failure printed it; 0: model.n of them")
)

// A source is what a history is drawn from: numbers at random, or the bytes of a fuzz input.
type source interface {
	below(n int) int // a number from 0 to n-1
	more() bool      // whether the history goes on
}

// random draws so many operations at random.
type random struct {
	*rand.Rand
	left int
}

func (r *random) below(n int) int { return r.IntN(n) }

func (r *random) more() bool {
	r.left--
	return r.left >= 0
}

// bytesSource draws from bytes, one a number, and ends with them.
type bytesSource []byte

func (b *bytesSource) below(n int) int {
	if len(*b) == 0 {
		return 0
	}
	x := (*b)[0]
	*b = (*b)[1:]
	return int(x) % n
}

func (b *bytesSource) more() bool { return len(*b) > 0 }

func one[T any](s source, of ...T) T { return of[s.below(len(of))] }

// drawRate draws rates at which much happens within some hundred nanoseconds, and now and then an extreme.
func drawRate(s source) Rate {
	if s.below(5) == 0 {
		return one(s, PerSecond(1e9), PerSecond(333_333_333), PerDay(365), Rate{1, never}, Rate{999_999_999_999, time.Hour})
	}
	return one(s, Rate{1, 10}, Rate{3, 7}, Rate{1, 1}, Rate{2, 3}, Rate{2, 90}, Rate{5, 37}, Rate{7, 1000})
}

func drawBurst(s source) int64 {
	if s.below(6) == 0 {
		return one[int64](s, 20, 1<<40, MaxBurst)
	}
	return one[int64](s, 1, 1, 2, 3, 4, 7)
}

// drawSetup draws one to three lines, which have a cap of their own, share one, or have none; in each third history, a line above
// all of these; and in each third of those, another between some of them and that.
func drawSetup(s source) setup {
	u := setup{caps: []int64{one[int64](s, 1, 2, 3, 4, 6, 8, 0)}}
	ownCap := func(sizes ...int64) int {
		u.caps = append(u.caps, one(s, sizes...))
		return len(u.caps) - 1
	}
	above, between := 0, 0
	if s.below(3) == 0 {
		l := drawLine(s)
		if s.below(2) > 0 {
			l.cap = ownCap(1, 2, 3, 5, 100)
		}
		u.lines, above = append(u.lines, l), 1
		if s.below(3) == 0 {
			l := drawLine(s)
			l.above, l.share, l.cap = above, one[int64](s, 1, 2), 0
			u.lines, between = append(u.lines, l), 2
		}
	}
	for i := range one(s, 1, 2, 2, 3) {
		l := drawLine(s)
		if above > 0 {
			l.above, l.share = above, one[int64](s, 1, 1, 2, 3)
		}
		if between > 0 && (i == 0 || s.below(2) > 0) {
			l.above = between
		}
		switch {
		case l.above == between && above > 0:
			if s.below(2) > 0 {
				l.cap = ownCap(1, 1, 2, 3)
			}
		case s.below(4) > 0 || l.burst == 0 && above == 0:
			l.cap = 0
		case s.below(2) > 0:
			l.cap = ownCap(1, 2, 3, 100, MaxCap)
		}
		u.lines = append(u.lines, l)
	}
	return u
}

// drawLine draws the quotas of a line, which has no cap.
func drawLine(s source) lineSetup {
	l := lineSetup{cap: -1, slack: one[int64](s, 0, 0, 3, 10, 100, 1e9)}
	if s.below(5) > 0 {
		l.rate, l.burst = drawRate(s), drawBurst(s)
	}
	for range one(s, 0, 0, 0, 1, 2) {
		l.quotas = append(l.quotas, drawQuota(s))
	}
	return l
}

func drawQuota(s source) Quota {
	n, span := int64(1+s.below(5)), one[time.Duration](s, 1, 4, 13, 50, 300)
	switch s.below(4) {
	case 0:
		return Quota{Rate: drawRate(s), Burst: drawBurst(s)}
	case 1:
		return AtMost(n, span)
	case 2:
		return FixedWindow(n, span)
	}
	return FixedWindow(n, span).AlignedTo(time.Time{}.Add(time.Duration(1 + s.below(20))))
}

// drawAnother draws a quota of the same kind.
func drawAnother(s source, q Quota) Quota {
	if q.kind == bucketKind {
		return Quota{Rate: drawRate(s), Burst: drawBurst(s)}
	}
	q.Burst, q.Rate.Period = int64(1+s.below(5)), one[time.Duration](s, 1, 4, 13, 50, 300)
	return q
}

// draw draws an operation that is possible now.
func (t *twin) draw(s source) op {
	switch k := s.below(23); {
	case k < 7:
		if o, ok := t.drawArrival(s, opArrive); ok {
			return o
		}
	case k < 8:
		if o, ok := t.drawArrival(s, opTry); ok {
			return o
		}
	case k < 12:
		return t.drawMove(s)
	case k < 15:
		if who, ok := t.drawCaller(s, func(c *twinCaller) bool { return c.starts && !c.over && t.isCapped(c.line) }); ok {
			return op{kind: opRelease, who: who}
		}
	case k < 17:
		kind := one(s, opQuit, opLeave)
		if who, ok := t.drawCaller(s, func(c *twinCaller) bool { return c.waits() && (kind == opLeave || !c.gone) }); ok {
			return op{kind: kind, who: who}
		}
	case k < 18:
		line := s.below(len(t.gates))
		if n := len(t.lines[line].quotas); n > 0 && s.below(2) > 0 {
			which := s.below(n)
			return op{kind: opRefit, line: line, who: which, quota: drawAnother(s, t.lines[line].quotas[which])}
		}
		if t.lines[line].burst != 0 {
			return op{kind: opSetQuota, line: line, rate: drawRate(s), n: drawBurst(s)}
		}
	case k < 19:
		return op{kind: opResize, line: s.below(len(t.caps)), n: one[int64](s, 0, 1, 2, 3, 5, 200, MaxCap)}
	case k < 20:
		return op{kind: opPause, line: s.below(len(t.gates)), n: one[int64](s, 0, 1, 4, 15, 60, 1000)}
	case k < 22:
		if o, ok := t.drawArrival(s, opDisplace); ok {
			return o
		}
	default:
		if s.below(8) == 0 {
			return op{kind: opClose, line: s.below(len(t.gates))}
		}
	}
	return onTimer
}

// drawMove lets time pass, or the timer go off that is late.
func (t *twin) drawMove(s source) op {
	next := t.fx.nextDue()
	if next <= t.now {
		if s.below(2) > 0 {
			return onTimer
		}
		next = never
	}
	by := one[int64](s, 1, 2, 5, 11, 40, 150, 5000, 1e10)
	if next != never && s.below(2) > 0 {
		by = next - t.now
	}
	return op{kind: opPass, n: min(by, 1<<62-t.now)}
}

func (t *twin) drawArrival(s source, kind opKind) (op, bool) {
	o := op{kind: kind, line: s.below(len(t.gates)), tokens: int64(1 + s.below(3)), weight: int64(1 + s.below(3))}
	g := t.gates[o.line]
	if s.below(6) == 0 {
		o.tokens = t.largest(o.line)
		if g.cap != nil {
			o.weight = max(1, g.cap.size)
		}
	}
	return o, t.fits(o.line, o.tokens, o.weight)
}

// isCapped reports whether callers of that line hold permits, here or above.
func (t *twin) isCapped(line int) bool {
	for g := t.gates[line]; g != nil; g = g.tree.parent {
		if g.cap != nil {
			return true
		}
	}
	return false
}

// largest returns the largest cost in tokens that a line lets through.
func (t *twin) largest(line int) int64 {
	k := int64(MaxBurst)
	for g := t.gates[line]; g != nil; g = g.tree.parent {
		if g.bucket.burst != 0 {
			k = min(k, g.bucket.burst)
		}
		for i := range g.more {
			k = min(k, g.more[i].most())
		}
	}
	switch {
	case k == MaxBurst:
		return 1
	case t.gates[line].tree.parent != nil:
		return min(k, 1<<40) // turns are as long as the largest cost
	}
	return k
}

// drawCaller draws one of those for whom it is possible.
func (t *twin) drawCaller(s source, can func(*twinCaller) bool) (int, bool) {
	var who []int
	for i, c := range t.callers {
		if can(c) {
			who = append(who, i)
		}
	}
	if len(who) == 0 {
		return 0, false
	}
	return one(s, who...), true
}

// run does operations drawn from s for as long as there are some, and audits them.
func (t *twin) run(s source) error {
	for s.more() {
		if err := t.do(t.draw(s)); err != nil {
			return err
		}
	}
	return t.audit()
}

// TestModel_RandomHistoriesAreTheModels compares random histories, step by step, with the model: who
// starts, as of when, in what order, who is refused and why, levels, dues and reckoned waits.
func TestModel_RandomHistoriesAreTheModels(t *testing.T) {
	histories := *modelN
	if raced {
		histories /= 8
	}
	from, to := uint64(1), uint64(histories)
	if *modelSeed != 0 {
		from, to = *modelSeed, *modelSeed
	}
	var seen [opKinds]int
	var events, trees, quotas, late int
	for seed := from; seed <= to; seed++ {
		s := &random{rand.New(rand.NewPCG(seed, 2)), 60}
		w := newTwin(drawSetup(s))
		if err := w.run(s); err != nil {
			t.Fatalf("%v\nreproduce with: go test ./throttle -run TestModel -model.seed=%d", err, seed)
		}
		events += len(w.log)
		if w.lines[0].quotas != nil {
			quotas++
		}
		if w.gates[0].tree.inner {
			trees++
		}
		for _, e := range w.log {
			if e.what == starts && e.nominal < e.at {
				late++
			}
		}
		for _, o := range w.ops {
			seen[o.kind]++
		}
	}
	t.Logf("%d histories; operations by kind %v; %d starts, departures and refusals; %d trees, %d with several quotas; %d starts as of the past",
		to-from+1, seen, events, trees, quotas, late)
	if *modelSeed == 0 && histories >= 100 {
		for kind, n := range seen {
			if n < histories/20 {
				t.Errorf("operation %d was done %d times only, in %d histories", kind, n, histories)
			}
		}
	}
}
