package pool_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/pool"
	"github.com/turnstile-go/turnstile/throttle"
)

var errTask = errors.New("task failed")

// outcomes keeps what a Group reports.
type outcomes struct {
	mu  sync.Mutex
	all []pool.Outcome
}

func (o *outcomes) report(out pool.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, out)
}

// byTask returns the outcomes in the order of tasks, and asserts that n tasks have one each.
func (o *outcomes) byTask(t *testing.T, n int) []pool.Outcome {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.SortedFunc(slices.Values(o.all), func(a, b pool.Outcome) int { return a.Task - b.Task })
	if len(all) != n {
		t.Fatalf("%d outcomes were reported; want %d", len(all), n)
	}
	for i, out := range all {
		if out.Task != i {
			t.Fatalf("outcome %d is of task %d: one is missing or told twice", i, out.Task)
		}
	}
	return all
}

func TestGo_HoldsTheProducerBackUntilTheTaskMayStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 2, MaxInFlight: 2})
		g, ctx := pool.WithContext(context.Background(), lim)
		begin := time.Now()
		var added []time.Duration
		for range 6 {
			g.Go(ctx, func(context.Context) error { time.Sleep(300 * time.Millisecond); return nil })
			added = append(added, time.Since(begin))
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 0, 300 * ms, 300 * ms, 600 * ms, 600 * ms}; !slices.Equal(added, want) {
			t.Errorf("tasks were started at %v; want %v", added, want)
		}
	})
}

func TestGo_StartsNoGoroutineForATaskThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 3})
		g, ctx := pool.WithContext(context.Background(), lim)
		before := runtime.NumGoroutine()
		for range 100 {
			g.Go(ctx, func(context.Context) error { time.Sleep(time.Second); return nil })
			if n := runtime.NumGoroutine() - before; n > 6 { // 3 in flight, and as many that have released and not yet ended
				t.Fatalf("%d goroutines for 3 tasks in flight", n)
			}
		}
		g.Wait()
	})
}

func TestC3_TasksStartInTheOrderInWhichTheyWereAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var costs []int64
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 50, MaxInFlight: 4, Trace: &throttle.Trace{
			Started: func(e throttle.Event) { mu.Lock(); costs = append(costs, e.Tokens); mu.Unlock() },
		}})
		g, ctx := pool.WithContext(context.Background(), lim)
		var want []int64
		for i := range int64(50) {
			cost := (i*37)%50 + 1
			want = append(want, cost)
			g.GoCost(ctx, throttle.Cost{Tokens: cost, Weight: 1}, func(context.Context) error { time.Sleep(time.Second); return nil })
		}
		g.Wait()
		if !slices.Equal(costs, want) {
			t.Errorf("started with costs %v; want %v", costs, want)
		}
	})
}

func TestWait_ReturnsTheFirstErrorWhichEndsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 2})
		var out outcomes
		g, ctx := pool.WithContext(context.Background(), lim)
		g.Report = out.report
		g.Go(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		g.Go(ctx, func(context.Context) error { time.Sleep(time.Second); return errTask })
		begin := time.Now()
		later := g.Go(ctx, func(context.Context) error { return nil }) // gets the permit of the one that failed, or is refused
		again := g.Go(ctx, func(context.Context) error { return nil })
		err := g.Wait()
		if err != errTask || time.Since(begin) != time.Second {
			t.Errorf("Wait returned %v after %v; want the task's error after 1s", err, time.Since(begin))
		}
		if again && !later {
			t.Errorf("a task was started after the Group had ended")
		}
		all := out.byTask(t, 4)
		if !errors.Is(all[0].Err, errTask) || !all[0].Started || all[3].Started != again {
			t.Errorf("outcomes are %v", all)
		}
		if s := lim.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("%d in flight and %d waiting after Wait", s.InFlight, s.Waiting)
		}
		if ctx.Err() == nil || context.Cause(ctx) != errTask {
			t.Errorf("the context ended with %v; want the task's error", context.Cause(ctx))
		}
	})
}

