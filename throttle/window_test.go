package throttle_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// AtMost(n, w): never more than n in any half-open window [a, a+w) of real starts.

// A spent is one start: when, and what it cost.
type spent struct {
	at   time.Time
	cost int64
}

// mustKeepWindow asserts it by looking at the window from each start on: another one with more would hold it too.
func mustKeepWindow(t testing.TB, starts []spent, n int64, w time.Duration) {
	t.Helper()
	for i, from := range starts {
		sum := int64(0)
		for _, s := range starts[i:] {
			if s.at.Sub(from.at) < w {
				sum += s.cost
			}
		}
		if sum > n {
			t.Fatalf("%d tokens start in the %v from start %d on, at %v; want %d at most", sum, w, i, from.at.Sub(bubbleStart), n)
		}
	}
}

// spentIn is what the events of a recorder spend, by the clock.
func spentIn(events []throttle.Event) []spent {
	var all []spent
	for _, e := range events {
		all = append(all, spent{e.At, e.Tokens})
	}
	return all
}

func TestWindow_ItsEndIsOpenToTheNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(2, time.Second)}})
		mustPass(t, l, 1, 1)
		time.Sleep(300 * time.Millisecond)
		mustPass(t, l, 2, 1)
		time.Sleep(700*time.Millisecond - 1)
		mustRefuse(t, l, 1, "at most 2 in 1s")
		time.Sleep(1) // exactly a + w
		mustPass(t, l, 2, 1)
		mustRefuse(t, l, 300*time.Millisecond, "at most 2 in 1s")
	})
}

func TestWindow_WaitersStartAsStartsLeaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(10, time.Second)}})
		mustTry(t, l, 4, 1)
		time.Sleep(100 * time.Millisecond)
		mustTry(t, l, 3, 1)
		time.Sleep(100 * time.Millisecond)
		a := join(t.Context(), l, 3, 1)
		a.mustStartAt(t, 200*time.Millisecond)
		b := join(t.Context(), l, 4, 1)  // needs the first to leave
		c := join(t.Context(), l, 1, 1)  // needs the second to
		d := join(t.Context(), l, 10, 1) // needs all of them to, and c
		e := join(t.Context(), l, 1, 1)
		time.Sleep(5 * time.Second)
		b.mustStartAt(t, 1000*time.Millisecond)
		c.mustStartAt(t, 1100*time.Millisecond)
		d.mustStartAt(t, 2100*time.Millisecond)
		e.mustStartAt(t, 3100*time.Millisecond)
	})
}

// The reckoned wait never lies after the start that follows, so that nobody is refused who could start; a try's is
// exact. Compared with a slice that remembers everything.
func TestWindow_EqualsASliceThatRemembersEverything(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		clock := fake.NewClock(bubbleStart)
		n, w := 1+r.Int64N(12), time.Duration(1+r.Int64N(50))
		l := newLimiter(t, throttle.Config{Clock: clock, Quotas: []throttle.Quota{throttle.AtMost(n, w)}})
		var all []spent
		used := func(at time.Time) (sum int64) {
			for _, s := range all {
				if at.Sub(s.at) < w {
					sum += s.cost
				}
			}
			return sum
		}
		for step := range 400 {
			clock.Advance(time.Duration(r.Int64N(int64(w)/4 + 2)))
			now, k := clock.Now(), 1+r.Int64N(n)
			if level := l.Quotas()[0].Tokens; level != n-used(now) {
				t.Fatalf("seed %d step %d: %d tokens; want %d", seed, step, level, n-used(now))
			}
			_, err := l.TryAcquireN(k)
			if k <= n-used(now) {
				if err != nil {
					t.Fatalf("seed %d step %d: %v; want %d to pass, of %d with %d used", seed, step, err, k, n, used(now))
				}
				all = append(all, spent{now, k})
				continue
			}
			wait := time.Duration(0)
			for used(now.Add(wait))+k > n {
				wait++
			}
			mustTellNotYet(t, err, wait, "at most")
		}
		mustKeepWindow(t, all, n, w)
	}
}

// Callers of many costs, timers that are late by more than the slack, and newcomers: the promise holds by the clock.
func TestWindow_HoldsByTheClockThoughTimersAreLate(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			n, w := 3+r.Int64N(5), 20*time.Millisecond
			var rec recorder
			l := newLimiter(t, throttle.Config{
				Rate: throttle.PerSecond(2000), Burst: 3, Trace: rec.trace(), Clock: &lateClock{late: time.Duration(r.IntN(15)) * time.Millisecond},
				Quotas: []throttle.Quota{throttle.AtMost(n, w), throttle.FixedWindow(40, 100*time.Millisecond)},
			})
			var line []*caller
			for range 200 {
				line = append(line, join(t.Context(), l, 1+r.Int64N(3), 1))
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
				if r.IntN(10) == 0 {
					line[r.IntN(len(line))].leave()
				}
			}
			time.Sleep(time.Minute)
			for _, c := range line {
				if !c.over() {
					t.Fatalf("seed %d: a caller waits after a minute", seed)
				}
			}
			mustKeepWindow(t, spentIn(rec.starts()), n, w)
		})
	}
}

