package throttle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestRSZ_01_ALowerLimitGoesOnRefilling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = 5 * time.Millisecond
		l := newLimiter(t, throttle.Config{Rate: throttle.Per(5, period), Burst: 5})
		mustHaveTokens(t, l, 5)
		mustDo(t, l.SetQuota(throttle.Quota{Rate: throttle.Per(2, period), Burst: 2}))
		mustHaveTokens(t, l, 2)
		time.Sleep(2 * period)
		for range 4 {
			mustPass(t, l, 10, 2)
			time.Sleep(period)
			mustHaveTokens(t, l, 2)
		}
	})
}

func TestRSZ_02_GrowingStartsWaitersAndShrinkingRevokesNothing(t *testing.T) {
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			config := throttle.Config{MaxInFlight: 4}
			sem := newSemaphore(t, 4)
			if !own {
				config = throttle.Config{Semaphore: sem}
			}
			var rec recorder
			config.Trace = rec.trace()
			l := newLimiter(t, config)
			resize := sem.Resize
			if own {
				resize = l.SetMaxInFlight
			}
			var held []throttle.Permit
			for range 4 {
				held = append(held, mustTry(t, l, 1, 1))
			}
			var queue []*caller
			for range 3 {
				queue = append(queue, join(context.Background(), l, 1, 1))
			}

			mustDo(t, resize(6))
			queue[0].mustStartAt(t, 0)
			queue[1].mustStartAt(t, 0)
			queue[2].mustWait(t)
			mustHold(t, l, 6)
			ids := rec.starts()[4:]
			if len(ids) != 2 || ids[0].ID > ids[1].ID {
				t.Fatalf("after the growth the starts were %+v; want the two in front, in order", ids)
			}
			held = append(held, queue[0].permit, queue[1].permit)

			mustDo(t, resize(2))
			fourth := join(context.Background(), l, 1, 1)
			for i, p := range held[:4] {
				p.Release()
				queue[2].mustWait(t)
				mustHold(t, l, int64(5-i))
			}
			held[4].Release()
			queue[2].mustStartAt(t, 0)
			fourth.mustWait(t)
			mustHold(t, l, 2)
			if got := l.Stats().MaxInFlight; got != 2 {
				t.Fatalf("the cap is %d; want 2", got)
			}
			fourth.leave()
		})
	}
}

func TestRSZ_02_GrowingASharedCapStartsTheFrontsOfAllItsLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 1)
		a, b := newLimiter(t, throttle.Config{Semaphore: sem}), newLimiter(t, throttle.Config{Semaphore: sem})
		mustPass(t, a, 1, 1)
		queue := []*caller{
			join(context.Background(), a, 1, 1), join(context.Background(), b, 1, 1), join(context.Background(), a, 1, 1),
		}
		mustDo(t, sem.Resize(3))
		queue[0].mustStartAt(t, 0)
		queue[1].mustStartAt(t, 0)
		queue[2].mustWait(t)
		if sem.InFlight() != 3 {
			t.Fatalf("in flight is %d; want 3", sem.InFlight())
		}
		queue[2].leave()
	})
}

func TestRSZ_03_AWaiterAboveAShrunkCapIsToldNeverAtOnce(t *testing.T) {
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			config := throttle.Config{MaxInFlight: 10}
			sem := newSemaphore(t, 10)
			if !own {
				config = throttle.Config{Semaphore: sem}
			}
			l := newLimiter(t, config)
			held := mustTry(t, l, 1, 8)
			a := join(context.Background(), l, 1, 6)
			b := join(context.Background(), l, 1, 1)
			time.Sleep(time.Second)
			if own {
				mustDo(t, l.SetMaxInFlight(4))
			} else {
				mustDo(t, sem.Resize(4))
			}
			if !a.over() || a.at != time.Second {
				t.Fatalf("A has its answer: %v, at %v; want it at 1s", a.over(), a.at)
			}
			mustSay(t, a.err, throttle.ErrTooLarge, "weight 6", "cap")
			b.mustWait(t)
			_, err := l.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 6})
			mustSay(t, err, throttle.ErrTooLarge, "weight 6", "4")
			time.Sleep(time.Second)
			held.Release()
			b.mustStartAt(t, 2*time.Second)
			mustHold(t, l, 1)
		})
	}
}

// The same of tokens: a cost that a lower burst no longer holds.
func TestRSZ_03_AWaiterAboveALoweredBurstIsToldNeverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
		mustTry(t, l, 10, 1)
		a := join(context.Background(), l, 6, 1)
		b := join(context.Background(), l, 1, 1)
		time.Sleep(500 * time.Millisecond)
		mustDo(t, l.SetBurst(4))
		if !a.over() || a.at != 500*time.Millisecond {
			t.Fatalf("A has its answer: %v, at %v; want it at 500ms", a.over(), a.at)
		}
		mustSay(t, a.err, throttle.ErrTooLarge, "cost 6", "burst")
		time.Sleep(time.Second)
		b.mustStartAt(t, time.Second) // what was earned while A stood in front is B's
		if s := l.Stats(); s.RefusedNever != 1 || s.Started != 2 || s.Waiting != 0 {
			t.Fatalf("got %+v; want A told never and B started", s)
		}
	})
}

// The limit source of this limiter is its setters: failing is refusing a value. A pause is the worst
// that a source could do.
func TestRSZ_04_AReleaseDependsOnNoLimit(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 3})
	for range 3 {
		p := mustTry(t, l, 1, 1)
		if err := l.SetMaxInFlight(-1); err == nil {
			t.Fatal("SetMaxInFlight(-1) was accepted")
		}
		mustDo(t, l.SetMaxInFlight(0))
		p.Release()
		mustHold(t, l, 0)
		mustDo(t, l.SetMaxInFlight(3))
	}
	mustPass(t, l, 4, 3)
	mustHold(t, l, 3)
}