func TestGo_TheFirstErrorFreesTheProducersPlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1})
		for name, ctxOf := range map[string]func(context.Context) context.Context{
			"the group's context":   func(ctx context.Context) context.Context { return ctx },
			"one derived from it":   func(ctx context.Context) context.Context { return context.WithValue(ctx, new(int), 1) },
			"another one, a merger": func(context.Context) context.Context { return context.Background() },
		} {
			lim.SetBurst(2)
			time.Sleep(2 * time.Hour) // so that two tokens are there
			lim.SetBurst(1)
			g, ctx := pool.WithContext(context.Background(), lim)
			begin := time.Now()
			g.Go(ctx, func(context.Context) error { time.Sleep(time.Minute); return errTask })
			if g.Go(ctxOf(ctx), func(context.Context) error { return nil }) {
				t.Errorf("%s: a task was started after the Group had ended", name)
			}
			if waited := time.Since(begin); waited != time.Minute {
				t.Errorf("%s: the producer waited %v; want until the error, 1m0s", name, waited)
			}
			if err := g.Wait(); err != errTask {
				t.Errorf("%s: Wait returned %v", name, err)
			}
		}
		if s := lim.Stats(); s.Waiting != 0 {
			t.Errorf("%d are in line still", s.Waiting)
		}
	})
}

func TestWait_KeepGoingReturnsAllErrorsInTheOrderOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 3, MaxInFlight: 8})
		g, ctx := pool.WithContext(context.Background(), lim)
		g.KeepGoing = true
		for i := range 3 {
			g.Go(ctx, func(context.Context) error {
				time.Sleep(time.Duration(3-i) * time.Second)
				return fmt.Errorf("error %d", i)
			})
		}
		g.GoCost(ctx, throttle.Cost{Tokens: 4, Weight: 1}, func(context.Context) error { return nil })
		if !g.Go(ctx, func(context.Context) error { return nil }) {
			t.Error("a task was refused, though the Group keeps going")
		}
		err := g.Wait()
		if err == nil || !errors.Is(err, throttle.ErrTooLarge) || !strings.HasPrefix(err.Error(), "error 0\nerror 1\nerror 2\nthrottle: ") {
			t.Errorf("Wait returned %v", err)
		}
	})
}

func panicsHere() { panic(fmt.Errorf("oh no: %w", errTask)) }

// caught returns what f panics with.
func caught(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestWait_CarriesAPanicWithItsStackAndReleasesThePermit(t *testing.T) {
	for _, keepGoing := range []bool{false, true} {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 1})
		g, ctx := pool.WithContext(context.Background(), lim)
		g.KeepGoing = keepGoing
		g.Go(ctx, func(context.Context) error { panicsHere(); return nil })
		v := caught(func() { g.Wait() })
		err, ok := v.(*pool.PanicError)
		if !ok {
			t.Fatalf("Wait panicked with %v; want a *PanicError", v)
		}
		if text := err.Error(); !strings.Contains(text, "oh no: task failed") || !strings.Contains(text, "panicsHere") {
			t.Errorf("the text has not the value and the place:\n%s", text)
		}
		if !errors.Is(err, errTask) {
			t.Error("the panic does not unwrap to the error that it was made with")
		}
		if n := lim.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight after a panic", n)
		}
		if ctx.Err() == nil {
			t.Error("the panic did not end the context")
		}
	}
}

func TestWait_CarriesAGoexitUnlessThereWasAPanic(t *testing.T) {
	for _, withPanic := range []bool{false, true} {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 1})
		var out outcomes
		g, ctx := pool.WithContext(context.Background(), lim)
		g.Report = out.report
		g.KeepGoing = true
		g.Go(ctx, func(context.Context) error { runtime.Goexit(); return nil })
		if withPanic {
			g.Go(context.WithoutCancel(ctx), func(context.Context) error { panic("later") })
		}
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			g.Wait()
			ended <- "Wait returned"
		}()
		v := <-ended
		if _, panicked := v.(*pool.PanicError); panicked != withPanic || !withPanic && v != nil {
			t.Errorf("with a panic %v: Wait ended with %v", withPanic, v)
		}
		first := out.byTask(t, len(out.all))[0]
		if !errors.Is(first.Err, pool.ErrGoexit) || !strings.Contains(first.Err.Error(), "TestWait_CarriesAGoexit") {
			t.Errorf("the outcome is %v; want ErrGoexit with its stack", first.Err)
		}
		if n := lim.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight after a Goexit", n)
		}
	}
}

