package throttle

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// A ratedBucket is a bucket and its exact rational, side by side. That of the model serves as the latter.
type ratedBucket struct {
	bucket
	exact modelBucket
	now   int64
}

func newRated(r Rate, burst int64) *ratedBucket {
	return &ratedBucket{
		bucket: newBucket(r, burst, 0),
		exact:  modelBucket{rate: rational(r), burst: burst, level: whole(burst)},
	}
}

// floor returns the largest whole number that is at most x.
func floor(x *big.Rat) int64 {
	return new(big.Int).Div(x.Num(), x.Denom()).Int64() // Euclid's, and a denominator is positive
}

// check asserts that the level is the exact one.
func (b *ratedBucket) check() error {
	level := b.exact.levelAt(b.now)
	if is := unitsLeft(&b.bucket, b.now); is.Cmp(level) != 0 {
		return fmt.Errorf("at %d the level is %v; want %v", b.now, is, level)
	}
	if is := b.bucket.level(b.now); is != floor(level) {
		return fmt.Errorf("at %d the whole level is %d; want %v rounded down", b.now, is, level)
	}
	if !b.limit.less(b.missing) {
		return b.bucket.check()
	}
	return nil
}

// charge takes k tokens on both sides; they need not be there.
func (b *ratedBucket) charge(k int64) {
	b.bucket.charge(b.now, k)
	b.exact.level = new(big.Rat).Sub(b.exact.levelAt(b.now), whole(k))
	b.exact.asOf = b.now
}

// take takes k tokens if they are there, and asserts that both sides agree whether they are.
func (b *ratedBucket) take(k int64) error {
	missing, ok := b.spend(b.now, k)
	if want := b.exact.levelAt(b.now).Cmp(whole(k)) >= 0; ok != want {
		return fmt.Errorf("at %d, %d tokens are there: %v; want %v", b.now, k, ok, want)
	}
	if !ok {
		return nil
	}
	b.charge(k)
	if missing != b.missing {
		return fmt.Errorf("at %d, spend of %d leaves %v missing, and charge %v", b.now, k, missing, b.missing)
	}
	return nil
}

// checkWait asserts that the wait for k tokens is exact, or the longest there is.
func (b *ratedBucket) checkWait(k u128) error {
	lack := new(big.Rat).SetInt(k.big())
	lack.Sub(lack, b.exact.levelAt(b.now))
	want := int64(0)
	if lack.Sign() > 0 {
		want = ceil(lack.Quo(lack, b.exact.rate))
	}
	if is := b.wait(b.now, k); is != want {
		return fmt.Errorf("at %d the wait for %v tokens is %d; want %d", b.now, k.big(), is, want)
	}
	return nil
}

