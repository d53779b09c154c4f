package fake

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestCLK04_AWaitForTimersMeetsEveryTimer(t *testing.T) {
	c := NewClock(time.Time{})
	finished := 0
	for range 10_000 {
		done := make(chan struct{})
		go func() {
			fired := make(chan struct{})
			c.AfterFunc(2*time.Second, func() { close(fired) })
			<-fired
			close(done)
		}()
		if err := c.WaitTimers(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		c.Advance(2 * time.Second)
		<-done
		finished++
	}
	if finished != 10_000 {
		t.Errorf("%d of 10000 finished", finished)
	}
	c.check(t)

	// A wrong n ends by ctx.
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("n was wrong")
	go cancel(why)
	err := c.WaitTimers(ctx, 1)
	if !errors.Is(err, why) || err.Error() != "fake: waited for 1 armed timers, now 0: n was wrong" {
		t.Errorf("got %v", err)
	}
	c.check(t)
	if len(c.waits) != 0 {
		t.Error("a wait that ended is kept")
	}
	if err := c.WaitTimers(ctx, 0); err != nil {
		t.Errorf("n met already: %v", err)
	}
	if err := c.WaitTimers(nil, 1); err == nil {
		t.Error("nil ctx: want an error")
	}
}

func TestCLK05_AWaiterParksUntilTheClockMovesOrItIsCancelled(t *testing.T) {
	c := NewClock(time.Time{})
	spins := 0
	wait := func(ctx context.Context) error { // sleep, then measure again, as the report's limiter does
		due := c.Now().Add(time.Second)
		for c.Now().Before(due) {
			spins++
			fired := make(chan struct{})
			stop := c.AfterFunc(due.Sub(c.Now()), func() { close(fired) })
			select {
			case <-fired:
			case <-ctx.Done():
				stop()
				return context.Cause(ctx)
			}
		}
		return nil
	}
	for name, move := range map[string]func(context.CancelFunc){
		"advance": func(context.CancelFunc) { c.Advance(time.Second) },
		"cancel":  func(cancel context.CancelFunc) { cancel() },
	} {
		spins = 0
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- wait(ctx) }()
		if err := c.WaitTimers(ctx, 1); err != nil {
			t.Fatal(err)
		}
		move(cancel)
		err := <-done
		if (err == nil) != (name == "advance") || spins != 1 {
			t.Errorf("%s: %v after %d rounds, want 1", name, err, spins)
		}
		cancel()
		if c.Timers() != 0 {
			t.Errorf("%s: %d timers left", name, c.Timers())
		}
	}
}

func TestCLK07_ManyGoroutinesUseTheClockWhileItAdvances(t *testing.T) {
	c := NewClock(time.Time{})
	var wg sync.WaitGroup
	halt := make(chan struct{})
	for range 100 {
		wg.Go(func() {
			for {
				select {
				case <-halt:
					return
				default:
				}
				stop := c.AfterFunc(time.Millisecond, func() {
					c.Now()
					c.AfterFunc(time.Millisecond, func() { c.Timers() })()
				})
				c.Now()
				stop()
				ctx, cancel := c.WithTimeout(context.Background(), time.Millisecond)
				child, stopChild := context.WithCancel(ctx)
				if err := child.Err(); err != nil && err != context.DeadlineExceeded {
					t.Errorf("child: %v, want nothing or its parent's deadline", err)
				}
				stopChild()
				cancel()
			}
		})
	}
	for range 1000 {
		c.Advance(100 * time.Microsecond)
	}
	close(halt)
	wg.Wait()
	c.check(t)
	if c.Timers() != 0 {
		t.Errorf("%d timers left", c.Timers())
	}
}

func TestUntilEndsWithItsConditionOrItsContext(t *testing.T) {
	c := NewClock(time.Time{})
	go c.AfterFunc(time.Second, func() {})
	if err := Until(context.Background(), func() bool { return c.Timers() == 1 }); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Until(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if Until(nil, func() bool { return true }) == nil || Until(ctx, nil) == nil {
		t.Error("nil arguments: want an error")
	}
}
