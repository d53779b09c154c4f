package throttle

import (
	"math/bits"
	"time"
)

// An account is one quota's books on explicit instants: what a gate asks before it lets a caller through. A bucket
// is one; interval and window are others. A cost is 0 or more, and at most most(); only charge and settle may be given a larger one,
// as debt: see Config.Debt.
//
// Instants: at is the nominal start, which may lie a little before the clock; now is the clock. Only a window counts by the clock.
type account interface {
	most() int64                  // the largest cost that can ever start
	covers(now, k int64) bool     // whether k could start now
	due(k int64) int64            // the first instant at which k can start, if nothing else does
	wait(now int64, k u128) int64 // the time from now until costs of k in all can have started: a lower bound
	charge(at, now, k int64)
	level(now int64) int64    // whole tokens there
	refit(q Quota, now int64) // puts another quota of the same kind in force
}

// A bucketAccount is a bucket as an account.
type bucketAccount struct{ bucket }

func (b *bucketAccount) most() int64 { return b.burst }

func (b *bucketAccount) covers(now, k int64) bool {
	_, ok := b.spend(now, k)
	return ok
}

func (b *bucketAccount) charge(at, _, k int64) { b.bucket.charge(at, k) }

func (b *bucketAccount) refit(q Quota, now int64) { b.change(q.Rate, q.Burst, now) }

// An interval gives all of n at once every period, as upstreams do that count in fixed windows. Its
// windows lie on the grid of the wall clock, or each is opened by the first start after the one before has ended.
//
// Truths: used is what has started since opened; it is at most n.
type interval struct {
	n, period int64
	aligned   bool      // to the wall clock; if not, the first start begins a period
	align     time.Time // an instant at which a period begins
	epoch     time.Time // of the instants
	opened    int64     // the instant at which the window began that used counts in
	begun     bool
	used      int64
}

// at moves on to the window that the instant t lies in. What was used beyond n, as debt, is used of the windows after.
func (v *interval) at(t int64) (opened, used int64) {
	if v.begun && t < later(v.opened, v.period) {
		return v.opened, v.used
	}
	if v.begun && v.used > v.n {
		passed := (t - v.opened) / v.period
		if debt := (v.used - 1) / v.n; passed <= debt {
			return v.opened + passed*v.period, v.used - passed*v.n
		}
	}
	if v.aligned {
		return v.began(t), 0
	}
	return t, 0
}

// began returns the instant at which the period of the wall clock began that the instant t lies in.
func (v *interval) began(t int64) int64 {
	p := uint64(v.period)
	s := uint64(mod(v.epoch.Unix()-v.align.Unix(), v.period)) // seconds may be many: by parts, modulo the period
	_, rest := bits.Div64(0, 1e9, p)
	hi, lo := bits.Mul64(s, rest)
	_, since := bits.Div64(hi, lo, p)
	ns := mod(int64(v.epoch.Nanosecond())-int64(v.align.Nanosecond()), v.period)
	_, since = bits.Div64(0, since+uint64(ns), p)
	_, since = bits.Div64(0, since+uint64(mod(t, v.period)), p)
	return t - int64(since)
}

func (v *interval) most() int64 { return v.n }

func (v *interval) covers(now, k int64) bool {
	_, used := v.at(now)
	return k <= v.n-used
}

func (v *interval) due(k int64) int64 {
	if !v.begun || k <= v.n-v.used {
		return v.opened
	}
	return later(v.opened, v.windows(k-(v.n-v.used)))
}

// windows is the time that it takes until so many more have come.
func (v *interval) windows(more int64) int64 {
	n := (more-1)/v.n + 1
	if n > never/v.period {
		return never
	}
	return n * v.period
}

func (v *interval) wait(now int64, k u128) int64 {
	opened, used := v.at(now)
	if k.hi != 0 || k.lo > never {
		return never
	}
	more := int64(k.lo) - (v.n - used)
	if more <= 0 {
		return 0
	}
	return later(opened-now, v.windows(more))
}

func (v *interval) charge(at, _, k int64) {
	v.opened, v.used = v.at(at)
	v.begun = true
	v.used += k
}

// settle takes back within the same window only.
func (v *interval) settle(it *item, k, now int64) {
	if k >= it.k {
		v.charge(now, now, k-it.k)
		return
	}
	if opened, used := v.at(now); it.nominal >= opened {
		v.used = max(0, used-(it.k-k))
	}
}

