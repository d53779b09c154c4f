package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

const year = 365 * 24 * time.Hour

func TestNUM_01_AnOverflownBurstIsAnErrorAndLetsNobodyThrough(t *testing.T) {
	perSecond := int64(3_355_443_200)
	huge := int64(1) << 62
	for _, burst := range []int64{int64(int32(perSecond)), huge * 2, huge + 1, math.MinInt64, -1} {
		l, err := throttle.New(throttle.Config{Name: "bytes", Rate: throttle.PerSecond(1), Burst: burst})
		mustSay(t, err, throttle.ErrInvalid, "bytes", fmt.Sprintf("Burst is %d;", burst), "want 1 to 4611686018427387904")
		if l != nil {
			t.Fatalf("burst %d: a limiter came with the error", burst)
		}
		// Whoever goes on with what came is still let through by nothing.
		for _, n := range []int64{1, 65536} {
			_, err := l.AcquireN(context.Background(), n)
			mustSay(t, err, throttle.ErrInvalid, "New")
		}
		_, err = throttle.NewBucket(throttle.Quota{Name: "bytes", Rate: throttle.PerSecond(1), Burst: burst})
		mustSay(t, err, throttle.ErrInvalid, "bytes", fmt.Sprintf("Burst is %d;", burst))
	}

	for _, burst := range []int64{perSecond, throttle.MaxBurst} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: burst})
			mustSay(t, l.SetBurst(int64(int32(perSecond))), throttle.ErrInvalid, "Burst is -939524096")
			for _, n := range []int64{1, 65536, burst - 65537} {
				if _, err := l.AcquireN(context.Background(), n); err != nil {
					t.Fatalf("burst %d, cost %d: %v", burst, n, err)
				}
			}
			mustHaveTokens(t, l, 0)
		})
	}
}

func TestNUM_02_ABucketIsFullAfterAnyIdleSpell(t *testing.T) {
	rates := []throttle.Rate{
		throttle.Per(1e12, 12*time.Hour), throttle.Per(43_200_000_000_000, 12*time.Hour), throttle.Per(1, 12*time.Hour),
		throttle.Per(1e12-1, 12*time.Hour-1), throttle.PerSecond(1e9),
	}
	for _, rate := range rates {
		for _, burst := range []int64{1, 5, 1e12, throttle.MaxBurst} {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, throttle.Config{Rate: rate, Burst: burst})
				b := newBucket(t, rate, burst)
				spent := min(burst, rate.N, int64(1e12)-1) // no more than 12 h and a nanosecond earn again
				for _, idle := range []time.Duration{12*time.Hour + 1, year, 100 * year} {
					mustTry(t, l, spent, 1)
					mustHaveTokens(t, l, burst-spent)
					if d := b.Take(time.Now(), spent); !d.Allowed || d.Remaining != burst-spent {
						t.Fatalf("%v burst %d: taking %d: %+v", rate, burst, spent, d)
					}
					time.Sleep(idle)
					mustHaveTokens(t, l, burst)
					if d := b.Take(time.Now(), burst+1); d.Remaining != burst {
						t.Fatalf("%v burst %d: after %v idle the bucket has %d", rate, burst, idle, d.Remaining)
					}
				}
			})
		}
	}
}

func TestNUM_03_FrequentPollsLoseNoPartOfAToken(t *testing.T) {
	want := map[time.Duration]int{
		time.Millisecond: 100, 7 * time.Millisecond: 99, 500 * time.Millisecond: 100, 999 * time.Millisecond: 99,
	}
	for d, want := range want {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 20})
			b := newBucket(t, throttle.PerSecond(10), 20)
			mustPass(t, l, 21, 20)
			b.Take(time.Now(), 20)
			got, fromBucket := 0, 0
			for time.Sleep(d); sinceStart() <= 10*time.Second; time.Sleep(d) {
				got += passing(l, 21)
				for b.Take(time.Now(), 1).Allowed {
					fromBucket++
				}
			}
			if got != want || fromBucket != want {
				t.Fatalf("polled every %v: the limiter gave %d and the bucket %d; want %d", d, got, fromBucket, want)
			}
		})
	}
}

