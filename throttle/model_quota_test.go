package throttle

import (
	"math/big"
	"slices"
)

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

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// A modelBucket is a token bucket in rational numbers.
type modelBucket struct {
	rate  *big.Rat // tokens a nanosecond; nil: no rate
	burst int64
	level *big.Rat // as of the instant asOf
	asOf  int64
}

// levelAt returns the tokens that are there at the instant t.
func (b *modelBucket) levelAt(t int64) *big.Rat {
	earned := new(big.Rat).Mul(b.rate, whole(t-b.asOf))
	return least(whole(b.burst), earned.Add(earned, b.level))
}

// tokensDue returns the first whole instant at which k tokens are there.
func (b *modelBucket) tokensDue(k int64) int64 {
	if b.level.Cmp(whole(k)) >= 0 {
		return b.asOf
	}
	lack := new(big.Rat).Sub(whole(k), b.level)
	return ceil(lack.Add(lack.Quo(lack, b.rate), whole(b.asOf)))
}

// earned returns how long it takes from the instant t until so many tokens have come, beyond the burst too.
func (b *modelBucket) earned(tokens *big.Rat, t int64) int64 {
	lack := new(big.Rat).Sub(tokens, b.levelAt(t))
	if lack.Sign() <= 0 {
		return 0
	}
	return ceil(lack.Quo(lack, b.rate))
}

func (b *modelBucket) take(k, at int64) {
	b.level = new(big.Rat).Sub(b.levelAt(at), whole(k))
	b.asOf = at
}

// change puts another rate and burst in force. The level stays, but for its part-token, which is rounded down to the
// new denominator, and for what a lower burst cuts off.
func (b *modelBucket) change(r Rate, burst, now int64) {
	level := b.levelAt(now)
	b.rate, b.burst, b.asOf = rational(r), burst, now
	p := new(big.Rat).SetInt(b.rate.Denom())
	units := new(big.Rat).Mul(level, p)
	down := new(big.Rat).SetInt(new(big.Int).Div(units.Num(), units.Denom()))
	b.level = least(whole(burst), down.Quo(down, p))
}

// A modelQuota is one of the quotas besides a line's rate. An interval and a window keep the starts themselves.
type modelQuota struct {
	modelBucket
	kind    quotaKind
	n, span int64
	aligned bool
	grid    int64
	starts  []spent // intervals: by nominal instants, of the current one; windows: by real ones
	opened  int64   // intervals: when the current one began; starts is empty: there is none
}

func newModelQuota(q Quota, grid int64) modelQuota {
	m := modelQuota{kind: q.kind, n: q.Burst, span: int64(q.Rate.Period), aligned: !q.align.IsZero(), grid: grid}
	if q.kind == bucketKind {
		m.modelBucket = modelBucket{rate: rational(q.Rate), burst: q.Burst, level: whole(q.Burst)}
	}
	return m
}

// spentAfter returns the costs of the starts that a window which ends at t still holds.
func (q *modelQuota) spentAfter(t int64) (sum int64) {
	for _, s := range q.starts {
		if s.at+q.span > t {
			sum += s.k
		}
	}
	return sum
}

// usedAt returns what the interval that t lies in has used.
func (q *modelQuota) usedAt(t int64) (sum int64) {
	if len(q.starts) > 0 && t >= q.opened+q.span {
		return 0
	}
	for _, s := range q.starts {
		sum += s.k
	}
	return sum
}

// due returns the first instant at which k can start, as far as this quota goes.
func (q *modelQuota) due(k int64) int64 {
	switch q.kind {
	case bucketKind:
		return q.tokensDue(k)
	case intervalKind:
		if len(q.starts) > 0 && q.usedAt(q.opened)+k > q.n {
			return q.opened + q.span
		}
		return 0
	}
	if q.spentAfter(-q.span)+k <= q.n {
		return 0
	}
	for _, s := range q.starts { // in their order
		if q.spentAfter(s.at+q.span)+k <= q.n {
			return s.at + q.span
		}
	}
	panic("a cost above the quota waits")
}

// gridBefore returns the latest instant of the grid that is not after t.
func (q *modelQuota) gridBefore(t int64) int64 {
	return t - new(big.Int).Mod(big.NewInt(t-q.grid), big.NewInt(q.span)).Int64() // Euclid's
}

func (q *modelQuota) charge(k, nominal, now int64) {
	switch q.kind {
	case bucketKind:
		q.take(k, nominal)
	case intervalKind:
		if len(q.starts) == 0 || nominal >= q.opened+q.span {
			q.starts, q.opened = nil, nominal
			if q.aligned {
				q.opened = q.gridBefore(nominal)
			}
		}
		q.starts = append(slices.Clone(q.starts), spent{nominal, k})
	default: // what has left the window at a start no longer counts, not even as of an earlier instant
		q.starts = slices.DeleteFunc(slices.Clone(q.starts), func(s spent) bool { return s.at+q.span <= now })
		q.starts = append(q.starts, spent{now, k})
	}
}

// refit puts another quota in force. What has started has started, as far as it is remembered, and up to the new n in an interval.
func (q *modelQuota) refit(with Quota, now int64) {
	n, span := with.Burst, int64(with.Rate.Period)
	switch q.kind {
	case bucketKind:
		q.change(with.Rate, n, now)
	case intervalKind:
		if used := q.usedAt(now); used == 0 {
			q.starts = nil
		} else {
			q.starts = []spent{{now, min(used, n)}}
		}
	default:
		q.starts = slices.DeleteFunc(slices.Clone(q.starts), func(s spent) bool { return s.at+q.span <= now })
	}
	q.n, q.span = n, span
	if q.kind == intervalKind && q.aligned {
		q.opened = q.gridBefore(now)
	}
}

// wait returns how long it takes at the least until k have come.
func (q *modelQuota) wait(k, now int64) int64 {
	switch q.kind {
	case bucketKind:
		return q.earned(whole(k), now)
	case intervalKind:
		opened := now
		switch {
		case len(q.starts) > 0 && now < q.opened+q.span:
			opened = q.opened
		case q.aligned:
			opened = q.gridBefore(now)
		}
		wait := int64(0)
		for k -= q.n - q.usedAt(now); k > 0; k -= q.n {
			opened += q.span
			wait = opened - now
		}
		return wait
	}
	spans := int64(0)
	for ; k > q.n; k -= q.n {
		spans += q.span
	}
	return max(0, q.due(k)-now) + spans
}
