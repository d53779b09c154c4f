package throttle_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// Two calls at once and one a second, for each address.
func ExampleKeyed() {
	clock := fake.NewClock(time.Time{})
	perAddress, err := throttle.NewKeyed[string](throttle.Config{
		Name: "address", Rate: throttle.PerSecond(1), Burst: 2, Clock: clock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, address := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"} {
		_, err := perAddress.TryAcquire(address)
		var notYet *throttle.NotYetError
		if errors.As(err, &notYet) {
			fmt.Println(address, "not yet: retry after", notYet.RetryAfter)
			continue
		}
		fmt.Println(address, "allowed")
	}
	fmt.Println(perAddress.Len(), "keys")
	clock.Advance(3 * time.Second) // both buckets are full again: to forget them changes nothing
	perAddress.EvictIdle()
	fmt.Println(perAddress.Len(), "keys")
	// Output:
	// 10.0.0.1 allowed
	// 10.0.0.1 allowed
	// 10.0.0.1 not yet: retry after 1s
	// 10.0.0.2 allowed
	// 2 keys
	// 0 keys
}

// Limits by plan, a key of several parts, and a bound on how many keys there may be.
func ExampleNewKeyedFrom() {
	type client struct{ tenant, plan string }
	free := throttle.Config{Name: "free", Rate: throttle.PerMinute(1), Burst: 1}
	paid := throttle.Config{Name: "paid", Rate: throttle.PerSecond(10), Burst: 20, MaxInFlight: 2}
	clients, err := throttle.NewKeyedFrom(throttle.KeyedConfig[client]{
		Config: free,
		Limits: func(c client) throttle.Config {
			if c.plan == "paid" {
				return paid
			}
			return free
		},
		MaxKeys: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err := clients.TryAcquire(client{"ann", "free"})
		fmt.Println("ann:", err == nil)
	}
	for range 3 {
		_, err := clients.TryAcquire(client{"bob", "paid"})
		fmt.Println("bob:", err)
	}
	_, err = clients.TryAcquire(client{"eve", "free"})
	fmt.Println("eve:", err)
	// Output:
	// ann: true
	// ann: false
	// bob: <nil>
	// bob: <nil>
	// bob: throttle: "paid": not yet: MaxInFlight 2: no permit is free
	// eve: throttle: "free": MaxKeys 2 keys are there, and none may be forgotten: too many keys
}
