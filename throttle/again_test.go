package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// again has the holder of c's permit come again, and returns when it has its answer or waits in line.
func again(ctx context.Context, l *throttle.Limiter, c *caller, tokens int64) *caller {
	ctx, cancel := context.WithCancel(ctx)
	next := &caller{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(next.done)
		defer cancel()
		next.permit, next.err = l.AcquireAgain(ctx, c.permit, throttle.Cost{Tokens: tokens, Weight: 1})
		next.at = sinceStart()
	}()
	synctest.Wait()
	return next
}

// comeAgainIn are the shapes of limiter in which a call may come again: each makes one in which a start takes 1 s.
var comeAgainIn = map[string]func(testing.TB) *throttle.Limiter{
	"rate and cap": func(t testing.TB) *throttle.Limiter {
		return newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 8})
	},
	"no cap": func(t testing.TB) *throttle.Limiter {
		return newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Settled: true})
	},
	"settled": func(t testing.TB) *throttle.Limiter {
		return newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 8, Settled: true})
	},
	"one of several quotas": func(t testing.TB) *throttle.Limiter {
		return newLimiter(t, throttle.Config{MaxInFlight: 8, Quotas: []throttle.Quota{
			named("second", throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1}), named("day", throttle.AtMost(1000, 24*time.Hour)),
		}})
	},
	"child": func(t testing.TB) *throttle.Limiter {
		parent := newLimiter(t, throttle.Config{MaxInFlight: 8})
		return newLimiter(t, throttle.Config{Parent: parent, Rate: throttle.PerSecond(1), Burst: 1})
	},
	"parent": func(t testing.TB) *throttle.Limiter {
		parent := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		newLimiter(t, throttle.Config{Parent: parent, MaxInFlight: 8})
		return newLimiter(t, throttle.Config{Parent: parent, MaxInFlight: 8})
	},
}

func TestC3_ACallThatComesAgainStandsBeforeAllThatCameAfterIt(t *testing.T) {
	for shape, limiter := range comeAgainIn {
		t.Run(shape, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(t)
				a := join(t.Context(), l, 1, 1)
				b := join(t.Context(), l, 1, 1)
				a.mustStartAt(t, 0)
				c := join(t.Context(), l, 1, 1)
				d := join(t.Context(), l, 1, 1)
				time.Sleep(time.Second)
				b.mustStartAt(t, time.Second)
				b2 := again(t.Context(), l, b, 1) // before c and d
				a2 := again(t.Context(), l, a, 1) // and before b
				for i, x := range []*caller{a2, b2, c, d} {
					time.Sleep(time.Second)
					x.mustStartAt(t, time.Duration(i+2)*time.Second)
				}
				for _, x := range []*caller{a2, b2, c, d} {
					x.permit.Release()
				}
				if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.DoubleReleases != 0 {
					t.Errorf("at the end: %+v", s)
				}
			})
		})
	}
}

func TestC1_ACallThatComesAgainIsChargedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 2, MaxInFlight: 2, Trace: r.trace()})
		for range 2 {
			p, err := l.Acquire(t.Context())
			for range 20 {
				if err != nil {
					t.Fatal(err)
				}
				p, err = l.AcquireAgain(t.Context(), p, throttle.One)
			}
			p.Release()
		}
		var at []time.Time
		for i, e := range r.starts() {
			at = append(at, e.At)
			if want := r.starts()[i-i%21].ID; e.ID != want {
				t.Fatalf("start %d is of call %d; want the first one's, %d", i, e.ID, want)
			}
		}
		if len(at) != 42 {
			t.Fatalf("%d starts; want 42", len(at))
		}
		mustKeepRate(t, at, throttle.PerSecond(10), 2)
		if took := sinceStart(); took != 4*time.Second {
			t.Errorf("42 starts took %v; want 4s: 2 at once, 40 at 10/s", took)
		}
	})
}

