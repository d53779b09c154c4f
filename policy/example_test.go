package policy_test

import (
	"fmt"

	"github.com/turnstile-go/turnstile/policy"
	"github.com/turnstile-go/turnstile/throttle"
)

func ExampleParse() {
	policies, err := policy.Parse("limits.yaml", []byte(`policies:
  sign_in: {rate: 0.1/s, burst: 5}
  password_reset: {rate: 0.0167/s, burst: 3}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range policies {
		limiter, err := throttle.New(p.Config())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Name, p.Rate, limiter.Stats().Tokens)
	}
	// Output:
	// sign_in 1/10s 5
	// password_reset 167/2h46m40s 3
}

func ExampleError() {
	_, err := policy.Parse("limits.yaml", []byte("policies:\n  sign_in: {rate: 0.1/s, bust: 5}\n"))
	fmt.Println(err)
	// Output:
	// policy: limits.yaml:2:26: unknown field "bust" of policy "sign_in"; want rate, burst, quotas, in_flight, max_wait, max_queue, parent, share, keyed or max_keys
	//     2 |   sign_in: {rate: 0.1/s, bust: 5}
	//       |                          ^
}
