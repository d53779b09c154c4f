package fake_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

// A goroutine waits on the clock; the test waits until it has armed its timer, then moves time.
func ExampleClock() {
	clock := fake.NewClock(time.Time{})
	done := make(chan string)
	go func() {
		fired := make(chan struct{})
		clock.AfterFunc(2*time.Second, func() { close(fired) })
		<-fired
		done <- "waited 2s"
	}()
	if err := clock.WaitTimers(context.Background(), 1); err != nil {
		fmt.Println(err)
	}
	clock.Advance(2 * time.Second)
	fmt.Println(<-done, "until", clock.Now().Format(time.TimeOnly))
	// Output: waited 2s until 12:00:02
}

func ExampleClock_WithTimeout() {
	clock := fake.NewClock(time.Time{})
	ctx, stop := clock.WithTimeout(context.Background(), time.Minute)
	defer stop()
	clock.Advance(time.Minute - 1)
	fmt.Println(ctx.Err())
	clock.Advance(1)
	fmt.Println(ctx.Err())
	// Output:
	// <nil>
	// context deadline exceeded
}

// Timers of an idle process fire late; this clock's do when told to.
func ExampleClock_SetLateness() {
	clock := fake.NewClock(time.Time{})
	clock.SetLateness(func() time.Duration { return time.Millisecond })
	clock.AfterFunc(time.Second, func() { fmt.Println(clock.Now().Sub(fake.Epoch)) })
	clock.Advance(time.Minute)
	// Output: 1.001s
}

func ExampleTimeSource() {
	tick := func(on fake.TimeSource) {
		on.AfterFunc(time.Second, func() { fmt.Println("tick at", on.Now().Format(time.TimeOnly)) })
	}
	clock := fake.NewClock(time.Time{})
	tick(clock)
	clock.AdvanceToNext()
	// Output: tick at 12:00:01
}

func ExampleUntil() {
	var mu sync.Mutex
	waiting := 0
	go func() { mu.Lock(); waiting++; mu.Unlock() }()
	err := fake.Until(context.Background(), func() bool { // in its place: lim.Stats().Waiting == 1
		mu.Lock()
		defer mu.Unlock()
		return waiting == 1
	})
	fmt.Println(err)
	// Output: <nil>
}

// Three calls meet a dependency that takes 100 ms and freezes from 0.5 s to 2 s.
func ExampleDownstream() {
	clock := fake.NewClock(time.Time{})
	down, err := fake.NewDownstream(fake.DownstreamConfig{
		Clock:   clock,
		Service: fake.Constant(100 * time.Millisecond),
		Stalls:  []fake.Stall{{From: 500 * time.Millisecond, To: 2 * time.Second}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		done := make(chan error)
		go func() { done <- down.Call(context.Background()) }()
		clock.WaitTimers(context.Background(), 1)
		took, _ := clock.AdvanceToNext()
		fmt.Println("took", took, <-done)
		clock.Advance(150 * time.Millisecond)
	}
	// Output:
	// took 100ms <nil>
	// took 100ms <nil>
	// took 1.6s <nil>
}

func ExampleDownstreamConfig() {
	_, err := fake.NewDownstream(fake.DownstreamConfig{FailProbability: 2})
	fmt.Println(err)
	// Output: fake: DownstreamConfig: FailProbability is 2: must be 0 to 1
}

// A call that needs 30 ms more when the freeze comes ends 30 ms after the thaw.
func ExampleStall() {
	clock := fake.NewClock(time.Time{})
	down, _ := fake.NewDownstream(fake.DownstreamConfig{Clock: clock, Service: fake.Constant(50 * time.Millisecond),
		Stalls: []fake.Stall{{From: 20 * time.Millisecond, To: time.Second}}})
	done := make(chan error)
	go func() { done <- down.Call(context.Background()) }()
	clock.WaitTimers(context.Background(), 1)
	clock.Advance(time.Hour)
	<-done
	fmt.Println(down.Ledger().Entries()[0].Ended.Sub(fake.Epoch))
	// Output: 1.03s
}

// Each time comes from the call's number and the downstream's seeded source.
func ExampleDist() {
	slower := fake.Draw(func(call int64, _ *rand.Rand) time.Duration { return time.Duration(call) * time.Second })
	clock := fake.NewClock(time.Time{})
	down, _ := fake.NewDownstream(fake.DownstreamConfig{Clock: clock, Service: slower})
	fmt.Println(down.Call(context.Background()), clock.Timers()) // call 0 takes no time
	// Output: <nil> 0
}

// The dependency enforces limits of its own.
func ExampleRejectedError() {
	down, _ := fake.NewDownstream(fake.DownstreamConfig{
		Clock:  fake.NewClock(time.Time{}),
		Limits: fake.Limits{N: 2, Period: time.Second, Burst: 1},
	})
	down.Call(context.Background())
	var rejected *fake.RejectedError
	if errors.As(down.Call(context.Background()), &rejected) {
		fmt.Println(rejected.Limit, rejected.RetryAfter)
	}
	// Output: rate 500ms
}

func ExampleDownstreamStats() {
	down, _ := fake.NewDownstream(fake.DownstreamConfig{FailEvery: 2})
	for range 4 {
		down.Call(context.Background())
	}
	s := down.Stats()
	fmt.Println(s.Started, s.Succeeded, s.Failed, s.InFlight)
	// Output: 4 2 2 0
}
