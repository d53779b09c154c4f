package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// answers calls every method of l that may say no, and returns what each said.
func answers(ctx context.Context, l *throttle.Limiter) map[string]error {
	said := map[string]error{}
	keep := func(name string) func(throttle.Permit, error) {
		return func(p throttle.Permit, err error) {
			if err != nil && p != (throttle.Permit{}) {
				err = errors.Join(err, errors.New("and a permit came with it"))
			}
			p.Release()
			said[name] = err
		}
	}
	cost := throttle.Cost{Tokens: 1, Weight: 1}
	keep("Acquire")(l.Acquire(ctx))
	keep("AcquireN")(l.AcquireN(ctx, 1))
	keep("AcquireCost")(l.AcquireCost(ctx, cost))
	keep("TryAcquire")(l.TryAcquire())
	keep("TryAcquireN")(l.TryAcquireN(1))
	keep("TryAcquireCost")(l.TryAcquireCost(cost))
	said["Do"] = l.Do(ctx, func(context.Context) error { return errors.New("Do called its function") })
	said["Wait"] = l.Wait(ctx)
	return said
}

func TestLimiter_ZeroAndNilSayThatNewIsMissing(t *testing.T) {
	for name, l := range map[string]*throttle.Limiter{"nil": nil, "zero": new(throttle.Limiter)} {
		said := answers(t.Context(), l)
		said["SetRate"] = l.SetRate(throttle.PerSecond(1))
		said["SetBurst"] = l.SetBurst(1)
		said["SetQuota"] = l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1})
		said["SetMaxInFlight"] = l.SetMaxInFlight(1)
		said["Drain"] = l.Drain(t.Context())
		for method, err := range said {
			t.Run(name+" "+method, func(t *testing.T) { mustSay(t, err, throttle.ErrInvalid, "Limiter", "New") })
		}
		l.Close()
		l.Close()
		if s := l.Stats(); s != (throttle.Stats{}) {
			t.Errorf("%s: Stats are %+v; want zero", name, s)
		}
	}
}

func TestLimiter_SetQuotaOfAZeroLimiterSaysThatNewIsMissing(t *testing.T) {
	err := new(throttle.Limiter).SetQuota(throttle.Quota{Name: "api", Rate: throttle.PerSecond(1), Burst: 1})
	mustSay(t, err, throttle.ErrInvalid, "Limiter", "New")
}

func TestSemaphore_ZeroAndNilSayThatNewSemaphoreIsMissing(t *testing.T) {
	for _, s := range []*throttle.Semaphore{nil, new(throttle.Semaphore)} {
		mustSay(t, s.Resize(3), throttle.ErrInvalid, "Semaphore", "NewSemaphore")
		if s.Size() != 0 || s.InFlight() != 0 {
			t.Errorf("size %d and %d in flight; want 0 and 0", s.Size(), s.InFlight())
		}
	}
}

func TestBucket_ZeroAndNilRefuseEverything(t *testing.T) {
	for name, b := range map[string]*throttle.Bucket{"zero": new(throttle.Bucket), "nil": nil} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("Take panicked: %v", r)
				}
			}()
			for _, n := range []int64{-1, 0, 1, 2} {
				if d := b.Take(time.Now(), n); d != (throttle.Decision{RetryAfter: -1}) {
					t.Errorf("a take of %d: %+v; want never", n, d)
				}
			}
		})
	}
}

func TestBucket_TakesTheZeroTimeForAnInstant(t *testing.T) {
	b := newBucket(t, throttle.PerSecond(1), 1)
	if d := b.Take(time.Time{}, 1); !d.Allowed {
		t.Fatalf("at the zero Time: %+v", d)
	}
	if d := b.Take(time.Time{}.Add(time.Second), 1); !d.Allowed {
		t.Fatalf("a second later: %+v", d)
	}
	if d := b.Take(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 1); !d.Allowed { // counts as 292 years later
		t.Fatalf("millennia later: %+v", d)
	}
	if d := b.Take(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), 1); d.Allowed {
		t.Fatalf("back at the zero Time: %+v", d)
	}
}

func TestPermit_ZeroIsReleasedAlready(t *testing.T) {
	var p throttle.Permit
	p.Release()
	p.Release()
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1}) // no cap: nothing to release
	p = mustTry(t, l, 1, 1)
	p.Release()
	p.Release()
	if s := l.Stats(); s.DoubleReleases != 0 || s.InFlight != 0 {
		t.Fatalf("got %+v; want nothing counted without a cap", s)
	}
}

func TestContext_NilIsRefusedByNameAndTakesNothing(t *testing.T) {
	l := newLimiter(t, throttle.Config{Name: "api", Rate: throttle.Per(1, 100*year), Burst: 1})
	capped := newLimiter(t, throttle.Config{Name: "api", MaxInFlight: 1})
	var none context.Context
	for _, l := range []*throttle.Limiter{l, capped} {
		cost := throttle.Cost{Tokens: 1, Weight: 1}
		_, acquire := l.Acquire(none)
		_, acquireN := l.AcquireN(none, 1)
		_, acquireCost := l.AcquireCost(none, cost)
		do := l.Do(none, func(context.Context) error { panic("called") })
		for _, err := range []error{acquire, acquireN, acquireCost, do} {
			mustSay(t, err, throttle.ErrInvalid, "Acquire", "context is nil", "context.Background()")
		}
		mustSay(t, l.Drain(none), throttle.ErrInvalid, "Drain", "context is nil", "context.Background()")
		mustPass(t, l, 2, 1)
	}
	l = newLimiter(t, throttle.Config{Rate: throttle.Per(1, 100*year), Burst: 1})
	mustSay(t, l.Wait(none), throttle.ErrInvalid, "context is nil")
	mustPass(t, l, 2, 1)
}

