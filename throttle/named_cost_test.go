package throttle_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// Cost.Quotas says what a call costs in the quotas of those names; in all others it costs its Tokens.

// costing is a cost of one token, weight 1, and so much in the quota "tokens".
func costing(k int64) throttle.Cost {
	return throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"tokens": k}}
}

// llm is a limiter of 60 requests and 6000 model tokens a minute.
func llm(t testing.TB, c throttle.Config) *throttle.Limiter {
	c.Name = "llm"
	c.Quotas = []throttle.Quota{
		{Name: "requests", Rate: throttle.PerMinute(60), Burst: 5},
		{Name: "tokens", Rate: throttle.PerMinute(6000), Burst: 2000},
	}
	return newLimiter(t, c)
}

func TestNamedCost_EachQuotaIsChargedItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := llm(t, throttle.Config{MaxInFlight: 3})
		p, err := l.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 2, Quotas: map[string]int64{"tokens": 1800}})
		mustDo(t, err)
		mustLevels(t, l, 4, 200)
		if got := l.Stats().InFlight; got != 2 {
			t.Fatalf("weight %d in flight; want 2", got)
		}
		_, err = l.TryAcquireCost(costing(300))
		mustTellNotYet(t, err, time.Second, `"tokens"`)
		_, err = l.TryAcquireCost(costing(200))
		mustDo(t, err)
		mustLevels(t, l, 3, 0)
		p.Release()
		mustTry(t, l, 0, 1) // no Tokens, and none by name
		mustLevels(t, l, 3, 0)
		// What is not named costs Tokens.
		_, err = l.TryAcquireCost(throttle.Cost{Tokens: 2, Weight: 1, Quotas: map[string]int64{"tokens": 0}})
		mustDo(t, err)
		mustLevels(t, l, 1, 0)
		_, err = l.TryAcquireCost(throttle.Cost{Tokens: 2, Weight: 1, Quotas: map[string]int64{"requests": 1}})
		mustTellNotYet(t, err, 20*time.Millisecond, `"tokens"`)
	})
}

func TestNamedCost_UnknownNamesAndNegativeCostsAreErrors(t *testing.T) {
	parent := llm(t, throttle.Config{})
	l := newLimiter(t, throttle.Config{Name: "below", Parent: parent})
	for name, k := range map[string]int64{"tokens": -1, "requests": math.MinInt64} {
		for _, x := range []*throttle.Limiter{parent, l} {
			cost := throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{name: k}}
			_, err := x.TryAcquireCost(cost)
			mustSay(t, err, throttle.ErrInvalid, name, "want 0 or more")
			_, err = x.AcquireCost(t.Context(), cost)
			mustSay(t, err, throttle.ErrInvalid, name, "want 0 or more")
		}
	}
	for _, name := range []string{"nobody", "", "llm", "Tokens"} {
		_, err := l.AcquireCost(t.Context(), throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{name: 1}})
		mustSay(t, err, throttle.ErrInvalid, "no quota")
	}
	mustLevels(t, parent, 5, 2000)
	if s := l.Stats(); s.Started+s.RefusedNever+s.RefusedNotYet != 0 {
		t.Errorf("%+v; want none counted", s)
	}
}

func TestNamedCost_AboveAQuotasMostIsNever(t *testing.T) {
	parent := newLimiter(t, throttle.Config{Name: "host", Quotas: []throttle.Quota{named("tokens", throttle.AtMost(500, time.Minute))}})
	l := llm(t, throttle.Config{Parent: parent})
	_, err := l.AcquireCost(t.Context(), costing(2001))
	mustSay(t, err, throttle.ErrTooLarge, `"tokens"`, "2001")
	_, err = l.TryAcquireCost(costing(501))
	mustSay(t, err, throttle.ErrTooLarge, `"host" above`, "501", "at most 500")
	_, err = l.TryAcquireCost(costing(500))
	mustDo(t, err)
	if got := l.Stats().RefusedNever; got != 2 {
		t.Errorf("%d told never; want 2", got)
	}
}

// The costs by name of all ahead are in the wait, and leave it as their callers leave.
func TestNamedCost_TheReckonedWaitHasThoseAheadByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := llm(t, throttle.Config{})
		_, err := l.TryAcquireCost(costing(2000))
		mustDo(t, err)
		wait := func(k int64, want time.Duration, by string) {
			t.Helper()
			_, err := l.TryAcquireCost(costing(k))
			mustTellNotYet(t, err, want, by)
		}
		wait(100, time.Second, `"tokens"`) // 100 a second
		a := joinCost(t.Context(), l, costing(1000))
		wait(100, 11*time.Second, `"tokens"`)
		b := join(t.Context(), l, 1, 1) // 1 of each
		wait(100, 11*time.Second+10*time.Millisecond, `"tokens"`)
		c := joinCost(t.Context(), l, throttle.Cost{Tokens: 3, Weight: 1, Quotas: map[string]int64{"tokens": 0}})
		wait(100, 11*time.Second+10*time.Millisecond, `"tokens"`)
		wait(0, 10*time.Second+10*time.Millisecond, `"tokens"`)
		a.leave()
		wait(100, time.Second+10*time.Millisecond, `"tokens"`)
		wait(0, time.Second, `"requests"`) // 1 + 3 + 1, and 4 are there
		b.leave()
		c.leave()
		wait(100, 1*time.Second, `"tokens"`)
	})
}