func TestWait_CarriesAPanicOfReportAndOfTheLimitersTrace(t *testing.T) {
	lim := newLimiter(t, throttle.Config{MaxInFlight: 1, Trace: &throttle.Trace{Started: func(throttle.Event) { panic("trace") }}})
	for name, g := range map[string]*pool.Group{
		"report": {Report: func(pool.Outcome) { panic("report") }},
		"trace":  {Limiter: lim},
	} {
		g.Go(context.Background(), func(context.Context) error { return nil })
		err, _ := caught(func() { g.Wait() }).(*pool.PanicError)
		if err == nil || err.Value != name {
			t.Errorf("Wait panicked with %v; want %q", err, name)
		}
	}
	if n := lim.Stats().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestGo_ATaskMayAddTasksToItsOwnGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{MaxInFlight: 1}) // the adder holds the only permit
		var out outcomes
		g, ctx := pool.WithContext(context.Background(), lim)
		g.Report = out.report
		var calls atomic.Int64
		var walk func(depth int) func(context.Context) error
		walk = func(depth int) func(context.Context) error {
			return func(ctx context.Context) error {
				calls.Add(1)
				time.Sleep(time.Second)
				for range min(depth, 1) * 3 {
					if !g.Go(ctx, walk(depth-1)) {
						return errTask
					}
				}
				return nil
			}
		}
		g.Go(ctx, walk(4))
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := int64(1 + 3 + 9 + 27 + 81); calls.Load() != n {
			t.Errorf("%d calls; want %d", calls.Load(), n)
		}
		out.byTask(t, 121)
	})
}

// endingWithPermit is an Admitter whose contexts end with the permit, as those of leases do.
type endingWithPermit struct{ throttle.Admitter }

type heldUntil struct {
	throttle.Held
	end context.CancelFunc
}

func (h heldUntil) Release() { h.end(); h.Held.Release() }

func (e endingWithPermit) Admit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	ctx, held, err := e.Admitter.Admit(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, heldUntil{held, cancel}, nil
}

func TestGo_FunctionsGetTheLimitersContextAndTasksAddedByThemOutliveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := endingWithPermit{newLimiter(t, throttle.Config{MaxInFlight: 1})}
		g, ctx := pool.WithContext(context.Background(), lim)
		var inner context.Context
		ran := false
		g.Go(ctx, func(ctx context.Context) error {
			inner = ctx
			g.Go(ctx, func(ctx context.Context) error { ran = true; return ctx.Err() })
			return nil
		})
		if err := g.Wait(); err != nil || !ran {
			t.Errorf("the task added by a task: ran %v, error %v", ran, err)
		}
		if inner.Err() == nil {
			t.Error("the function's context is not the one that the limiter gave: it outlived the permit")
		}
	})
}

func TestTryGo_NeitherWaitsNorHasAnOutcomeIfRefused(t *testing.T) {
	lim := newLimiter(t, throttle.Config{MaxInFlight: 1})
	var out outcomes
	g, ctx := pool.WithContext(context.Background(), lim)
	g.Report = out.report
	release := make(chan struct{})
	if err := g.TryGo(ctx, func(context.Context) error { <-release; return nil }); err != nil {
		t.Fatal(err)
	}
	var yet *throttle.NotYetError
	if err := g.TryGo(ctx, func(context.Context) error { return nil }); !errors.As(err, &yet) {
		t.Errorf("a try without a permit: %v; want a NotYetError", err)
	}
	if err := g.TryGoCost(ctx, throttle.Cost{Tokens: 1, Weight: 2}, func(context.Context) error { return nil }); !errors.Is(err, throttle.ErrTooLarge) {
		t.Errorf("a weight above the cap: %v; want ErrTooLarge", err)
	}
	close(release)
	if err := g.Wait(); err != nil {
		t.Errorf("Wait returned %v; want nil, since a refused try is no task", err)
	}
	out.byTask(t, 1)
}

