package throttle_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestARG_01_RateZeroIsRefusedByConstructorsAndSetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, zero := range []throttle.Rate{{}, {Period: time.Second}, throttle.PerSecond(0)} {
			l, err := throttle.New(throttle.Config{Name: "api", Rate: zero, Burst: 1})
			mustSay(t, err, throttle.ErrInvalid, "api", "Rate")
			mustPass(t, l, 1000, 0)
			b, err := throttle.NewBucket(throttle.Quota{Name: "api", Rate: zero, Burst: 1})
			mustSay(t, err, throttle.ErrInvalid, "api", "Rate")
			if b != nil {
				t.Fatal("a bucket came with the error")
			}

			l = newLimiter(t, throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 1})
			mustPass(t, l, 1, 1)
			mustSay(t, l.SetRate(zero), throttle.ErrInvalid, "api", "SetRate", "Rate")
			mustSay(t, l.SetQuota(throttle.Quota{Rate: zero, Burst: 1}), throttle.ErrInvalid, "api", "SetQuota", "Rate")
			for range 1000 { // the old rate holds
				mustPass(t, l, 10, 0)
				time.Sleep(time.Second)
				mustPass(t, l, 10, 1)
			}
		}
	})
}

func TestARG_02_BurstZeroIsRefusedAndLetsNobodyThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := throttle.New(throttle.Config{Rate: throttle.PerSecond(1)})
		mustSay(t, err, throttle.ErrInvalid, "Burst is 0", "want 1")
		b, err := throttle.NewBucket(throttle.Quota{Rate: throttle.PerSecond(1)})
		mustSay(t, err, throttle.ErrInvalid, "Burst is 0", "want 1")
		if b != nil {
			t.Fatal("a bucket came with the error")
		}
		var zero throttle.Bucket
		for range 100 {
			mustPass(t, l, 1, 0)
			if d := zero.Take(time.Now(), 1); d.Allowed || d.Remaining != 0 {
				t.Fatalf("the zero Bucket: %+v", d)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func TestARG_03_AWeightAboveTheCapFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "db", MaxInFlight: 10})
		tooHeavy := throttle.Cost{Tokens: 1, Weight: 11}
		_, err := l.AcquireCost(context.Background(), tooHeavy)
		mustSay(t, err, throttle.ErrTooLarge, "db", "weight 11", "cap 10")

		held := mustTry(t, l, 1, 10)
		first := join(context.Background(), l, 1, 3)
		heavy := join(context.Background(), l, 1, 11)
		second := join(context.Background(), l, 1, 7)
		if !heavy.over() {
			t.Fatal("a weight above the cap waits")
		}
		mustSay(t, heavy.err, throttle.ErrTooLarge, "db", "weight 11", "cap 10")
		if s := l.Stats(); s.Waiting != 2 || s.RefusedNever != 2 || s.InFlight != 10 {
			t.Fatalf("got %+v; want 2 waiting, 2 told never and 10 in flight", s)
		}
		held.Release()
		first.mustStartAt(t, 0)
		second.mustStartAt(t, 0)
	})
}

// Moot: a Rate is a pair of whole numbers, so that none is infinite, and texts that mean it are errors. Where
// there is no rate, and at the highest one, every call agrees.
func TestARG_04_EveryCallAgreesWithoutARateAndAtTheHighest(t *testing.T) {
	for _, s := range []string{"Inf/s", "inf/s", "+Inf/s", "infinity/s"} {
		_, err := throttle.ParseRate(s)
		mustSay(t, err, throttle.ErrInvalid, s, "10/s")
	}
	_, err := throttle.New(throttle.Config{Rate: throttle.Per(math.MaxInt64, 1), Burst: 1})
	mustSay(t, err, throttle.ErrInvalid, "Rate", "1000000000/s")

	ctx := context.Background()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 100})
		for _, n := range []int64{0, 1, math.MaxInt64} { // without a rate, tokens are ignored
			for range 5 {
				if _, err := l.TryAcquireN(n); err != nil {
					t.Fatalf("try of %d tokens: %v", n, err)
				}
				if _, err := l.AcquireN(ctx, n); err != nil {
					t.Fatalf("acquire of %d tokens: %v", n, err)
				}
			}
		}
		if sinceStart() != 0 {
			t.Fatalf("30 calls without a rate took %v", sinceStart())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1e9), Burst: 1})
		mustPass(t, l, 5, 1)
		for i := range time.Duration(5) {
			if _, err := l.Acquire(ctx); err != nil || sinceStart() != 2*i+1 {
				t.Fatalf("acquire %d: %v at %v", i, err, sinceStart())
			}
			if err := l.Wait(ctx); err != nil || sinceStart() != 2*i+2 {
				t.Fatalf("wait %d: %v at %v", i, err, sinceStart())
			}
			mustPass(t, l, 1, 0)
			_, err := l.AcquireN(ctx, 2)
			mustSay(t, err, throttle.ErrTooLarge, "cost 2")
			_, err = l.TryAcquireN(2)
			mustSay(t, err, throttle.ErrTooLarge, "cost 2")
		}
	})
}

