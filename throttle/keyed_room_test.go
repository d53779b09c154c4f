package throttle_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestKeyed_LeastRecentlyUsedGoFirst(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock}, MaxKeys: 32})
	for i := range 1000 {
		passKey(t, k, i, 1, 1)
		clock.Advance(time.Millisecond)
		if i >= 31 {
			clock.Advance(time.Second)
		}
		knows(t, k, i-31, i >= 31)
		knows(t, k, i-32, false)
	}
}

// With a bound, MaxKeys keys are there at the most, and no more than that.
func TestKeyed_MaxKeysForgetsTheLeastRecentlyUsedIdleKey(t *testing.T) {
	for _, c := range []throttle.Config{
		{Name: "n", Rate: throttle.PerSecond(1), Burst: 2},
		{Name: "n", Rate: throttle.PerSecond(1), Burst: 2, MaxInFlight: 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyedFrom(t, throttle.KeyedConfig[string]{Config: c, MaxKeys: 3})
			use := func(key string, n int) {
				for range n {
					p, err := k.TryAcquire(key)
					mustDo(t, err)
					p.Release()
				}
			}
			use("a", 2)
			time.Sleep(100 * time.Millisecond)
			use("b", 1)
			time.Sleep(100 * time.Millisecond)
			use("c", 1)
			_, err := k.TryAcquire("d")
			mustSay(t, err, throttle.ErrTooManyKeys, `"n": MaxKeys 3 keys are there`)
			time.Sleep(900*time.Millisecond - 1)
			_, err = k.TryAcquire("d")
			mustSay(t, err, throttle.ErrTooManyKeys)
			time.Sleep(1) // b is full, though a was used before it
			use("d", 1)
			haveKeys(t, k, 3)
			knows(t, k, "b", false)
			time.Sleep(10 * time.Second)
			use("a", 1)
			time.Sleep(10 * time.Second)
			use("e", 1)
			knows(t, k, "c", false)
			time.Sleep(10 * time.Second)
			mustDo(t, k.PauseFor("a", time.Minute))
			mustDo(t, k.SetQuota("e", throttle.Quota{Rate: throttle.PerSecond(1), Burst: 2}))
			use("f", 1)
			knows(t, k, "d", false)
			_, err = k.TryAcquire("g")
			mustSay(t, err, throttle.ErrTooManyKeys)
			time.Sleep(time.Second)
			use("g", 1)
			knows(t, k, "f", false)
			knows(t, k, "a", true)
			_, err = k.TryAcquire("h")
			mustSay(t, err, throttle.ErrTooManyKeys)
			mustDo(t, k.Reset("e"))
			use("h", 1)
			knows(t, k, "e", false)
			haveKeys(t, k, 3)
		})
	}
}

func TestKeyed_MaxKeysSpareWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyedFrom(t, throttle.KeyedConfig[string]{Config: throttle.Config{MaxInFlight: 1}, MaxKeys: 1})
		p, err := k.TryAcquire("a")
		mustDo(t, err)
		_, err = k.TryAcquire("b")
		mustSay(t, err, throttle.ErrTooManyKeys)
		p.Release()
		passKey(t, k, "b", 1, 1) // at the same instant

		rate := newKeyedFrom(t, throttle.KeyedConfig[string]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 1}, MaxKeys: 1})
		passKey(t, rate, "a", 1, 1)
		waits := joinKey(t.Context(), rate, "a")
		time.Sleep(500 * time.Millisecond)
		if _, err := rate.Acquire(t.Context(), "b"); !errors.Is(err, throttle.ErrTooManyKeys) {
			t.Fatalf("got %v; want ErrTooManyKeys", err)
		}
		waits.leave()
		time.Sleep(500*time.Millisecond - 1)
		passKey(t, rate, "b", 1, 0)
		time.Sleep(1)
		passKey(t, rate, "b", 1, 1)
		passKey(t, rate, "c", 1, 0)
		mustDo(t, rate.SetQuotaAll(throttle.Quota{Rate: throttle.PerSecond(1000), Burst: 1}))
		time.Sleep(time.Millisecond)
		passKey(t, rate, "c", 1, 1)
	})
}

