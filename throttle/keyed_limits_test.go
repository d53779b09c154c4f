package throttle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// C7 for keys: another rate for all reaches those who wait, those who wait not, and those to come; what was spent stays spent.
func TestKeyed_SetQuotaAllReachesEveryKey(t *testing.T) {
	for _, c := range []throttle.Config{
		{Name: "n", Rate: throttle.PerMinute(1), Burst: 2},
		{Name: "n", Rate: throttle.PerMinute(1), Burst: 2, MaxInFlight: 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[string](t, c)
			passKey(t, k, "busy", 3, 2)
			passKey(t, k, "half", 1, 1)
			mustDo(t, k.SetQuota("own", throttle.Quota{Rate: throttle.PerMinute(1), Burst: 2}))
			passKey(t, k, "own", 3, 2)
			waits := []*caller{joinKey(t.Context(), k, "busy"), joinKey(t.Context(), k, "busy")}
			time.Sleep(30 * time.Second)
			mustDo(t, k.SetQuotaAll(throttle.Quota{Rate: throttle.PerSecond(1), Burst: 3}))
			time.Sleep(500 * time.Millisecond)
			waits[0].mustStartAt(t, 30500*time.Millisecond) // half a token was there
			passKey(t, k, "half", 9, 2)                     // 1.5 before the change, 0.5 since; a raised burst adds none
			passKey(t, k, "new", 9, 3)
			passKey(t, k, "own", 1, 0)
			time.Sleep(time.Second)
			waits[1].mustStartAt(t, 31500*time.Millisecond)
			passKey(t, k, "half", 9, 1)
			passKey(t, k, "busy", 9, 0)
			time.Sleep(28500 * time.Millisecond)
			passKey(t, k, "own", 9, 1) // its own rate goes on
			passKey(t, k, "busy", 9, 3)

			for _, bad := range []throttle.Quota{{}, {Rate: throttle.PerSecond(1)}, {Name: "x", Rate: throttle.PerSecond(1), Burst: 1}, throttle.AtMost(1, time.Second)} {
				mustSay(t, k.SetQuotaAll(bad), throttle.ErrInvalid, "SetQuotaAll", `"n"`)
			}
			passKey(t, k, "newer", 9, 3)
		})
	}
}

func TestKeyed_SetQuotaAllByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daily := throttle.AtMost(2, 24*time.Hour)
		daily.Name = "daily"
		k := newKeyed[string](t, throttle.Config{Quotas: []throttle.Quota{daily}})
		passKey(t, k, "a", 3, 2)
		daily.Burst = 3
		mustDo(t, k.SetQuotaAll(daily))
		passKey(t, k, "a", 3, 1)
		passKey(t, k, "b", 4, 3)
		mustSay(t, k.SetQuotaAll(throttle.Quota{Name: "daily", Rate: throttle.PerSecond(1), Burst: 1}), throttle.ErrInvalid, "same kind")
		mustSay(t, k.SetQuotaAll(throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1}), throttle.ErrInvalid, "want Config.Rate")
	})
}

func TestKeyed_SetMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed[string](t, throttle.Config{MaxInFlight: 1})
		passKey(t, k, "a", 2, 1)
		mustDo(t, k.SetMaxInFlight("b", 2))
		mustDo(t, k.SetMaxInFlightAll(3))
		passKey(t, k, "a", 5, 2)
		passKey(t, k, "b", 5, 2)
		passKey(t, k, "c", 5, 3)
		mustSay(t, k.SetMaxInFlightAll(0), throttle.ErrInvalid, "MaxInFlight")
		rate := newKeyed[string](t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustSay(t, rate.SetMaxInFlightAll(1), throttle.ErrInvalid, "Config.MaxInFlight")
		mustSay(t, rate.SetMaxInFlight("a", 1), throttle.ErrUncapped)
		evict(t, rate, 1) // a setter that failed gives no limits of its own
	})
}

