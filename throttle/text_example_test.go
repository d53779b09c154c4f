package throttle_test

import (
	"fmt"

	"github.com/turnstile-go/turnstile/throttle"
)

func ExampleParseQuota() {
	for _, text := range []string{"0.0167/s burst 3", "at most 100 per minute", "1k each day", "requests: 5/15s"} {
		q, err := throttle.ParseQuota(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		back, _ := q.MarshalText()
		fmt.Printf("%s: %s\n", text, back)
	}
	var rate throttle.Rate
	fmt.Println(rate.Set("10"))
	// Output:
	// 0.0167/s burst 3: 167/2h46m40s burst 3
	// at most 100 per minute: at most 100 in 1m
	// 1k each day: 1000 each 1d
	// requests: 5/15s: requests: 5/15s
	// throttle: rate "10": has no unit; want a number, "/" or " per ", and a unit or duration, as in 10/s, 5/15s, 0.5/min or 100 per hour: invalid
}
