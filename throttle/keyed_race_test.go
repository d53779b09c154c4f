package throttle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// Sixty-four goroutines use, change and forget keys while time passes in steps: there is one bucket a key always, so that none starts more
// than burst + rate x time, and the bound is never exceeded.
func raceKeys(t *testing.T, c throttle.Config, maxKeys int) {
	clock := fake.NewClock(time.Time{})
	c.Clock, c.Burst = clock, 3
	c.Rate = throttle.Per(1, time.Millisecond)
	k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: c, MaxKeys: maxKeys})
	const keys = 300
	var started [keys]atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var users, others sync.WaitGroup
	var busy atomic.Bool
	busy.Store(true)
	for g := range uint64(64) {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(g, 4))
			for range 400 {
				key := rng.IntN(keys)
				if rng.IntN(2) == 0 {
					key = rng.IntN(5)
				}
				var p throttle.Permit
				var err error
				switch rng.IntN(8) {
				case 0:
					p, err = k.Acquire(ctx, key)
				case 1:
					k.Delete(key)
					continue
				case 2:
					err = k.PauseFor(key, time.Duration(rng.IntN(3))*time.Millisecond)
					key = -1
				case 3:
					k.Stats(key)
					continue
				default:
					p, err = k.TryAcquire(key)
				}
				if err == nil && key >= 0 {
					started[key].Add(1)
					p.Release()
				}
				var notYet *throttle.NotYetError
				if err != nil && !errors.As(err, &notYet) && !(maxKeys > 0 && errors.Is(err, throttle.ErrTooManyKeys)) {
					t.Errorf("key %d: %v", key, err)
					return
				}
				if n := k.Len(); maxKeys > 0 && n > maxKeys {
					t.Errorf("%d keys; want %d at most", n, maxKeys)
					return
				}
			}
		})
	}
	begin := clock.Now()
	others.Go(func() {
		for busy.Load() {
			clock.Advance(300 * time.Microsecond)
			k.EvictIdle()
		}
	})
	others.Go(func() {
		for busy.Load() {
			for range k.All() {
			}
			if err := k.SetQuotaAll(throttle.Quota{Rate: c.Rate, Burst: c.Burst}); err != nil {
				t.Error(err)
			}
		}
	})
	users.Wait()
	busy.Store(false)
	others.Wait()
	throttle.CheckKeyed(t, k)
	most := c.Burst + int64(clock.Now().Sub(begin)/time.Millisecond)
	for key := range started {
		if n := started[key].Load(); n > most {
			t.Errorf("key %d started %d; want %d at most", key, n, most)
		}
	}
	clock.Advance(time.Minute)
	k.EvictIdle()
	haveKeys(t, k, 0)
	if n := clock.Timers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

func TestKeyed_RaceOfUseAndForgetting(t *testing.T) {
	t.Run("rate only", func(t *testing.T) { raceKeys(t, throttle.Config{}, 0) })
	t.Run("rate only, bound", func(t *testing.T) { raceKeys(t, throttle.Config{}, 40) })
	t.Run("with a cap", func(t *testing.T) { raceKeys(t, throttle.Config{MaxInFlight: 1 << 20}, 0) })
	t.Run("with a cap, bound", func(t *testing.T) { raceKeys(t, throttle.Config{MaxInFlight: 1 << 20}, 40) })
}

// Of many callers that come at once, no more keys get in than there are places, and all places are given.
func TestKeyed_MaxKeysIsExact(t *testing.T) {
	k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerHour(1), Burst: 1}, MaxKeys: 100})
	var in atomic.Int64
	var callers sync.WaitGroup
	for g := range 16 {
		callers.Go(func() {
			for i := range 100 {
				if _, err := k.TryAcquire(i*16 + g); err == nil {
					in.Add(1)
				}
				if n := k.Len(); n > 100 {
					t.Errorf("%d keys; want 100 at most", n)
				}
			}
		})
	}
	callers.Wait()
	if in.Load() != 100 {
		t.Errorf("%d keys got in; want 100", in.Load())
	}
	haveKeys(t, k, 100)
}

// 8 goroutines fight for fresh keys at one bound while all that are there are idle: each gets in.
func TestKeyed_MaxKeysGivesThePlaceOfAnIdleKeyToEachNewcomer(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock}, MaxKeys: 1000})
	for i := range 1000 {
		passKey(t, k, -1-i, 1, 1)
	}
	clock.Advance(time.Second)
	var callers sync.WaitGroup
	for g := range 8 {
		callers.Go(func() {
			for i := range 125 {
				if _, err := k.TryAcquire(i*8 + g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	haveKeys(t, k, 1000)
	_, err := k.TryAcquire(1 << 20)
	mustSay(t, err, throttle.ErrTooManyKeys)
}