func TestKeyed_RefuseNewKeepsIdleKeysUnlessLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 1}, MaxKeys: 20, WhenFull: throttle.RefuseNew})
		for i := range 20 {
			passKey(t, k, i, 1, 1)
		}
		for i := range 100 {
			_, err := k.TryAcquire(100 + i)
			mustSay(t, err, throttle.ErrTooManyKeys)
		}
		time.Sleep(time.Second)
		refused := 0
		for i := range 20 {
			if _, err := k.TryAcquire(200 + i); err != nil {
				refused++
			}
		}
		if refused < 5 {
			t.Errorf("%d of 20 new keys refused; want most, for few meet an idle one", refused)
		}
		time.Sleep(time.Second)
		k.EvictIdle()
		haveKeys(t, k, 0)
		passKey(t, k, 100, 1, 1)
	})
}

// A flood of fresh keys leaves about twice as many as are not full yet, whatever their number; a busy key is none the better for it.
func TestKeyed_FloodOfFreshKeysIsBounded(t *testing.T) {
	for _, c := range []throttle.Config{
		{Rate: throttle.PerSecond(1), Burst: 5},
		{Rate: throttle.PerSecond(1), Burst: 5, MaxInFlight: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[int](t, c)
			most := 0
			passed := 0
			for i := range 60000 { // 2,000 a second: so many are not full
				p, err := k.TryAcquire(i)
				mustDo(t, err)
				p.Release()
				if p, err := k.TryAcquire(-1); err == nil {
					p.Release()
					passed++
				}
				time.Sleep(500 * time.Microsecond)
				if i > 10000 {
					most = max(most, k.Len())
				}
			}
			if most > 2*2000+64*looksPerKey {
				t.Errorf("%d keys; want about twice 2,000 at most", most)
			}
			if passed != 5+29 {
				t.Errorf("the busy key passed %d times in 30 s; want 34", passed)
			}
			time.Sleep(5 * time.Second)
			k.EvictIdle()
			haveKeys(t, k, 0)
		})
	}
}

// A key in use is not made anew, though it is full each time, and though many new ones come.
func TestKeyed_FloodSparesKeysInUse(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	k := newKeyed[int](t, throttle.Config{Rate: throttle.PerSecond(1000), Burst: 1, MaxInFlight: 1, Clock: clock})
	for i := range 10000 {
		for _, key := range []int{-1, i} {
			p, err := k.TryAcquire(key)
			mustDo(t, err)
			p.Release()
			clock.Advance(time.Millisecond)
		}
	}
	if s, _ := k.Stats(-1); s.Started != 10000 {
		t.Errorf("its limiter counts %d starts; want 10000", s.Started)
	}
}

// Of more keys than one search looks at, one that is idle is found by the second.
func TestKeyed_MaxKeysSearchesGoOn(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock}, MaxKeys: 30000})
	for idle := range 30 {
		passKey(t, k, -1-idle, 1, 1)
		clock.Advance(500 * time.Millisecond)
		for i := 1; k.Len() < 30000; i++ {
			_, _ = k.TryAcquire(i)
		}
		for i := 1; i < 30000; i++ { // all others are used again
			_, _ = k.TryAcquire(i)
		}
		clock.Advance(500 * time.Millisecond)
		_, first := k.TryAcquire(100000 + idle)
		_, second := k.TryAcquire(100000 + idle)
		if first != nil && errors.Is(second, throttle.ErrTooManyKeys) {
			t.Fatalf("round %d: %v", idle, second)
		}
		knows(t, k, -1-idle, false)
		clock.Advance(500 * time.Millisecond)
		k.Delete(100000 + idle)
		clock.Advance(500 * time.Millisecond)
		k.Delete(100000 + idle)
		knows(t, k, 100000+idle, false)
	}
}

// looksPerKey is how many others a new key looks at, as Keyed says.
const looksPerKey = 4
