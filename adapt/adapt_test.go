package adapt_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnstile-go/turnstile/adapt"
	"github.com/turnstile-go/turnstile/throttle"
)

// TestMain runs the package's tests and then asserts that nothing is left running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLimiter returns a limiter of config c, or ends the test.
func newLimiter(t testing.TB, c throttle.Config) *throttle.Limiter {
	t.Helper()
	l, err := throttle.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return l
}

// constructors are those of shapes in which nothing is released.
var constructors = map[string]func(*throttle.Limiter) error{
	"NewRate":  func(l *throttle.Limiter) error { _, err := adapt.NewRate(l); return err },
	"NewPacer": func(l *throttle.Limiter) error { _, err := adapt.NewPacer(l); return err },
	"NewFlow":  func(l *throttle.Limiter) error { _, err := adapt.NewFlow(l, throttle.PerSecond(1)); return err },
}

func TestShapesWithoutARelease_RefuseLimitersWithSomethingToRelease(t *testing.T) {
	rate := throttle.Config{Rate: throttle.PerSecond(1), Burst: 1}
	capped, settled := rate, rate
	capped.MaxInFlight, settled.Settled = 3, true
	below := rate
	below.Parent = newLimiter(t, capped)
	plain := rate
	plain.Parent = newLimiter(t, rate)
	for name, make := range constructors {
		for what, c := range map[string]throttle.Config{"a cap": capped, "settling": settled, "a cap above": below} {
			if err := make(newLimiter(t, c)); !errors.Is(err, throttle.ErrCapped) || !strings.HasPrefix(err.Error(), "adapt: "+name+": ") {
				t.Errorf("%s of a limiter with %s: %v; want ErrCapped", name, what, err)
			}
		}
		lim := newLimiter(t, plain)
		before := lim.Stats()
		if err := make(lim); err != nil {
			t.Errorf("%s of a limiter with nothing to release: %v", name, err)
		}
		if after := lim.Stats(); after != before {
			t.Errorf("%s changed the limiter from %+v to %+v", name, before, after)
		}
		if err := make(nil); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("%s of nil: %v; want ErrInvalid", name, err)
		}
	}
	if _, err := adapt.NewFlow(newLimiter(t, rate), throttle.Rate{}); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("NewFlow without a rate: %v; want ErrInvalid", err)
	}
	if _, err := adapt.NewSemaphore(nil); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("NewSemaphore of nil: %v; want ErrInvalid", err)
	}
}

func TestRate_WaitsInOrderAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate, err := adapt.NewRate(newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 3}))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				if err := rate.WaitN(context.Background(), 1+i%2*2); err != nil { // 1, 3, 1, 3
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin))
			})
			synctest.Wait()
		}
		callers.Wait()
		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 200 * ms, 500 * ms}; !slices.Equal(at, want) {
			t.Errorf("started at %v; want %v", at, want)
		}
		if rate.Allow() {
			t.Error("a try was allowed without a token")
		}
		time.Sleep(100 * ms)
		if !rate.Allow() || rate.Allow() {
			t.Error("of two tries at one token, not the first alone was allowed")
		}
	})
}

func TestRate_TellsNoAsTheLimiterDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		rate, err := adapt.NewRate(lim)
		if err != nil {
			t.Fatal(err)
		}
		if err := rate.WaitN(context.Background(), 0); err != nil || lim.Stats().Tokens != 1 {
			t.Errorf("0 tokens: %v; want nil, and nothing taken", err)
		}
		if err := rate.WaitN(context.Background(), -1); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("-1 tokens: %v; want ErrInvalid", err)
		}
		if err := rate.WaitN(context.Background(), 2); !errors.Is(err, throttle.ErrTooLarge) {
			t.Errorf("2 tokens of a burst of 1: %v; want ErrTooLarge", err)
		}
		if err := rate.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := rate.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 0 {
			t.Errorf("a deadline that comes too soon: %v after %v; want to be told at once", err, time.Since(begin))
		}
		cancel()
		if err := rate.WaitN(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("0 tokens for one who is done: %v", err)
		}
		if err := rate.WaitN(nil, 0); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("a nil context: %v; want ErrInvalid", err)
		}
		var zero adapt.Rate
		if err := zero.Wait(context.Background()); !errors.Is(err, throttle.ErrInvalid) || zero.Allow() {
			t.Errorf("the zero Rate: %v; want ErrInvalid", err)
		}
	})
}

