package throttle

import (
	"context"
	"fmt"
	"time"
)

// errNotMade is what a zero Limiter answers.
var errNotMade = fmt.Errorf("throttle: the Limiter was not made by New: %w", ErrInvalid)

// The functions below answer a caller that is not let through. Each is called with the lock held,
// counts, and lets go of the lock before it builds the error.

// refuseYet tells the caller that it could start after wait.
func (l *Limiter) refuseYet(why notYet, tokens, weight, wait, allowed, now int64) (Permit, error) {
	d := l.dom
	if why == queueFull {
		l.counts.queueFull++
	} else {
		l.counts.notYet++
	}
	seq := d.next()
	limit := l.rateText
	if wait == 0 {
		limit = l.capText()
	}
	d.unlock(now)
	err := &NotYetError{Limiter: l.name, Limit: limit, RetryAfter: time.Duration(wait), Allowed: time.Duration(allowed), why: why, queue: l.maxQueue}
	if l.trace != nil {
		l.call(l.trace.Refused, Event{Seq: seq, ID: seq, At: d.time(now), Wait: err.RetryAfter, Tokens: tokens, Weight: weight, Err: err})
	}
	return Permit{}, err
}

// capText names the cap, for errors. It allocates only for large caps; see Stats for the number held.
func (l *Limiter) capText() string {
	switch {
	case l.cap == nil:
		return l.rateText
	case l.shared:
		return fmt.Sprintf("Semaphore %d", l.cap.size)
	}
	return fmt.Sprintf("MaxInFlight %d", l.cap.size)
}

// refuseMisfit tells the caller never, or that its cost is no cost.
func (l *Limiter) refuseMisfit(tokens, weight, now int64) (Permit, error) {
	d := l.dom
	burst, isClosed, seq := l.bucket.burst, l.isClosed, d.next()
	if burst == 0 {
		burst = -1
	}
	size := int64(-1)
	if l.cap != nil {
		size = l.cap.size
	}
	var err error
	switch {
	case isClosed:
		l.counts.closed++
	case tokens < 0 || tokens == 0 && burst > 0:
		err = invalid(l.name, "cost is %d tokens; want %s", tokens, oneTo(burst))
	case weight < 0 || weight == 0 && size >= 0:
		err = invalid(l.name, "weight is %d; want %s", weight, oneTo(size))
	default:
		l.counts.never++
	}
	d.unlock(now)
	switch {
	case isClosed:
		err = l.closedError()
	case err != nil:
		return Permit{}, err // not counted: it asked for nothing
	case burst > 0 && tokens > burst:
		err = tooLarge(l.name, "cost", tokens, fmt.Sprintf("the burst %d", burst))
	default:
		err = tooLarge(l.name, "weight", weight, fmt.Sprintf("the in-flight cap %d", size))
	}
	if l.trace != nil {
		l.call(l.trace.Refused, Event{Seq: seq, ID: seq, At: d.time(now), Tokens: tokens, Weight: weight, Err: err})
	}
	return Permit{}, err
}

// oneTo is the range of a cost in a limit of that size, which is below 1 where there is none, or a pause.
func oneTo(limit int64) string {
	switch {
	case limit == 0:
		return "1 or more"
	case limit < 0:
		return "0 or more"
	}
	return fmt.Sprintf("1 to %d", limit)
}

func (l *Limiter) closedError() error { return fmt.Errorf("throttle: %q: %w", l.name, ErrClosed) }

// turnedAway returns the error of a caller that was refused while it waited; the lock is free.
func (l *Limiter) turnedAway(c *call, tokens, joined int64) error {
	d := l.dom
	e := Event{Seq: c.seq, ID: c.id, At: d.time(c.at), Wait: time.Duration(c.at - joined), Tokens: tokens, Weight: c.weight}
	switch c.why {
	case byClose:
		e.Err = l.closedError()
	case aboveBurst:
		e.Err = tooLarge(l.name, "cost", tokens, "the burst, which was lowered while it waited")
	case aboveCap:
		e.Err = tooLarge(l.name, "weight", c.weight, "the in-flight cap, which was lowered while it waited")
	}
	d.mu.Lock()
	l.freeCall(c)
	d.mu.Unlock()
	if l.trace != nil {
		l.call(l.trace.Refused, e)
	}
	return e.Err
}

// leaveAtOnce answers a caller whose context is done on arrival.
func (l *Limiter) leaveAtOnce(ctx context.Context, tokens, weight, now int64) (Permit, error) {
	d := l.dom
	l.counts.left++
	seq := d.next()
	d.unlock(now)
	return Permit{}, l.leftError(ctx, Event{Seq: seq, ID: seq, At: d.time(now), Tokens: tokens, Weight: weight})
}

// leftError makes the error of a caller whose context is done, and traces that it left.
func (l *Limiter) leftError(ctx context.Context, e Event) error {
	e.Err = &LeftError{Limiter: l.name, Waited: e.Wait, Cause: context.Cause(ctx), Err: ctx.Err()}
	if l.trace != nil {
		l.call(l.trace.Left, e)
	}
	return e.Err
}