func TestNUM_04_RefusedTriesDoNotPutOffTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustPass(t, l, 1, 1)
		var at []time.Duration
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if passing(l, 1) == 1 {
				at = append(at, sinceStart())
			}
		}
		if len(at) != 10 {
			t.Fatalf("%d passed in 10 s, at %v; want 10", len(at), at)
		}
		for k, at := range at {
			if at != time.Duration(k+1)*time.Second {
				t.Fatalf("pass %d was at %v; want %ds", k+1, at, k+1)
			}
		}
	})
}

func TestNUM_05_AfterExactlyTheReportedWaitTheAskSucceeds(t *testing.T) {
	failed, early := 0, 0
	clock := fake.NewClock(time.Time{})
	for _, den := range []time.Duration{7, 13, 60, 3600} {
		for i := int64(1); i <= 2000; i++ {
			rate := throttle.Per(i, den*time.Second)
			l := newLimiter(t, throttle.Config{Rate: rate, Burst: 1, Clock: clock})
			b := newBucket(t, rate, 1)
			mustTry(t, l, 1, 1)
			_, err := l.TryAcquire()
			var wait *throttle.NotYetError
			if !errors.As(err, &wait) {
				t.Fatalf("%v: %v; want not yet", rate, err)
			}
			start := clock.Now()
			b.Take(start, 1)
			d := b.Take(start, 1)
			if d.Allowed || d.RetryAfter != wait.RetryAfter {
				t.Fatalf("%v: the bucket says %+v, the limiter %v", rate, d, wait)
			}
			clock.Advance(d.RetryAfter - 1)
			early += passing(l, 1)
			if b.Take(clock.Now(), 1).Allowed {
				early++
			}
			clock.Advance(1)
			failed += 1 - passing(l, 1)
			if !b.Take(clock.Now(), 1).Allowed {
				failed++
			}
		}
	}
	if failed != 0 || early != 0 {
		t.Fatalf("of 8000 rates %d failed after the wait, and %d passed 1ns earlier; want 0 and 0", failed, early)
	}
}

func TestNUM_06_TheLargestPatienceIsPatience(t *testing.T) {
	patience := map[string]func() (context.Context, context.CancelFunc){
		"no deadline": func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
		"largest duration": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), math.MaxInt64)
		},
		"year 9999": func() (context.Context, context.CancelFunc) {
			return context.WithDeadline(context.Background(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
		},
	}
	for name, withPatience := range patience {
		for _, maxWait := range []time.Duration{0, math.MaxInt64} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 1, MaxWait: maxWait})
					mustPass(t, l, 1, 1)
					ctx, cancel := withPatience()
					defer cancel()
					c := join(ctx, l, 1, 1)
					time.Sleep(time.Second)
					c.mustStartAt(t, 100*time.Millisecond)
				})
			})
		}
	}
}

// Moot: a limiter has no forced take and no "as many as there are", so that no balance is below 0. What
// is left of the case: no negative, and no too large, ask adds anything.
func TestNUM_07_NoAskAddsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := throttle.Per(1, 100*year)
		l := newLimiter(t, throttle.Config{Rate: rate, Burst: 50})
		b := newBucket(t, rate, 50)
		start := time.Now()
		mustSayNever := func(d throttle.Decision, remaining int64) {
			t.Helper()
			if d.Allowed || d.Remaining != remaining || d.RetryAfter != -1 {
				t.Fatalf("got %+v; want never, and %d remaining", d, remaining)
			}
		}
		_, err := l.TryAcquireN(60)
		mustSay(t, err, throttle.ErrTooLarge, "60", "50")
		mustSayNever(b.Take(start, 60), 50)
		mustTry(t, l, 50, 1)
		b.Take(start, 50)
		for _, n := range []int64{0, -1, -10, math.MinInt64} {
			_, err := l.TryAcquireN(n)
			mustSay(t, err, throttle.ErrInvalid, fmt.Sprint(n))
			_, err = l.AcquireN(context.Background(), n)
			mustSay(t, err, throttle.ErrInvalid, fmt.Sprint(n))
			mustSayNever(b.Take(start, n), 0)
		}
		if d := b.Take(start, 20); d.Allowed || d.Remaining != 0 {
			t.Fatalf("20 of an empty bucket: %+v; want none", d)
		}
		mustHaveTokens(t, l, 0)
		mustPass(t, l, 5, 0)
	})
}

