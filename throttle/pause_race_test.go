package throttle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// A pausedCtx has a deadline on a fake clock, and is done when it is cancelled and not before: so that the pause alone
// tells the caller of its deadline.
type pausedCtx struct {
	context.Context
	deadline time.Time // zero: none
}

func (c pausedCtx) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// A pause nudges callers to look at their deadlines while a release, a cancel, the pause's end and a close meet them.
// Each gets one answer, of a kind that it may get; no signal is left for the next caller, who has the same call, and nobody starts
// without a permit.
func TestPause_EveryCallerGetsOneAnswerWhateverMeets(t *testing.T) {
	const callers = 5
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	clock := fake.NewClock(bubbleStart)
	var top, leaf *throttle.Limiter
	var asked, answered uint64 // of the leaf, and of what its Stats say
	fresh := func() {
		top = newLimiter(t, throttle.Config{Clock: clock, MaxInFlight: 1})
		leaf = newLimiter(t, throttle.Config{Parent: top, Rate: throttle.PerSecond(1000), Burst: 1000})
		asked = 0
	}
	fresh()
	r := rand.New(rand.NewPCG(1, 8))
	var kinds [4]atomic.Int64
	for round := range rounds {
		held, err := leaf.TryAcquire()
		if err != nil {
			t.Fatalf("round %d: the permit is not free: %v; %+v", round, err, top.Stats())
		}
		asked++
		closes := r.IntN(20) == 0
		paused := []*throttle.Limiter{top, leaf}[r.IntN(2)]
		var inFlight, left atomic.Int64
		inFlight.Store(1)
		left.Store(callers)
		var cancelled [callers]atomic.Bool
		var cancels [callers]func()
		var all sync.WaitGroup
		for i := range callers {
			ctx, cancel := context.WithCancel(context.Background())
			c := pausedCtx{Context: ctx}
			if r.IntN(4) > 0 {
				c.deadline = clock.Now().Add(time.Duration(1+r.IntN(1500)) * time.Millisecond)
			}
			cancels[i] = func() { cancelled[i].Store(true); cancel() }
			asked++
			all.Go(func() {
				p, err := leaf.Acquire(c)
				var leftErr *throttle.LeftError
				var no *throttle.NotYetError
				switch {
				case err == nil:
					if n := inFlight.Add(1); n != 1 {
						t.Errorf("round %d: %d in flight at once; want 1", round, n)
					}
					inFlight.Add(-1)
					p.Release()
					kinds[0].Add(1)
				case errors.As(err, &leftErr):
					if !cancelled[i].Load() {
						t.Errorf("round %d: told %v, but its context is not done", round, err)
					}
					kinds[1].Add(1)
				case errors.As(err, &no):
					if c.deadline.IsZero() {
						t.Errorf("round %d: told %v, but it has no deadline", round, err)
					}
					kinds[2].Add(1)
				case errors.Is(err, throttle.ErrClosed):
					if !closes {
						t.Errorf("round %d: told %v, but nobody closes", round, err)
					}
					kinds[3].Add(1)
				default:
					t.Errorf("round %d: %v", round, err)
				}
				left.Add(-1)
			})
		}
		for leaf.Stats().Waiting < callers {
			runtime.Gosched()
		}
		second := time.Duration(r.IntN(2)) * 1200 * time.Millisecond
		storm := []func(){
			func() { inFlight.Add(-1); held.Release() },
			func() { paused.PauseFor(time.Second) },
			func() { leaf.PauseFor(second) },
			func() { clock.Advance(time.Second) },
			cancels[0], cancels[1], cancels[2],
		}
		if closes {
			storm = append(storm, []*throttle.Limiter{leaf, top}[r.IntN(2)].Close)
		}
		r.Shuffle(len(storm), func(i, j int) { storm[i], storm[j] = storm[j], storm[i] })
		for _, f := range storm {
			all.Go(f)
		}
		for left.Load() > 0 { // pauses end
			clock.Advance(100 * time.Millisecond)
			runtime.Gosched()
		}
		all.Wait()
		for _, cancel := range cancels {
			cancel()
		}
		clock.Advance(3 * time.Second)
		s := leaf.Stats()
		answered = s.Started + s.Left + s.RefusedNotYet + s.RefusedClosed
		if s.Waiting != 0 || answered != asked || s.InFlight != 0 || top.Stats().InFlight != 0 || s.DoubleReleases != 0 {
			t.Fatalf("round %d: %+v above %+v; want %d answered, nobody in line and nothing in flight", round, s, top.Stats(), asked)
		}
		if t.Failed() {
			t.FailNow()
		}
		if closes {
			fresh()
		}
	}
	t.Logf("%d started, %d left, %d told of the pause, %d that it is closed", kinds[0].Load(), kinds[1].Load(), kinds[2].Load(), kinds[3].Load())
	for i := range kinds {
		if kinds[i].Load() < int64(rounds)/50 {
			t.Errorf("kind %d of answer was given %d times only", i, kinds[i].Load())
		}
	}
}
