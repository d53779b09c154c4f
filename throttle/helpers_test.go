package throttle_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// newLimiter returns a limiter of config c, or ends the test.
func newLimiter(t testing.TB, c throttle.Config) *throttle.Limiter {
	t.Helper()
	l, err := throttle.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return l
}

// newSemaphore returns a shared cap of size permits, or ends the test.
func newSemaphore(t testing.TB, size int64) *throttle.Semaphore {
	t.Helper()
	s, err := throttle.NewSemaphore(size)
	if err != nil {
		t.Fatalf("NewSemaphore: %v", err)
	}
	return s
}

// newBucket returns a bucket of capacity burst, or ends the test.
func newBucket(t testing.TB, r throttle.Rate, burst int64) *throttle.Bucket {
	t.Helper()
	b, err := throttle.NewBucket(throttle.Quota{Rate: r, Burst: burst})
	if err != nil {
		t.Fatalf("NewBucket: %v", err)
	}
	return b
}

// mustTry takes a cost without waiting, or ends the test.
func mustTry(t testing.TB, l *throttle.Limiter, tokens, weight int64) throttle.Permit {
	t.Helper()
	p, err := l.TryAcquireCost(throttle.Cost{Tokens: tokens, Weight: weight})
	if err != nil {
		t.Fatalf("try of %d tokens and weight %d: %v", tokens, weight, err)
	}
	return p
}

// bubbleStart is the instant at which every synctest bubble begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// sinceStart returns the virtual time that has passed in the bubble.
func sinceStart() time.Duration { return time.Since(bubbleStart) }

// A caller is one AcquireCost in a goroutine of its own, in a synctest bubble. Its results may
// be read once over reports true.
type caller struct {
	cancel context.CancelFunc // its own context's
	done   chan struct{}      // closed once it has its answer
	permit throttle.Permit
	err    error
	at     time.Duration // of the answer, since the bubble began
}

// join has a new caller ask l for a cost, and returns when it has its answer or waits in line.
func join(ctx context.Context, l *throttle.Limiter, tokens, weight int64) *caller {
	ctx, cancel := context.WithCancel(ctx)
	c := &caller{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		c.permit, c.err = l.AcquireCost(ctx, throttle.Cost{Tokens: tokens, Weight: weight})
		c.at = sinceStart()
	}()
	synctest.Wait()
	return c
}

// over reports whether c has its answer, once everybody has settled.
func (c *caller) over() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// leave cancels c's context, and returns when everybody has settled.
func (c *caller) leave() {
	c.cancel()
	synctest.Wait()
}

// mustStartAt asserts that c has started, at the instant at since the bubble began.
func (c *caller) mustStartAt(t testing.TB, at time.Duration) {
	t.Helper()
	switch {
	case !c.over():
		t.Fatalf("caller still waits at %v; want it started at %v", sinceStart(), at)
	case c.err != nil:
		t.Fatalf("caller got %v; want it started at %v", c.err, at)
	case c.at != at:
		t.Fatalf("caller started at %v; want %v", c.at, at)
	}
}

// mustWait asserts that c is still in line.
func (c *caller) mustWait(t testing.TB) {
	t.Helper()
	if c.over() {
		t.Fatalf("caller has its answer at %v (error %v); want it waiting", c.at, c.err)
	}
}

// A recorder keeps the starts that its trace is told.
type recorder struct {
	mu     sync.Mutex
	events []throttle.Event
}

// trace returns the Trace that feeds r.
func (r *recorder) trace() *throttle.Trace {
	return &throttle.Trace{Started: func(e throttle.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}}
}

// starts returns the starts in the order in which they were made.
func (r *recorder) starts() []throttle.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(slices.Values(r.events), func(a, b throttle.Event) int { return int(int64(a.Seq) - int64(b.Seq)) })
}

// mustBeOnTime asserts that every start was charged as of the instant at which it happened: so it is on a clock
// without lateness, whatever the slack.
func mustBeOnTime(t testing.TB, starts []throttle.Event) {
	t.Helper()
	for i, e := range starts {
		if !e.Nominal.Equal(e.At) {
			t.Fatalf("start %d at %v is charged as of %v before", i, e.At.Sub(bubbleStart), e.At.Sub(e.Nominal))
		}
	}
}

// mustKeepRate asserts C1 exactly: no window, ends included, has more than burst + rate x t starts of
// one token. The instants must be sorted.
func mustKeepRate(t testing.TB, starts []time.Time, rate throttle.Rate, burst int64) {
	t.Helper()
	n, period := rate.N, int64(rate.Period)
	var least int64 // of (index x period - instant x n) so far
	for i, at := range starts {
		x := int64(i)*period - int64(at.Sub(starts[0]))*n
		least = min(least, x)
		if x-least > (burst-1)*period {
			t.Fatalf("start %d at %v: a window before it has more than %d + %v x t starts", i, at.Sub(bubbleStart), burst, rate)
		}
	}
}

// mostIn returns the most starts in any window of length w, ends included. The instants must be sorted.
func mostIn(starts []time.Time, w time.Duration) int {
	most, from := 0, 0
	for i, at := range starts {
		for at.Sub(starts[from]) > w {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