// change puts another quota in force on both sides.
func (b *ratedBucket) change(r Rate, burst int64) {
	level := b.exact.levelAt(b.now)
	b.bucket.change(r, burst, b.now)
	p := new(big.Int).SetUint64(uint64(r.Period) / gcd(uint64(r.N), uint64(r.Period)))
	units := new(big.Rat).Mul(level, new(big.Rat).SetInt(p))
	rounded := new(big.Rat).SetFrac(new(big.Int).Div(units.Num(), units.Denom()), p)
	b.exact = modelBucket{rate: rational(r), burst: burst, level: least(rounded, whole(burst)), asOf: b.now}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestC10_AMillionTakesDoNotDrift(t *testing.T) {
	for _, r := range []Rate{{167, 10_000}, {1, 3}, {999_999_937, 1e9}, PerSecond(5), PerMinute(7)} {
		b := newBucket(r, 2, 0)
		b.charge(0, 2)
		n, p := big.NewInt(r.N), big.NewInt(int64(r.Period))
		for k := int64(1); k <= 1_000_000; k++ {
			at := b.due(1)
			if _, ok := b.spend(at-1, 1); ok {
				t.Fatalf("%v: take %d succeeds a nanosecond before it is due, at %d", r, k, at)
			}
			if _, ok := b.spend(at, 1); !ok {
				t.Fatalf("%v: take %d fails when it is due, at %d", r, k, at)
			}
			b.charge(at, 1)
			if k%99_991 == 0 || k == 1_000_000 { // the k-th token is earned at k x p/n
				want := new(big.Int).Mul(big.NewInt(k), p)
				if want = want.Add(want, n); at != want.Sub(want, big.NewInt(1)).Div(want, n).Int64() {
					t.Fatalf("%v: take %d is due at %d; want %v", r, k, at, want)
				}
			}
		}
	}
}

func TestC10_AfterExactlyTheToldWaitATakeSucceeds(t *testing.T) {
	s := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		r := Rate{1 + s.Int64N(1000), time.Duration(1000 + s.Int64N(1e6))}
		burst := 1 + s.Int64N(10)
		b, err := NewBucket(Quota{Rate: r, Burst: burst})
		must(t, err)
		now := time.Unix(0, s.Int64N(1e6))
		for range 20 {
			n := 1 + s.Int64N(burst)
			d := b.Take(now, n)
			if d.Allowed {
				continue
			}
			if early := b.Take(now.Add(d.RetryAfter-1), n); early.Allowed || early.RetryAfter != 1 {
				t.Fatalf("%v burst %d: a nanosecond before the told wait: %+v", r, burst, early)
			}
			now = now.Add(d.RetryAfter)
			if d := b.Take(now, n); !d.Allowed {
				t.Fatalf("%v burst %d: after the told wait: %+v", r, burst, d)
			}
		}
	}
}

func TestC10_WaitsBeyondADurationSaturate(t *testing.T) {
	slowest, fastest := Rate{1, never}, Rate{1, 1}
	for _, c := range []struct {
		rate  Rate
		burst int64
		spent int64
		k     u128
		want  int64
	}{
		{slowest, 1, 1, u128{lo: 1}, never},
		{slowest, 2, 2, u128{lo: 2}, never}, // 584 years
		{slowest, MaxBurst, MaxBurst, u128{lo: MaxBurst}, never},
		{slowest, MaxBurst, 0, u128{lo: MaxBurst}, 0},
		{Rate{2, never}, 2, 2, u128{lo: 1}, 1 << 62},
		{fastest, MaxBurst, MaxBurst, u128{lo: MaxBurst}, MaxBurst},
		{fastest, MaxBurst, MaxBurst, u128{lo: 1<<63 - 1}, never},
		{fastest, MaxBurst, 0, u128{lo: 1<<63 - 1}, 1<<62 - 1},
		// Above 2^63, as when several callers of cost 2^62 wait for a permit, a full bucket pays a part.
		{fastest, MaxBurst, 0, u128{lo: 1<<63 + 1}, 1<<62 + 1},
		{fastest, MaxBurst, 0, u128{lo: 3<<62 - 1}, never},
		{fastest, MaxBurst, 0, u128{lo: 3 << 62}, never},
		{fastest, MaxBurst, 0, u128{lo: 1<<64 - 1}, never},
		{fastest, MaxBurst, 0, u128{hi: 1}, never},
		{fastest, MaxBurst, 0, u128{hi: 1 << 63}, never},
	} {
		b := newRated(c.rate, c.burst)
		b.charge(c.spent)
		if is := b.wait(0, c.k); is != c.want {
			t.Errorf("%v burst %d less %d: the wait for %v is %d; want %d", c.rate, c.burst, c.spent, c.k.big(), is, c.want)
		}
		must(t, b.checkWait(c.k))
	}
}

