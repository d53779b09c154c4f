package throttle_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/turnstile-go/turnstile/throttle"
)

// newKeyedFrom returns a Keyed of that config, or ends the test.
func newKeyedFrom[K comparable](t testing.TB, c throttle.KeyedConfig[K]) *throttle.Keyed[K] {
	t.Helper()
	k, err := throttle.NewKeyedFrom(c)
	if err != nil {
		t.Fatalf("NewKeyedFrom: %v", err)
	}
	return k
}

// passKey asserts that exactly want of n tries for key pass at this instant. Their permits are kept.
func passKey[K comparable](t testing.TB, k *throttle.Keyed[K], key K, n, want int) {
	t.Helper()
	got := 0
	for range n {
		if _, err := k.TryAcquire(key); err == nil {
			got++
		}
	}
	if got != want {
		t.Fatalf("%d of %d tries for %v passed; want %d", got, n, key, want)
	}
}

// haveKeys asserts how many keys are there.
func haveKeys[K comparable](t testing.TB, k *throttle.Keyed[K], want int) {
	t.Helper()
	if got := k.Len(); got != want {
		t.Fatalf("%d keys; want %d", got, want)
	}
	if all := len(maps.Collect(k.All())); all != want {
		t.Fatalf("All has %d keys; want %d", all, want)
	}
}

// evict asserts how many keys EvictIdle forgets.
func evict[K comparable](t testing.TB, k *throttle.Keyed[K], want int) {
	t.Helper()
	if got := k.EvictIdle(); got != want {
		t.Fatalf("EvictIdle forgot %d; want %d", got, want)
	}
}

// knows asserts whether key is there.
func knows[K comparable](t testing.TB, k *throttle.Keyed[K], key K, want bool) {
	t.Helper()
	if _, ok := k.Stats(key); ok != want {
		t.Fatalf("key %v known: %v; want %v", key, ok, want)
	}
}

// joinKey has a new caller acquire for key, and returns when it has its answer or waits.
func joinKey[K comparable](ctx context.Context, k *throttle.Keyed[K], key K) *caller {
	ctx, cancel := context.WithCancel(ctx)
	c := &caller{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		c.permit, c.err = k.Acquire(ctx, key)
		c.at = sinceStart()
	}()
	synctest.Wait()
	return c
}
