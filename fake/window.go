package fake

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"
)

// Start is one start for WorstWindow: its instant and its cost in tokens, where 0 means 1.
type Start struct {
	At   time.Time
	Cost int64
}

// Window is the span between two starts, both included, that lies closest to its promise or farthest beyond it.
type Window struct {
	Line     string // set where the limits are those of one line
	From, To time.Time
	Starts   int      // in the window
	Cost     int64    // of those starts, in tokens; the largest int64 where it is beyond
	Allowed  *big.Rat // burst + rate*(To-From+slack), exactly; nil where there was no start
	Excess   *big.Rat // cost - Allowed, exactly: above 0, the promise was broken
}

// OK reports whether the window keeps the promise. As the worst window has the largest Excess, every other does as well.
func (w Window) OK() bool { return w.Excess == nil || w.Excess.Sign() <= 0 }

// String gives the window with its numbers, fractions rounded to thousandths.
func (w Window) String() string {
	if w.Allowed == nil {
		return "no starts"
	}
	verdict := "headroom " + decimal(new(big.Rat).Neg(w.Excess))
	if !w.OK() {
		verdict = "excess " + decimal(w.Excess)
	}
	return fmt.Sprintf("%s costing %d in %v from %s: allowed %s, %s",
		count(w.Starts, "start"), w.Cost, w.To.Sub(w.From), instant(w.From), decimal(w.Allowed), verdict)
}

// WorstWindow looks at every window between two of the starts, given in any order, and returns the one whose cost exceeds
// burst + rate*(length + slack) the most, or stays below it the least; the first of several. The rate is n per period, and
// slack, 0 or more, is how far a start may lie behind the instant for which it was paid (a limiter's Slack; 0 for a promise
// without it). It costs O(n log n), O(n) for starts in order; the arithmetic is exact. Limits or costs out of range are an error.
func WorstWindow(starts []Start, burst, n int64, period, slack time.Duration) (Window, error) {
	errs := []error{checkRate(n, period, burst)}
	if n == 0 {
		errs = append(errs, errors.New("N is 0: must be 1 or more"))
	}
	if slack < 0 {
		errs = append(errs, fmt.Errorf("slack is %v: must be 0 or more", slack))
	}
	byTime := func(a, b Start) int { return a.At.Compare(b.At) }
	if !slices.IsSortedFunc(starts, byTime) {
		starts = slices.Clone(starts)
		slices.SortStableFunc(starts, byTime)
	}
	costs := make([]spending, len(starts))
	for i, s := range starts {
		if s.Cost < 0 {
			errs = append(errs, fmt.Errorf("the start at %s costs %d: must be 0 or more", instant(s.At), s.Cost))
		}
		costs[i] = spending{s.At, cmp.Or(s.Cost, 1)}
	}
	if err := errors.Join(errs...); err != nil {
		return Window{}, fmt.Errorf("fake: WorstWindow: %w", err)
	}
	return worstWindow(costs, []limits{{n: n, period: period, burst: burst}}, slack), nil
}

// spending is a start as worstWindow takes it; limits are a rate and burst in force from an instant on.
type spending struct {
	at   time.Time
	cost int64
}

type limits struct {
	from   time.Time // of the first, ignored: it holds from ever
	n      int64
	period time.Duration
	burst  int64
}

