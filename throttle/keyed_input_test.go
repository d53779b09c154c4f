package throttle_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestKeyed_CloseTurnsEverybodyAway(t *testing.T) {
	for _, c := range []throttle.Config{{Name: "n", Rate: throttle.PerHour(1), Burst: 1}, {Name: "n", Rate: throttle.PerHour(1), Burst: 1, MaxInFlight: 5}} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed[string](t, c)
			passKey(t, k, "a", 1, 1)
			passKey(t, k, "b", 1, 1)
			waits := joinKey(t.Context(), k, "a")
			waits.mustWait(t)
			k.Close()
			k.Close()
			if !waits.over() || !errors.Is(waits.err, throttle.ErrClosed) {
				t.Fatalf("got %v; want ErrClosed", waits.err)
			}
			for _, key := range []string{"a", "b", "new"} {
				_, err := k.TryAcquire(key)
				mustSay(t, err, throttle.ErrClosed, `"n"`)
				_, err = k.Acquire(t.Context(), key)
				mustSay(t, err, throttle.ErrClosed)
			}
			haveKeys(t, k, 2)
		})
	}
}

func TestKeyed_AllMayBeUsedInItsLoop(t *testing.T) {
	k := newKeyed[int](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 3})
	for i := range 1000 {
		passKey(t, k, i, 1+i%3, 1+i%3)
	}
	seen := make(map[int]bool)
	for key, s := range k.All() {
		if seen[key] || s.Tokens != int64(2-key%3) || s.Own {
			t.Fatalf("key %d: seen %v, %+v", key, seen[key], s)
		}
		seen[key] = true
		_, _ = k.TryAcquire(key)
		k.Delete(key)
		if len(seen) == 900 {
			break
		}
	}
	if len(seen) != 900 {
		t.Fatalf("%d keys seen; want 900", len(seen))
	}
}

func TestKeyed_BadInput(t *testing.T) {
	rate := throttle.Config{Name: "n", Rate: throttle.PerSecond(1), Burst: 3}
	for _, c := range []struct {
		config throttle.KeyedConfig[int]
		want   string
	}{
		{throttle.KeyedConfig[int]{}, "KeyedConfig: Config: no limit is set"},
		{throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1)}}, "Config: Burst is 0"},
		{throttle.KeyedConfig[int]{Config: rate, MaxKeys: -1}, "MaxKeys is -1"},
		{throttle.KeyedConfig[int]{Config: rate, WhenFull: throttle.RefuseNew}, "MaxKeys is not set"},
		{throttle.KeyedConfig[int]{Config: rate, MaxKeys: 1, WhenFull: 9}, "WhenFull is 9"},
		{throttle.KeyedConfig[int]{Config: throttle.Config{Semaphore: newSemaphore(t, 1), Trace: &throttle.Trace{LimitChanged: func(throttle.Event) {}}}}, "LimitChanged"},
	} {
		_, err := throttle.NewKeyedFrom(c.config)
		mustSay(t, err, throttle.ErrInvalid, c.want)
	}
	k := newKeyed[any](t, rate)
	_, err := k.TryAcquire([]int{1})
	mustSay(t, err, throttle.ErrInvalid, "the key is a []int, which cannot be compared")
	_, err = k.TryAcquire(struct{ a any }{func() {}})
	mustSay(t, err, throttle.ErrInvalid, "cannot be compared")
	_, err = k.Acquire(t.Context(), math.NaN())
	mustSay(t, err, throttle.ErrInvalid, "the key is NaN, which does not equal itself")
	mustSay(t, k.SetQuota([]int{}, throttle.Quota{}), throttle.ErrInvalid, "[]int")
	mustSay(t, k.Reset([]int{}), throttle.ErrInvalid, "[]int")
	if _, ok := k.Stats([]int{}); ok || !k.Delete([]int{}) {
		t.Error("a key that cannot be is known")
	}
	_, err = k.Acquire(nil, 1) //nolint:staticcheck // a nil context is what is tested
	mustSay(t, err, throttle.ErrInvalid, "the context is nil")
	haveKeys(t, k, 0)
	_, err = k.TryAcquireCost(1, throttle.Cost{Tokens: 0})
	mustSay(t, err, throttle.ErrInvalid, "cost is 0 tokens; want 1 to 3")
	_, err = k.AcquireCost(t.Context(), 1, throttle.Cost{Tokens: 4})
	mustSay(t, err, throttle.ErrTooLarge, "4 is above the burst 3")
	_, err = k.TryAcquireCost(1, throttle.Cost{Tokens: 1, Weight: -1})
	mustSay(t, err, throttle.ErrInvalid, "weight is -1")
	_, err = k.TryAcquireCost(1, throttle.Cost{Tokens: 1, Quotas: map[string]int64{"x": 1}})
	mustSay(t, err, throttle.ErrInvalid, `"x"`)
	passKey(t, k, any(1), 4, 3)

	for _, none := range []*throttle.Keyed[int]{nil, new(throttle.Keyed[int])} {
		_, err = none.TryAcquire(1)
		mustSay(t, err, throttle.ErrInvalid, "NewKeyed")
		_, err = none.Acquire(t.Context(), 1)
		mustSay(t, err, throttle.ErrInvalid, "NewKeyed")
		mustSay(t, none.SetQuota(1, throttle.Quota{}), throttle.ErrInvalid)
		mustSay(t, none.SetQuotaAll(throttle.Quota{}), throttle.ErrInvalid)
		mustSay(t, none.PauseFor(1, 1), throttle.ErrInvalid)
		mustSay(t, none.Reset(1), throttle.ErrInvalid)
		none.Close()
		haveKeys(t, none, 0)
		evict(t, none, 0)
	}
}

func TestKeyed_AllocatesNothingOnAKnownKey(t *testing.T) {
	type pair struct {
		tenant string
		route  int
	}
	k := newKeyed[pair](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1 << 40})
	capped := newKeyed[pair](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1 << 40, MaxInFlight: 5})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, f := range map[string]func() error{
		"TryAcquire": func() error { _, err := k.TryAcquire(pair{"a", 1}); return err },
		"Acquire":    func() error { _, err := k.Acquire(ctx, pair{"a", 1}); return err },
		"capped":     func() error { p, err := capped.Acquire(ctx, pair{"a", 1}); p.Release(); return err },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times; want 0", name, n)
		}
	}
}

func TestKeyed_HoldsAKeyInAtMost120Bytes(t *testing.T) {
	if testing.Short() {
		t.Skip("a million keys take their time: run it without -short")
	}
	bytes, k := bytesPerKey(t, 1000000)
	if bytes > 120 {
		t.Errorf("%.1f bytes a key; want 120 at most", bytes)
	}
	if k.Len() != 1000000 {
		t.Errorf("%d keys; want 1000000", k.Len())
	}
}

// Whatever Go can compare is a key, and is told apart by its type too.
func TestKeyed_AnyComparableKey(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.Config{Rate: throttle.PerHour(1), Burst: 1, Clock: clock}
	passKey(t, newKeyed[[16]byte](t, c), [16]byte{1}, 2, 1)
	passKey(t, newKeyed[float64](t, c), 1.5, 2, 1)
	passKey(t, newKeyed[*int](t, c), new(int), 2, 1)
	k := newKeyed[any](t, c)
	for i, key := range []any{1, int64(1), "1", nil, struct{}{}, [2]string{}, 1.0} {
		passKey(t, k, key, 2, 1)
		haveKeys(t, k, i+1)
	}
}
