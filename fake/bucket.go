package fake

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
)

// tokenBucket is the slow, obvious token bucket that limits are judged by: rational numbers as big integers, on instants given to
// it. A Downstream enforces its own rate with it, Audit replays nominal starts on it.
//
// The level is kept as a count of 1/p tokens, where n/p is the rate in lowest terms, p in nanoseconds: then every whole
// nanosecond adds exactly n, and nothing is ever rounded but at a change of rate.
type tokenBucket struct {
	n, p  *big.Int
	burst int64
	full  *big.Int // burst*p
	level *big.Int
	last  time.Time // the latest instant seen
	began bool
}

// newTokenBucket returns a full bucket; the limits must be valid.
func newTokenBucket(n int64, period time.Duration, burst int64) *tokenBucket {
	b := &tokenBucket{burst: burst}
	b.n, b.p = lowestTerms(n, period)
	b.full = new(big.Int).Mul(big.NewInt(burst), b.p)
	b.level = new(big.Int).Set(b.full)
	return b
}

func lowestTerms(n int64, period time.Duration) (num, den *big.Int) {
	r := big.NewRat(n, int64(period))
	return r.Num(), r.Denom()
}

// to refills up to the instant t. An instant earlier than one already seen adds nothing.
func (b *tokenBucket) to(t time.Time) {
	if !b.began {
		b.began, b.last = true, t
		return
	}
	if !t.After(b.last) {
		return
	}
	b.level.Add(b.level, new(big.Int).Mul(b.n, between(b.last, t)))
	if b.level.Cmp(b.full) > 0 {
		b.level.Set(b.full)
	}
	b.last = t
}

// take charges cost at t, or reports false and takes nothing where the level is below it.
func (b *tokenBucket) take(t time.Time, cost int64) bool {
	b.to(t)
	need := new(big.Int).Mul(big.NewInt(cost), b.p)
	if b.level.Cmp(need) < 0 {
		return false
	}
	b.level.Sub(b.level, need)
	return true
}

// wait returns how long after the latest instant cost can be paid, rounded up to a nanosecond, at most the longest
// Duration.
func (b *tokenBucket) wait(cost int64) time.Duration {
	lack := new(big.Int).Mul(big.NewInt(cost), b.p)
	lack.Sub(lack, b.level)
	if lack.Sign() <= 0 {
		return 0
	}
	lack.Add(lack, b.n)
	lack.Sub(lack, big.NewInt(1))
	lack.Quo(lack, b.n)
	if !lack.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(lack.Int64())
}

// change puts new limits in force at t, as DESIGN's C1 has it: the level stays, its part-token rounded down to the
// new denominator; a higher burst adds no tokens, a lower one cuts the level to it.
func (b *tokenBucket) change(t time.Time, n int64, period time.Duration, burst int64) {
	b.to(t)
	whole, part := new(big.Int).QuoRem(b.level, b.p, new(big.Int))
	oldP := b.p
	b.n, b.p = lowestTerms(n, period)
	b.burst = burst
	b.full.Mul(big.NewInt(burst), b.p)
	part.Quo(part.Mul(part, b.p), oldP)
	b.level.Add(whole.Mul(whole, b.p), part)
	if b.level.Cmp(b.full) > 0 {
		b.level.Set(b.full)
	}
}

// tokens returns the level in tokens.
func (b *tokenBucket) tokens() *big.Rat { return new(big.Rat).SetFrac(b.level, b.p) }

// between returns b-a in nanoseconds, exactly, for any two instants.
func between(a, b time.Time) *big.Int {
	seconds := b.Unix() - a.Unix()
	nanos := int64(b.Nanosecond() - a.Nanosecond())
	if seconds > -1<<32 && seconds < 1<<32 {
		return big.NewInt(seconds*1e9 + nanos)
	}
	d := new(big.Int).Mul(big.NewInt(seconds), big.NewInt(1e9))
	return d.Add(d, big.NewInt(nanos))
}

// checkRate says what is wrong with a rate and burst, if anything; n 0 and period 0 and burst 0 is no rate at all.
func checkRate(n int64, period time.Duration, burst int64) error {
	var errs []error
	if n < 0 {
		errs = append(errs, fmt.Errorf("N is %d: must be 1 or more, or 0 for no rate", n))
	}
	if n > 0 && period <= 0 {
		errs = append(errs, fmt.Errorf("Period is %v: must be above 0", period))
	}
	if n > 0 && burst < 1 {
		errs = append(errs, fmt.Errorf("Burst is %d: must be 1 or more", burst))
	}
	if n == 0 && (period != 0 || burst != 0) {
		errs = append(errs, fmt.Errorf("N is 0 while Period is %v and Burst is %d: must be 1 or more, or all three 0 for no rate", period, burst))
	}
	return errors.Join(errs...)
}
