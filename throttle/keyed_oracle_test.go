package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// Forgetting changes nothing: a Keyed answers as buckets do of which none is ever forgotten. Random histories of tries, with every way
// of forgetting in between, are compared answer by answer.
func TestKeyed_AnswersAsBucketsThatAreNeverForgotten(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		clock := fake.NewClock(time.Time{})
		rate, burst := throttle.Per(1+rng.Int64N(7), time.Duration(7+rng.Int64N(1000))), 1+rng.Int64N(6)
		c := throttle.KeyedConfig[int]{Config: throttle.Config{Rate: rate, Burst: burst, Clock: clock}}
		if seed%3 == 1 {
			c.MaxKeys = 1 + rng.IntN(60)
		}
		if seed%2 == 1 {
			c.Config.MaxInFlight = 1 << 40 // each key has a limiter
		}
		if seed%5 == 4 {
			c.Limits = func(int) throttle.Config { return c.Config }
		}
		k := newKeyedFrom(t, c)
		buckets := make(map[int]*throttle.Bucket)
		allowed, refused, full, forgotten := 0, 0, 0, 0
		for step := range 6000 {
			now := clock.Now()
			key := rng.IntN(100)
			if rng.IntN(3) == 0 {
				key = rng.IntN(3)
			}
			switch op := rng.IntN(100); {
			case op < 70:
				n := 1 + rng.Int64N(burst)
				p, err := k.TryAcquireCost(key, throttle.Cost{Tokens: n, Weight: 1})
				if errors.Is(err, throttle.ErrTooManyKeys) {
					full++
					break
				}
				b := buckets[key]
				if b == nil {
					b = newBucket(t, rate, burst)
					buckets[key] = b
				}
				want := b.Take(now, n)
				var got throttle.Decision
				if got.Allowed = err == nil; got.Allowed {
					p.Release()
					allowed++
				} else {
					var notYet *throttle.NotYetError
					if !errors.As(err, &notYet) {
						t.Fatalf("seed %d, step %d: %v", seed, step, err)
					}
					got.RetryAfter = notYet.RetryAfter
					refused++
				}
				s, _ := k.Stats(key)
				got.Remaining = s.Tokens
				if got != want {
					t.Fatalf("seed %d, step %d: key %d, cost %d: %+v; want %+v", seed, step, key, n, got, want)
				}
			case op < 75:
				forgotten += k.EvictIdle()
			case op < 80:
				k.Delete(key)
			case op < 83: // a key that becomes resident and goes back
				if b := buckets[key]; b != nil {
					if _, known := k.Stats(key); known {
						mustDo(t, k.PauseFor(key, 0))
					}
				}
			default:
				clock.Advance(time.Duration(rng.Int64N(1 + 2*int64(rate.Period)/rate.N)))
			}
			if step%50 == 0 {
				throttle.CheckKeyed(t, k)
			}
			if c.MaxKeys > 0 && k.Len() > c.MaxKeys {
				t.Fatalf("seed %d, step %d: %d keys; want %d at most", seed, step, k.Len(), c.MaxKeys)
			}
		}
		if allowed < 100 || refused < 100 || forgotten == 0 || (full > 0) && c.MaxKeys == 0 {
			t.Errorf("seed %d: %d allowed, %d refused, %d forgotten, %d without a place: too few to tell", seed, allowed, refused, forgotten, full)
		}
	}
}

// The same for callers that wait, leave, and meet pauses: a Keyed lets them start at the instants at which limiters do that are
// never forgotten, and says no in the same words.
func TestKeyed_WaitersFareAsWithLimitersThatAreNeverForgotten(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			c := throttle.Config{Name: "n", Rate: throttle.PerSecond(1 + rng.Int64N(9)), Burst: 1 + rng.Int64N(4)}
			switch seed % 4 {
			case 1:
				c.MaxQueue, c.MaxWait = 3, time.Second
			case 2:
				c.MaxInFlight = 1 + rng.Int64N(3)
			case 3:
				c.Quotas = []throttle.Quota{throttle.AtMost(3, time.Second)}
			}
			k := newKeyed[int](t, c)
			plain := make([]*throttle.Limiter, 5)
			for i := range plain {
				plain[i] = newLimiter(t, c)
			}
			var mu sync.Mutex
			var got, want []string
			var callers sync.WaitGroup
			waits := 0
			for op := range 300 {
				key := rng.IntN(len(plain))
				switch r := rng.IntN(20); {
				case r < 12:
					patience, hold := time.Duration(rng.Int64N(int64(2*time.Second))), time.Duration(rng.Int64N(int64(300*time.Millisecond)))
					deadline, tokens := rng.IntN(3) == 0, 1+rng.Int64N(c.Burst)
					call := func(acquire func(context.Context) (throttle.Permit, error), into *[]string) {
						ctx, cancel := context.WithCancel(t.Context())
						if deadline {
							ctx, cancel = context.WithTimeout(t.Context(), patience)
						} else {
							stop := time.AfterFunc(patience, cancel)
							defer stop.Stop()
						}
						defer cancel()
						p, err := acquire(ctx)
						mu.Lock()
						*into = append(*into, fmt.Sprintf("%3d key %d: at %v: %v", op, key, sinceStart(), err))
						if sinceStart() > 0 && err == nil {
							waits++
						}
						mu.Unlock()
						if err == nil {
							time.Sleep(hold)
							p.Release()
						}
					}
					cost := throttle.Cost{Tokens: tokens, Weight: 1}
					callers.Go(func() {
						call(func(ctx context.Context) (throttle.Permit, error) { return k.AcquireCost(ctx, key, cost) }, &got)
					})
					synctest.Wait()
					callers.Go(func() {
						call(func(ctx context.Context) (throttle.Permit, error) { return plain[key].AcquireCost(ctx, cost) }, &want)
					})
					synctest.Wait()
				case r < 13:
					d := time.Duration(rng.Int64N(int64(time.Second)))
					mustDo(t, k.PauseFor(key, d))
					mustDo(t, plain[key].PauseFor(d))
					synctest.Wait() // callers with a deadline look at it
				case r < 14:
					// No higher burst: a key that is not known begins with all of it, a known one earns it.
					c.Rate, c.Burst = throttle.PerSecond(1+rng.Int64N(9)), max(1, c.Burst-rng.Int64N(2)*rng.Int64N(2))
					q := throttle.Quota{Rate: c.Rate, Burst: c.Burst}
					mustDo(t, k.SetQuotaAll(q))
					for _, l := range plain {
						mustDo(t, l.SetQuota(q))
					}
					synctest.Wait()
				case r < 16:
					k.EvictIdle()
				default:
					time.Sleep(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
				}
			}
			callers.Wait()
			slices.Sort(got)
			slices.Sort(want)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("seed %d:\n got %s\nwant %s", seed, got[i], want[i])
				}
			}
			if waits < 100 {
				t.Errorf("seed %d: %d waits: too few to tell", seed, waits)
			}
			time.Sleep(time.Minute)
			k.EvictIdle()
			haveKeys(t, k, 0)
		})
	}
}
