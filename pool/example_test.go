package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnstile-go/turnstile/pool"
	"github.com/turnstile-go/turnstile/throttle"
)

// limiter returns one of 1000/s with two calls in flight, or ends the example.
func limiter() *throttle.Limiter {
	lim, err := throttle.New(throttle.Config{Name: "api", Rate: throttle.PerSecond(1000), Burst: 10, MaxInFlight: 2})
	if err != nil {
		panic(err)
	}
	return lim
}

func ExampleGroup() {
	fetched := make([]int, 5)
	fetch := func(_ context.Context, i int) error { fetched[i] = i * i; return nil }

	g, ctx := pool.WithContext(context.Background(), limiter())
	for i := range 5 {
		if !g.Go(ctx, func(ctx context.Context) error { return fetch(ctx, i) }) {
			break
		}
	}
	err := g.Wait()
	fmt.Println(fetched, err)
	// Output:
	// [0 1 4 9 16] <nil>
}

// Each task's outcome is reported once.
func ExampleOutcome() {
	lim := limiter()
	lim.SetMaxInFlight(1) // so that reports come one after the other
	g := &pool.Group{Limiter: lim, KeepGoing: true}
	outcomes := make(chan pool.Outcome, 2)
	g.Report = func(o pool.Outcome) { outcomes <- o }
	g.Go(context.Background(), func(context.Context) error { return errors.New("not found") })
	g.GoCost(context.Background(), throttle.Cost{Tokens: 11, Weight: 1}, func(context.Context) error { return nil })
	g.Wait()
	close(outcomes)
	for o := range outcomes {
		fmt.Println(o.Started, o.Err)
	}
	// Unordered output:
	// true not found
	// false throttle: "api": cost 11 is above the burst 10: larger than the limit ever allows
}

func ExamplePanicError() {
	defer func() {
		err := recover().(*pool.PanicError)
		fmt.Println("carried here:", err.Value)
	}()
	var g pool.Group
	g.Go(context.Background(), func(context.Context) error { panic("out of cheese") })
	g.Wait()
	// Output:
	// carried here: out of cheese
}

func ExampleForEach() {
	err := pool.ForEach(context.Background(), pool.Config{Limiter: limiter(), KeepGoing: true}, slices.Values([]int{1, 2, 3}),
		func(_ context.Context, i int) error {
			if i == 2 {
				return fmt.Errorf("item %d failed", i)
			}
			return nil
		})
	fmt.Println(err)
	// Output:
	// item 2 failed
}

func ExampleMap() {
	words := slices.Values([]string{"one", "three", "eleven"})
	length := func(_ context.Context, word string) (int, error) { return len(word), nil }

	for n, err := range pool.Map(context.Background(), pool.Config{Limiter: limiter()}, words, length) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(n)
	}
	// Output:
	// 3
	// 5
	// 6
}

func ExampleConfig() {
	config := pool.Config{Limiter: limiter(), Ahead: 4, AsTheyCome: true}
	sum := 0
	for n := range pool.Map(context.Background(), config, slices.Values([]int{1, 2, 3}), func(_ context.Context, n int) (int, error) { return n, nil }) {
		sum += n
	}
	fmt.Println(sum)
	// Output:
	// 6
}
