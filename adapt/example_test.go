package adapt_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/adapt"
	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// made returns a limiter, or ends the example.
func made(c throttle.Config) *throttle.Limiter {
	lim, err := throttle.New(c)
	if err != nil {
		panic(err)
	}
	return lim
}

// A library that wants a Wait(ctx) error gets a Rate; it refuses a limiter whose permits the library would not release.
func ExampleRate() {
	rate, err := adapt.NewRate(made(throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	var library interface{ Wait(context.Context) error } = rate
	fmt.Println(library.Wait(context.Background()), rate.Allow())

	_, err = adapt.NewRate(made(throttle.Config{Name: "capped", Rate: throttle.PerSecond(10), Burst: 1, MaxInFlight: 3}))
	fmt.Println(errors.Is(err, throttle.ErrCapped))
	// Output:
	// <nil> false
	// true
}

func ExamplePacer() {
	clock := fake.NewClock(time.Time{})
	pacer, err := adapt.NewPacer(made(throttle.Config{Rate: throttle.PerSecond(10), Burst: 1, Clock: clock}))
	if err != nil {
		fmt.Println(err)
		return
	}
	taken := make(chan bool)
	go func() {
		pacer.Take()
		pacer.Take()
		taken <- true
	}()
	clock.WaitTimers(context.Background(), 1)
	step, _ := clock.AdvanceToNext()
	fmt.Println(<-taken, step)
	// Output:
	// true 100ms
}

// See examples/clientgo for a client made with one.
func ExampleFlow() {
	rate := throttle.PerSecond(20)
	flow, err := adapt.NewFlow(made(throttle.Config{Rate: rate, Burst: 2}), rate)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(flow.QPS(), flow.TryAccept())
	// Output:
	// 20 true
}

func ExampleSemaphore() {
	lim := made(throttle.Config{Rate: throttle.PerSecond(10), Burst: 5, MaxInFlight: 3})
	sem, err := adapt.NewSemaphore(lim)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := sem.Acquire(context.Background(), 2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sem.TryAcquire(2), lim.Stats().InFlight)
	sem.Release(2)
	fmt.Println(sem.TryAcquire(2), lim.Stats().InFlight)
	// Output:
	// false 2
	// true 2
}
