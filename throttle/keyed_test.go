package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestWorked_Keys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{Name: "address", Rate: throttle.PerSecond(1), Burst: 2})
		passKey(t, k, "10.0.0.1", 3, 2)
		_, err := k.TryAcquire("10.0.0.1")
		mustSay(t, err, err, `"address"`, "rate 1/s (burst 2): wait 1s")
		var notYet *throttle.NotYetError
		if !errors.As(err, &notYet) || notYet.RetryAfter != time.Second {
			t.Fatalf("got %v; want a wait of 1s", err)
		}
		passKey(t, k, "10.0.0.2", 1, 1)
		haveKeys(t, k, 2)
		evict(t, k, 0)
		time.Sleep(3 * time.Second)
		haveKeys(t, k, 2)
		evict(t, k, 2)
		haveKeys(t, k, 0)
	})
}

// A policy by name: the key is the policy and the client.
func TestWorked_KeyPoliciesByName(t *testing.T) {
	type key struct{ policy, client string }
	synctest.Test(t, func(t *testing.T) {
		k := newKeyedFrom(t, throttle.KeyedConfig[key]{
			Config: throttle.Config{Name: "sign_in", Rate: throttle.Per(1, 10*time.Second), Burst: 5},
			Limits: func(k key) throttle.Config {
				if k.policy == "password_reset" {
					return throttle.Config{Name: k.policy, Rate: throttle.Per(167, 10000*time.Second), Burst: 3}
				}
				return throttle.Config{Name: "sign_in", Rate: throttle.Per(1, 10*time.Second), Burst: 5}
			},
		})
		in, reset := key{"sign_in", "eve"}, key{"password_reset", "eve"}
		passKey(t, k, in, 9, 5)
		passKey(t, k, reset, 9, 3)
		_, err := k.TryAcquire(reset)
		mustSay(t, err, err, `"password_reset"`, "rate 167/2h46m40s (burst 3)")
		time.Sleep(10000 * time.Second)
		passKey(t, k, in, 9, 5)
		passKey(t, k, reset, 9, 3)
		time.Sleep(179640718563 - 1) // 3 tokens: 3 x 10,000 s / 167, rounded up
		evict(t, k, 1)
		knows(t, k, reset, true)
		time.Sleep(1)
		evict(t, k, 1)
	})
}

// A key is forgotten from the nanosecond on at which its bucket is full, and not before.
func TestKeyed_ForgetsAtTheInstantOfFull(t *testing.T) {
	for _, c := range []throttle.Config{
		{Rate: throttle.PerSecond(3), Burst: 2},
		{Rate: throttle.PerSecond(3), Burst: 2, MaxInFlight: 1 << 20},
		{Quotas: []throttle.Quota{{Rate: throttle.PerSecond(3), Burst: 2}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[int](t, c)
			p, err := k.TryAcquire(1)
			mustDo(t, err)
			p.Release()
			time.Sleep(333333333)
			evict(t, k, 0)
			if k.Delete(1) {
				t.Fatal("Delete forgot a spent token")
			}
			time.Sleep(1)
			evict(t, k, 1)
			if !k.Delete(1) {
				t.Fatal("Delete: an unknown key is not gone")
			}
		})
	}
	for _, q := range []throttle.Quota{throttle.AtMost(3, time.Second), throttle.FixedWindow(3, time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[int](t, throttle.Config{Quotas: []throttle.Quota{q}})
			passKey(t, k, 1, 1, 1)
			time.Sleep(time.Second - 1)
			evict(t, k, 0)
			time.Sleep(1)
			evict(t, k, 1)
		})
	}
}

func TestKeyed_WaitersStartInOrderAndKeepTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(2), Burst: 2})
		var callers []*caller
		for range 6 {
			callers = append(callers, joinKey(t.Context(), k, "a"))
		}
		other := joinKey(t.Context(), k, "b")
		other.mustStartAt(t, 0)
		if s, _ := k.Stats("a"); s.Waiting != 4 || s.Started != 0 {
			t.Fatalf("got %+v; want 4 waiting and no start by its limiter yet", s)
		}
		evict(t, k, 0)
		if k.Delete("a") {
			t.Fatal("Delete forgot a key with callers waiting")
		}
		for i, at := range []time.Duration{0, 0, 500, 1000, 1500, 2000} {
			time.Sleep(at*time.Millisecond - sinceStart())
			callers[i].mustStartAt(t, at*time.Millisecond)
			passKey(t, k, "a", 1, 0) // a try does not overtake
		}
		time.Sleep(750 * time.Millisecond)
		passKey(t, k, "a", 2, 1) // 1.5 tokens
		time.Sleep(250 * time.Millisecond)
		passKey(t, k, "a", 2, 1) // the half was kept
		evict(t, k, 1)           // b
		time.Sleep(time.Second)
		evict(t, k, 1)
	})
}