// worstWindow finds the window between two starts with the largest excess under limits that change. Starts and changes
// must be in order of instant. n 0 is a time without tokens.
//
// What is allowed. A start at the real instant b was charged at a nominal instant in [b-slack, b], and nominal starts keep
// the order of real ones. The starts of a real window [a, b] are therefore consecutive nominal starts, the first at some s in
// [a-slack, a], the last not after b. A bucket pays for them what it holds at s, at most the burst then in force, and
// what comes in until b. So their cost is at most
//
//	allowed(a, b) = B(a) + R(b) - R(a-slack)
//
// where R(t) is the integral of the rate up to t and B(a) the largest burst in force at any instant of [a-slack, a] (at the
// instant of a change, both the old and the new: either may have been before the start). With constant limits this is
// burst + rate*(b-a+slack). No window that begins or ends between starts can be worse than the one between the starts inside it.
//
// How the worst is found. With C(k) the cost of starts 0 to k, the excess of the window from start i to start j is
//
//	C(j) - C(i-1) - allowed(a_i, b_j)  =  [C(j) - R(b_j)]  +  [R(a_i-slack) - B(a_i) - C(i-1)]
//
// a term of j alone and a term of i alone. For each j the best i <= j is a running maximum of the second term, so one pass over the
// sorted starts finds the best pair, where comparing all pairs would take n*n/2. The largest burst of a sliding interval is kept in
// a queue of falling bursts, each change entering and leaving it once.
//
// All terms are counted in tokens/d, d the least common multiple of the rates' denominators, so that they are integers.
func worstWindow(starts []spending, changes []limits, slack time.Duration) Window {
	if len(starts) == 0 {
		return Window{}
	}
	origin := starts[0].at.Add(-slack)
	segments, d := segmentsOf(changes, origin)
	early, late := newIntegral(segments), newIntegral(segments) // R at a_i-slack, at b_j
	bursts := burstMaximum{segments: segments}

	var (
		spent   = new(big.Int) // d*C(j-1), then d*C(j)
		best    *big.Int       // the largest second term so far, of start bestAt
		bestAt  int
		worst   *big.Int
		from    int
		to      int
		slackNS = big.NewInt(int64(slack))
	)
	for j, s := range starts {
		now := between(origin, s.at)
		then := new(big.Int).Sub(now, slackNS)
		second := early.at(then)
		second.Sub(second, bursts.within(then, now))
		second.Sub(second, spent)
		if best == nil || second.Cmp(best) > 0 {
			best, bestAt = second, j
		}
		spent.Add(spent, new(big.Int).Mul(big.NewInt(s.cost), d))
		first := late.at(now)
		first.Sub(spent, first)
		if excess := first.Add(first, best); worst == nil || excess.Cmp(worst) > 0 {
			worst, from, to = excess, bestAt, j
		}
	}

	cost := new(big.Int)
	for _, s := range starts[from : to+1] {
		cost.Add(cost, big.NewInt(s.cost))
	}
	w := Window{From: starts[from].at, To: starts[to].at, Starts: to - from + 1, Cost: math.MaxInt64}
	if cost.IsInt64() {
		w.Cost = cost.Int64()
	}
	w.Excess = new(big.Rat).SetFrac(worst, d)
	w.Allowed = new(big.Rat).SetInt(cost)
	w.Allowed.Sub(w.Allowed, w.Excess)
	return w
}

// segment is a time of constant limits: from is in nanoseconds after the origin, rate in 1/d tokens a nanosecond, burst
// in 1/d tokens.
type segment struct{ from, rate, burst *big.Int }

// segmentsOf scales the limits to a common denominator d. Those that ended before the origin are left out, and the first
// left begins at the origin.
func segmentsOf(changes []limits, origin time.Time) (segments []segment, d *big.Int) {
	d = big.NewInt(1)
	for _, c := range changes {
		if c.n > 0 {
			_, p := lowestTerms(c.n, c.period)
			gcd := new(big.Int).GCD(nil, nil, d, p)
			d.Mul(d, new(big.Int).Quo(p, gcd))
		}
	}
	for i, c := range changes {
		from := new(big.Int)
		if i > 0 {
			from = between(origin, c.from)
			if from.Sign() < 0 {
				from.SetInt64(0)
				segments = segments[:0]
			}
		}
		rate := new(big.Int)
		if c.n > 0 {
			n, p := lowestTerms(c.n, c.period)
			rate.Mul(n, new(big.Int).Quo(d, p))
		}
		segments = append(segments, segment{from, rate, new(big.Int).Mul(big.NewInt(c.burst), d)})
	}
	return segments, d
}

// integral gives R, the rate's integral since the origin, at instants that never go back.
type integral struct {
	segments []segment
	sum      *big.Int // up to the beginning of segments[0]
}

func newIntegral(s []segment) *integral { return &integral{s, new(big.Int)} }

func (r *integral) at(t *big.Int) *big.Int {
	for len(r.segments) > 1 && r.segments[1].from.Cmp(t) <= 0 {
		r.sum.Add(r.sum, r.inFirst(r.segments[1].from))
		r.segments = r.segments[1:]
	}
	return new(big.Int).Add(r.sum, r.inFirst(t))
}

func (r *integral) inFirst(t *big.Int) *big.Int {
	span := new(big.Int).Sub(t, r.segments[0].from)
	return span.Mul(span, r.segments[0].rate)
}

// burstMaximum gives the largest burst in force at any instant of an interval whose ends never go back.
type burstMaximum struct {
	segments []segment
	next     int   // the first segment that begins after the interval
	queue    []int // segments that may yet be largest: in order, bursts falling
}

func (m *burstMaximum) within(from, to *big.Int) *big.Int {
	for ; m.next < len(m.segments) && m.segments[m.next].from.Cmp(to) <= 0; m.next++ {
		burst := m.segments[m.next].burst
		for len(m.queue) > 0 && m.segments[m.queue[len(m.queue)-1]].burst.Cmp(burst) <= 0 {
			m.queue = m.queue[:len(m.queue)-1]
		}
		m.queue = append(m.queue, m.next)
	}
	for len(m.queue) > 1 && m.segments[m.queue[0]+1].from.Cmp(from) < 0 { // it ended before the interval
		m.queue = m.queue[1:]
	}
	return m.segments[m.queue[0]].burst
}
