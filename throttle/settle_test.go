package throttle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// settled is a limiter on a clock of its own whose costs are settled afterwards.
func settled(t testing.TB, c throttle.Config) (*throttle.Limiter, *fake.Clock) {
	clock := fake.NewClock(time.Time{})
	c.Clock, c.Settled = clock, true
	return newLimiter(t, c), clock
}

func mustSettle(t testing.TB, p throttle.Permit, tokens int64) {
	t.Helper()
	if err := p.Settle(throttle.Cost{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
}

func TestSettle_AnOverEstimateIsGivenBackInFullWhereNothingElseHappened(t *testing.T) {
	l, clock := settled(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 100})
	p := mustTry(t, l, 80, 1)
	clock.Advance(5 * time.Second)
	mustSettle(t, p, 30)
	if got := l.Stats().Tokens; got != 75 { // 100 - 30 + 5
		t.Errorf("%d tokens; want 75, as if 30 had been charged at the start", got)
	}
}

func TestSettle_WhatTheBucketCouldNotHaveHeldIsNotGivenBack(t *testing.T) {
	l, clock := settled(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 100})
	p := mustTry(t, l, 80, 1)
	clock.Advance(7 * time.Second) // 90 there: with 30 charged it would have been full for 4 s
	mustSettle(t, p, 30)
	if got := l.Stats().Tokens; got != 100 {
		t.Errorf("%d tokens; want the burst, and no more", got)
	}
	mustTry(t, l, 100, 1)
	if _, err := l.TryAcquire(); err == nil {
		t.Error("101 started at once at a burst of 100")
	}
}

func TestSettle_AHigherBurstDoesNotMakeRoom(t *testing.T) {
	l, clock := settled(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
	p := mustTry(t, l, 5, 1)
	clock.Advance(5 * time.Second) // full again
	if err := l.SetBurst(20); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, p, 0)
	if got := l.Stats().Tokens; got != 10 {
		t.Errorf("%d tokens; want 10: nothing was missing when the burst grew", got)
	}
}

func TestSettle_AnUnderEstimateIsOwed(t *testing.T) {
	l, clock := settled(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 100})
	p := mustTry(t, l, 80, 1)
	mustSettle(t, p, 130) // 20 were left: 30 are owed
	_, err := l.TryAcquire()
	var yet *throttle.NotYetError
	if !errors.As(err, &yet) || yet.RetryAfter != 3100*time.Millisecond {
		t.Errorf("got %v; want a wait of 3.1s, for 30 owed and 1 more", err)
	}
	if got := l.Stats().Tokens; got != -30 {
		t.Errorf("%d tokens; want -30", got)
	}
	clock.Advance(3100 * time.Millisecond)
	mustTry(t, l, 1, 1)
}