func TestC5_APermitThatIsGivenBackToComeAgainServesAnotherLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSemaphore(t, 1)
		slow := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Semaphore: shared})
		other := newLimiter(t, throttle.Config{Semaphore: shared})
		a := join(t.Context(), slow, 1, 1)
		b := join(t.Context(), other, 1, 1)
		b.mustWait(t)
		a2 := again(t.Context(), slow, a, 1)
		b.mustStartAt(t, 0)
		time.Sleep(2 * time.Second)
		a2.mustWait(t)
		b.permit.Release()
		a2.mustStartAt(t, 2*time.Second)
		a2.permit.Release()
	})
}

func TestC6_TheWaitOfACallThatComesAgainIsThatOfItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 4, MaxInFlight: 8, MaxWait: time.Second})
		a := join(t.Context(), l, 3, 1)
		b := join(t.Context(), l, 1, 1)
		c := join(t.Context(), l, 1, 1) // due at 1 s
		b2 := again(t.Context(), l, b, 1)
		if b2.over() {
			t.Fatalf("%v; want it in line: it is due at 1 s", b2.err)
		}
		a2 := again(t.Context(), l, a, 2) // 2 s for its own cost, nobody ahead
		var yet *throttle.NotYetError
		if !a2.over() || !errors.As(a2.err, &yet) || yet.RetryAfter != 2*time.Second || yet.Ahead != 0 || yet.Reason != throttle.PastMaxWait {
			t.Fatalf("got %+v (%v); want a wait of 2s, nobody ahead", yet, a2.err)
		}
		if s := l.Stats(); s.InFlight != 0 || s.Waiting != 2 {
			t.Errorf("after the refusal: %+v; want its permit back", s)
		}
		time.Sleep(2 * time.Second)
		b2.mustStartAt(t, time.Second)
		c.mustStartAt(t, 2*time.Second)
		b2.permit.Release()
		c.permit.Release()
	})
}

func TestC8_EveryRefusalToComeAgainGivesThePermitBack(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	past, cancelPast := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancelPast()
	for name, c := range map[string]struct {
		ctx  context.Context
		cost throttle.Cost
		want error
	}{
		"no context":     {nil, throttle.One, throttle.ErrInvalid},
		"done":           {done, throttle.One, context.Canceled},
		"past":           {past, throttle.One, context.DeadlineExceeded},
		"above burst":    {context.Background(), throttle.Cost{Tokens: 3, Weight: 1}, throttle.ErrTooLarge},
		"above cap":      {context.Background(), throttle.Cost{Tokens: 1, Weight: 2}, throttle.ErrTooLarge},
		"negative":       {context.Background(), throttle.Cost{Tokens: -1, Weight: 1}, throttle.ErrInvalid},
		"unknown quota":  {context.Background(), throttle.Cost{Tokens: 1, Weight: 1, Quotas: map[string]int64{"x": 1}}, throttle.ErrInvalid},
		"above max wait": {context.Background(), throttle.Cost{Tokens: 2, Weight: 1}, throttle.ErrWouldExceed},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 2, MaxInFlight: 1, MaxWait: time.Second / 2})
			p := mustTry(t, l, 2, 1)
			again, err := l.AcquireAgain(c.ctx, p, c.cost)
			if !errors.Is(err, c.want) || again != (throttle.Permit{}) {
				t.Errorf("got %v, %v; want %v", again, err, c.want)
			}
			if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.DoubleReleases != 0 {
				t.Errorf("after it: %+v", s)
			}
			p.Release()
			if s := l.Stats(); s.DoubleReleases != 1 {
				t.Errorf("a release after it was not seen to be the second: %+v", s)
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		p := mustTry(t, l, 1, 1)
		l.Close()
		if _, err := l.AcquireAgain(t.Context(), p, throttle.One); !errors.Is(err, throttle.ErrClosed) {
			t.Errorf("got %v; want ErrClosed", err)
		}
		if s := l.Stats(); s.InFlight != 0 {
			t.Errorf("after it: %+v", s)
		}
	})
}