func TestARG_05_ARateBelowTheCostStillReachesIt(t *testing.T) {
	for _, c := range []struct{ first, want int }{{0, 6}, {1, 5}} { // 11 tries with that at 0 s, 10 without
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.Per(1, 2*time.Second), Burst: 1})
			time.Sleep(time.Duration(c.first) * time.Second)
			got := 0
			for range 11 - c.first {
				got += passing(l, 1)
				time.Sleep(time.Second)
			}
			if got != c.want {
				t.Fatalf("tried each second from %d s to 10 s, %d passed; want %d", c.first, got, c.want)
			}
		})
	}
}

// Moot in its first half: nothing here derives a burst from a rate; the burst is the caller's.
func TestARG_06_ABurstRoundedDownToZeroIsAConstructorError(t *testing.T) {
	perSecond := 2.0
	burst := int64(perSecond * 0.33)
	_, err := throttle.New(throttle.Config{Name: "gitlab", Rate: throttle.PerSecond(2), Burst: burst})
	mustSay(t, err, throttle.ErrInvalid, "gitlab", "Burst is 0", "want 1")
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "gitlab", Rate: throttle.PerSecond(2), Burst: max(burst, 1)})
		for i := range time.Duration(4) {
			if err := l.Wait(context.Background()); err != nil || sinceStart() != i*time.Second/2 {
				t.Fatalf("call %d: %v at %v", i, err, sinceStart())
			}
		}
	})
}

func TestARG_07_AnAskAboveTheBurstIsToldNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 5})
		b := newBucket(t, throttle.PerSecond(1), 5)
		if d := b.Take(time.Now(), 10); d != (throttle.Decision{Remaining: 5, RetryAfter: -1}) {
			t.Fatalf("got %+v; want never, and 5 remaining", d)
		}
		_, try := l.TryAcquireN(10)
		_, acquire := l.AcquireN(context.Background(), 10)
		for _, err := range []error{try, acquire} {
			mustSay(t, err, throttle.ErrTooLarge, "cost 10", "burst 5")
			var wait *throttle.NotYetError
			if errors.As(err, &wait) {
				t.Fatalf("%v tells a wait", err)
			}
		}
		mustHaveTokens(t, l, 5)
		mustTry(t, l, 5, 1)
		if d := b.Take(time.Now(), 5); !d.Allowed {
			t.Fatalf("5 of 5: %+v", d)
		}
	})
}

func TestARG_08_ExactlyTheBurstPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, burst := range []int64{5, 1} {
			rate := throttle.Per(1, 100*year)
			mustPass(t, newLimiter(t, throttle.Config{Rate: rate, Burst: burst}), 20, int(burst))
			b, got := newBucket(t, rate, burst), int64(0)
			for b.Take(time.Now(), 1).Allowed {
				got++
			}
			if got != burst {
				t.Fatalf("a bucket of %d gave %d", burst, got)
			}
		}
	})
}

