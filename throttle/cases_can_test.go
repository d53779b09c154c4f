package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind CAN: callers that cancel or time out lose no token, no permit and no wake-up. Those
// that race on purpose are in cases_can_race_test.go, those of refusals in cases_can_refuse_test.go.

func TestCAN_01_CancelledHeadWakesTheOneBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 10})
		holder := mustTry(t, l, 1, 7)
		a := join(t.Context(), l, 1, 5)
		b := join(t.Context(), l, 1, 2)
		a.mustWait(t)
		b.mustWait(t)
		a.leave()
		if !a.over() || !errors.Is(a.err, context.Canceled) {
			t.Fatalf("A got %v; want its context's error", a.err)
		}
		b.mustStartAt(t, 0)
		if s := l.Stats(); s.InFlight != 9 || s.Waiting != 0 {
			t.Errorf("in flight %d, waiting %d; want 9 and 0", s.InFlight, s.Waiting)
		}
		b.permit.Release()
		holder.Release()
	})
}

// The one behind may be of another limiter that shares the cap.
func TestCAN_01_CancelledHeadWakesTheOneBehindOnASharedCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 10)
		l, other := newLimiter(t, throttle.Config{Semaphore: sem}), newLimiter(t, throttle.Config{Semaphore: sem})
		holder := mustTry(t, l, 1, 7)
		a := join(t.Context(), l, 1, 5)
		b := join(t.Context(), other, 1, 2)
		b.mustWait(t)
		a.leave()
		b.mustStartAt(t, 0)
		if n := sem.InFlight(); n != 9 {
			t.Errorf("in flight %d; want 9", n)
		}
		b.permit.Release()
		holder.Release()
	})
}

// Turnstile has no reservations: the three wait in line, which takes nothing, so that there is nothing to give back.
func TestCAN_02_LeavingGivesTheWholeCostToThoseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 20, Slack: throttle.MaxSlack, Trace: rec.trace()})
		mustTry(t, l, 15, 1)
		time.Sleep(100 * time.Millisecond)
		ten := join(t.Context(), l, 10, 1) // due at 500 ms
		time.Sleep(100 * time.Millisecond)
		two := join(t.Context(), l, 2, 1)   // due at 700 ms, behind it
		ten2 := join(t.Context(), l, 10, 1) // due at 1700 ms, and at 700 ms without the first
		time.Sleep(100 * time.Millisecond)
		ten.mustWait(t)
		two.mustWait(t)
		ten.leave()
		two.mustStartAt(t, 300*time.Millisecond)
		ten2.mustWait(t)
		if s := l.Stats(); s.Tokens != 6 {
			t.Errorf("%d tokens; want 6: 8 there, 10 given back by taking none, 2 spent", s.Tokens)
		}
		time.Sleep(400*time.Millisecond - 1)
		ten2.mustWait(t)
		time.Sleep(1)
		ten2.mustStartAt(t, 700*time.Millisecond)
		mustBeOnTime(t, rec.starts()) // the two could be paid for before, but earned nothing by that
	})
}

// In place of reservations, three callers wait for the permit while the token is there, or for the token
// while a part of it is there.
func TestCAN_03_ThreeThatLeaveNewestFirstLeaveTheTokensAsTheyWere(t *testing.T) {
	for _, perSecond := range []int64{30, 60, 100, 7, 999_999_937} {
		synctest.Test(t, func(t *testing.T) {
			sem := newSemaphore(t, 1)
			held := mustTry(t, newLimiter(t, throttle.Config{Semaphore: sem}), 1, 1)
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(perSecond), Burst: 1, Semaphore: sem})
			threeComeAndGo(t, l)
			held.Release()
			mustTry(t, l, 1, 1).Release()

			for range 3 { // the part-token stays too, to the nanosecond
				time.Sleep(time.Second / time.Duration(perSecond) / 3)
				want := retryAfter(t, l)
				threeComeAndGo(t, l)
				if got := retryAfter(t, l); got != want {
					t.Fatalf("at %d/s the next token is due in %v; want %v, as before", perSecond, got, want)
				}
			}
			time.Sleep(retryAfter(t, l))
			mustTry(t, l, 1, 1).Release()
		})
	}
}

