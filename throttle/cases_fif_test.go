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

// The cases of kind FIF: nobody starves, nobody overtakes, and nobody gets in beyond the limits.

func TestFIF_01_ReleaserCannotTakeItsPermitBackBeforeTheWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		var starts []time.Duration // the holder's
		go func() {
			for range 4 {
				p, err := l.Acquire(t.Context())
				if err != nil {
					t.Errorf("the holder got %v", err)
				}
				starts = append(starts, sinceStart())
				time.Sleep(50 * time.Millisecond)
				p.Release()
			}
		}()
		time.Sleep(20 * time.Millisecond)
		w := join(t.Context(), l, 1, 1)
		time.Sleep(30 * time.Millisecond)
		w.mustStartAt(t, 50*time.Millisecond)
		if s := l.Stats(); s.Waiting != 1 {
			t.Errorf("%d waiting; want the holder, behind the waiter", s.Waiting)
		}
		time.Sleep(30 * time.Millisecond)
		w.permit.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		want := []time.Duration{0, 80 * time.Millisecond, 130 * time.Millisecond, 180 * time.Millisecond}
		if !slices.Equal(starts, want) {
			t.Errorf("the holder started at %v; want %v", starts, want)
		}
	})
}

func TestFIF_02_EveryStartTakesItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 1, Trace: rec.trace()})
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		barrier := make(chan struct{})
		for range 100 {
			callers.Go(func() {
				<-barrier
				_, _ = l.Acquire(ctx)
			})
		}
		synctest.Wait()
		close(barrier)
		time.Sleep(time.Second)
		synctest.Wait()
		starts := rec.starts()
		if len(starts) != 11 {
			t.Errorf("%d started in the first second; want 11", len(starts))
		}
		for i, e := range starts {
			if at := time.Duration(i) * 100 * time.Millisecond; e.Tokens != 1 || !e.At.Equal(bubbleStart.Add(at)) || !e.Nominal.Equal(e.At) {
				t.Errorf("start %d: %d token at %v, charged at %v; want 1 at %v", i, e.Tokens, e.At, e.Nominal, at)
			}
		}
		if s := l.Stats(); s.Started != 11 || s.Waiting != 89 || s.Tokens != 0 {
			t.Errorf("started %d, waiting %d, tokens %d; want 11, 89, 0", s.Started, s.Waiting, s.Tokens)
		}
		cancel()
		callers.Wait()
	})
}

func TestFIF_03_CapHoldsBehindTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.Every(100 * time.Millisecond), Burst: 1, MaxInFlight: 2, Trace: rec.trace()})
		var mu sync.Mutex
		var inside, peak int
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				err := l.Do(t.Context(), func(context.Context) error {
					mu.Lock()
					inside++
					peak = max(peak, inside)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					inside--
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if peak != 2 {
			t.Errorf("at most %d ran at once; want 2", peak)
		}
		var at []time.Duration
		for _, e := range rec.starts() {
			at = append(at, e.At.Sub(bubbleStart))
		}
		want := []time.Duration{0, 100 * time.Millisecond, time.Second, 1100 * time.Millisecond, 2 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("starts at %v; want %v", at, want)
		}
	})
}

func TestFIF_04_ReleaseBelowTheCapWakesALargeWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 10})
		a, b := mustTry(t, l, 1, 3), mustTry(t, l, 1, 4)
		c := join(t.Context(), l, 1, 5)
		c.mustWait(t)
		a.Release()
		c.mustStartAt(t, 0)
		if s := l.Stats(); s.InFlight != 9 {
			t.Errorf("in flight %d; want 9", s.InFlight)
		}
		b.Release()
		c.permit.Release()
	})
}

