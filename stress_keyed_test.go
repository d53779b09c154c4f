package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// TestStressKeyed storms a Keyed in virtual time, while keys are forgotten all the time: each key's starts keep the key's promise in
// every window, as if nothing had ever been forgotten, and the bound on keys holds at every look.
func TestStressKeyed(t *testing.T) {
	for round := range 8 {
		seed := *stressSeed + uint64(round)
		synctest.Test(t, func(t *testing.T) { stressKeys(t, seed) })
		if t.Failed() {
			t.Fatalf("reproduce with: go test -race -run TestStressKeyed . -stress.seed=%d", *stressSeed)
		}
	}
}

func stressKeys(t *testing.T, seed uint64) {
	const workers, callsEach, bound = 32, 80, 60
	pick := rand.New(rand.NewPCG(seed, 3))
	c := throttle.Config{Name: "keys", Rate: throttle.PerSecond(500 + pick.Int64N(2000)), Burst: 1 + pick.Int64N(5)}
	if pick.IntN(2) == 0 {
		c.MaxInFlight = 1 + pick.Int64N(3)
	}
	keyed, err := throttle.NewKeyedFrom(throttle.KeyedConfig[string]{Config: c, MaxKeys: bound})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	starts := map[string][]fake.Start{}
	inFlight := map[string]int64{}

	var all sync.WaitGroup
	for g := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 100+uint64(g)))
			for range callsEach {
				time.Sleep(time.Duration(r.Int64N(int64(2 * time.Millisecond))))
				key := fmt.Sprint("key", min(r.IntN(100), r.IntN(100)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.Int64N(int64(5*time.Millisecond))))
				var p throttle.Permit
				var err error
				switch r.IntN(8) {
				case 0:
					p, err = keyed.TryAcquire(key)
				case 1:
					keyed.EvictIdle()
					cancel()
					continue
				case 2:
					keyed.Delete(key) // forgets nothing that is spent, paused, waited for or held
					cancel()
					continue
				default:
					p, err = keyed.Acquire(ctx, key)
				}
				if err == nil {
					mu.Lock()
					starts[key] = append(starts[key], fake.Start{At: time.Now(), Cost: 1})
					inFlight[key]++
					if c.MaxInFlight > 0 && inFlight[key] > c.MaxInFlight {
						t.Errorf("seed %d: %s has %d in flight, of %d", seed, key, inFlight[key], c.MaxInFlight)
					}
					mu.Unlock()
					time.Sleep(time.Duration(r.Int64N(int64(time.Millisecond))))
					mu.Lock()
					inFlight[key]--
					mu.Unlock()
					p.Release()
				} else {
					var yet *throttle.NotYetError
					var gone *throttle.LeftError
					if !errors.As(err, &yet) && !errors.As(err, &gone) && !errors.Is(err, throttle.ErrTooManyKeys) {
						t.Errorf("seed %d: %s: %v", seed, key, err)
					}
				}
				cancel()
				if n := keyed.Len(); n > bound {
					t.Errorf("seed %d: %d keys, of %d", seed, n, bound)
				}
			}
		})
	}
	all.Wait()
	total := 0
	for key, s := range starts {
		total += len(s)
		w, err := fake.WorstWindow(s, c.Burst, c.Rate.N, c.Rate.Period, 0)
		if err != nil || !w.OK() {
			t.Errorf("seed %d: %s at %v (burst %d): %v %v", seed, key, c.Rate, c.Burst, w, err)
		}
	}
	if total < workers*callsEach/10 {
		t.Errorf("seed %d: only %d starts: the storm is a breeze", seed, total)
	}
	time.Sleep(time.Hour)
	if keyed.EvictIdle(); keyed.Len() != 0 {
		t.Errorf("seed %d: %d keys are left when all are full and idle", seed, keyed.Len())
	}
}