// A key with limits of its own is kept, full or not, until Reset or Delete.
func TestKeyed_OwnLimitsAreKept(t *testing.T) {
	for _, c := range []throttle.Config{
		{Rate: throttle.PerSecond(1), Burst: 1},
		{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[string](t, c)
			for _, key := range []string{"a", "b"} {
				mustDo(t, k.SetQuota(key, throttle.Quota{Rate: throttle.PerSecond(10), Burst: 10}))
				if s, ok := k.Stats(key); !ok || !s.Own || s.Tokens != 1 {
					t.Fatalf("got %+v; want limits of its own, and no token by that", s)
				}
			}
			mustSay(t, k.SetQuota("a", throttle.Quota{Rate: throttle.PerSecond(10)}), throttle.ErrInvalid)
			time.Sleep(time.Hour)
			evict(t, k, 0)
			var p throttle.Permit
			for range 8 {
				q, err := k.TryAcquire("a")
				mustDo(t, err)
				q.Release()
				p = q
			}
			if k.Delete("a") {
				t.Fatal("Delete forgot what is spent")
			}
			mustDo(t, k.Reset("a"))
			p.Release()
			if s, _ := k.Stats("a"); s.Own || s.Tokens != 1 {
				t.Fatalf("got %+v; want the burst of all", s)
			}
			passKey(t, k, "a", 2, 1)
			mustDo(t, k.Reset("unknown"))
			haveKeys(t, k, 2)
			if !k.Delete("b") {
				t.Fatal("Delete kept a full key")
			}
			haveKeys(t, k, 1)
			passKey(t, k, "b", 2, 1)
			mustDo(t, k.PauseFor("b", time.Hour)) // it may get the limiter that it had
			if s, _ := k.Stats("b"); s.Own || s.Paused != time.Hour {
				t.Fatalf("got %+v; want the limits of all, and a pause", s)
			}
		})
	}
}

// Limits by key hold again after a key was forgotten.
func TestKeyed_LimitsByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := throttle.Config{Name: "free", Rate: throttle.PerSecond(1), Burst: 1}
		gold := throttle.Config{Name: "gold", Rate: throttle.PerSecond(10), Burst: 10}
		asked := 0
		var k *throttle.Keyed[string]
		k = newKeyedFrom(t, throttle.KeyedConfig[string]{Config: base, Limits: func(key string) throttle.Config {
			asked++
			k.Stats(key) // no lock is held
			switch key {
			case "gold":
				return gold
			case "bad":
				return throttle.Config{Name: "worse", Rate: throttle.PerSecond(1)}
			}
			return base
		}})
		for range 3 {
			passKey(t, k, "gold", 11, 10)
			passKey(t, k, "a", 2, 1)
			time.Sleep(time.Second)
			evict(t, k, 2)
		}
		if asked != 6 {
			t.Errorf("Limits was called %d times; want 6", asked)
		}
		_, err := k.TryAcquire("bad")
		mustSay(t, err, throttle.ErrInvalid, `"worse"`, "Limits: Config: Burst is 0")
		haveKeys(t, k, 0)

		passKey(t, k, "gold", 11, 10)
		passKey(t, k, "a", 2, 1)
		gold.Burst, gold.Rate = 5, throttle.PerSecond(5)
		mustDo(t, k.Reset("gold"))
		base.Rate = throttle.PerSecond(2) // differs from the Config
		mustDo(t, k.Reset("a"))
		time.Sleep(500 * time.Millisecond)
		passKey(t, k, "a", 2, 1)
		passKey(t, k, "gold", 9, 2)
		time.Sleep(500*time.Millisecond - 1)
		evict(t, k, 0)
		time.Sleep(1)
		evict(t, k, 1)
		mustSay(t, k.SetQuotaAll(throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1}), throttle.ErrInvalid, "want Reset")
	})
}

// While Limits is asked for a new key, others may come for it: there is one bucket all the same.
func TestKeyed_OneBucketThoughLimitsAreAskedTwice(t *testing.T) {
	c := throttle.Config{Rate: throttle.PerHour(1), Burst: 5}
	passed := 0
	var k *throttle.Keyed[string]
	try := func() {
		if _, err := k.TryAcquire("a"); err == nil {
			passed++
		}
	}
	first := true
	k = newKeyedFrom(t, throttle.KeyedConfig[string]{Config: c, MaxKeys: 2, Limits: func(string) throttle.Config {
		if first {
			first = false
			for range 3 {
				try()
			}
		}
		return c
	}})
	for range 9 {
		try()
	}
	if passed != 5 {
		t.Errorf("%d passed; want 5", passed)
	}
	haveKeys(t, k, 1)
	passKey(t, k, "b", 1, 1)
}