func TestC8_OnlyAnOpenPermitOfThisLimiterComesAgain(t *testing.T) {
	l := newLimiter(t, throttle.Config{Name: "l", MaxInFlight: 2})
	other := newLimiter(t, throttle.Config{Name: "other", MaxInFlight: 1})
	released := mustTry(t, l, 1, 1)
	released.Release()
	for name, p := range map[string]throttle.Permit{
		"the zero Permit": {}, "released": released, "another's": mustTry(t, other, 1, 1),
	} {
		if _, err := l.AcquireAgain(t.Context(), p, throttle.One); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("%s: got %v; want ErrInvalid", name, err)
		}
	}
	if s := l.Stats(); s.InFlight != 0 || s.DoubleReleases != 1 {
		t.Errorf("%+v; want the release of a released one counted, and no more", s)
	}
	if s := other.Stats(); s.InFlight != 0 {
		t.Errorf("the permit of another was not given back: %+v", s)
	}
	var none *throttle.Limiter
	if _, err := none.AcquireAgain(t.Context(), throttle.Permit{}, throttle.One); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("got %v; want ErrInvalid", err)
	}
}

func TestC8_APermitInLineAgainIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 1, Settled: true})
		a := join(t.Context(), l, 1, 1)
		a2 := again(t.Context(), l, a, 1)
		a.permit.Release()
		if err := a.permit.Settle(throttle.Cost{}); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("Settle of a permit in line: %v; want ErrInvalid", err)
		}
		if _, err := l.AcquireAgain(t.Context(), a.permit, throttle.One); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("AcquireAgain of a permit in line: %v; want ErrInvalid", err)
		}
		if s := l.Stats(); s.Waiting != 1 || s.InFlight != 0 || s.DoubleReleases != 2 {
			t.Errorf("%+v; want it in line still, and two double releases", s)
		}
		time.Sleep(time.Second)
		a2.mustStartAt(t, time.Second)
		a2.permit.Release()
	})
}

func TestC4_ACallThatLeavesWhileItWaitsAgainTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 1})
		a := join(t.Context(), l, 1, 1)
		b := join(t.Context(), l, 1, 1)
		a2 := again(t.Context(), l, a, 1)
		a2.leave()
		var left *throttle.LeftError
		if !a2.over() || !errors.As(a2.err, &left) || left.Ahead != 0 {
			t.Fatalf("got %v; want a LeftError, nobody ahead", a2.err)
		}
		time.Sleep(time.Second)
		b.mustStartAt(t, time.Second)
		b.permit.Release()
		if s := l.Stats(); s.Left != 1 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestC3_AKeysCallComesAgainToItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := throttle.NewKeyed[string](throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 2})
		if err != nil {
			t.Fatal(err)
		}
		_, h, err := k.For("a").Admit(t.Context(), throttle.One)
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 2)
		wait := func(name string, admit func() (context.Context, throttle.Held, error)) {
			go func() {
				_, h, err := admit()
				if err != nil {
					t.Error(err)
					return
				}
				order <- name
				h.Release()
			}()
			synctest.Wait()
		}
		wait("newcomer", func() (context.Context, throttle.Held, error) { return k.For("a").Admit(t.Context(), throttle.One) })
		wait("again", func() (context.Context, throttle.Held, error) {
			return k.For("a").(throttle.Readmitter).Readmit(t.Context(), h, throttle.One)
		})
		time.Sleep(2 * time.Second)
		if first := <-order; first != "again" {
			t.Errorf("%s was first; want the call that came again", first)
		}
		<-order
	})
}

func TestC5_APermitGivenBackByARefusalServesTheNextInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		a := join(t.Context(), l, 1, 1)
		b := join(t.Context(), l, 1, 1)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.AcquireAgain(done, a.permit, throttle.One); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		b.mustStartAt(t, 0)
		b.permit.Release()
	})
}
