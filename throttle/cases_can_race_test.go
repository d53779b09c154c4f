package throttle_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind CAN in which a cancel meets a grant, a join or a release, and the one on memory. They
// wait for events of the Trace, never for time; a lost wake-up hangs them.

// rounds returns how often a race is tried.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// A contender is one Acquire in a goroutine of its own, outside a bubble.
type contender struct {
	cancel context.CancelFunc
	permit throttle.Permit
	err    error
	over   chan struct{}
}

// contend has a contender ask l, whose Trace sends to queued, and returns once it is in line.
func contend(l *throttle.Limiter, queued <-chan struct{}) *contender {
	ctx, cancel := context.WithCancel(context.Background())
	c := &contender{cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(c.over)
		c.permit, c.err = l.Acquire(ctx)
	}()
	<-queued
	return c
}

// together runs the functions at the same moment and returns when all have returned.
func together(fs ...func()) {
	var ready, done sync.WaitGroup
	ready.Add(len(fs))
	for _, f := range fs {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			f()
		})
	}
	done.Wait()
}

func TestCAN_05_ReleaseAndCancelNeverDeadlock(t *testing.T) {
	queued := make(chan struct{}, 1)
	var l *throttle.Limiter
	again := func(throttle.Event) { // the cancel path comes back into the limiter
		l.Stats()
		if p, err := l.TryAcquire(); err == nil {
			p.Release()
		}
	}
	l = newLimiter(t, throttle.Config{MaxInFlight: 1, Trace: &throttle.Trace{
		Queued: func(throttle.Event) { queued <- struct{}{} },
		Left:   again, Started: func(throttle.Event) { l.Stats() }, Released: func(throttle.Event) { l.Stats() },
	}})
	for round := range rounds(10_000) {
		held := mustTry(t, l, 1, 1)
		w := contend(l, queued)
		together(held.Release, w.cancel)
		<-w.over
		w.permit.Release()
		if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Fatalf("round %d: in flight %d, waiting %d; want 0 and 0", round, s.InFlight, s.Waiting)
		}
	}
}

func TestCAN_06_GrantThatMeetsACancelIsNeverLost(t *testing.T) {
	queued := make(chan struct{}, 1)
	l := newLimiter(t, throttle.Config{MaxInFlight: 1, Trace: &throttle.Trace{
		Queued: func(throttle.Event) { queued <- struct{}{} },
	}})
	random := rand.New(rand.NewPCG(6, 270))
	for round := range rounds(10_000) {
		held := mustTry(t, l, 1, 1)
		a, b := contend(l, queued), contend(l, queued)
		order := random.IntN(3)
		yield := func() {
			for range random.IntN(3) {
				runtime.Gosched()
			}
		}
		switch order {
		case 0: // granted first: that stands
			held.Release()
			yield()
			a.cancel()
		case 1: // cancelled first: never granted
			a.cancel()
			yield()
			held.Release()
		case 2:
			together(held.Release, a.cancel)
		}
		<-a.over
		if order == 0 && a.err != nil || order == 1 && a.err == nil {
			t.Fatalf("round %d, order %d: A got %v; want what came first to stand", round, order, a.err)
		}
		if a.err != nil && !errors.Is(a.err, context.Canceled) {
			t.Fatalf("round %d: A got %v; want context.Canceled", round, a.err)
		}
		a.permit.Release() // the zero Permit where A left
		<-b.over           // hangs if the grant was lost
		b.cancel()
		if b.err != nil {
			t.Fatalf("round %d: B got %v; want it started", round, b.err)
		}
		b.permit.Release()
		if s := l.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.DoubleReleases != 0 {
			t.Fatalf("round %d: %+v; want nothing in flight, waiting or released twice", round, s)
		}
	}
}

// A handClock is set by hand. It keeps the one timer that a limiter arms.
type handClock struct {
	mu  sync.Mutex
	now time.Time
	f   func()
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) AfterFunc(_ time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f = f
	return func() bool { return true }
}

// fire lets d pass and the timer go off.
func (c *handClock) fire(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	f := c.f
	c.mu.Unlock()
	f()
}

