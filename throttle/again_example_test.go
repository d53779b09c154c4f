package throttle_test

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// A call that the server turned away comes again without losing its place, and without holding a permit while it waits.
func ExampleLimiter_AcquireAgain() {
	ctx := context.Background()
	l, err := throttle.New(throttle.Config{Rate: throttle.PerSecond(100), Burst: 10, MaxInFlight: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := l.Acquire(ctx)
	for try := 1; err == nil; try++ {
		if answer := []int{429, 200}[try-1]; answer == 200 {
			fmt.Println("done at try", try)
			permit.Release()
			break
		}
		permit, err = l.AcquireAgain(ctx, permit, throttle.One)
	}
	fmt.Println("in flight:", l.Stats().InFlight)
	// Output:
	// done at try 2
	// in flight: 0
}

// An adapter keeps a caller's place where the Admitter that it was given can.
func ExampleReadmitter() {
	ctx := context.Background()
	l, err := throttle.New(throttle.Config{MaxInFlight: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	var a throttle.Admitter = l
	_, held, err := a.Admit(ctx, throttle.One)
	if r, ok := a.(throttle.Readmitter); ok && err == nil {
		_, held, err = r.Readmit(ctx, held, throttle.One)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release()
	fmt.Println("in flight:", l.Stats().InFlight)
	// Output: in flight: 1
}

// The server says that 3 requests remain, since others spend from the same quota.
func ExampleLimiter_LowerTo() {
	clock := fake.NewClock(time.Time{})
	l, err := throttle.New(throttle.Config{Rate: throttle.PerMinute(60), Burst: 60, Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, remaining := range []int64{3, 50} { // the second would raise it
		if err := l.LowerTo("", remaining); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("left:", l.Stats().Tokens)
	}
	// Output:
	// left: 3
	// left: 3
}
