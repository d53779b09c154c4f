package throttle

import (
	"fmt"
	"time"
)

// A Quota is how many tokens may be spent in what time, with an optional name for costs, errors and reports. There
// are three kinds:
//
//	you are promised or promise                                take
//	10/s, and 20 at once after a quiet time                    Quota{Rate: PerSecond(10), Burst: 20}
//	never more than 100 in any 60 s                            AtMost(100, time.Minute)
//	1000 a day, counted by the upstream from a fixed instant   FixedWindow(1000, 24*time.Hour)
//
// A Rate and a Burst are a token bucket: at most Burst + Rate x t tokens are spent in any window of length t.
type Quota struct {
	Name  string
	Rate  Rate
	Burst int64 // tokens held when full: 1 to MaxBurst

	kind    quotaKind
	aligned bool
	align   time.Time
}

type quotaKind uint8

const (
	bucketKind quotaKind = iota
	windowKind
	intervalKind
)

// AtMost returns the quota of at most n tokens in any window of that length, wherever it begins, counted by real starts.
// n is 1 to MaxBurst, the window 1 ns or more. It remembers the starts of the last window: 16 bytes each, at most 16 n.
func AtMost(n int64, window time.Duration) Quota {
	return Quota{Rate: Per(n, window), Burst: n, kind: windowKind}
}

// FixedWindow returns the quota of n tokens each period, all there at its beginning, as upstreams have it that count in
// fixed windows. A period begins with the first start after the one before has ended; see AlignedTo for others. In
// a window of any other position up to 2n may be spent. n is 1 to MaxBurst, the period 1 ns or more.
func FixedWindow(n int64, period time.Duration) Quota {
	return Quota{Rate: Per(n, period), Burst: n, kind: intervalKind}
}

// AlignedTo returns the fixed window q with its periods on the wall clock: one begins at t, and one each period before
// and after. The wall clock is looked at once, when the limiter is made.
func (q Quota) AlignedTo(t time.Time) Quota {
	q.aligned, q.align = true, t.Round(0).UTC() // one form of an instant, so that quotas can be compared
	return q
}

// String returns q in words: "rate 10/s (burst 20)", "at most 100 in 1m0s".
func (q Quota) String() string {
	var text string
	switch q.kind {
	case windowKind:
		text = fmt.Sprintf("at most %d in %v", q.Burst, q.Rate.Period)
	case intervalKind:
		text = fmt.Sprintf("%d each %v", q.Burst, q.Rate.Period)
	default:
		text = fmt.Sprintf("rate %v (burst %d)", q.Rate, q.Burst)
	}
	if q.Name != "" {
		text = fmt.Sprintf("%q, %s", q.Name, text)
	}
	return text
}

// wrong says which field of q is wrong, and what would be right, or nothing.
func (q Quota) wrong() string {
	if q.kind == bucketKind || q.Rate.N < 1 || q.Rate.Period < 1 {
		if what := q.Rate.wrong(); what != "" {
			return what
		}
	}
	if q.Burst < 1 || q.Burst > MaxBurst {
		return fmt.Sprintf("Burst is %d; want 1 to %d (2^62)", q.Burst, int64(MaxBurst))
	}
	if q.aligned && q.kind != intervalKind {
		return fmt.Sprintf("it is %v, which cannot be aligned; want a FixedWindow", q)
	}
	return ""
}

// account returns q's books, full at the instant now of a domain.
func (q Quota) account(d *domain, now int64) account {
	switch q.kind {
	case windowKind:
		return &window{n: q.Burst, span: int64(q.Rate.Period)}
	case intervalKind:
		return &interval{n: q.Burst, period: int64(q.Rate.Period), aligned: q.aligned, align: q.align, epoch: d.epoch.Round(0)}
	}
	return &bucketAccount{newBucket(q.Rate, q.Burst, now)}
}

// A meter is a quota in force at a gate.
type meter struct {
	account
	name  string // the quota's, for good
	quota Quota  // as it is now
}
