package throttle

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// MaxBurst is the largest burst, in tokens: 2^62.
const MaxBurst = 1 << 62

// A Decision is the answer of a Bucket.
type Decision struct {
	Allowed    bool
	Remaining  int64         // whole tokens left, after the take if it was allowed
	RetryAfter time.Duration // 0 if allowed; else the wait, to the nanosecond; -1 if never
}

// A Bucket is a token bucket alone: arithmetic on the instants that it is given, with no
// clock, lock or goroutine. It starts full at the first instant that it sees. It is for
// use by one goroutine at a time; a Limiter is what callers share.
//
// The arithmetic is exact: it equals that of rational numbers for every Rate and Burst, so
// that after exactly the reported wait a take succeeds, and no partial token is ever lost.
// An instant earlier than one already seen counts as the latest seen, and mints nothing.
// The zero Bucket, and a nil one, refuse everything; use NewBucket.
type Bucket struct {
	bucket
	epoch time.Time // the first instant seen
	begun bool
}

// NewBucket returns a full bucket, or an error that names the field of q that is wrong.
func NewBucket(q Quota) (*Bucket, error) {
	what := q.wrong()
	if what == "" && q.kind != bucketKind {
		what = fmt.Sprintf("it is %v; want a Rate and a Burst", q)
	}
	if what != "" {
		return nil, fmt.Errorf("throttle: Bucket %q: %s: %w", q.Name, what, ErrInvalid)
	}
	return &Bucket{bucket: newBucket(q.Rate, q.Burst, 0)}, nil
}

// Take takes n tokens at the instant now if they are there, and otherwise takes nothing and
// says when they will be. An n below 1 or above the burst is never allowed. Instants more
// than 292 years after the first one count as that. It allocates nothing.
func (b *Bucket) Take(now time.Time, n int64) Decision {
	if b == nil || b.burst == 0 {
		return Decision{RetryAfter: -1}
	}
	if !b.begun {
		b.epoch, b.begun = now, true
	}
	at := max(int64(now.Sub(b.epoch)), b.last)
	if n < 1 || n > b.burst {
		return Decision{Remaining: b.level(at), RetryAfter: -1}
	}
	if missing, ok := b.spend(at, n); ok {
		b.set(at, missing)
		return Decision{Allowed: true, Remaining: b.level(at)}
	}
	return Decision{Remaining: b.level(at), RetryAfter: time.Duration(b.wait(at, u128{lo: uint64(n)}))}
}

// never is an instant that does not come, and a wait beyond what a Duration holds.
const never = math.MaxInt64

// A bucket is one quota's token account on instants in nanoseconds.
//
// With the rate reduced to n/p, a token is p units and a nanosecond earns n units. What is
// kept is how many units are missing to a full bucket, as of an instant. So a refill is one
// multiplication and a take one addition, both in 128 bits and without a division; only a
// refusal divides, to tell the wait. This is the token bucket of RFC 2697 with Tc counted down
// from the top, on rational numbers.
//
// Truths: missing is at least 0; a full bucket misses nothing and holds no remainder; it is in
// debt where missing is above limit; last never goes back.
type bucket struct {
	burst   int64
	n, p    uint64 // units earned per nanosecond; units per token
	limit   u128   // burst x p: what is missing when empty
	missing u128   // at the instant last
	last    int64
}

// newBucket returns a bucket that is full at the instant now.
func newBucket(r Rate, burst, now int64) bucket {
	g := gcd(uint64(r.N), uint64(r.Period))
	b := bucket{burst: burst, n: uint64(r.N) / g, p: uint64(r.Period) / g, last: now}
	b.limit = mul(uint64(burst), b.p)
	return b
}

// missingAt returns the units missing at the instant at; an instant before last counts as last.
func (b *bucket) missingAt(at int64) u128 {
	if at <= b.last {
		return b.missing
	}
	earned := mul(uint64(at)-uint64(b.last), b.n)
	if !earned.less(b.missing) {
		return u128{}
	}
	return b.missing.sub(earned)
}

// spend returns what would be missing if k tokens were taken at the instant at, and whether they are there.
func (b *bucket) spend(at, k int64) (missing u128, ok bool) {
	missing = b.missingAt(at).add(mul(uint64(k), b.p))
	return missing, !b.limit.less(missing)
}

// charge takes k tokens at the instant at, which is not before last.
func (b *bucket) charge(at, k int64) {
	b.set(at, b.missingAt(at).add(mul(uint64(k), b.p)))
}

// set puts down what is missing at the instant at.
func (b *bucket) set(at int64, missing u128) { b.last, b.missing = at, missing }

// wait returns the time from the instant at until k tokens will have been earned, were all spent
// as they come: k may be above the burst. It is rounded up to the nanosecond, and never if it is beyond 292 years.
func (b *bucket) wait(at int64, k u128) int64 {
	if k.hi != 0 {
		return never // one token takes a nanosecond at the least, and at most 2^62 are there
	}
	need := b.missingAt(at).add(mul(k.lo, b.p))
	if !b.limit.less(need) {
		return 0
	}
	need = need.sub(b.limit)
	if need.hi >= b.n {
		return never
	}
	ns, rest := bits.Div64(need.hi, need.lo, b.n)
	if rest != 0 {
		ns++
	}
	return int64(min(ns, never))
}

// due returns the first instant, not before last, at which k tokens are there; k is at most the burst.
func (b *bucket) due(k int64) int64 {
	return later(b.last, b.wait(b.last, u128{lo: uint64(k)}))
}

// level returns the whole tokens there at the instant at, rounded down; below 0 in debt.
func (b *bucket) level(at int64) int64 {
	gone, rest := b.missingAt(at).div(b.p)
	if rest != 0 {
		gone++
	}
	return b.burst - int64(gone)
}

// change puts another rate and burst in force at the instant at. The level stays, except that it
// is cut to a lower burst, and that its part-token is rounded down to the new denominator.
func (b *bucket) change(r Rate, burst, at int64) {
	missing := b.missingAt(at)
	whole, part := missing.div(b.p)
	changed := newBucket(r, burst, at)
	// A part of part/p tokens is missing: rounded up, in units of the new p.
	hi, lo := bits.Mul64(part, changed.p)
	units, rest := bits.Div64(hi, lo, b.p)
	if rest != 0 {
		units++
	}
	// The level stays, so that what is missing grows with the burst and shrinks with it, to 0 at the least.
	missing = mul(whole, changed.p).add(u128{lo: units}).add(changed.limit)
	if old := mul(uint64(b.burst), changed.p); old.less(missing) {
		changed.missing = missing.sub(old)
	}
	*b = changed
}

// later returns the instant at + d, or never.
func later(at, d int64) int64 {
	if t := at + d; t >= at {
		return t
	}
	return never
}
