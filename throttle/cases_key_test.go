package throttle_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind KEY: keys are forgotten when that changes nothing, one at a time, and told apart. KEY-05 is the
// race of use and forgetting, in keyed_race_test.go too.

func TestKEY_01_DrainedSlowBucketIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{Rate: throttle.Per(1, 1000*time.Second), Burst: 10})
		passKey(t, k, "drained", 11, 10)
		for range 301 {
			time.Sleep(time.Second)
			passKey(t, k, time.Now().String(), 1, 1)
			k.EvictIdle()
		}
		passKey(t, k, "drained", 1, 0)
		_, err := k.TryAcquire("drained")
		var notYet *throttle.NotYetError
		if !errors.As(err, &notYet) || notYet.RetryAfter != 699*time.Second {
			t.Errorf("got %v; want 699s to wait", err)
		}
		time.Sleep(9698 * time.Second) // the others are full, it is not
		k.EvictIdle()
		knows(t, k, "drained", true)
		haveKeys(t, k, 1)
		time.Sleep(300 * time.Second)
		evict(t, k, 1)
	})
}

func TestKEY_02_FloodOfNewKeysResetsNobody(t *testing.T) {
	const bound = 10000
	for _, when := range []throttle.WhenFull{throttle.ForgetIdle, throttle.RefuseNew} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(20), Burst: 20}, MaxKeys: bound, WhenFull: when})
			flood := func(from int) (refused int) {
				for i := range bound + 1 {
					if _, err := k.TryAcquire(from + i); err != nil {
						mustSay(t, err, throttle.ErrTooManyKeys, "MaxKeys 10000")
						refused++
					}
					if k.Len() > bound {
						t.Fatalf("%d keys; want %d at most", k.Len(), bound)
					}
				}
				return refused
			}
			passKey(t, k, -1, 21, 20)
			if refused := flood(0); refused != 2 {
				t.Errorf("%d new keys refused; want 2, for none is full", refused)
			}
			passKey(t, k, -1, 1, 0)
			time.Sleep(50 * time.Millisecond) // all are full again, but for the busy one
			refused := flood(bound + 1)
			if when == throttle.ForgetIdle && refused != 2 {
				t.Errorf("%d new keys refused; want 2, for the others take the places of full ones", refused)
			}
			passKey(t, k, -1, 2, 1)
		})
	}
}

func TestKEY_03_RotatingKeysDoNotExhaustMemory(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock}
	bound := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: c, MaxKeys: 10000})
	n := 1000000
	if testing.Short() {
		n = 100000
	}
	for i := range n {
		if i%10000 == 0 {
			clock.Advance(time.Second)
		}
		if _, err := bound.TryAcquire(i); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
		if bound.Len() > 10000 {
			t.Fatalf("%d keys; want 10000 at most", bound.Len())
		}
	}
	free := newKeyed[int](t, c)
	passKey(t, free, -1, 1, 1)
	before := heapInUse()
	for i := range 200000 {
		passKey(t, free, i, 1, 1)
	}
	peak := heapInUse()
	clock.Advance(time.Second)
	evict(t, free, 200001)
	if after := heapInUse(); after > before && after-before > (peak-before)/10 {
		t.Errorf("%d bytes are kept of %d; want a tenth at most", after-before, peak-before)
	}
	passKey(t, free, -1, 2, 1)
}

func TestKEY_04_TwoKeyedShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 10})
		hour := newKeyed[string](t, throttle.Config{Rate: throttle.PerHour(30), Burst: 30})
		for hit := range int64(10) {
			passKey(t, second, "a", 1, 1)
			passKey(t, hour, "a", 1, 1)
			if s, _ := hour.Stats("a"); s.Tokens != 29-hit {
				t.Errorf("hit %d: %d left of the hour; want %d", hit, s.Tokens, 29-hit)
			}
			time.Sleep(700 * time.Millisecond)
			second.EvictIdle()
			hour.EvictIdle()
		}
	})
}

func TestKEY_05_OneBucketALiveKey(t *testing.T) {
	raceKeys(t, throttle.Config{MaxQueue: 1000}, 0)
}