func TestWait_IsRefusedWhereThereIsACap(t *testing.T) {
	for _, c := range []throttle.Config{
		{Name: "db", MaxInFlight: 1},
		{Name: "db", Semaphore: newSemaphore(t, 1)},
		{Name: "db", MaxInFlight: 1, Rate: throttle.Per(1, 100*year), Burst: 1},
	} {
		l := newLimiter(t, c)
		mustSay(t, l.Wait(t.Context()), throttle.ErrCapped, `"db"`, "Wait", "Do or Acquire")
		mustPass(t, l, 2, 1)
	}
}

func TestSetters_RefuseWhatTheLimiterHasNotAndWrongValues(t *testing.T) {
	q := throttle.Quota{Rate: throttle.PerSecond(7), Burst: 7}
	sem := newSemaphore(t, 2)
	capped := newLimiter(t, throttle.Config{Name: "db", MaxInFlight: 2})
	shared := newLimiter(t, throttle.Config{Name: "db", Semaphore: sem})
	rated := newLimiter(t, throttle.Config{Name: "db", Rate: throttle.Per(1, 100*year), Burst: 2})
	for _, l := range []*throttle.Limiter{capped, shared} {
		mustSay(t, l.SetRate(q.Rate), throttle.ErrInvalid, `"db"`, "SetRate", "no rate", "Config.Rate")
		mustSay(t, l.SetBurst(q.Burst), throttle.ErrInvalid, `"db"`, "SetBurst", "no rate", "Config.Rate")
		mustSay(t, l.SetQuota(q), throttle.ErrInvalid, `"db"`, "SetQuota", "no rate", "Config.Rate")
	}
	mustSay(t, rated.SetMaxInFlight(3), throttle.ErrUncapped, `"db"`, "SetMaxInFlight", "Config.MaxInFlight")
	mustSay(t, shared.SetMaxInFlight(3), throttle.ErrUncapped, `"db"`, "SetMaxInFlight", "shared", "Semaphore")
	mustSay(t, rated.Drain(t.Context()), throttle.ErrUncapped, `"db"`, "Drain", "not counted")
	for value, n := range map[string]int64{"-1": -1, "4611686018427387905": throttle.MaxCap + 1} {
		mustSay(t, capped.SetMaxInFlight(n), throttle.ErrInvalid, `"db"`, "MaxInFlight is "+value+";", "want 0 to 4611686018427387904")
		if n > 0 {
			n = throttle.MaxBurst + 1
		}
		mustSay(t, rated.SetBurst(n), throttle.ErrInvalid, `"db"`, "SetBurst", "Burst is "+value+";", "want 1 to 4611686018427387904")
	}
	for value, r := range map[string]throttle.Rate{
		"-7/s": throttle.PerSecond(-7), "7/0s": throttle.Per(7, 0), "7/1ns": throttle.Per(7, 1), "0/0s": {},
	} {
		mustSay(t, rated.SetRate(r), throttle.ErrInvalid, `"db"`, "SetRate", "Rate is "+value)
		mustSay(t, rated.SetQuota(throttle.Quota{Rate: r, Burst: 1}), throttle.ErrInvalid, `"db"`, "SetQuota", "Rate is "+value)
	}
	mustSay(t, rated.SetQuota(throttle.Quota{Name: "web", Rate: q.Rate, Burst: 9}), throttle.ErrInvalid, `"db"`, "SetQuota", `Name is "web"`, `want "db"`)
	for _, l := range []*throttle.Limiter{capped, rated} { // what was in force still is
		mustPass(t, l, 3, 2)
	}
	mustPass(t, shared, 3, 2)
}

func TestClose_TurnsEverybodyAwayAndKeepsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]throttle.Config{
			"rate": {Name: "api", Rate: throttle.Per(1, 100*year), Burst: 1},
			"cap":  {Name: "api", MaxInFlight: 1},
		} {
			l := newLimiter(t, c)
			held := mustTry(t, l, 1, 1)
			waiter := join(t.Context(), l, 1, 1)
			l.Close()
			l.Close()
			if !waiter.over() {
				t.Fatalf("%s: a waiter outlasts the close", name)
			}
			said := answers(t.Context(), l)
			said["the waiter"] = waiter.err
			_, said["a wrong cost"] = l.TryAcquireN(-1)
			for method, err := range said {
				want := throttle.ErrClosed
				if name == "cap" && method == "Wait" {
					want = throttle.ErrCapped
				}
				if !errors.Is(err, want) {
					t.Errorf("%s: %s says %v; want %v", name, method, err, want)
				}
				mustSay(t, err, want, `"api"`)
			}
			held.Release()
			if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.Started != 1 || s.DoubleReleases != 0 {
				t.Errorf("%s: at rest: %+v", name, s)
			}
			if name == "cap" {
				mustDo(t, l.SetMaxInFlight(5)) // limits may still change, and start nobody
				mustDo(t, l.Drain(t.Context()))
			} else {
				mustDo(t, l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(100), Burst: 100}))
			}
			mustPass(t, l, 3, 0)
		}
	})
}
