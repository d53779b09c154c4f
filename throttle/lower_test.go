package throttle_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestLowerTo_TakesWhatIsAboveAndNeverAdds(t *testing.T) {
	for kind, quota := range map[string]throttle.Quota{
		"continuous": {Rate: throttle.Rate{N: 1, Period: time.Minute}, Burst: 10},
		"at most":    throttle.AtMost(10, time.Hour),
		"interval":   throttle.FixedWindow(10, time.Hour),
	} {
		t.Run(kind, func(t *testing.T) {
			clock := fake.NewClock(time.Time{})
			l := newLimiter(t, throttle.Config{Clock: clock, Quotas: []throttle.Quota{named("q", quota)}})
			left := func() int64 { return l.Quotas()[0].Tokens }
			for _, step := range []struct{ to, want int64 }{{12, 10}, {10, 10}, {7, 7}, {9, 7}, {0, 0}, {5, 0}} {
				if err := l.LowerTo("q", step.to); err != nil {
					t.Fatal(err)
				}
				if left() != step.want {
					t.Fatalf("lowered to %d: %d are left; want %d", step.to, left(), step.want)
				}
			}
			if _, err := l.TryAcquire(); err == nil {
				t.Error("a start with nothing left")
			}
			clock.Advance(time.Hour)
			if left() != 10 {
				t.Errorf("an hour later %d are left; want 10, as after starts", left())
			}
		})
	}
}

func TestLowerTo_HoldsForThoseInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 5})
		mustTry(t, l, 4, 1)
		w := join(t.Context(), l, 3, 1) // due at 2 s
		time.Sleep(time.Second)
		if err := l.LowerTo("", 0); err != nil { // 2 were there
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		w.mustStartAt(t, 4*time.Second)
	})
}

func TestLowerTo_AParentHoldsItsChildrenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 5})
		child := newLimiter(t, throttle.Config{Parent: parent})
		if err := parent.LowerTo("", 1); err != nil {
			t.Fatal(err)
		}
		join(t.Context(), child, 1, 1).mustStartAt(t, 0)
		w := join(t.Context(), child, 1, 1)
		time.Sleep(time.Second)
		w.mustStartAt(t, time.Second)
	})
}

func TestLowerTo_IsNotUndoneBySettling(t *testing.T) {
	l, _ := settled(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
	p := mustTry(t, l, 6, 1) // 4 left
	if err := l.LowerTo("", 1); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, p, 2) // gives back 4 of its own, not the 3 of the server's
	if got := l.Stats().Tokens; got != 5 {
		t.Errorf("%d tokens; want 5", got)
	}
}

func TestLowerTo_ADebtStays(t *testing.T) {
	l, _ := settled(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
	mustSettle(t, mustTry(t, l, 10, 1), 14)
	if err := l.LowerTo("", 0); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats().Tokens; got != -4 {
		t.Errorf("%d tokens; want -4: what is owed is neither forgiven nor doubled", got)
	}
}

func TestLowerTo_AKeyAlone(t *testing.T) {
	k, err := throttle.NewKeyed[string](throttle.Config{Rate: throttle.PerSecond(1), Burst: 5, Clock: fake.NewClock(time.Time{})})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.LowerTo("a", "", 1); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"a": 1, "b": 5} {
		n := 0
		for ; ; n++ {
			if _, err := k.TryAcquire(key); err != nil {
				break
			}
		}
		if n != want {
			t.Errorf("%s: %d starts; want %d", key, n, want)
		}
	}
}

func TestLowerTo_SaysWhatIsWrong(t *testing.T) {
	l := newLimiter(t, throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 5})
	none := newLimiter(t, throttle.Config{MaxInFlight: 1})
	for name, err := range map[string]error{
		"an unknown quota": l.LowerTo("x", 1), "below 0": l.LowerTo("", -1), "no quota": none.LowerTo("", 1), "nil": (*throttle.Limiter)(nil).LowerTo("", 1),
	} {
		if !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("%s: got %v; want ErrInvalid", name, err)
		}
	}
	if err := l.LowerTo("api", 2); err != nil || l.Stats().Tokens != 2 {
		t.Errorf("by the limiter's name: %v, %d tokens; want 2", err, l.Stats().Tokens)
	}
}

func TestLowerTo_AFrontThatAsksAboveWaitsForItsTokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		child := newLimiter(t, throttle.Config{Parent: parent, Rate: throttle.Rate{N: 1, Period: 2 * time.Second}, Burst: 1})
		mustTry(t, parent, 1, 1)
		w := join(t.Context(), child, 1, 1) // has its own token; the parent's is due at 1 s
		time.Sleep(time.Second / 2)
		if err := child.LowerTo("", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.mustStartAt(t, 2500*time.Millisecond)
	})
}

func TestLowerTo_MakesNoRoomToSettle(t *testing.T) {
	l, clock := settled(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
	p := mustTry(t, l, 6, 1)
	clock.Advance(6 * time.Second) // full: had less been charged, nothing more would be there
	if err := l.LowerTo("", 1); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, p, 0)
	if got := l.Stats().Tokens; got != 1 {
		t.Errorf("%d tokens; want the server's 1", got)
	}
}
