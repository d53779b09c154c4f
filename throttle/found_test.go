package throttle

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestC11_TheLeastSlackOfTheLevelsBoundsANominalStart(t *testing.T) {
	s := setup{lines: []lineSetup{
		{rate: Rate{1, 20}, burst: 1, slack: 1000, cap: -1},
		{rate: Rate{1, 10}, burst: 1, slack: 0, cap: -1, above: 1, share: 1},
	}}
	w := newTwin(s)
	for range 3 {
		w.then(t, arrival(1, 1, 1))
	}
	w.then(t, passBy(10), onTimer) // the child lets its front through on time; the parent is due at 20, and late
	w.then(t, passBy(45), onTimer)
	w.mustStartAsOf(t, 0, 55) // not as of 20, which would let the child start another at once: two at 55, of a burst of 1
}

func TestQuotas_AnAlignedPeriodOfAnotherLengthIsAlignedToo(t *testing.T) {
	q := FixedWindow(1, 4).AlignedTo(time.Time{}.Add(7))
	w := script(t, setup{lines: []lineSetup{{cap: -1, quotas: []Quota{q}}}})
	q.Rate.Period = 100
	w.then(t, refitting(0, 0, q), arrival(0, 1, 1), arrival(0, 1, 1))
	w.onTime(t, 200)
	w.mustStartAsOf(t, 0, 7) // and not as of 3, which was on the grid of 4
}

func TestStats_LookingAtAWindowChangesNoStart(t *testing.T) {
	var nominals [2]int64
	for looks := range nominals {
		w := script(t, setup{lines: []lineSetup{{slack: 100, cap: -1, quotas: []Quota{AtMost(2, 100)}}}},
			arrival(0, 1, 1), passBy(3), arrival(0, 1, 1), arrival(0, 2, 1), passBy(120))
		if looks == 1 {
			w.gates[0].more[0].level(w.now) // what Limiter.Quotas reads
		}
		w.fx.catchUp(w.now)
		c := w.callers[2].call
		nominals[looks] = c.at - int64(c.late)
	}
	if nominals[0] != nominals[1] {
		t.Errorf("a start as of %d is one as of %d after somebody has looked at the quota", nominals[0], nominals[1])
	}
}

func TestC7_APeriodChangedKeepsItsDebt(t *testing.T) {
	q := FixedWindow(3, 10)
	v := q.account(new(domain), 0)
	v.charge(0, 0, 9) // as debt: of the periods from 10 and 20 too
	v.refit(q, 1)     // the same
	if due := v.due(1); due != 30 {
		t.Errorf("after the same quota was set again, the next token is there at %d; want 30", due)
	}
}

// A stoppedClock tells what it is set to, and its timers never go off.
type stoppedClock struct{ at time.Time }

func (c *stoppedClock) Now() time.Time { return c.at }

func (c *stoppedClock) AfterFunc(time.Duration, func()) func() bool {
	return func() bool { return true }
}

func TestSettle_WhatAPeriodWasNotChargedItDoesNotGetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch := time.Unix(0, 0)
		clock := &stoppedClock{epoch}
		set := func(ns int64) { clock.at = epoch.Add(time.Duration(ns)) }
		q := FixedWindow(10, 100).AlignedTo(epoch)
		q.Name = "q"
		l, err := New(Config{Name: "settled", Rate: Rate{1, 9}, Burst: 1, Clock: clock, Settled: true,
			Quotas: []Quota{q}})
		must(t, err)
		try := func(k int64) error {
			_, err := l.TryAcquireCost(Cost{Tokens: 1, Quotas: map[string]int64{"q": k}})
			return err
		}
		set(90)
		must(t, try(0))
		var late Permit
		go func() {
			late, _ = l.AcquireCost(context.Background(), Cost{Tokens: 1, Quotas: map[string]int64{"q": 8}})
		}()
		synctest.Wait()
		set(105)
		_ = try(10) // the one who waits starts first, as of 99: charged to the period that ends at 100
		synctest.Wait()
		set(108)
		must(t, try(10)) // all of the period from 100
		must(t, late.Settle(Cost{Tokens: 1, Quotas: map[string]int64{"q": 1}}))
		set(117)
		if try(7) == nil {
			t.Error("17 have started in the period from 100, of 10")
		}
	})
}

func TestTree_TurnsOfTheLargestCostsAndSharesDoNotOverflow(t *testing.T) {
	s := setup{caps: []int64{1}, lines: []lineSetup{{cap: 0}, below(4), below(1)}}
	w := script(t, s, arrival(2, 1, 1))
	for range 8 {
		w.then(t, arrival(1, MaxBurst, 1))
	}
	w.then(t, arrival(2, MaxBurst, 1), arrival(2, MaxBurst, 1))
	lines := w.oneAtATime(t, 10)[1:]
	// Line 2, which was served last, is behind by a start of 1; then it is one in five.
	if want := []int{1, 2, 1, 1, 1, 2, 1, 1, 1, 1}; !slices.Equal(lines, want) {
		t.Errorf("starts in lines %v; want %v", lines, want)
	}
}
