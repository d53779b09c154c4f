package throttle_test

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func ExampleConfig_dryRun() {
	lim, err := throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 2, MaxQueue: 100, MaxWait: time.Second,
		DryRun: true,
		Trace: &throttle.Trace{
			Queued:  func(e throttle.Event) { fmt.Println("would wait", e.Wait.Round(100*time.Millisecond)) },
			Refused: func(e throttle.Event) { fmt.Println("would be refused") },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 4 {
		permit, err := lim.Acquire(context.Background()) // at once, and never an error of the limit
		if err != nil {
			fmt.Println(err)
			return
		}
		permit.Release()
	}
	if _, err := lim.AcquireN(context.Background(), 5); err == nil {
		fmt.Println("and yet goes through")
	}
	fmt.Println(lim.Stats().Started, "started,", lim.Stats().Waiting, "would still wait")
	lim.Close()
	// Output:
	// would wait 100ms
	// would wait 200ms
	// would be refused
	// and yet goes through
	// 2 started, 2 would still wait
	// would be refused
	// would be refused
}
