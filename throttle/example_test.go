package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// must is for examples: a limiter, or a panic with what is wrong.
func must(lim *throttle.Limiter, err error) *throttle.Limiter {
	if err != nil {
		panic(err)
	}
	return lim
}

// The limits of a downstream: 10 calls a second, bursts of 5, and 3 at a time.
func Example() {
	lim, err := throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 5, MaxInFlight: 3,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lim.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("calling, with", lim.Stats().InFlight, "in flight")
		return nil
	})
	fmt.Println(err, lim.Stats().InFlight)
	// Output:
	// calling, with 1 in flight
	// <nil> 0
}

// Callers start in the order in which they came, each at its token.
func ExampleLimiter_Acquire() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(2), Burst: 2, Clock: clock,
	}))
	begin, started := clock.Now(), make(chan int, 6)
	for caller := range 6 {
		go func() {
			permit, err := lim.Acquire(context.Background())
			if err != nil {
				return
			}
			defer permit.Release()
			started <- caller
		}()
		fake.Until(context.Background(), func() bool { // it has started, or stands in line
			return len(started)+lim.Stats().Waiting == caller+1
		})
	}
	for i := range 6 {
		if i >= 2 {
			clock.AdvanceToNext()
		}
		caller := <-started
		fmt.Println("caller", caller, "at", clock.Now().Sub(begin))
	}
	// Output:
	// caller 0 at 0s
	// caller 1 at 0s
	// caller 2 at 500ms
	// caller 3 at 1s
	// caller 4 at 1.5s
	// caller 5 at 2s
}

// Who sheds load does not wait, and passes on how long it would have been.
func ExampleLimiter_TryAcquire() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerMinute(30), Burst: 1, Clock: clock,
	}))
	for range 2 {
		permit, err := lim.TryAcquire()
		var yet *throttle.NotYetError
		switch {
		case errors.As(err, &yet):
			fmt.Println("come back in", yet.RetryAfter)
			fmt.Println(err)
		case err != nil:
			fmt.Println("never:", err)
		default:
			fmt.Println("let through")
			permit.Release()
		}
	}
	// Output:
	// let through
	// come back in 2s
	// throttle: "api": not yet: rate 30/min (burst 1): wait 2s
}

// A caller whose deadline comes before its start is told at once, and keeps its time.
func ExampleNotYetError() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(1), Burst: 1, Clock: clock,
	}))
	lim.TryAcquire()
	ctx, cancel := clock.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := lim.Acquire(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, throttle.ErrWouldExceed))
	// Output:
	// throttle: "api": rate 1/s (burst 1): wait 1s, and the deadline is in 300ms: context deadline exceeded
	// true true
}

// A caller that gives up takes nothing with it, and says why it left.
func ExampleLeftError() {
	lim := must(throttle.New(throttle.Config{Name: "api", MaxInFlight: 1}))
	shutdown := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(shutdown)
	_, err := lim.Acquire(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(err, shutdown), errors.Is(err, context.Canceled), lim.Stats().InFlight)
	// Output:
	// throttle: "api": gave up after 0s in line, before the start: shutting down
	// true true 0
}

// A call may cost more than one token, and weigh more than one permit.
func ExampleCost() {
	lim := must(throttle.New(throttle.Config{
		Name: "model", Rate: throttle.PerMinute(90_000), Burst: 8_000, MaxInFlight: 10,
	}))
	permit, err := lim.TryAcquireCost(throttle.Cost{Tokens: 1_800, Weight: 2})
	fmt.Println(err, lim.Stats().InFlight)
	permit.Release()

	_, err = lim.TryAcquireN(9_000)
	fmt.Println(err)
	fmt.Println(errors.Is(err, throttle.ErrTooLarge))
	// Output:
	// <nil> 2
	// throttle: "model": cost 9000 is above the burst 8000: larger than the limit ever allows
	// true
}

// Copies of a permit share one release.
func ExamplePermit() {
	lim := must(throttle.New(throttle.Config{Name: "api", MaxInFlight: 2}))
	permit, _ := lim.TryAcquire()
	again := permit
	permit.Release()
	again.Release()
	s := lim.Stats()
	fmt.Println(s.InFlight, "in flight,", s.DoubleReleases, "release too many")
	// Output:
	// 0 in flight, 1 release too many
}

