package throttleredis

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestC2_NoGrantExceedsTheCap(t *testing.T) {
	s := newServer(t)
	c := Config{MaxInFlight: 2}
	a, b := s.limiter(t, c), s.limiter(t, c)
	ctx := within(t)
	p := must[*Permit](t)(a.Acquire(ctx))
	q := must[*Permit](t)(b.Acquire(ctx))
	if p.Fence() >= q.Fence() {
		t.Errorf("fences %d, %d; want them to rise", p.Fence(), q.Fence())
	}
	var notYet *throttle.NotYetError
	if _, err := a.TryAcquire(ctx); !errors.As(err, &notYet) || notYet.RetryAfter != 0 {
		t.Fatalf("a third = %v; want a *NotYetError without a wait", err)
	}
	p.Release()
	p.Release() // once
	r := must[*Permit](t)(b.Acquire(ctx))
	if _, err := a.TryAcquire(ctx); !errors.As(err, &notYet) {
		t.Fatalf("after a double release = %v; want a *NotYetError", err)
	}
	r.Release()
	q.Release()
}

func TestC1_TokensAreSharedAndChargedOnce(t *testing.T) {
	s := newServer(t)
	c := Config{Rate: throttle.PerHour(1), Burst: 10}
	var started int
	for range 4 {
		l := s.limiter(t, c)
		for range 10 {
			if _, err := l.TryAcquire(within(t)); err == nil {
				started++
			}
		}
	}
	if started != 10 {
		t.Errorf("%d started; want 10", started)
	}
}

func TestC3_CallersOfAllProcessesStartInOrderOfArrival(t *testing.T) {
	s := newServer(t)
	c := Config{MaxInFlight: 1}
	front := s.limiter(t, c)
	ctx := within(t)
	p := must[*Permit](t)(front.Acquire(ctx))
	limiters := []*Limiter{s.limiter(t, c), s.limiter(t, c), s.limiter(t, c)}
	probe := s.client()
	defer probe.Close()
	var mu sync.Mutex
	var order []int
	var done sync.WaitGroup
	const n = 12
	for i := range n {
		done.Go(func() {
			q, err := limiters[i%3].Acquire(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			q.Release()
		})
		for probe.ZCard(ctx, front.keys.all[2]).Val() != int64(i+1) {
			if ctx.Err() != nil {
				t.Fatal("a caller did not join the line")
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	p.Release()
	done.Wait()
	for i, got := range order {
		if got != i {
			t.Fatalf("started in the order %v", order)
		}
	}
}

func TestRateBoundCallersWaitForTheirTokens(t *testing.T) {
	s := newServer(t)
	c := Config{Rate: throttle.PerSecond(100), Burst: 1}
	a, b := s.limiter(t, c), s.limiter(t, c)
	began := time.Now()
	var done sync.WaitGroup
	for i := range 20 {
		done.Go(func() {
			if _, err := []*Limiter{a, b}[i%2].Acquire(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if took := time.Since(began); took < 190*time.Millisecond {
		t.Errorf("20 starts at 100/s and burst 1 took %v; want 190ms or more", took)
	}
}

func TestC4_ACallerThatGivesUpTakesNothing(t *testing.T) {
	s := newServer(t)
	c := Config{MaxInFlight: 1, Rate: throttle.PerHour(1), Burst: 2}
	a, b := s.limiter(t, c), s.limiter(t, c)
	p := must[*Permit](t)(a.Acquire(within(t)))
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		for {
			a.mu.Lock()
			n := len(a.line)
			a.mu.Unlock()
			if n == 1 {
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
		cancel()
	}()
	var left *throttle.LeftError
	if _, err := a.Acquire(ctx); !errors.As(err, &left) {
		t.Fatalf("got %v; want a *LeftError", err)
	}
	p.Release()
	must[*Permit](t)(b.Acquire(within(t))).Release() // the second token is there
}
