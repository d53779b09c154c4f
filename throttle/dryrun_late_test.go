package throttle_test

import (
	"context"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// asleep is a clock that is moved by hand and whose timers never go off.
type asleep struct{ now time.Time }

func (c *asleep) Now() time.Time { return c.now }
func (c *asleep) AfterFunc(time.Duration, func()) (stop func() bool) {
	return func() bool { return true }
}

// Whoever calls in moves the shadows on: each to where it would be, at the instants at which it would have got there.
func TestDryRun_WhatIsFoundLateHappensAsOfItsDue(t *testing.T) {
	clock := &asleep{now: bubbleStart}
	var r recorder
	l := newLimiter(t, throttle.Config{
		Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 1, MaxQueue: 3, DryRun: true, Clock: clock, Trace: r.trace(),
	})
	var all []throttle.Permit
	for range 4 {
		p, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	clock.now = clock.now.Add(1500 * time.Millisecond) // each call takes that long
	for _, p := range all {
		p.Release()
	}
	clock.now = clock.now.Add(time.Hour)
	mustTry(t, l, 1, 1).Release() // finds an hour's worth
	var at []time.Duration
	for _, e := range r.starts() {
		at = append(at, e.At.Sub(bubbleStart))
	}
	want := []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second, 4500 * time.Millisecond, time.Hour + 1500*time.Millisecond}
	if len(at) != len(want) {
		t.Fatalf("starts at %v; want %v", at, want)
	}
	for i := range want {
		if at[i] != want[i] {
			t.Errorf("start %d at %v; want %v", i, at[i], want[i])
		}
	}
}

// A call that its context cut short has not come to tell its cost: nor does its shadow.
func TestDryRun_ACallCutShortDoesNotSettle(t *testing.T) {
	clock := &asleep{now: bubbleStart}
	l := newLimiter(t, throttle.Config{
		Rate: throttle.Rate{N: 1, Period: time.Hour}, Burst: 20, MaxInFlight: 1, MaxQueue: 3, Settled: true, DryRun: true, Clock: clock,
	})
	first := mustTry(t, l, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := l.AcquireN(ctx, 5)
	if err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(10 * time.Second)
	if err := p.Settle(throttle.Cost{Tokens: 1}); err != nil { // ten seconds after its start
		t.Fatal(err)
	}
	first.Release() // the shadow starts
	clock.now = clock.now.Add(5 * time.Second)
	cancel()
	p.Release() // five seconds after its shadow's start
	clock.now = clock.now.Add(20 * time.Second)
	if s := l.Stats(); s.InFlight != 0 || s.Tokens != 14 {
		t.Errorf("%+v; want nothing in flight, and 14 tokens: 1 and 5 are charged, and nothing given back", s)
	}
}