func TestCAN_06_TokenDueAtACancelIsNeverLost(t *testing.T) {
	queued := make(chan struct{}, 1)
	trace := &throttle.Trace{Queued: func(throttle.Event) { queued <- struct{}{} }}
	for round := range rounds(10_000) {
		clock := &handClock{now: bubbleStart}
		l := newLimiter(t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1, Clock: clock, Trace: trace})
		mustTry(t, l, 1, 1)
		a, b := contend(l, queued), contend(l, queued)
		granted := round%2 == 0
		if granted { // A's token is due, and A is granted, before it is cancelled
			clock.fire(time.Hour)
			a.cancel()
		} else { // A is cancelled before, and may not have noticed yet
			a.cancel()
			clock.fire(time.Hour)
		}
		<-a.over
		if (a.err == nil) != granted {
			t.Fatalf("round %d: A got %v; want what came first to stand", round, a.err)
		}
		if granted {
			clock.fire(time.Hour)
		}
		<-b.over
		b.cancel()
		if b.err != nil {
			t.Fatalf("round %d: B got %v; want it started", round, b.err)
		}
	}
}

// turnContext is a context that is cancelled while its deadline is asked for: before Acquire looks at Done.
type turnContext struct {
	context.Context
	cancel context.CancelFunc
}

func (c turnContext) Deadline() (time.Time, bool) { c.cancel(); return c.Context.Deadline() }

// cancelClock cancels when a timer is armed: after Acquire has looked at Done, as it joins the line.
type cancelClock struct{ cancel context.CancelFunc }

func (c *cancelClock) Now() time.Time { return time.Now() }
func (c *cancelClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.cancel()
	return time.AfterFunc(d, f).Stop
}

func TestCAN_07_CancelBetweenTheCheckAndTheWaitIsSeen(t *testing.T) {
	year := throttle.Per(1, 365*24*time.Hour)
	for _, when := range []string{"before the check", "on joining", "between joining and waiting"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := throttle.Config{Rate: year, Burst: 1}
			switch when {
			case "before the check":
				ctx = turnContext{ctx, cancel}
			case "on joining":
				c.Clock = &cancelClock{cancel}
			default:
				c.Trace = &throttle.Trace{Queued: func(throttle.Event) { cancel() }}
			}
			l := newLimiter(t, c)
			mustTry(t, l, 1, 1)
			_, err := l.Acquire(ctx)
			if !errors.Is(err, context.Canceled) || sinceStart() != 0 {
				t.Errorf("cancelled %s: %v at %v; want context.Canceled at once", when, err, sinceStart())
			}
			if s := l.Stats(); s.Waiting != 0 || s.Left != 1 {
				t.Errorf("cancelled %s: waiting %d, left %d; want 0 and 1", when, s.Waiting, s.Left)
			}
			l.Close()
		})
	}
	l := newLimiter(t, throttle.Config{MaxInFlight: 1}) // and anywhere, by chance
	defer mustTry(t, l, 1, 1).Release()
	for range rounds(10_000) {
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		together(cancel, func() { _, err = l.Acquire(ctx) })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire got %v; want context.Canceled", err)
		}
	}
	if s := l.Stats(); s.Waiting != 0 {
		t.Errorf("%d waiting; want 0", s.Waiting)
	}
}

func TestCAN_12_CancelledWaitersLeaveNoMemory(t *testing.T) {
	const crowd = 10_000
	joined := make(chan struct{}, 2*crowd)
	trace := &throttle.Trace{Queued: func(throttle.Event) { joined <- struct{}{} }}
	comeAndGo := func(l *throttle.Limiter, crowd int) {
		ctx, cancel := context.WithCancel(context.Background())
		var callers sync.WaitGroup
		for range crowd {
			callers.Go(func() {
				if _, err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("a cancelled waiter got %v", err)
				}
			})
		}
		for range crowd {
			<-joined
		}
		cancel()
		callers.Wait()
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	other := newLimiter(t, throttle.Config{MaxInFlight: 1, Trace: trace})
	held := mustTry(t, other, 1, 1)
	comeAndGo(other, 2*crowd) // the runtime keeps its records of ended goroutines, which are not ours
	held.Release()

	least := int64(math.MaxInt64) // of three limiters, as the runtime allocates for itself besides
	for range 3 {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1, Trace: trace})
		held := mustTry(t, l, 1, 1)
		live := contend(l, joined)
		before := heap()
		comeAndGo(l, crowd)
		least = min(least, heap()-before)
		if s := l.Stats(); s.Waiting != 1 {
			t.Errorf("%d waiting; want 1", s.Waiting)
		}
		held.Release()
		<-live.over
		live.cancel()
		live.permit.Release()
	}
	if least >= 64<<10 {
		t.Errorf("%d bytes are kept after %d cancelled waiters; want less than 64 KiB", least, crowd)
	}
	runtime.KeepAlive(other)
}