func TestSettle_IsForOpenCallsAndOnce(t *testing.T) {
	l, _ := settled(t, throttle.Config{Name: "model", Rate: throttle.PerSecond(1), Burst: 10})
	p := mustTry(t, l, 5, 1)
	for _, c := range []throttle.Cost{{Tokens: -1}, {Tokens: 1, Quotas: map[string]int64{"x": 1}}} {
		if err := p.Settle(c); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("Settle(%+v) = %v; want ErrInvalid", c, err)
		}
	}
	mustSettle(t, p, 3)
	again := mustTry(t, l, 1, 1)
	again.Release()
	for name, err := range map[string]error{
		"settled before":  p.Settle(throttle.Cost{Tokens: 1}),
		"released":        again.Settle(throttle.Cost{Tokens: 1}),
		"the zero Permit": throttle.Permit{}.Settle(throttle.Cost{}),
	} {
		if !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("%s: got %v; want ErrInvalid", name, err)
		}
	}
	if got := l.Stats().Tokens; got != 6 {
		t.Errorf("%d tokens; want 6: a refused Settle changes nothing", got)
	}
	plain := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, MaxInFlight: 1})
	if err := mustTry(t, plain, 1, 1).Settle(throttle.Cost{Tokens: 1}); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("without Config.Settled: got %v; want ErrInvalid", err)
	}
	if s := l.Stats(); s.DoubleReleases != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSettle_StartsTheNextInLine(t *testing.T) {
	l, clock := settled(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
	p := mustTry(t, l, 10, 1)
	w := make(chan error, 1)
	go func() {
		_, err := l.AcquireN(t.Context(), 4)
		w <- err
	}()
	fake.Until(t.Context(), func() bool { return l.Stats().Waiting == 1 })
	mustSettle(t, p, 6)
	if err := <-w; err != nil {
		t.Fatal(err)
	}
	if clock.Timers() != 0 {
		t.Errorf("%d timers are armed for nobody", clock.Timers())
	}
}

func TestSettle_RewritesAWindowAndGivesBackWithinAnInterval(t *testing.T) {
	l, clock := settled(t, throttle.Config{Quotas: []throttle.Quota{
		named("window", throttle.AtMost(10, time.Minute)),
		named("interval", throttle.FixedWindow(10, time.Minute)),
	}})
	left := func() [2]int64 { q := l.Quotas(); return [2]int64{q[0].Tokens, q[1].Tokens} }
	p := mustTry(t, l, 8, 1)
	clock.Advance(30 * time.Second)
	mustSettle(t, p, 5)
	if got := left(); got != [2]int64{5, 5} {
		t.Errorf("%v are left; want 5 and 5", got)
	}
	p = mustTry(t, l, 5, 1)
	clock.Advance(40 * time.Second) // the interval is over, the window of the second start is not
	mustSettle(t, p, 2)
	if got := left(); got != [2]int64{8, 10} {
		t.Errorf("%v are left; want 8 and 10", got)
	}

	clock.Advance(time.Hour)
	p = mustTry(t, l, 4, 1)
	clock.Advance(time.Minute)
	mustTry(t, l, 3, 1) // of the next interval
	mustSettle(t, p, 1)
	if got := left(); got != [2]int64{7, 7} {
		t.Errorf("%v are left; want 7 and 7: nothing of the next interval is given back", got)
	}
}

func named(name string, q throttle.Quota) throttle.Quota {
	q.Name = name
	return q
}

// TestSettle_NoWindowExceedsItsPromiseInSettledCosts tries random histories of calls that overlap, at two levels, and looks at
// every window of starts, counted at what they were settled to.
func TestSettle_NoWindowExceedsItsPromiseInSettledCosts(t *testing.T) {
	type start struct {
		at   time.Duration
		cost int64
	}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		rate, burst := throttle.Rate{N: 1 + r.Int64N(4), Period: time.Duration(1 + r.Int64N(9))}, 2+r.Int64N(12)
		if int64(rate.Period) < rate.N {
			rate.Period = time.Duration(rate.N)
		}
		clock := fake.NewClock(time.Time{})
		begin := clock.Now()
		parent := newLimiter(t, throttle.Config{Rate: rate, Burst: burst, Clock: clock, Slack: throttle.NoSlack})
		var lims []*throttle.Limiter
		for range 2 {
			lims = append(lims, newLimiter(t, throttle.Config{Name: "child", Parent: parent, Settled: true}))
		}
		var starts []*start
		permits := map[int]throttle.Permit{}
		var open []int
		history := ""
		for range 40 {
			switch r.IntN(4) {
			case 0:
				d := time.Duration(r.Int64N(12))
				clock.Advance(d)
				history += fmt.Sprintf("%v pass\n", d)
			case 1, 2:
				k := 1 + r.Int64N(burst)
				p, err := lims[r.IntN(2)].TryAcquireN(k)
				if err != nil {
					continue
				}
				permits[len(starts)] = p
				open = append(open, len(starts))
				starts = append(starts, &start{clock.Now().Sub(begin), k})
				history += fmt.Sprintf("call %d starts with %d\n", len(starts)-1, k)
			case 3:
				if len(open) == 0 {
					continue
				}
				at := r.IntN(len(open))
				i := open[at]
				open = append(open[:at], open[at+1:]...)
				starts[i].cost = r.Int64N(starts[i].cost + 1)
				mustSettle(t, permits[i], starts[i].cost)
				permits[i].Release()
				history += fmt.Sprintf("call %d is settled to %d\n", i, starts[i].cost)
			}
			if got := parent.Stats().Tokens; got > burst {
				t.Fatalf("seed %d: %d tokens at a burst of %d:\n%s", seed, got, burst, history)
			}
		}
		for i := range starts {
			spent := int64(0)
			for _, s := range starts[i:] {
				spent += s.cost
				if (spent-burst)*int64(rate.Period) > rate.N*int64(s.at-starts[i].at) {
					t.Fatalf("seed %d: rate %v, burst %d: from %v to %v, %d were spent:\n%s", seed, rate, burst, starts[i].at, s.at, spent, history)
				}
			}
		}
	}
}

func TestDebt_ACostAboveTheBurstWaitsForAFullBucketAndIsOwed(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Debt: true, Clock: clock})
	mustTry(t, l, 4, 1)
	_, err := l.TryAcquireN(25)
	var yet *throttle.NotYetError
	if !errors.As(err, &yet) || yet.RetryAfter != 4*time.Second {
		t.Fatalf("got %v; want a wait of 4s, until the bucket is full", err)
	}
	clock.Advance(4 * time.Second)
	mustTry(t, l, 25, 1)
	if got := l.Stats().Tokens; got != -15 {
		t.Errorf("%d tokens; want -15", got)
	}
	if _, err := l.TryAcquire(); !errors.As(err, &yet) || yet.RetryAfter != 16*time.Second {
		t.Errorf("got %v; want a wait of 16s", err)
	}
	strict := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Clock: clock})
	if _, err := strict.TryAcquireN(25); !errors.Is(err, throttle.ErrTooLarge) {
		t.Errorf("without Debt: got %v; want ErrTooLarge", err)
	}
}

func TestDebt_InAWindowAndAnInterval(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	window := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(10, time.Minute)}, Debt: true, Clock: clock})
	interval := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(10, time.Minute)}, Debt: true, Clock: clock})
	mustTry(t, window, 25, 1)
	mustTry(t, interval, 25, 1) // 10 of this minute, 10 of the next, 5 of the third
	clock.Advance(time.Minute)
	mustTry(t, window, 10, 1)
	if _, err := interval.TryAcquire(); err == nil {
		t.Error("the second interval is spent already")
	}
	clock.Advance(time.Minute)
	mustTry(t, interval, 5, 1)
	if _, err := interval.TryAcquire(); err == nil {
		t.Error("5 of the third interval were owed")
	}
}