// threeComeAndGo has three callers join at one instant, and leave at it, the newest first.
func threeComeAndGo(t *testing.T, l *throttle.Limiter) {
	t.Helper()
	var callers []*caller
	for range 3 {
		c := join(t.Context(), l, 1, 1)
		c.mustWait(t)
		callers = append(callers, c)
	}
	for i := 2; i >= 0; i-- {
		callers[i].leave()
		if !callers[i].over() || !errors.Is(callers[i].err, context.Canceled) {
			t.Fatalf("caller %d got %v; want context.Canceled", i, callers[i].err)
		}
	}
}

func TestCAN_04_CancelledWaiterLeavesTheQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1, MaxQueue: 1})
		mustTry(t, l, 1, 1)
		a := join(t.Context(), l, 1, 1)
		if _, err := l.Acquire(t.Context()); !errors.Is(err, throttle.ErrQueueFull) {
			t.Fatalf("beside A: %v; want ErrQueueFull", err)
		}
		a.leave()
		b := join(t.Context(), l, 1, 1)
		b.mustWait(t)
		if s := l.Stats(); s.Waiting != 1 {
			t.Errorf("%d waiting; want 1", s.Waiting)
		}
		time.Sleep(time.Hour)
		b.mustStartAt(t, time.Hour)
	})
}

func TestCAN_10_ThoseWhoGiveUpBookNoFutureStarts(t *testing.T) {
	for _, by := range []string{"deadline", "cancel"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(5), Burst: 10})
			var crowd []*caller
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if by == "deadline" {
					ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				}
				defer cancel()
				crowd = append(crowd, join(ctx, l, 1, 1))
			}
			time.Sleep(time.Second)
			started := 0
			for _, c := range crowd {
				if by == "cancel" {
					c.leave()
				}
				if !c.over() {
					t.Fatal("a caller still waits after it gave up")
				}
				if c.err == nil {
					started++
				}
			}
			// By deadline the one due at 1 s is refused, as it would start too late; by cancel it may start.
			if started != 14 && (by == "deadline" || started != 15) {
				t.Errorf("by %s: %d of 200 started in the first second; want 14 (or 15 by cancel)", by, started)
			}
			time.Sleep(time.Second)
			for i := range 100 {
				at := 2*time.Second + time.Duration(i)*300*time.Millisecond
				join(t.Context(), l, 1, 1).mustStartAt(t, at)
				time.Sleep(300 * time.Millisecond)
			}
		})
	}
}

func TestCAN_11_TimedOutHeadLetsAllBehindStartInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{MaxInFlight: 4, Trace: rec.trace()})
		holder := mustTry(t, l, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		a := join(ctx, l, 1, 4)
		b := join(t.Context(), l, 1, 1)
		c := join(t.Context(), l, 1, 1)
		time.Sleep(50*time.Millisecond - 1)
		b.mustWait(t)
		c.mustWait(t)
		time.Sleep(1)
		if !a.over() || a.at != 50*time.Millisecond || !errors.Is(a.err, context.DeadlineExceeded) {
			t.Fatalf("A got %v at %v; want DeadlineExceeded at 50 ms", a.err, a.at)
		}
		b.mustStartAt(t, 50*time.Millisecond)
		c.mustStartAt(t, 50*time.Millisecond)
		starts := rec.starts()
		if len(starts) != 3 || starts[1].ID > starts[2].ID || starts[2].Seq != starts[1].Seq+1 {
			t.Errorf("starts %+v; want B then C, in one pass", starts[1:])
		}
		if s := l.Stats(); s.InFlight != 4 {
			t.Errorf("in flight %d; want 4", s.InFlight)
		}
		holder.Release()
		b.permit.Release()
		c.permit.Release()
	})
}

func TestCAN_14_WaiterHoldsNoPartOfItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 5})
		holders := []throttle.Permit{mustTry(t, l, 1, 1), mustTry(t, l, 1, 1), mustTry(t, l, 1, 1)}
		a := join(t.Context(), l, 1, 5)
		holders[0].Release()
		a.mustWait(t)
		if s := l.Stats(); s.InFlight != 2 {
			t.Errorf("in flight %d while A waits for 5; want the holders' 2", s.InFlight)
		}
		a.leave()
		holders[1].Release()
		holders[2].Release()
		if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("in flight %d, waiting %d; want 0 and 0", s.InFlight, s.Waiting)
		}
		mustTry(t, l, 1, 5).Release() // all 5 are free
	})
}