// panicOf returns the error that f panics with.
func panicOf(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

func TestPacerAndFlow_BlockUntilTheStartAndLetNobodyThroughWhoIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(2), Burst: 1})
		pacer, err := adapt.NewPacer(lim)
		if err != nil {
			t.Fatal(err)
		}
		flow, err := adapt.NewFlow(lim, throttle.Per(5, 2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		pacer.Take()
		if at := pacer.Take().Sub(begin); at != 500*time.Millisecond {
			t.Errorf("the second Take returned at %v; want 500ms", at)
		}
		flow.Accept()
		if err := flow.Wait(context.Background()); err != nil || time.Since(begin) != 1500*time.Millisecond {
			t.Errorf("after Accept and Wait it is %v, error %v; want 1.5s", time.Since(begin), err)
		}
		if flow.TryAccept() {
			t.Error("accepted a try without a token")
		}
		time.Sleep(time.Second)
		if !flow.TryAccept() || flow.TryAccept() {
			t.Error("of two tries at one token, not the first alone was accepted")
		}
		if qps := flow.QPS(); qps != 2.5 {
			t.Errorf("QPS is %v; want 2.5", qps)
		}
		flow.Stop()
		lim.Close()
		for name, call := range map[string]func(){"Take": func() { pacer.Take() }, "Accept": flow.Accept} {
			if err := panicOf(call); !errors.Is(err, throttle.ErrClosed) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of a closed limiter panicked with %v; want ErrClosed", name, err)
			}
		}
	})
}

func TestSemaphore_TakesOneTokenAndItsWeightAndGivesBackWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 10, MaxInFlight: 5})
		sem, err := adapt.NewSemaphore(lim)
		if err != nil {
			t.Fatal(err)
		}
		if err := sem.Acquire(context.Background(), 3); err != nil {
			t.Fatal(err)
		}
		if !sem.TryAcquire(2) || sem.TryAcquire(1) {
			t.Error("of 5, 3 are held: want 2 more and no further one")
		}
		if s := lim.Stats(); s.InFlight != 5 || s.Tokens != 8 {
			t.Errorf("%d in flight, %d tokens; want 5, and 8 of 10", s.InFlight, s.Tokens)
		}
		got := make(chan error, 1)
		go func() { got <- sem.Acquire(context.Background(), 2) }()
		synctest.Wait()
		sem.Release(2)
		if err := <-got; err != nil {
			t.Error(err)
		}
		sem.Release(2)
		sem.Release(3)
		if s := lim.Stats(); s.InFlight != 0 || s.DoubleReleases != 0 {
			t.Errorf("%d in flight, %d released twice; want none", s.InFlight, s.DoubleReleases)
		}
	})
}

func TestSemaphore_SaysNoAsTheLimiterDoesAndPanicsAtAReleaseTooMany(t *testing.T) {
	lim := newLimiter(t, throttle.Config{MaxInFlight: 5})
	sem, err := adapt.NewSemaphore(lim)
	if err != nil {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for what, c := range map[string]struct{ got, want error }{
		"a weight above the cap": {sem.Acquire(context.Background(), 6), throttle.ErrTooLarge},
		"a weight below 0":       {sem.Acquire(context.Background(), -1), throttle.ErrInvalid},
		"a context that is done": {sem.Acquire(done, 1), context.Canceled},
		"nothing, when done":     {sem.Acquire(done, 0), context.Canceled},
		"a nil context":          {sem.Acquire(nil, 0), throttle.ErrInvalid},
		"the zero Semaphore":     {new(adapt.Semaphore).Acquire(context.Background(), 1), throttle.ErrInvalid},
		"nothing":                {sem.Acquire(context.Background(), 0), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v; want %v", what, c.got, c.want)
		}
	}
	if !sem.TryAcquire(0) || new(adapt.Semaphore).TryAcquire(1) {
		t.Error("a try of nothing failed, or one at the zero Semaphore did not")
	}
	sem.Release(0)
	if !sem.TryAcquire(3) {
		t.Fatal("3 of 5 were not free")
	}
	func() {
		defer func() {
			if v, _ := recover().(string); !strings.HasPrefix(v, "adapt: Release(1): no Acquire(1) is held") {
				t.Errorf("a release of a part panicked with %q", v)
			}
		}()
		sem.Release(1)
	}()
	sem.Release(3)
	if n := lim.Stats().InFlight; n != 0 {
		t.Errorf("%d in flight; want 0", n)
	}
}