func TestARG_09_ARefusedOversizeAskTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 300})
		_, err := l.TryAcquireN(301)
		mustSay(t, err, throttle.ErrTooLarge, "301", "300")
		mustPass(t, l, 1, 1)
		mustHaveTokens(t, l, 299)
		b := newBucket(t, throttle.PerSecond(1), 300)
		b.Take(time.Now(), 301)
		if d := b.Take(time.Now(), 1); d != (throttle.Decision{Allowed: true, Remaining: 299}) {
			t.Fatalf("got %+v; want allowed, and 299 remaining", d)
		}
	})
}

func TestARG_10_AWrongBurstKeepsTheOldOneAndServesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1, MaxInFlight: 5})
		mustPass(t, l, 1, 1)
		a, b := join(context.Background(), l, 1, 1), join(context.Background(), l, 1, 1)
		mustSay(t, l.SetBurst(0), throttle.ErrInvalid, "api", "SetBurst", "Burst is 0", "want 1")
		mustSay(t, l.SetBurst(-1), throttle.ErrInvalid, "api", "SetBurst", "Burst is -1", "want 1")
		time.Sleep(time.Second)
		a.mustStartAt(t, 100*time.Millisecond)
		b.mustStartAt(t, 200*time.Millisecond)

		// A pause is a state of its own, of the cap, and refuses nobody.
		mustDo(t, l.SetMaxInFlight(0))
		c := join(context.Background(), l, 1, 1)
		time.Sleep(time.Hour)
		c.mustWait(t)
		mustDo(t, l.SetMaxInFlight(5))
		c.mustStartAt(t, time.Hour+time.Second)
	})
}

func TestARG_11_AtMostTheCapIsInFlight(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 10})
	var admitted atomic.Int64
	var asking sync.WaitGroup
	for range 11 {
		asking.Go(func() {
			if _, err := l.TryAcquire(); err == nil {
				admitted.Add(1)
			}
		})
	}
	asking.Wait()
	if s := l.Stats(); admitted.Load() != 10 || s.InFlight != 10 || s.RefusedNotYet != 1 {
		t.Fatalf("%d of 11 were admitted, %+v; want 10 and 1 refused", admitted.Load(), s)
	}
}

// Tokens are not given back here, but earned: what is given back is a permit. Either makes the next
// ask pass, and neither goes above its limit.
func TestARG_12_WhatIsGivenBackCanBeHadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, MaxInFlight: 10})
		var held []throttle.Permit
		for range 10 {
			held = append(held, mustTry(t, l, 1, 1))
		}
		mustPass(t, l, 1, 0)
		held[0].Release()
		mustPass(t, l, 1, 0) // the permit is back, the token is not
		time.Sleep(time.Second)
		mustPass(t, l, 2, 1)
		for range 20 {
			held[0].Release() // once is all
		}
		time.Sleep(time.Hour)
		mustHaveTokens(t, l, 10)
		mustPass(t, l, 1, 0)
		for _, p := range held[1:] {
			p.Release()
		}
		mustPass(t, l, 20, 9)
	})
}

// The bound is burst + rate x t for any window. With burst 1, starts of callers that wait are 30 s / 17 apart,
// which is no whole number of nanoseconds: each is rounded up, since 18 starts on whole nanoseconds within
// exactly 30 s would have two of them too near for C1. So the 18th is there 11 ns after 30 s.
func TestARG_13_TheBoundIsBurstPlusRateTimesTime(t *testing.T) {
	rate := throttle.Per(17, 30*time.Second)
	for burst, want := range map[int64]int{17: 33, 1: 15} { // bounds: 32 to 34, and at most 18
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: rate, Burst: burst})
			got := 0
			for range 60 {
				got += passing(l, 1)
				time.Sleep(500 * time.Millisecond)
			}
			if got != want {
				t.Fatalf("burst %d: %d of 60 tries passed in 30 s; want %d", burst, got, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: rate, Burst: 1})
		apart := 30*time.Second/17 + 1 // rounded up
		var callers []*caller
		for range 60 {
			callers = append(callers, join(t.Context(), l, 1, 1))
		}
		time.Sleep(30*time.Second + 11)
		for i, c := range callers[:18] {
			c.mustStartAt(t, time.Duration(i)*apart)
		}
		for _, c := range callers[18:] {
			c.mustWait(t)
			c.leave()
		}
	})
}
