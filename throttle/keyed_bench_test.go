package throttle_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// manyKeys returns n different strings of 16 bytes, each allocated by itself.
func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%09d", i)
	}
	return keys
}

// newKeyed returns a Keyed of that config, or ends the test.
func newKeyed[K comparable](t testing.TB, c throttle.Config) *throttle.Keyed[K] {
	t.Helper()
	k, err := throttle.NewKeyed[K](c)
	if err != nil {
		t.Fatalf("NewKeyed: %v", err)
	}
	return k
}

func BenchmarkKeyed(b *testing.B) {
	const n = 10000
	keys := manyKeys(n)
	rate := throttle.Config{Rate: throttle.PerHour(1), Burst: 1 << 40}
	fast := throttle.Config{Rate: throttle.Per(1, time.Nanosecond), Burst: 1 << 40}
	whole := rate
	whole.MaxInFlight = 1 << 20
	for _, c := range []struct {
		name string
		run  func(*throttle.Keyed[string], string) error
		c    throttle.Config
	}{
		{"TryAcquire", func(k *throttle.Keyed[string], key string) error { _, err := k.TryAcquire(key); return err }, rate},
		{"TryAcquire,full at each use", func(k *throttle.Keyed[string], key string) error { _, err := k.TryAcquire(key); return err }, fast},
		{"Acquire", func(k *throttle.Keyed[string], key string) error {
			_, err := k.Acquire(context.Background(), key)
			return err
		}, rate},
		{"AcquireRelease,capped", func(k *throttle.Keyed[string], key string) error {
			p, err := k.Acquire(context.Background(), key)
			p.Release()
			return err
		}, whole},
	} {
		k := newKeyed[string](b, c.c)
		for _, key := range keys {
			if err := c.run(k, key); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(c.name+",10000keys,1goroutine", func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				_ = c.run(k, keys[i*7919%n])
			}
		})
		b.Run(c.name+",10000keys,8goroutines", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism((7 + runtime.GOMAXPROCS(0)) / runtime.GOMAXPROCS(0))
			var g atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(g.Add(1)) * 1000; pb.Next(); i++ {
					_ = c.run(k, keys[i*7919%n])
				}
			})
		})
	}
	b.Run("fresh keys, all soon full", func(b *testing.B) {
		b.ReportAllocs()
		k := newKeyed[int](b, throttle.Config{Rate: throttle.PerSecond(1e6), Burst: 2})
		for i := range b.N {
			_, _ = k.TryAcquire(i)
		}
		b.ReportMetric(float64(k.Len()), "keys")
	})
	b.Run("fresh keys, bound, none full", func(b *testing.B) {
		b.ReportAllocs()
		k, err := throttle.NewKeyedFrom(throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerHour(1), Burst: 2}, MaxKeys: 10000})
		if err != nil {
			b.Fatal(err)
		}
		for i := range 10000 {
			_, _ = k.TryAcquire(-1 - i)
		}
		for i := range b.N {
			if _, err = k.TryAcquire(i); err == nil {
				b.Fatal("let a key in")
			}
		}
	})
	b.Run("fresh keys, bound, all full", func(b *testing.B) {
		b.ReportAllocs()
		k, err := throttle.NewKeyedFrom(throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1e6), Burst: 2}, MaxKeys: 1000000})
		if err != nil {
			b.Fatal(err)
		}
		for i := range b.N {
			if _, err = k.TryAcquire(i); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bytes a key, 1000000 keys", func(b *testing.B) {
		for range b.N {
			bytes, _ := bytesPerKey(b, 1000000)
			b.ReportMetric(bytes, "B/key")
		}
	})
}

// bytesPerKey fills a Keyed with n keys of 16 bytes and returns the heap that it takes for each, the bytes of the strings included.
func bytesPerKey(t testing.TB, n int) (float64, *throttle.Keyed[string]) {
	k := newKeyed[string](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 10})
	before := heapInUse()
	for i := range n {
		if _, err := k.TryAcquire(fmt.Sprintf("tenant-%09d", i)); err != nil {
			t.Fatal(err)
		}
	}
	after := heapInUse()
	if k.Len() != n {
		t.Fatalf("%d keys; want %d", k.Len(), n)
	}
	return float64(after-before) / float64(n), k
}

// heapInUse returns the bytes of live objects.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
