package throttle_test

import (
	"math/big"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A slow, obvious model of the quotas of one level, for histories on a clock without lateness.

// A bookOf is one quota's books: what there is at an instant, and what is charged.
type bookOf interface {
	left(at time.Duration) *big.Rat // tokens, with parts
	charge(at time.Duration, k int64)
}

// bucketBook is a token bucket in rationals.
type bucketBook struct {
	rate  throttle.Rate
	burst int64
	level *big.Rat
	last  time.Duration
}

func newBucketBook(r throttle.Rate, burst int64) *bucketBook {
	return &bucketBook{r, burst, big.NewRat(burst, 1), 0}
}

func (b *bucketBook) left(at time.Duration) *big.Rat {
	earned := new(big.Rat).Mul(big.NewRat(int64(at-b.last), 1), big.NewRat(b.rate.N, int64(b.rate.Period)))
	level := earned.Add(earned, b.level)
	if most := big.NewRat(b.burst, 1); level.Cmp(most) > 0 {
		return most
	}
	return level
}

func (b *bucketBook) charge(at time.Duration, k int64) {
	b.level = new(big.Rat).Sub(b.left(at), big.NewRat(k, 1))
	b.last = at
}

// change puts another rate in force: the part-token is rounded down to the new denominator.
func (b *bucketBook) change(at time.Duration, r throttle.Rate, burst int64) {
	level := b.left(at)
	reduced := big.NewRat(r.N, int64(r.Period))
	units := new(big.Int).Mul(level.Num(), reduced.Denom())
	units.Div(units, level.Denom()) // down, as all levels are 0 or more
	b.level = new(big.Rat).SetFrac(units, reduced.Denom())
	b.rate, b.burst, b.last = r, burst, at
	if most := big.NewRat(burst, 1); b.level.Cmp(most) > 0 {
		b.level = most
	}
}

// windowBook remembers every start there was.
type windowBook struct {
	n      int64
	w      time.Duration
	starts []struct {
		at time.Duration
		k  int64
	}
}

func (b *windowBook) left(at time.Duration) *big.Rat {
	used := int64(0)
	for _, s := range b.starts {
		if s.at > at-b.w {
			used += s.k
		}
	}
	return big.NewRat(b.n-used, 1)
}

func (b *windowBook) charge(at time.Duration, k int64) {
	b.starts = append(b.starts, struct {
		at time.Duration
		k  int64
	}{at, k})
}

// intervalBook counts what each period has used; grid is below 0 where a period begins with a start.
type intervalBook struct {
	n            int64
	period, grid time.Duration
	opened       time.Duration
	used         int64
	begun        bool
}

func (b *intervalBook) at(at time.Duration) (opened time.Duration, used int64) {
	if b.grid >= 0 {
		opened = b.grid + (at-b.grid)/b.period*b.period
		if at < b.grid {
			opened = b.grid - b.period
		}
		if b.begun && opened == b.opened {
			return opened, b.used
		}
		return opened, 0
	}
	if b.begun && at < b.opened+b.period {
		return b.opened, b.used
	}
	return at, 0
}

func (b *intervalBook) left(at time.Duration) *big.Rat {
	_, used := b.at(at)
	return big.NewRat(b.n-used, 1)
}

func (b *intervalBook) charge(at time.Duration, k int64) {
	b.opened, b.used = b.at(at)
	b.used, b.begun = b.used+k, true
}
