package throttle

import (
	"context"
	"fmt"
	"time"
)

// Close turns everybody away: those who wait, here and in limiters below, and those who come later are told ErrClosed. What is
// in flight goes on, and its permits are released as ever. Close returns at once, and may be called again.
func (l *Limiter) Close() {
	if l == nil || l.dom == nil {
		return
	}
	l.dom.mu.Lock()
	now := l.dom.now()
	if !l.isClosed {
		l.dom.catchUp(now)
		l.isClosed = true
		l.turnAway(byClose, "", func(*line, *call) bool { return true }, now)
		l.dom.run(now)
	}
	l.dom.unlock(now)
}

// Drain waits until nothing is in flight through this limiter, or ctx is done. Without Close before it, callers go
// on starting. Where there is no cap, what is in flight is not counted, and Drain returns ErrUncapped.
func (l *Limiter) Drain(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("throttle: Drain: the context is nil; want context.Background() or the caller's: %w", ErrInvalid)
	}
	if l == nil || l.dom == nil {
		return errNotMade
	}
	if l.cap == nil {
		return fmt.Errorf("throttle: %q: Drain: what is in flight is not counted: %w", l.name, ErrUncapped)
	}
	l.dom.mu.Lock()
	if l.flying() == 0 {
		l.dom.mu.Unlock()
		return nil
	}
	if l.emptied == nil {
		l.emptied = make(chan struct{})
	}
	emptied, start := l.emptied, l.dom.now()
	l.dom.mu.Unlock()
	select {
	case <-emptied:
		return nil
	case <-ctx.Done():
	}
	l.dom.mu.Lock()
	held, now := l.flying(), l.dom.now()
	l.dom.mu.Unlock()
	return fmt.Errorf("throttle: %q: Drain: weight %d still in flight after %v: %w", l.name, held, time.Duration(now-start), context.Cause(ctx))
}

// flying returns the weight of the calls that are under way: what is held, and in a dry run what has been let through, less
// what shadows hold. The caller holds the lock.
func (l *Limiter) flying() int64 { return l.held - l.lingering + l.through }

// tellIfDrained wakes those who drain if nothing is in flight any more. The caller holds the lock.
func (l *Limiter) tellIfDrained() {
	if l.emptied != nil && l.flying() == 0 {
		close(l.emptied)
		l.emptied = nil
	}
}