func (v *interval) level(now int64) int64 {
	_, used := v.at(now)
	return v.n - used
}

// refit keeps what the window has used.
func (v *interval) refit(q Quota, now int64) {
	v.opened, v.used = v.at(now)
	v.begun = v.used > 0
	debt := max(0, v.used-v.n)
	v.n, v.period, v.aligned, v.align = q.Burst, int64(q.Rate.Period), q.aligned, q.align
	v.used = min(v.used-debt, v.n) + debt
	if v.aligned {
		v.opened = v.began(now)
	}
}

// mod is the rest of a / b, from 0 to b - 1.
func mod(a, b int64) int64 {
	if r := a % b; r < 0 {
		return r + b
	} else {
		return r
	}
}

// A window lets at most n start in any half-open window [a, a + span) of real starts, wherever it begins. It remembers
// the starts of the last span that cost something: 16 bytes each, those of one instant together, so 16 n bytes at the most.
//
// Truths: the starts in the ring are in order of their instants, rising; used is the sum of their costs; their room is a power of
// two, or n.
type window struct {
	n, span     int64
	starts      []spent // a ring
	first, many int     // the oldest that counts, and how many do
	used        int64
}

type spent struct{ at, k int64 }

// start returns the i-th start that counts, the oldest first.
func (w *window) start(i int) *spent {
	if i += w.first; i >= len(w.starts) {
		i -= len(w.starts)
	}
	return &w.starts[i]
}

// forget drops what has left the window at the instant at, before which no start is counted from any more.
func (w *window) forget(at int64) {
	for w.many > 0 && later(w.start(0).at, w.span) <= at {
		w.used -= w.start(0).k
		w.first = (w.first + 1) % len(w.starts)
		w.many--
	}
}

// remember notes that k started at the instant now.
func (w *window) remember(now, k int64) {
	w.used += k
	if w.many > 0 && w.start(w.many-1).at == now {
		w.start(w.many - 1).k += k
		return
	}
	if w.many == len(w.starts) {
		room := max(4, 2*w.many)
		if int64(w.many) < w.n && int64(room) > w.n {
			room = int(w.n)
		}
		starts := make([]spent, room)
		for i := range w.many {
			starts[i] = *w.start(i)
		}
		w.starts, w.first = starts, 0
	}
	w.many++
	*w.start(w.many - 1) = spent{now, k}
}

func (w *window) most() int64 { return w.n }

func (w *window) covers(now, k int64) bool { return w.due(k) <= now }

// due walks over the starts that must leave the window before k fits. A cost of 0 fits always.
func (w *window) due(k int64) int64 {
	over, at := k-(w.n-w.used), int64(0)
	for i := 0; k > 0 && over > 0 && i < w.many; i++ {
		over -= w.start(i).k
		at = later(w.start(i).at, w.span)
	}
	return at
}

// wait uses that two starts with n tokens between them lie a span apart at the least.
func (w *window) wait(now int64, k u128) int64 {
	if k.hi != 0 || k.lo > never {
		return never
	}
	if k.lo == 0 {
		return 0
	}
	spans := (int64(k.lo) - 1) / w.n
	if spans > never/w.span {
		return never
	}
	return later(max(0, w.due(int64(k.lo)-spans*w.n)-now), spans*w.span)
}

func (w *window) charge(at, now, k int64) {
	w.forget(at)
	if k > 0 {
		w.remember(now, k)
	}
}

// settle rewrites the start. One that had cost nothing counts from now on.
func (w *window) settle(it *item, k, now int64) {
	for i := range w.many {
		if s := w.start(i); it.k > 0 && s.at == it.at {
			s.k += k - it.k
			w.used += k - it.k
			return
		}
	}
	if it.k == 0 && k > 0 && later(it.at, w.span) > now {
		w.remember(now, k)
	}
}

func (w *window) level(now int64) int64 {
	left := w.n - w.used
	for i := 0; i < w.many && later(w.start(i).at, w.span) <= now; i++ {
		left += w.start(i).k
	}
	return left
}

func (w *window) refit(q Quota, now int64) {
	w.forget(now)
	w.n, w.span = q.Burst, int64(q.Rate.Period)
}