// Two APIs with rates of their own go through one pool of 8 connections.
func ExampleSemaphore() {
	connections, err := throttle.NewSemaphore(8)
	if err != nil {
		fmt.Println(err)
		return
	}
	search := must(throttle.New(throttle.Config{
		Name: "search", Rate: throttle.PerSecond(5), Burst: 5, Semaphore: connections,
	}))
	fetch := must(throttle.New(throttle.Config{
		Name: "fetch", Rate: throttle.PerSecond(500), Burst: 10, Semaphore: connections,
	}))
	one, _ := search.TryAcquire()
	two, _ := fetch.TryAcquire()
	fmt.Println(connections.InFlight(), "of", connections.Size())
	one.Release()
	two.Release()
	// Output:
	// 2 of 8
}

// Limits change while callers wait: here the three of them are re-timed at once.
func ExampleLimiter_SetRate() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(1), Burst: 1, Clock: clock,
	}))
	lim.TryAcquire()
	begin, started := clock.Now(), make(chan time.Duration)
	for range 3 {
		go func() {
			if err := lim.Wait(context.Background()); err == nil {
				started <- clock.Now().Sub(begin)
			}
		}()
	}
	fake.Until(context.Background(), func() bool { return lim.Stats().Waiting == 3 })
	clock.Advance(500 * time.Millisecond)
	if err := lim.SetRate(throttle.PerSecond(10)); err != nil {
		fmt.Println(err)
	}
	for range 3 {
		clock.AdvanceToNext()
		fmt.Println(<-started)
	}
	// Output:
	// 550ms
	// 650ms
	// 750ms
}

// A trace sees what happens to callers, in the order that Seq gives.
func ExampleTrace() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(4), Burst: 1, MaxInFlight: 1, Clock: clock,
		Trace: &throttle.Trace{
			Started:  func(e throttle.Event) { fmt.Println(e.Seq, "started call", e.ID, "of", e.Limiter) },
			Refused:  func(e throttle.Event) { fmt.Println(e.Seq, "refused: wait", e.Wait) },
			Released: func(e throttle.Event) { fmt.Println(e.Seq, "released call", e.ID) },
		},
	}))
	permit, _ := lim.TryAcquire()
	lim.TryAcquire()
	permit.Release()
	// Output:
	// 1 started call 1 of api
	// 2 refused: wait 250ms
	// 3 released call 1
}

// The token bucket alone, on instants of one's own.
func ExampleBucket() {
	bucket, err := throttle.NewBucket(throttle.Quota{Rate: throttle.Every(2 * time.Second), Burst: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for range 4 {
		fmt.Printf("%+v\n", bucket.Take(now, 1))
	}
	// Output:
	// {Allowed:true Remaining:2 RetryAfter:0s}
	// {Allowed:true Remaining:1 RetryAfter:0s}
	// {Allowed:true Remaining:0 RetryAfter:0s}
	// {Allowed:false Remaining:0 RetryAfter:2s}
}

// Rates are exact: decimals are kept as whole numbers.
func ExampleParseRate() {
	for _, text := range []string{"10/s", "5/15s", "100 per minute", "0.0167/s", "10"} {
		rate, err := throttle.ParseRate(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(rate.N, "per", rate.Period)
	}
	// Output:
	// 10 per 1s
	// 5 per 15s
	// 100 per 1m0s
	// 167 per 2h46m40s
	// throttle: rate "10": has no unit; want a number, "/" or " per ", and a unit or duration, as in 10/s, 5/15s, 0.5/min or 100 per hour: invalid
}

// Numbers of one instant.
func ExampleLimiter_Stats() {
	lim := must(throttle.New(throttle.Config{Name: "api", MaxInFlight: 2}))
	for range 3 {
		lim.TryAcquire()
	}
	s := lim.Stats()
	fmt.Println(s.InFlight, "of", s.MaxInFlight, "in flight,", s.Started, "started,", s.RefusedNotYet, "refused")
	// Output:
	// 2 of 2 in flight, 2 started, 1 refused
}