func TestKEY_06_ForgettingDoesNotEndTheLimit(t *testing.T) {
	for _, c := range []throttle.Config{
		{Quotas: []throttle.Quota{throttle.FixedWindow(60, time.Minute)}},
		{Rate: throttle.PerMinute(60), Burst: 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[string](t, c)
			passed := 0
			for minute := 1; minute <= 5; minute++ {
				for range 92 {
					if _, err := k.TryAcquire("a"); err == nil {
						passed++
					}
					k.EvictIdle()
					time.Sleep(time.Minute / 92)
				}
				time.Sleep(time.Minute - 92*(time.Minute/92))
				want := 60 * minute
				if c.Burst != 0 {
					want = 60 + 60*minute // at most, and it is more than a minute's 60 in the first
				}
				if passed > want || c.Burst == 0 && passed != want {
					t.Errorf("%d passed in %d minutes; want %d", passed, minute, want)
				}
			}
		})
	}
}

// readClock counts how often it is read: once each time that a lock is held.
type readClock struct {
	*fake.Clock
	reads atomic.Int64
}

func (c *readClock) Now() time.Time {
	c.reads.Add(1)
	return c.Clock.Now()
}

// No lock is held for more than 1,024 looks.
func TestKEY_10_SweepHoldsNoLockForLong(t *testing.T) {
	clock := &readClock{Clock: fake.NewClock(time.Time{})}
	k := newKeyed[int](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1, Clock: clock})
	const n = 200000
	for i := range n {
		_, _ = k.TryAcquire(i)
	}
	before := clock.reads.Load()
	evict(t, k, 0)
	if holds := clock.reads.Load() - before; holds < n/1024 {
		t.Errorf("the locks were held %d times for %d looks; want %d at least", holds, n, n/1024)
	}
	// A new key looks at four others, and no more: none of a hundred finds all 200,000 full ones.
	clock.Advance(time.Hour)
	for i := range 100 {
		_, _ = k.TryAcquire(n + i)
	}
	if k.Len() < n-400+100 {
		t.Errorf("%d keys after 100 new ones; want %d at least", k.Len(), n-300)
	}
}

func TestKEY_11_InstantsInTheFutureForgetNothing(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	k := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 2, Clock: clock})
	mustDo(t, k.SetQuota("own", throttle.Quota{Rate: throttle.PerMinute(1), Burst: 2}))
	passKey(t, k, "own", 2, 2)
	passKey(t, k, "plain", 2, 2)
	clock.Step(-time.Hour)
	evict(t, k, 0)
	for i := range 100 {
		_, _ = k.TryAcquire(strings.Repeat("x", i)) // sweeps
	}
	passKey(t, k, "own", 1, 0)
	passKey(t, k, "plain", 1, 0)
	clock.Advance(2 * time.Hour)
	k.EvictIdle()
	haveKeys(t, k, 1)
	passKey(t, k, "own", 3, 2)
	_, err := k.TryAcquire("own")
	mustSay(t, err, err, "rate 1/min (burst 2)")
}

func TestKEY_13_TwoLimitsOnOneResourceCountApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newKeyed[string](t, throttle.Config{Name: "all", Rate: throttle.PerMinute(200), Burst: 200})
		failures := newKeyed[string](t, throttle.Config{Name: "failures", Rate: throttle.PerMinute(2), Burst: 2})
		passKey(t, all, "sign-in", 201, 200)
		passKey(t, failures, "sign-in", 3, 2)
		// As two quotas of one limiter: a good request costs nothing of the second.
		both := newKeyed[string](t, throttle.Config{Quotas: []throttle.Quota{
			{Name: "all", Rate: throttle.PerMinute(200), Burst: 200},
			{Name: "failures", Rate: throttle.PerMinute(2), Burst: 2},
		}})
		good := throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"failures": 0}}
		for range 198 {
			_, err := both.TryAcquireCost("sign-in", good)
			mustDo(t, err)
		}
		passKey(t, both, "sign-in", 3, 2)
		_, err := both.TryAcquireCost("sign-in", good)
		mustSay(t, err, err, `"all", rate 200/min`)
	})
}