// Moot: a limiter alone has no entry that times out; what an entry's life would be reckoned from, the
// time to fill, must not overflow.
func TestNUM_08_TheTimeToFillSaturates(t *testing.T) {
	noPeriod := throttle.Rate{N: 120}
	_, err := throttle.New(throttle.Config{Rate: noPeriod, Burst: 1})
	mustSay(t, err, throttle.ErrInvalid, "Rate", "Period is 0s", "want 1ns or more")
	_, err = throttle.ParseRate("120")
	mustSay(t, err, throttle.ErrInvalid, `"120"`, "no unit", "10/s")

	for _, c := range []struct {
		rate  throttle.Rate
		burst int64
		fill  time.Duration
	}{
		{throttle.PerSecond(120), 120, time.Second},
		{throttle.Per(1, 100*year), 1, 100 * year},
		{throttle.Per(1, 100*year), 2, 200 * year},
		{throttle.Per(1, 100*year), 3, math.MaxInt64},
		{throttle.Per(1, 100*year), throttle.MaxBurst, math.MaxInt64},
		{throttle.PerSecond(1e9), 1, 1},
		{throttle.PerSecond(1e9), throttle.MaxBurst, throttle.MaxBurst},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, c.rate, c.burst)
			l := newLimiter(t, throttle.Config{Rate: c.rate, Burst: c.burst})
			if d := b.Take(time.Now(), c.burst); !d.Allowed {
				t.Fatalf("%v burst %d: the first take: %+v", c.rate, c.burst, d)
			}
			if d := b.Take(time.Now(), c.burst); d.Allowed || d.RetryAfter != c.fill {
				t.Fatalf("%v burst %d: %+v; want the wait %v", c.rate, c.burst, d, c.fill)
			}
			mustTry(t, l, c.burst, 1)
			_, err := l.TryAcquireN(c.burst)
			var wait *throttle.NotYetError
			if !errors.As(err, &wait) || wait.RetryAfter != c.fill {
				t.Fatalf("%v burst %d: %v; want the wait %v", c.rate, c.burst, err, c.fill)
			}
		})
	}
}

func TestNUM_09_TheFirstTryPassesAtTheInstantOfCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range int64(100) {
			rate := throttle.Per(i+1, 13*time.Second)
			l := newLimiter(t, throttle.Config{Rate: rate, Burst: 1})
			mustPass(t, l, 2, 1)
			b := newBucket(t, rate, 1)
			if d := b.Take(time.Now(), 1); !d.Allowed {
				t.Fatalf("%v: the first take: %+v", rate, d)
			}
		}
	})
}

func TestNUM_10_WhatRemainsIsAtMostTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.Per(3, time.Second), Burst: 10})
		b := newBucket(t, throttle.Per(3, time.Second), 10)
		for _, idle := range []time.Duration{time.Second, time.Hour, year} {
			mustPass(t, l, 1, 1)
			mustHaveTokens(t, l, 9)
			b.Take(time.Now(), 1)
			time.Sleep(idle)
			mustHaveTokens(t, l, 10)
			if d := b.Take(time.Now(), 11); d.Remaining != 10 { // 11 is never there: it only asks
				t.Fatalf("after %v idle: %+v; want 10 remaining", idle, d)
			}
			mustPass(t, l, 11, 10)
			time.Sleep(idle + 4*time.Second)
		}
	})
}