func TestFIF_05_TwoLargeAsksNeverHoldPartEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 4})
		var callers [2]*caller
		var both sync.WaitGroup
		barrier := make(chan struct{})
		for i := range callers {
			c := &caller{done: make(chan struct{})}
			callers[i] = c
			both.Go(func() {
				<-barrier
				c.permit, c.err = l.AcquireCost(t.Context(), throttle.Cost{Weight: 3})
				c.at = sinceStart()
				close(c.done)
			})
		}
		synctest.Wait()
		close(barrier)
		first, second := callers[0], callers[1]
		if !first.over() {
			first, second = second, first
		}
		first.mustStartAt(t, 0)
		second.mustWait(t)
		if s := l.Stats(); s.InFlight != 3 || s.Waiting != 1 {
			t.Errorf("in flight %d, waiting %d; want 3 and 1: the second holds nothing", s.InFlight, s.Waiting)
		}
		first.permit.Release()
		second.mustStartAt(t, 0)
		second.permit.Release()
		both.Wait()
	})
}

// The rule is C3, in the package's documentation: no small cost overtakes.
func TestFIF_06_SmallAskWaitsBehindALargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 10})
		holders := []throttle.Permit{mustTry(t, l, 1, 4), mustTry(t, l, 1, 4)}
		a := join(t.Context(), l, 1, 5)
		b := join(t.Context(), l, 1, 1)
		a.mustWait(t)
		b.mustWait(t)
		if _, err := l.TryAcquire(); err == nil {
			t.Error("a try of 1 overtook A, which waits for 5")
		}
		// A stream of small asks does not starve the large one.
		var stream []*caller
		for range 20 {
			stream = append(stream, join(t.Context(), l, 1, 1))
		}
		holders[0].Release()
		a.mustStartAt(t, 0)
		b.mustStartAt(t, 0) // 4 + 5 + 1
		stream[0].mustWait(t)
		holders[1].Release()
		for i, c := range stream {
			if i < 4 {
				c.mustStartAt(t, 0)
			} else {
				c.mustWait(t)
				c.leave()
			}
		}
	})
}

// The same holds for tokens, where a large cost waits for its token at the front, with and without a cap.
func TestFIF_06_SmallCostWaitsBehindALargeOne(t *testing.T) {
	for _, inFlight := range []int64{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 10, MaxInFlight: inFlight})
			mustTry(t, l, 8, 1)
			five := join(t.Context(), l, 5, 1)
			one := join(t.Context(), l, 1, 1)
			one.mustWait(t)
			if _, err := l.TryAcquire(); err == nil {
				t.Error("a try of 1 of 2 tokens overtook the 5")
			}
			time.Sleep(time.Second)
			five.mustStartAt(t, 300*time.Millisecond)
			one.mustStartAt(t, 400*time.Millisecond)
		})
	}
}

// And between limiters that share a cap: fronts are served in the order in which they came to lack a permit.
func TestFIF_06_SmallAskWaitsBehindALargeOneOfAnotherLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 10)
		l, other := newLimiter(t, throttle.Config{Semaphore: sem}), newLimiter(t, throttle.Config{Semaphore: sem})
		holder := mustTry(t, l, 1, 8)
		a := join(t.Context(), l, 1, 5)
		if _, err := other.TryAcquire(); err == nil {
			t.Error("a try of 1 overtook A, which waits for 5")
		}
		b := join(t.Context(), other, 1, 1)
		b.mustWait(t)
		holder.Release()
		a.mustStartAt(t, 0)
		b.mustStartAt(t, 0)
		a.permit.Release()
		b.permit.Release()
	})
}

func TestFIF_07_LoopingHolderLetsTheWaiterInByItsSecondTurn(t *testing.T) {
	var rec recorder
	trace := rec.trace()
	queued := make(chan struct{}, 1000)
	trace.Queued = func(throttle.Event) { queued <- struct{}{} }
	l := newLimiter(t, throttle.Config{MaxInFlight: 1, Trace: trace})
	turn := func() throttle.Permit {
		p, err := l.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		return p
	}
	first := turn()
	var waiter sync.WaitGroup
	waiter.Go(func() { turn().Release() })
	<-queued
	first.Release()
	for range 999 { // thread 0's 2nd acquire and on
		turn().Release()
	}
	waiter.Wait()
	starts := rec.starts()
	if len(starts) != 1001 || starts[1].ID != 2 {
		t.Errorf("%d starts, the second of call %d; want 1001, of call 2, the waiter", len(starts), starts[1].ID)
	}
}
