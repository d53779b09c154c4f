package throttle

import (
	"fmt"
	"math/big"
	"slices"
	"time"
)

// An auditQuota replays one quota from the starts alone.
type auditQuota interface {
	has(tokens, t int64) bool // whether so many could start at the instant t
	start(c auditCaller, e event) error
}

type auditBucket struct {
	rate    Rate
	burst   int64
	slack   int64
	level   *big.Rat // replayed
	asOf    int64
	earned  *big.Rat // up to the latest start or change, had the bucket no top
	starts  []auditStart
	changed int // how many of starts came before the latest change
}

type auditStart struct {
	real, nominal, burst, tokens int64
	earned                       *big.Rat // as of the nominal start
}

func newAuditBucket(r Rate, burst, slack int64) *auditBucket {
	return &auditBucket{rate: r, burst: burst, slack: slack, level: whole(burst), earned: new(big.Rat)}
}

func (l *auditBucket) has(tokens, t int64) bool {
	return l.levelAt(max(l.asOf, t)).Cmp(whole(tokens)) >= 0
}

func (l *auditBucket) levelAt(t int64) *big.Rat {
	earned := new(big.Rat).Mul(rational(l.rate), whole(t-l.asOf))
	return least(whole(l.burst), earned.Add(earned, l.level))
}

// pass brings the level and what was earned to the instant t.
func (l *auditBucket) pass(t int64) {
	more := new(big.Rat).Mul(rational(l.rate), whole(t-l.asOf))
	l.earned = more.Add(more, l.earned)
	l.level, l.asOf = l.levelAt(t), t
}

func (l *auditBucket) change(o op, now int64) {
	l.pass(now)
	l.rate, l.burst, l.changed = o.rate, o.n, len(l.starts)
	p := rational(o.rate).Denom()
	units := new(big.Rat).Mul(l.level, new(big.Rat).SetInt(p))
	l.level = least(whole(o.n), new(big.Rat).SetFrac(new(big.Int).Quo(units.Num(), units.Denom()), p))
}

// start asserts C1 for all windows that end with this start.
func (l *auditBucket) start(c auditCaller, e event) error {
	if e.nominal < l.asOf {
		return fmt.Errorf("C1: caller %d starts as of %d; before it came a start or change of %d", e.who, e.nominal, l.asOf)
	}
	l.pass(e.nominal)
	l.level = new(big.Rat).Sub(l.level, whole(c.tokens))
	if l.level.Sign() < 0 {
		return fmt.Errorf("C1: caller %d starts as of %d, when %v tokens more were there", e.who, e.nominal, l.level)
	}
	l.starts = append(l.starts, auditStart{e.at, e.nominal, l.burst, c.tokens, l.earned})
	sum := new(big.Rat)
	for i := len(l.starts) - 1; i >= 0; i-- {
		s := l.starts[i]
		sum.Add(sum, whole(s.tokens))
		budget := new(big.Rat).Sub(l.earned, s.earned)
		if budget.Add(budget, whole(s.burst)).Cmp(sum) < 0 {
			return fmt.Errorf("C1: %v tokens started as of %d to %d; promised are %v", sum, s.nominal, e.nominal, budget)
		}
		if i >= l.changed { // real starts, while the quota was one
			budget.Mul(rational(l.rate), whole(e.at-s.real+l.slack))
			if budget.Add(budget, whole(s.burst)).Cmp(sum) < 0 {
				return fmt.Errorf("C1: %v tokens started from %d to %d; promised are %v", sum, s.real, e.at, budget)
			}
		}
	}
	return nil
}

// An auditWindow asserts that no window of real starts, wherever it begins, holds more than n.
type auditWindow struct {
	Quota
	starts []spent
}

// in returns what started after the instant t.
func (w *auditWindow) in(t int64) (sum int64) {
	for _, s := range w.starts {
		if s.at > t {
			sum += s.k
		}
	}
	return sum
}

func (w *auditWindow) has(tokens, t int64) bool {
	return w.in(t-int64(w.Rate.Period))+tokens <= w.Burst
}

func (w *auditWindow) start(c auditCaller, e event) error {
	// What has left the window at a start is forgotten, should the window be made longer later.
	w.starts = slices.DeleteFunc(w.starts, func(s spent) bool { return s.at <= e.at-int64(w.Rate.Period) })
	w.starts = append(w.starts, spent{e.at, c.tokens})
	if n := w.in(e.at - int64(w.Rate.Period)); n > w.Burst {
		return fmt.Errorf("C1: %d tokens started within %v up to %d; promised are %d", n, w.Rate.Period, e.at, w.Burst)
	}
	return nil
}

// change puts q in force; starts before count on, as far as they are remembered.
func (w *auditWindow) change(q Quota, now int64) {
	w.starts = slices.DeleteFunc(w.starts, func(s spent) bool { return s.at <= now-int64(w.Rate.Period) })
	w.Quota = q
}

// An auditInterval asserts that no period holds more than n: those on the grid, or else that begin with a start.
type auditInterval struct {
	Quota
	begun        bool
	opened, used int64
}

// at returns the period that the instant t lies in, and what it has used.
func (v *auditInterval) at(t int64) (opened, used int64) {
	period := int64(v.Rate.Period)
	switch {
	case v.begun && t < v.opened+period:
		return v.opened, v.used
	case v.align.IsZero():
		return t, 0
	}
	grid := new(big.Int).Mod(big.NewInt(t-int64(v.align.Sub(time.Time{}))), big.NewInt(period)).Int64()
	return t - grid, 0
}

func (v *auditInterval) change(q Quota, now int64) {
	v.opened, v.used = v.at(now)
	v.begun = v.used > 0
	q.align = v.align
	v.Quota, v.used = q, min(v.used, q.Burst)
	if begun := v.begun; !v.align.IsZero() {
		v.begun = false
		v.opened, _ = v.at(now)
		v.begun = begun
	}
}

func (v *auditInterval) has(tokens, t int64) bool {
	_, used := v.at(t)
	return used+tokens <= v.Burst
}

func (v *auditInterval) start(c auditCaller, e event) error {
	v.opened, v.used = v.at(e.nominal)
	v.begun = true
	if v.used += c.tokens; v.used > v.Burst {
		return fmt.Errorf("C1: %d tokens started in the period from %d; promised are %d", v.used, v.opened, v.Burst)
	}
	return nil
}