func TestNamedCost_AMixedLineStartsInOrderAsEachCanBePaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := llm(t, throttle.Config{})
		a := joinCost(t.Context(), l, costing(1500))
		b := joinCost(t.Context(), l, costing(1500))
		c := joinCost(t.Context(), l, costing(1))
		d := joinCost(t.Context(), l, costing(0))
		time.Sleep(time.Hour)
		a.mustStartAt(t, 0)
		b.mustStartAt(t, 10*time.Second)
		c.mustStartAt(t, 10*time.Second+10*time.Millisecond)
		d.mustStartAt(t, 10*time.Second+10*time.Millisecond)
		mustLevels(t, l, 5, 2000)
	})
}

// A deadline that the sum by name allows is met to the nanosecond; one that it does not is told so.
func TestNamedCost_DeadlinesAreJudgedByTheSumByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := llm(t, throttle.Config{MaxWait: 30 * time.Second})
		_, err := l.TryAcquireCost(costing(2000))
		mustDo(t, err)
		for range 10 {
			joinCost(t.Context(), l, costing(250))
		}
		_, err = l.AcquireCost(t.Context(), costing(501))
		mustSay(t, err, throttle.ErrWouldExceed, "30.01s", `"tokens"`)
		c := joinCost(t.Context(), l, costing(500))
		time.Sleep(time.Minute)
		c.mustStartAt(t, 30*time.Second)
	})
}

// Callers whose cost no longer fits a lowered quota are told never, and the text says what they asked of which; those that fit go on.
func TestNamedCost_ALoweredQuotaTellsWaitersNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := llm(t, throttle.Config{})
		l := newLimiter(t, throttle.Config{Name: "below", Parent: parent})
		_, err := l.TryAcquireCost(costing(2000))
		mustDo(t, err)
		a := joinCost(t.Context(), l, costing(1800))
		b := joinCost(t.Context(), l, costing(1000))
		c := joinCost(t.Context(), parent, costing(1001))
		d := joinCost(t.Context(), parent, throttle.Cost{Tokens: 4, Weight: 1, Quotas: map[string]int64{"tokens": 0}})
		mustDo(t, parent.SetQuota(throttle.Quota{Name: "tokens", Rate: throttle.PerMinute(6000), Burst: 1000}))
		for _, x := range []*caller{a, c} {
			if !x.over() {
				t.Fatal("a caller that no longer fits waits on")
			}
			mustSay(t, x.err, throttle.ErrTooLarge)
		}
		b.mustWait(t)
		time.Sleep(time.Minute)
		b.mustStartAt(t, 10*time.Second)
		d.mustStartAt(t, 10*time.Second) // it was b's turn
	})
}

// The number told is what was asked of the quota that was lowered, not the Tokens.
func TestNamedCost_TheRefusalOfAWaiterNamesTheQuotaAndItsOwnCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := llm(t, throttle.Config{})
		_, err := l.TryAcquireCost(costing(2000))
		mustDo(t, err)
		a := joinCost(t.Context(), l, costing(1800))
		mustDo(t, l.SetQuota(throttle.Quota{Name: "tokens", Rate: throttle.PerMinute(6000), Burst: 1000}))
		if !a.over() {
			t.Fatal("it waits on")
		}
		if !strings.Contains(a.err.Error(), "1800") || !strings.Contains(a.err.Error(), `"tokens"`) {
			t.Errorf("told %q; want 1800 of \"tokens\" named", a.err)
		}
	})
}

// A name that quotas of two levels have is charged at both.
func TestNamedCost_OneNameAtTwoLevelsIsChargedAtBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{named("tokens", throttle.FixedWindow(3000, time.Hour)), named("calls", throttle.AtMost(9, time.Hour))}})
		l := llm(t, throttle.Config{Parent: parent})
		_, err := l.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"tokens": 700, "calls": 4}})
		mustDo(t, err)
		mustLevels(t, l, 4, 1300)
		mustLevels(t, parent, 2300, 5)
		a := joinCost(t.Context(), l, throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"tokens": 1500, "calls": 4}})
		a.mustWait(t)
		mustLevels(t, parent, 2300, 5)
		time.Sleep(2 * time.Second)
		a.mustStartAt(t, 2*time.Second)
		mustLevels(t, l, 4, 0)
		mustLevels(t, parent, 800, 1)
	})
}
