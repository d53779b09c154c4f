package throttle

import (
	"math"
	"time"
)

// A limit is one quota of a limiter, as a snapshot knows it: what it was, and by what it is found again.
type limit struct {
	rate      bool // that of Config.Rate; else one of Config.Quotas
	kind      quotaKind
	name      string
	n, period int64 // n tokens each period
	burst     int64 // of a bucket
}

func limitOf(q Quota) limit {
	l := limit{kind: q.kind, name: q.Name, n: q.Rate.N, period: int64(q.Rate.Period), burst: q.Burst}
	if q.kind != bucketKind {
		l.n, l.burst = q.Burst, 0
	}
	return l
}

func (l limit) quota() Quota {
	q := Quota{Name: l.name, Rate: Per(l.n, time.Duration(l.period)), Burst: l.burst, kind: l.kind}
	if l.kind != bucketKind {
		q.Burst = l.n
	}
	return q
}

// A spending is what has been spent of a quota, as of the instant of a snapshot. It is told in terms of that instant, never of a
// scale of time of its own: what is missing then, and how long before it something happened. So it can be put down on any other scale, and
// the time that passes between is credited by the arithmetic of the quota itself: exactly, and by nothing else.
type spending struct {
	missing u128 // bucket: in units of its rate

	open      bool // fixed window: one is open
	age, used int64

	starts []spent // AtMost: that count still, the oldest first; at is how long before
}

// longest is the most time that is credited, and the longest ago that something is: 73 years. Sums of such times and of instants do not overflow.
const longest = 1 << 61

// nothing reports whether s is what a new quota has.
func (s *spending) nothing() bool { return s.missing == u128{} && !s.open && len(s.starts) == 0 }

// spentAt returns what has been spent of a, as of the instant at; it changes nothing.
func spentAt(a account, at int64) spending {
	switch a := a.(type) {
	case *interval:
		opened, used, open := a.openAt(at)
		if !open {
			return spending{}
		}
		return spending{open: true, age: min(max(0, at-opened), longest), used: used}
	case *window:
		var s spending
		for i := range a.many {
			if x := a.start(i); x.k > 0 && later(x.at, a.span) > at {
				s.starts = append(s.starts, spent{min(max(0, at-x.at), longest), x.k})
			}
		}
		return s
	}
	return spending{missing: a.(*bucketAccount).missingAt(at)}
}

// advance has s tell of the instant that is d later than the one that it told of, if nothing was spent of l meanwhile.
func (s *spending) advance(l limit, d int64) {
	if l.kind == bucketKind { // as below, for many keys at once
		b := newBucket(Per(l.n, time.Duration(l.period)), l.burst, 0)
		b.missing = s.missing
		s.missing = b.missingAt(d)
		return
	}
	*s = spentAt(resume(s, l, l.quota().account(&domain{}, 0), 0, d), d)
}

// openAt returns the window that is open at the instant at, if one is.
func (v *interval) openAt(at int64) (opened, used int64, open bool) {
	opened, used = v.at(at)
	return opened, used, v.begun && (used > 0 || at < later(v.opened, v.period))
}

// resume returns the books of the quota old, of which s had been spent at the instant then, as they are at the instant now, once the quota was
// changed to that of a: as SetQuota would have changed it, now.
func resume(s *spending, old limit, a account, then, now int64) account {
	q := old.quota()
	switch a := a.(type) {
	case *interval:
		v := &interval{n: q.Burst, period: old.period}
		if s.open {
			v.begun, v.opened, v.used = true, then-s.age, s.used
		}
		opened, used, open := v.openAt(now)
		v.begun = open
		if open {
			v.opened, v.used = opened, used
		}
		if a.aligned && s.open && a.period == old.period && a.began(then) == a.began(now) {
			// By the grid of a, the window is still the same: two processes' clocks may differ a little.
			v.begun, v.opened, v.used = true, a.began(now), max(v.used, s.used)
		}
		if a.n != v.n || a.period != v.period || a.aligned {
			v.aligned, v.align, v.epoch = a.aligned, a.align, a.epoch
			v.refit(Quota{Rate: Per(a.n, time.Duration(a.period)), Burst: a.n, aligned: a.aligned, align: a.align}, now)
		}
		return v
	case *window:
		w := &window{n: q.Burst, span: old.period}
		for _, x := range s.starts {
			if at := then - x.at; later(at, w.span) > now {
				w.remember(at, x.k)
			}
		}
		return w // with another n or span the starts are the same
	}
	return &bucketAccount{resumeBucket(s, old, &a.(*bucketAccount).bucket, then, now)}
}

// resumeBucket is resume for the bucket b.
func resumeBucket(s *spending, old limit, b *bucket, then, now int64) bucket {
	r := newBucket(Per(old.n, time.Duration(old.period)), old.burst, then)
	r.missing = s.missing
	r.change(Per(int64(b.n), time.Duration(b.p)), b.burst, now)
	return r
}

// lower takes from a what it has above r, its like, at the instant now and ever after: the lower of the two levels counts.
func lower(a, r account, now int64) {
	switch a := a.(type) {
	case *interval:
		r := r.(*interval)
		opened, used, open := a.openAt(now)
		switch {
		case !r.begun:
		case !open:
			a.begun, a.opened, a.used = true, r.opened, r.used
		default: // the window that ends later, with what was used of either
			a.opened, a.used = max(opened, r.opened), max(used, r.used)
		}
	case *window:
		a.lower(r.(*window))
	case *bucketAccount:
		a.bucket.lower(&r.(*bucketAccount).bucket, now)
	}
}

// lower has at least as much missing as r, of the same rate and burst.
func (b *bucket) lower(r *bucket, now int64) {
	missing := b.missingAt(now)
	if more := r.missingAt(now); missing.less(more) {
		missing = more
	}
	b.set(now, missing)
}

// lower has w remember the least with which, at every instant, at least as much counts as does of w and of r. What counts of each
// falls from start to start as they leave the window; so does the larger of both, by that of w and r which leaves it last.
func (w *window) lower(r *window) {
	var kept []spent // the latest first
	var sumW, sumR, sum int64
	for i, j := w.many-1, r.many-1; i >= 0 || j >= 0; {
		at := int64(math.MinInt64)
		if i >= 0 {
			at = w.start(i).at
		}
		if j >= 0 {
			at = max(at, r.start(j).at)
		}
		if i >= 0 && w.start(i).at == at {
			sumW += w.start(i).k
			i--
		}
		if j >= 0 && r.start(j).at == at {
			sumR += r.start(j).k
			j--
		}
		if most := max(sumW, sumR); most > sum {
			kept = append(kept, spent{at, most - sum})
			sum = most
		}
	}
	w.starts, w.first, w.many, w.used = nil, 0, 0, 0
	for i := len(kept) - 1; i >= 0; i-- {
		w.remember(kept[i].at, kept[i].k)
	}
}