func TestZeroGroup_RunsTasksWithoutLimitsAndDoesNotCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g pool.Group
		var ended atomic.Int64
		for i := range 10 {
			g.Go(context.Background(), func(ctx context.Context) error {
				time.Sleep(time.Duration(i+1) * time.Second)
				ended.Add(1)
				return fmt.Errorf("error %d, context %v", i, ctx.Err())
			})
		}
		if err := g.Wait(); err == nil || err.Error() != "error 0, context <nil>" || ended.Load() != 10 {
			t.Errorf("Wait returned %v after %d tasks; want the first error after 10", err, ended.Load())
		}
	})
}

func TestGo_BadArgumentsAreTheTasksOutcome(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for name, add := range map[string]func(*pool.Group, context.Context) bool{
		"the context is nil":  func(g *pool.Group, _ context.Context) bool { return g.Go(nil, nothing) },
		"the function is nil": func(g *pool.Group, ctx context.Context) bool { return g.Go(ctx, nil) },
		"Limiter was not made by": func(g *pool.Group, ctx context.Context) bool {
			g.Limiter = new(throttle.Limiter)
			return g.Go(ctx, nothing)
		},
	} {
		g, ctx := pool.WithContext(context.Background(), nil)
		if add(g, ctx) {
			t.Errorf("%s: started", name)
		}
		if err := g.Wait(); !errors.Is(err, throttle.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Wait returned %v", name, err)
		}
	}
	g, ctx := pool.WithContext(nil, nil)
	g.Go(ctx, nothing)
	if err := g.Wait(); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("a nil context for WithContext: Wait returned %v", err)
	}
}

// A pool of 10,000 tasks, of which some fail, panic, exit their goroutine, add others, or are cancelled in line: each has one outcome, nothing is
// held and nothing runs after Wait.
func TestPoolOfTenThousandTasksReportsEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1000), Burst: 10, MaxInFlight: 20})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var out outcomes
		var started atomic.Int64
		g := &pool.Group{Limiter: lim, KeepGoing: true, Report: out.report}
		task := func(i int) func(context.Context) error {
			return func(ctx context.Context) error {
				started.Add(1)
				time.Sleep(time.Duration(i%17) * time.Millisecond)
				switch {
				case i%10 == 1:
					return errTask
				case i%10 == 2:
					panic(i)
				case i%10 == 3:
					runtime.Goexit()
				case i%10 == 4:
					g.Go(ctx, func(context.Context) error { started.Add(1); return errTask })
				}
				return nil
			}
		}
		for i := range 5000 {
			g.Go(ctx, task(i))
		}
		go func() { time.Sleep(2 * time.Second); cancel() }()
		for i := range 4500 {
			g.Go(ctx, task(10*i)) // about half of them before the cancellation
		}
		err, _ := caught(func() { g.Wait() }).(*pool.PanicError)
		if err == nil {
			t.Fatal("Wait did not panic")
		}
		all := out.byTask(t, 10_000)
		kinds := map[string]int{}
		for _, o := range all {
			var panicked *pool.PanicError
			switch {
			case o.Err == nil:
				kinds["done"]++
			case o.Err == errTask:
				kinds["failed"]++
			case errors.As(o.Err, &panicked):
				kinds["panicked"]++
			case errors.Is(o.Err, pool.ErrGoexit):
				kinds["exited"]++
			case errors.Is(o.Err, context.Canceled) && !o.Started:
				kinds["refused"]++
			}
		}
		if kinds["failed"] != 1000 || kinds["panicked"] != 500 || kinds["exited"] != 500 || kinds["refused"] < 1000 || kinds["done"]+kinds["refused"] != 8000 {
			t.Errorf("outcomes are %v", kinds)
		}
		if n := started.Load(); n != int64(10_000-kinds["refused"]) {
			t.Errorf("%d functions were called; %d tasks were not refused", n, 10_000-kinds["refused"])
		}
		s := lim.Stats()
		if s.InFlight != 0 || s.Waiting != 0 || s.DoubleReleases != 0 || int64(s.Started) != started.Load() {
			t.Errorf("the limiter is left with %+v", s)
		}
	})
}
