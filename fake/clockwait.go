package fake

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// WaitTimers waits until at least n timers are armed at one moment, without polling. It returns an error that wraps
// ctx's cause when ctx ends first, and an error at once when ctx is nil.
func (c *Clock) WaitTimers(ctx context.Context, n int) error {
	if ctx == nil {
		return errors.New("fake: Clock.WaitTimers: ctx is nil: must be a context")
	}
	c.mu.Lock()
	if len(c.timers) >= n {
		c.mu.Unlock()
		return nil
	}
	w := &timerWait{n: n, ready: make(chan struct{})}
	if c.waits == nil {
		c.waits = make(map[*timerWait]struct{})
	}
	c.waits[w] = struct{}{}
	c.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waiting := c.waits[w]; !waiting {
		return nil // enough were armed first
	}
	delete(c.waits, w)
	return fmt.Errorf("fake: waited for %d armed timers, now %d: %w", n, len(c.timers), context.Cause(ctx))
}

// timerWait is one WaitTimers under way; ready is closed, and the wait forgotten, once n timers are armed.
type timerWait struct {
	n     int
	ready chan struct{}
}

// Until calls cond again and again, yielding in between, until it reports true: n callers in line, say, by a limiter's
// Stats. It never sleeps. When ctx ends first it returns an error that wraps ctx's cause; a nil ctx or cond is an error at
// once. It keeps one processor busy, so give it conditions that come about at once; within a testing/synctest bubble
// use synctest.Wait in its place, since time stands still there while a goroutine runs.
func Until(ctx context.Context, cond func() bool) error {
	if ctx == nil {
		return errors.New("fake: Until: ctx is nil: must be a context")
	}
	if cond == nil {
		return errors.New("fake: Until: cond is nil: must be a function")
	}
	for !cond() {
		if ctx.Err() != nil {
			return fmt.Errorf("fake: the condition did not come about: %w", context.Cause(ctx))
		}
		runtime.Gosched()
	}
	return nil
}