// A deadline that the reckoned wait allows is met if all ahead start as soon as they can.
func TestWindow_TheReckonedWaitIsNeverAboveTheRealOne(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			n, w := 2+r.Int64N(6), time.Second
			l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(n, w), throttle.FixedWindow(2*n, 3*time.Second)}})
			type told struct {
				c     *caller
				after time.Duration
			}
			var all []told
			for range 25 {
				time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
				k := 1 + r.Int64N(n)
				_, err := l.TryAcquireN(k)
				if err == nil {
					continue
				}
				no := err.(*throttle.NotYetError)
				all = append(all, told{join(t.Context(), l, k, 1), sinceStart() + no.RetryAfter})
			}
			time.Sleep(time.Hour)
			for i, x := range all {
				if x.c.over(); x.c.at < x.after {
					t.Fatalf("seed %d: caller %d started at %v; it was told %v at the least", seed, i, x.c.at, x.after)
				}
			}
		})
	}
}

// Starts of one instant are remembered together, and those that have left the window are not.
func TestWindow_ItsMemoryIsBoundedByWhatItPromises(t *testing.T) {
	const n = 1 << 16
	for _, test := range []struct {
		name  string
		cost  throttle.Cost
		step  time.Duration
		calls int
		most  int64 // bytes
	}{
		{"full, each at an instant of its own", throttle.Cost{Tokens: 1, Weight: 1}, 1, n, 16 * n},
		{"many spans", throttle.Cost{Tokens: 1, Weight: 1}, time.Hour/n + 1, 5 * n, 16 * n},
		{"all at one instant", throttle.Cost{Tokens: 1, Weight: 1}, 0, n, 1024},
		{"costs of 0 there", throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"w": 0}}, 1, 4 * n, 1024},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := fake.NewClock(bubbleStart)
			l := newLimiter(t, throttle.Config{Clock: clock, Quotas: []throttle.Quota{named("w", throttle.AtMost(n, time.Hour))}})
			before := heapAlloc()
			for range test.calls {
				if _, err := l.TryAcquireCost(test.cost); err != nil {
					t.Fatal(err)
				}
				clock.Advance(test.step)
			}
			grown := heapAlloc() - before
			runtime.KeepAlive(l)
			t.Logf("%d bytes", grown)
			if grown > test.most+8192 {
				t.Errorf("AtMost(%d) holds %d bytes after %d starts; want %d at most", n, grown, test.calls, test.most)
			}
		})
	}
}

func heapAlloc() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWindow_ACostOf0HasRoomInAFullOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{named("w", throttle.AtMost(3, time.Hour))}})
		mustTry(t, l, 3, 1)
		if _, err := l.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"w": 0}}); err != nil {
			t.Fatal(err)
		}
	})
}

// After the limit was lowered more is spent than it allows; what costs nothing there is not concerned.
func TestWindow_ACostOf0HasRoomInOneThatWasLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{named("w", throttle.AtMost(3, time.Hour))}})
		mustTry(t, l, 3, 1)
		mustDo(t, l.SetQuota(named("w", throttle.AtMost(1, time.Hour))))
		if _, err := l.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"w": 0}}); err != nil {
			t.Fatal(err)
		}
	})
}

// A window made shorter lets start at once what it no longer holds; one made longer counts what it remembers.
func TestWindow_SetQuotaChangesItsLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{named("w", throttle.AtMost(2, time.Minute))}})
		mustPass(t, l, 3, 2)
		c := join(t.Context(), l, 1, 1)
		time.Sleep(10 * time.Second)
		mustDo(t, l.SetQuota(named("w", throttle.AtMost(2, 20*time.Second))))
		c.mustWait(t)
		time.Sleep(10 * time.Second)
		c.mustStartAt(t, 20*time.Second)
		mustDo(t, l.SetQuota(named("w", throttle.AtMost(1, time.Minute))))
		mustRefuse(t, l, time.Minute, "at most 1")
		d := join(t.Context(), l, 1, 1)
		mustDo(t, l.SetQuota(named("w", throttle.AtMost(1, time.Nanosecond))))
		d.mustWait(t) // the last start was at this instant
		time.Sleep(1)
		d.mustStartAt(t, 20*time.Second+1)
	})
}

// A cost above n, let through as debt, is one start of one instant: it leaves the window after w like any other.
// The wait that others are told must not be above the real one.
func TestWindow_ADebtLeavesItAtOnceAndIsReckonedSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Debt: true, Quotas: []throttle.Quota{throttle.AtMost(10, time.Minute)}})
		mustTry(t, l, 1, 1)
		big := join(t.Context(), l, 100, 1)
		_, err := l.TryAcquire()
		after := err.(*throttle.NotYetError).RetryAfter
		small := join(t.Context(), l, 1, 1)
		time.Sleep(time.Hour)
		big.mustStartAt(t, time.Minute)
		if !small.over() || small.at < after {
			t.Fatalf("a caller behind a debt was told to wait %v, and started after %v", after, small.at)
		}
	})
}

func TestWindow_InstantsComeInOrderWhateverTheSlack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Trace: rec.trace(), Slack: time.Second, Quotas: []throttle.Quota{throttle.AtMost(7, 10*time.Millisecond)}})
		for range 100 {
			join(t.Context(), l, 1, 1)
		}
		time.Sleep(time.Second)
		starts := rec.starts()
		mustBeOnTime(t, starts)
		mustKeepWindow(t, spentIn(starts), 7, 10*time.Millisecond)
		if !slices.IsSortedFunc(starts, func(a, b throttle.Event) int { return a.At.Compare(b.At) }) {
			t.Error("starts go back in time")
		}
		if last := starts[99].At.Sub(bubbleStart); last != 140*time.Millisecond {
			t.Errorf("the hundredth start of 7 each 10 ms is at %v; want 140ms", last)
		}
	})
}
