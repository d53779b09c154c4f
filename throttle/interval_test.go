package throttle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// FixedWindow(n, p): all n at once every period.

func TestInterval_APeriodBeginsWithTheFirstStartAfterTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(3, time.Minute)}})
		time.Sleep(25 * time.Second)
		mustPass(t, l, 1, 1) // opens [25 s, 85 s)
		time.Sleep(59 * time.Second)
		mustPass(t, l, 3, 2)
		mustRefuse(t, l, time.Second, "3 each 1m0s")
		time.Sleep(time.Second - 1)
		mustRefuse(t, l, 1, "3 each 1m0s")
		time.Sleep(1)
		mustLevels(t, l, 3)
		time.Sleep(100 * time.Second) // idle: no period runs
		mustPass(t, l, 4, 3)          // opens [185 s, 245 s)
		mustRefuse(t, l, time.Minute, "3 each 1m0s")
	})
}

func TestInterval_WaitersStartAllAtOnceEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Trace: rec.trace(), Quotas: []throttle.Quota{throttle.FixedWindow(3, time.Minute)}})
		time.Sleep(7)
		var line []*caller
		for range 8 {
			line = append(line, join(t.Context(), l, 1, 1))
		}
		time.Sleep(time.Hour)
		for i, c := range line {
			c.mustStartAt(t, 7+time.Duration(i/3)*time.Minute)
		}
		mustBeOnTime(t, rec.starts())
	})
}

func TestInterval_LargerCostsWaitForAPeriodWithRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(10, time.Minute)}})
		a := join(t.Context(), l, 6, 1)
		b := join(t.Context(), l, 6, 1)
		c := join(t.Context(), l, 4, 1)
		d := join(t.Context(), l, 10, 1)
		time.Sleep(time.Hour)
		a.mustStartAt(t, 0)
		b.mustStartAt(t, time.Minute)
		c.mustStartAt(t, time.Minute)
		d.mustStartAt(t, 2*time.Minute)
	})
}

// The periods of one aligned to an instant begin there, whether that lies before or after, and each period before and
// after.
func TestInterval_AlignedPeriodsBeginOnTheWallClock(t *testing.T) {
	for _, test := range []struct {
		name  string
		to    time.Time
		first time.Duration // boundary after the beginning
	}{
		{"at the beginning", bubbleStart, time.Hour},
		{"long before", time.Date(1970, 1, 1, 0, 20, 0, 0, time.UTC), 20 * time.Minute},
		{"long after", time.Date(2040, 6, 7, 8, 20, 0, 0, time.UTC), 20 * time.Minute},
		{"1 ns before", bubbleStart.Add(-1), time.Hour - 1},
		{"1 ns after", bubbleStart.Add(1), 1},
		{"in another place", time.Date(2000, 1, 1, 0, 15, 0, 0, time.FixedZone("", 5*3600+1800)), 45 * time.Minute},
		{"four centuries before", time.Date(1600, 1, 1, 0, 20, 0, 0, time.UTC), 20 * time.Minute},
		{"the zero Time", time.Time{}, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(2, time.Hour).AlignedTo(test.to)}})
				if test.first > time.Minute {
					time.Sleep(test.first / 2) // it is the wall clock that counts, not the first start
				}
				mustPass(t, l, 3, 2)
				mustRefuse(t, l, test.first-sinceStart(), "2 each 1h0m0s")
				line := []*caller{join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)}
				time.Sleep(5*time.Hour + test.first - sinceStart() - 1)
				line[0].mustStartAt(t, test.first)
				line[1].mustStartAt(t, test.first)
				line[2].mustStartAt(t, test.first+time.Hour)
				mustPass(t, l, 3, 2) // in the last nanosecond of the fifth
				time.Sleep(1)
				mustPass(t, l, 3, 2)
				mustRefuse(t, l, time.Hour, "2 each")
			})
		})
	}
}

// An upstream that counts fixed windows sees no more than n in each of them; up to 2n may come around a boundary.
func TestInterval_UpTo2nAroundABoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(5, time.Minute).AlignedTo(bubbleStart)}})
		time.Sleep(time.Minute - 1)
		mustPass(t, l, 6, 5)
		time.Sleep(1)
		mustPass(t, l, 6, 5)
	})
}

func TestInterval_TheReckonedWaitCountsThePeriodsOfAllAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(3, time.Minute)}})
		for i := range 12 {
			if i >= 3 {
				mustRefuse(t, l, time.Duration(i/3)*time.Minute, "3 each")
			}
			join(t.Context(), l, 1, 1)
		}
		time.Sleep(30 * time.Second)
		mustRefuse(t, l, 4*time.Minute-30*time.Second, "3 each")
		time.Sleep(time.Hour)
	})
}

// Its grid stays where AlignedTo put it: one period begins at that instant, whatever the period is now.
func TestInterval_AChangedPeriodStaysAligned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{
			named("q", throttle.FixedWindow(2, time.Hour).AlignedTo(bubbleStart.Add(90*time.Minute))),
		}})
		time.Sleep(45 * time.Minute)
		mustDo(t, l.SetQuota(named("q", throttle.FixedWindow(2, 2*time.Hour)))) // nothing is spent: they begin at 90 min, 210 min
		mustPass(t, l, 3, 2)
		mustRefuse(t, l, 45*time.Minute, "2 each 2h0m0s")
		time.Sleep(45 * time.Minute)
		mustPass(t, l, 3, 2)
		mustRefuse(t, l, 2*time.Hour, "2 each 2h0m0s")
	})
}

func TestInterval_AChangedPeriodStaysAlignedWithSomethingSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{
			named("q", throttle.FixedWindow(2, time.Hour).AlignedTo(bubbleStart.Add(90*time.Minute))),
		}})
		time.Sleep(45 * time.Minute)
		mustPass(t, l, 1, 1)
		mustDo(t, l.SetQuota(named("q", throttle.FixedWindow(2, 2*time.Hour))))
		mustPass(t, l, 3, 1)
		mustRefuse(t, l, 45*time.Minute, "2 each 2h0m0s")
		time.Sleep(45 * time.Minute)
		mustPass(t, l, 3, 2)
		mustRefuse(t, l, 2*time.Hour, "2 each 2h0m0s")
	})
}

// Another AlignedTo is in force, or refused: it is not passed over in silence.
func TestInterval_SetQuotaDoesNotIgnoreAnotherAlignment(t *testing.T) {
	for _, before := range []throttle.Quota{throttle.FixedWindow(2, time.Hour), throttle.FixedWindow(2, time.Hour).AlignedTo(bubbleStart)} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{named("q", before)}})
			if err := l.SetQuota(named("q", throttle.FixedWindow(2, time.Hour).AlignedTo(bubbleStart.Add(20*time.Minute)))); err != nil {
				mustSay(t, err, throttle.ErrInvalid, "q")
				return
			}
			mustPass(t, l, 3, 2)
			mustRefuse(t, l, 20*time.Minute, "2 each 1h0m0s")
		})
	}
}

func TestInterval_LateTimersKeepEachPeriodFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{
			Trace: rec.trace(), Clock: &lateClock{late: time.Millisecond}, Quotas: []throttle.Quota{throttle.FixedWindow(3, 10*time.Millisecond)},
		})
		for range 100 {
			join(t.Context(), l, 1, 1)
		}
		time.Sleep(time.Second)
		for i, e := range rec.starts() {
			if want := time.Duration(i/3) * 10 * time.Millisecond; e.Nominal.Sub(bubbleStart) != want {
				t.Fatalf("start %d is charged as of %v; want %v", i, e.Nominal.Sub(bubbleStart), want)
			}
		}
	})
}