func TestKeyed_LeavingCallersTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{Name: "n", Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 2, MaxWait: 5 * time.Second})
		passKey(t, k, "a", 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := joinKey(ctx, k, "a"), joinKey(t.Context(), k, "a")
		third := joinKey(t.Context(), k, "a")
		if !third.over() || !errors.Is(third.err, throttle.ErrQueueFull) {
			t.Fatalf("got %v; want ErrQueueFull", third.err)
		}
		time.Sleep(500 * time.Millisecond)
		cancel()
		if !first.over() || !errors.Is(first.err, context.Canceled) {
			t.Fatalf("got %v; want it left", first.err)
		}
		time.Sleep(500 * time.Millisecond)
		second.mustStartAt(t, time.Second)
		soon, end := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer end()
		_, err := k.Acquire(soon, "a")
		mustSay(t, err, throttle.ErrWouldExceed, `"n": rate 1/s (burst 1): wait 1s, and the deadline is in 400ms`)
		_, err = k.Acquire(ctx, "a")
		mustSay(t, err, context.Canceled)
		time.Sleep(time.Second)
		evict(t, k, 1)
		_, err = k.Acquire(ctx, "a") // with a token there
		mustSay(t, err, context.Canceled)
		_, err = k.Acquire(late{t.Context()}, "a")
		mustSay(t, err, throttle.ErrWouldExceed, "the deadline passed")
		passKey(t, k, "a", 2, 1)
	})
}

// late is a context whose deadline has passed, but which is not done yet, as happens for a moment.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestKeyed_PermitsInFlightKeepTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{MaxInFlight: 1})
		p, err := k.TryAcquire("a")
		mustDo(t, err)
		passKey(t, k, "b", 1, 1) // kept for good
		evict(t, k, 0)
		next := joinKey(t.Context(), k, "a")
		next.mustWait(t)
		p.Release()
		next.mustStartAt(t, 0)
		evict(t, k, 0)
		next.permit.Release()
		evict(t, k, 1)
		ran := k.Do(t.Context(), "a", func(context.Context) error { passKey(t, k, "a", 1, 0); return errors.New("own") })
		if ran == nil || ran.Error() != "own" {
			t.Fatalf("Do gave %v; want the function's error", ran)
		}
		evict(t, k, 1)
	})
}

// A cost that is still to be settled may become a debt: the key is kept, and so is the debt.
func TestKeyed_OpenCostsAndDebtsKeepTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Settled: true})
		p, err := k.TryAcquire("a")
		mustDo(t, err)
		time.Sleep(time.Minute)
		evict(t, k, 0)
		mustDo(t, p.Settle(throttle.Cost{Tokens: 30}))
		p.Release()
		time.Sleep(29*time.Second - 1)
		evict(t, k, 0)
		time.Sleep(1)
		evict(t, k, 1)

		// A period that is open stays so, though all of it was given back.
		k = newKeyed[string](t, throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(1, time.Minute)}, Settled: true})
		p, err = k.TryAcquire("a")
		mustDo(t, err)
		mustDo(t, p.Settle(throttle.Cost{}))
		p.Release()
		time.Sleep(time.Minute - 1)
		evict(t, k, 0)
		passKey(t, k, "a", 2, 1)
		time.Sleep(1)
		passKey(t, k, "a", 2, 1)
	})
}

func TestKeyed_PausesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustDo(t, k.PauseFor("a", 10*time.Second))
		mustDo(t, k.PauseUntil("b", bubbleStart.Add(5*time.Second)))
		passKey(t, k, "a", 1, 0)
		if s, ok := k.Stats("a"); !ok || s.Paused != 10*time.Second || s.Tokens != 1 {
			t.Fatalf("got %+v; want a pause of 10s", s)
		}
		time.Sleep(5*time.Second - 1)
		evict(t, k, 0)
		time.Sleep(1)
		evict(t, k, 1)
		time.Sleep(5*time.Second - 1)
		passKey(t, k, "a", 1, 0)
		evict(t, k, 0)
		time.Sleep(1)
		passKey(t, k, "a", 2, 1)
		evict(t, k, 0)
		time.Sleep(time.Second)
		evict(t, k, 1)
	})
}

// Tenants below one parent share its rate, one turn each, and a forgotten tenant leaves nothing at it.
func TestKeyed_TenantsShareAParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(2), Burst: 1, MaxInFlight: 100})
		k := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 100, Parent: all})
		mustTry(t, all, 1, 1)
		var greedy []*caller
		for range 5 {
			greedy = append(greedy, joinKey(t.Context(), k, "greedy"))
		}
		modest := joinKey(t.Context(), k, "modest")
		time.Sleep(time.Second)
		greedy[0].mustStartAt(t, 500*time.Millisecond)
		modest.mustStartAt(t, time.Second)
		time.Sleep(2 * time.Second)
		greedy[4].mustStartAt(t, 3*time.Second)
		if s := all.Stats(); s.InFlight != 7 {
			t.Fatalf("in flight %d; want 7", s.InFlight)
		}
		time.Sleep(time.Second)
		evict(t, k, 2)
		for _, c := range append(greedy, modest) {
			c.permit.Release() // of limiters that are forgotten
		}
		if s := all.Stats(); s.InFlight != 1 {
			t.Fatalf("in flight %d; want 1", s.InFlight)
		}
	})
}