// Limiters by key come with another issue: here the limiter is that of key X, and lives on.
func TestRSZ_05_ANewLimitHoldsForALimiterThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 1
		l := newLimiter(t, throttle.Config{Name: "X", Rate: throttle.PerSecond(100), Burst: 100})
		mustDo(t, l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(1), Burst: burst}))
		mustHaveTokens(t, l, burst)
		got := 0
		for range 101 { // from 0 to 1 s, both ends included
			got += passing(l, 1)
			time.Sleep(10 * time.Millisecond)
		}
		if got != 1+burst {
			t.Fatalf("%d tries passed in the second after the change; want %d", got, 1+burst)
		}
	})
}

func TestRSZ_06_ReloadingUnchangedLimitsAddsNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "api", Rate: throttle.PerMinute(1), Burst: 5})
		mustPass(t, l, 6, 5)
		for i := range 60 {
			// The same rate in other numbers is unchanged too.
			rate := throttle.Per(int64(1+i%2), time.Duration(1+i%2)*time.Minute)
			mustDo(t, l.SetQuota(throttle.Quota{Name: "api", Rate: rate, Burst: 5}))
			mustDo(t, l.SetRate(rate))
			mustDo(t, l.SetBurst(5))
			mustPass(t, l, 1, 0)
			time.Sleep(time.Second)
		}
		mustPass(t, l, 2, 1) // and the reloads took nothing either: it is there at the minute exactly
	})
}

func TestRSZ_07_WaitersAreRetimed(t *testing.T) {
	setters := map[string]func(*throttle.Limiter) error{
		"SetRate": func(l *throttle.Limiter) error { return l.SetRate(throttle.PerSecond(10)) },
		"SetQuota": func(l *throttle.Limiter) error {
			return l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(10), Burst: 1})
		},
	}
	for name, set := range setters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
				mustPass(t, l, 1, 1)
				var queue []*caller
				for range 3 {
					queue = append(queue, join(context.Background(), l, 1, 1))
				}
				time.Sleep(500 * time.Millisecond)
				mustDo(t, set(l))
				time.Sleep(time.Second)
				for i, c := range queue {
					c.mustStartAt(t, time.Duration(550+100*i)*time.Millisecond)
				}
			})
		})
	}

	// And the other way: a lower rate holds for those who wait too.
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustPass(t, l, 1, 1)
		c := join(context.Background(), l, 1, 1)
		time.Sleep(500 * time.Millisecond)
		mustDo(t, l.SetRate(throttle.Per(1, 10*time.Second)))
		time.Sleep(10 * time.Second)
		c.mustStartAt(t, 5500*time.Millisecond)
	})
}

func TestRSZ_07_APartTokenIsKeptRoundedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.Per(1, 3*time.Second), Burst: 1})
		mustPass(t, l, 1, 1)
		time.Sleep(time.Second) // earns a third
		mustDo(t, l.SetRate(throttle.PerSecond(1)))
		_, err := l.TryAcquire()
		var wait *throttle.NotYetError
		if !errors.As(err, &wait) || wait.RetryAfter != 666_666_667 {
			t.Fatalf("got %v; want a wait of two thirds of a second, rounded up", err)
		}
	})
}

func TestRSZ_07_RateAndBurstChangeInOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		var changes []throttle.Event
		traced := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Trace: &throttle.Trace{
			LimitChanged: func(e throttle.Event) { changes = append(changes, e) },
		}})
		for _, l := range []*throttle.Limiter{l, traced} {
			mustDo(t, l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(7), Burst: 3}))
			_, err := l.TryAcquireN(4)
			mustSay(t, err, throttle.ErrTooLarge, "cost 4", "burst 3")
			mustHaveTokens(t, l, 1) // a higher burst adds no tokens
		}
		if len(changes) != 1 || changes[0].Rate != throttle.PerSecond(7) || changes[0].Burst != 3 {
			t.Fatalf("the changes traced are %+v; want one, to 7/s and burst 3", changes)
		}
		// Half wrong is wholly refused.
		mustSay(t, l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(9)}), throttle.ErrInvalid, "Burst is 0")
		_, err := l.TryAcquireN(3)
		var wait *throttle.NotYetError
		if !errors.As(err, &wait) || !strings.Contains(wait.Limit, "7/s") {
			t.Fatalf("after a refused change: %v; want the limit 7/s in force", err)
		}
	})
}

func TestRSZ_08_ALowerBurstCutsWhatIsSavedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.Per(1, 100*365*24*time.Hour), Burst: 10})
		mustPass(t, l, 3, 3)
		mustDo(t, l.SetBurst(5))
		mustPass(t, l, 6, 5)
	})
}

func TestRSZ_09_ALowerLimitIsToldFromThatCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerMinute(100), Burst: 100})
		mustPass(t, l, 1, 1)
		mustDo(t, l.SetQuota(throttle.Quota{Rate: throttle.PerMinute(10), Burst: 10}))
		mustPass(t, l, 1, 1)
		mustHaveTokens(t, l, 9)
		_, err := l.TryAcquireN(10)
		var wait *throttle.NotYetError
		if !errors.As(err, &wait) || wait.Limit != "rate 10/min (burst 10)" {
			t.Fatalf("the answer is %v; want one that tells the limit 10/min (burst 10)", err)
		}
		mustPass(t, l, 10, 9)
	})
}