func TestC10_AChangeKeepsTheLevelAndRoundsItsPartTokenDown(t *testing.T) {
	for _, c := range []struct {
		from, to Rate
		passed   int64
		want     *big.Rat
	}{
		{Rate{1, 10}, Rate{1, 3}, 7, big.NewRat(2, 3)},
		{Rate{1, 10}, Rate{1, 10}, 7, big.NewRat(7, 10)},
		{Rate{1, 10}, Rate{2, 20}, 7, big.NewRat(7, 10)}, // reduced, the same
		{Rate{1, 3}, Rate{1, 10}, 2, big.NewRat(6, 10)},
		{Rate{1, 3}, Rate{1, 10}, 5, big.NewRat(16, 10)},
		{Rate{1, 3}, Rate{1, 6}, 5, big.NewRat(10, 6)},
		{Rate{1, 10}, Rate{1, 1}, 39, big.NewRat(3, 1)},
		{Rate{1, never}, Rate{1, 1}, never - 1, new(big.Rat)},
	} {
		b := newRated(c.from, 5)
		b.charge(5)
		b.now = c.passed
		b.change(c.to, 5)
		if is := unitsLeft(&b.bucket, b.now); is.Cmp(c.want) != 0 {
			t.Errorf("%v to %v after %d: the level is %v; want %v", c.from, c.to, c.passed, is, c.want)
		}
		must(t, b.check())
	}
}

func TestC1_RaisingTheBurstAddsNoTokens(t *testing.T) {
	r := Rate{3, 7}
	for _, full := range []bool{true, false} {
		b := newRated(r, 5)
		if !full {
			b.charge(3)
		}
		before := unitsLeft(&b.bucket, 0)
		b.change(r, MaxBurst)
		if after := unitsLeft(&b.bucket, 0); after.Cmp(before) != 0 {
			t.Errorf("the level was %v, and is %v with a higher burst", before, after)
		}
		b.change(r, 1)
		if after := unitsLeft(&b.bucket, 0); after.Cmp(whole(1)) != 0 {
			t.Errorf("the level is %v with burst 1; want it cut to 1", after)
		}
		b.change(r, 5)
		if after := unitsLeft(&b.bucket, 0); after.Cmp(whole(1)) != 0 {
			t.Errorf("the level is %v after the burst went down and up again; want 1", after)
		}
		must(t, b.check())
	}
}

func TestC10_AFullBucketKeepsNoRemainder(t *testing.T) {
	for at := int64(10); at < 20; at++ {
		b := newBucket(Rate{2, 3}, 1, 0) // a token each 1.5 ns
		b.charge(0, 1)
		b.charge(at, 1) // full since 1.5: what was earned since then is lost
		if due := b.due(1); due != at+2 {
			t.Errorf("the bucket, full and emptied at %d, has its next token at %d; want %d", at, due, at+2)
		}
		if b.missingAt(at+2) != (u128{}) {
			t.Errorf("the bucket misses %v when full", b.missingAt(at+2))
		}
	}
}

func TestC11_AnEarlierInstantMintsNothing(t *testing.T) {
	b := newRated(Rate{1, 10}, 5)
	b.charge(5)
	b.now = 30
	must(t, b.take(1))
	for _, at := range []int64{29, 1, 0, -5, -never} {
		if b.missingAt(at) != b.missing {
			t.Errorf("at %d, before the latest instant, %v is missing; want %v", at, b.missingAt(at), b.missing)
		}
	}
	fixed, err := NewBucket(Quota{Rate: Rate{1, 10}, Burst: 3})
	must(t, err)
	now := time.Unix(0, 0)
	allowed := 0
	for _, at := range []time.Duration{100, 50, 109, 0, 104, 3, 109, 80, 109} {
		if fixed.Take(now.Add(at), 1).Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d takes of one token in 9 ns; want 3", allowed)
	}
}

func TestBucket_WhatCanNeverBeTakenTakesNothing(t *testing.T) {
	b, err := NewBucket(Quota{Rate: Rate{1, 10}, Burst: 3})
	must(t, err)
	now := time.Unix(0, 0)
	for _, n := range []int64{4, MaxBurst, never, 0, -1, -never} {
		if d := b.Take(now, n); d != (Decision{Remaining: 3, RetryAfter: -1}) {
			t.Errorf("a take of %d: %+v; want it never allowed, and 3 remaining", n, d)
		}
	}
	if d := b.Take(now, 3); d != (Decision{Allowed: true}) {
		t.Errorf("a take of all: %+v; want it allowed", d)
	}
	if d := b.Take(now.Add(19), 2); d != (Decision{Remaining: 1, RetryAfter: 1}) {
		t.Errorf("a take of 2, 19 ns later: %+v; want a wait of 1 ns with 1 remaining", d)
	}
}
