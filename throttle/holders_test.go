package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// exportNightly and servePage are the callers whose names are looked for.
func exportNightly(ctx context.Context, l *throttle.Limiter) (throttle.Permit, error) {
	return l.Acquire(throttle.WithLabel(ctx, "nightly export"))
}

func servePage(l *throttle.Limiter) (throttle.Permit, error) {
	return l.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: 2})
}

func mustBe(t *testing.T, h throttle.Holder, weight int64, since time.Duration, label, function string) {
	t.Helper()
	switch {
	case h.Weight != weight || h.Since.Sub(bubbleStart) != since || h.Label != label:
		t.Errorf("the holder is %v; want weight %d since %v, label %q", h, weight, since, label)
	case len(h.Frames) == 0 || !strings.HasSuffix(h.Frames[0].Function, "."+function) || !strings.HasSuffix(h.Frames[0].File, "_test.go"):
		t.Errorf("%v was acquired at %+v; want in %s", h, h.Frames, function)
	}
}

func TestHolders_WhoSinceWhenAndWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "db", MaxInFlight: 3, Holders: true})
		first, err := exportNightly(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		second, err := servePage(l)
		if err != nil {
			t.Fatal(err)
		}
		var third throttle.Permit
		go func() { third, err = exportNightly(t.Context(), l) }()
		time.Sleep(time.Second)
		held := l.Holders()
		if len(held) != 2 { // who waits holds nothing
			t.Fatalf("%d hold permits: %v; want 2", len(held), held)
		}
		mustBe(t, held[0], 1, 0, "nightly export", "exportNightly")
		mustBe(t, held[1], 2, time.Second, "", "servePage")
		if held[0].ID != first.ID() || held[1].ID != second.ID() || held[0].Limiter != "db" {
			t.Errorf("%v; want the permits' ids and the limiter's name", held)
		}
		want := `"db": weight 1 since 2000-01-01T00:00:00Z, by "nightly export", github.com/turnstile-go/turnstile/throttle_test.exportNightly (`
		if got := held[0].String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s; want %s...", got, want)
		}
		first.Release()
		first.Release() // C8
		synctest.Wait()
		if err != nil {
			t.Fatal(err)
		}
		held = l.Holders()
		if len(held) != 2 || held[1].ID != third.ID() {
			t.Fatalf("%v; want the one that waited among them", held)
		}
		mustBe(t, held[1], 1, 2*time.Second, "nightly export", "exportNightly") // since its start, not since it came
		second.Release()
		third.Release()
		if held = l.Holders(); len(held) != 0 {
			t.Errorf("%v; want nobody after all releases", held)
		}
	})
}

func TestHolders_AParentListsThoseBelowAndAChildItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		above := newLimiter(t, throttle.Config{Name: "host", MaxInFlight: 9, Holders: true})
		tenant := newLimiter(t, throttle.Config{Name: "tenant", Parent: above, MaxInFlight: 5})
		other := newLimiter(t, throttle.Config{Name: "other", Parent: above, Holders: true})
		permits := []throttle.Permit{mustTry(t, tenant, 1, 1), mustTry(t, other, 1, 1), mustTry(t, above, 1, 1)}
		names := ""
		for _, h := range above.Holders() {
			names += h.Limiter + " "
		}
		if names != "tenant other host " {
			t.Errorf("the parent lists %q; want all three", names)
		}
		if n, m := len(tenant.Holders()), len(other.Holders()); n != 0 || m != 1 {
			t.Errorf("the children list %d and %d; want 0, which has no Config.Holders, and 1", n, m)
		}
		for _, p := range permits {
			p.Release()
		}
		if n := len(above.Holders()) + len(other.Holders()); n != 0 {
			t.Errorf("%d are listed after all releases", n)
		}
	})
}

func TestHolders_ACallMadeAgainIsListedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 1, Holders: true})
		p, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := p.ID()
		p, err = l.AcquireAgain(throttle.WithLabel(t.Context(), "second attempt"), p, throttle.One)
		if err != nil {
			t.Fatal(err)
		}
		held := l.Holders()
		if len(held) != 1 || held[0].ID != id || held[0].Label != "second attempt" || held[0].Since.Sub(bubbleStart) != time.Second {
			t.Errorf("%v; want the second attempt, since 1s, under the id of the first", held)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err = l.AcquireAgain(ctx, p, throttle.One); err == nil || len(l.Holders()) != 0 {
			t.Errorf("%v, and %v; want a refusal, after which nobody holds", err, l.Holders())
		}
	})
}

func TestHolders_NothingIsKeptUnderLoad(t *testing.T) {
	k, err := throttle.NewKeyed[int](throttle.Config{MaxInFlight: 2, MaxQueue: 3, Holders: true})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 300 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+j)%5 == 0 {
					go cancel()
				}
				p, err := k.Acquire(ctx, j%3)
				if err == nil {
					for _, h := range k.Holders(j % 3) {
						if h.Weight != 1 || len(h.Frames) == 0 {
							t.Errorf("a holder is %+v", h)
						}
					}
					p.Release()
					p.Release()
				} else if !errors.Is(err, context.Canceled) && !errors.Is(err, throttle.ErrQueueFull) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for key, h := range k.AllHolders() {
		t.Errorf("key %d keeps %v", key, h)
	}
	p, err := k.Acquire(context.Background(), 7)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for key, h := range k.AllHolders() {
		n++
		if key != 7 || h.ID != p.ID() {
			t.Errorf("key %d holds %v; want key 7 only", key, h)
		}
	}
	if n != 1 {
		t.Errorf("%d hold permits; want 1", n)
	}
	if k.Holders(99) != nil || k.Len() > 4 {
		t.Error("asking for an unknown key made it")
	}
	p.Release()
}

func TestHolders_WhereNothingIsHeldTheConfigIsWrong(t *testing.T) {
	_, err := throttle.New(throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Holders: true})
	if !errors.Is(err, throttle.ErrInvalid) || !strings.Contains(err.Error(), "Holders is set, but no permit is held") {
		t.Errorf("%v; want ErrInvalid, which says why", err)
	}
	if l := newLimiter(t, throttle.Config{MaxInFlight: 1}); l.Holders() != nil {
		t.Error("a limiter without Config.Holders lists some")
	}
}

func ExampleHolder() {
	db, err := throttle.New(throttle.Config{Name: "db", MaxInFlight: 2, Holders: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := db.Acquire(throttle.WithLabel(context.Background(), "nightly export"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range db.Holders() {
		fmt.Printf("%s holds %d, acquired in %s\n", h.Label, h.Weight, h.Frames[0].Function)
	}
	permit.Release()
	fmt.Println(len(db.Holders()), "left")
	// Output:
	// nightly export holds 1, acquired in github.com/turnstile-go/turnstile/throttle_test.ExampleHolder
	// 0 left
}
