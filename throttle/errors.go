package throttle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A limiter says no in three ways. Never: one of the sentinels below, since no wait would help.
// Not yet: a *NotYetError, which tells the wait. And the caller's own context: a *LeftError.
// Every text begins with "throttle: " and names the limiter and the numbers; programs look at
// fields and use errors.Is and errors.As.
var (
	// ErrTooLarge: the cost is above the burst, or the weight above the cap.
	ErrTooLarge = errors.New("larger than the limit ever allows")
	// ErrClosed: the limiter is closed.
	ErrClosed = errors.New("limiter is closed")
	// ErrQueueFull: MaxQueue callers are waiting already, or the caller had to make room for another one. The error is a *NotYetError.
	ErrQueueFull = errors.New("the line is full")
	// ErrWouldExceed: the wait would be longer than MaxWait or than the caller's deadline allows.
	// The error is a *NotYetError.
	ErrWouldExceed = errors.New("the wait would be too long")
	// ErrCapped: Wait was called where a cap is set, so that nothing could release the permit.
	ErrCapped = errors.New("limiter has an in-flight cap")
	// ErrUncapped: there is no cap, so that what is in flight is not counted and no cap can be set.
	ErrUncapped = errors.New("limiter has no in-flight cap of its own")
	// ErrInvalid: an argument, or a field of a Config, that is outside its range.
	ErrInvalid = errors.New("invalid")
)

// A Reason says why a caller was told not yet.
type Reason uint8

const (
	NotNow       Reason = iota // a try, and a token, a permit or its turn lacks
	PastMaxWait                // the wait is above MaxWait
	PastDeadline               // the caller's deadline is not after its start
	LineFull                   // MaxQueue callers are waiting
	Dropped                    // a newcomer came when MaxQueue callers were waiting, of whom it was the oldest: DropOldest
)

// A NotYetError refuses a caller who could start after a wait. Nothing was taken.
type NotYetError struct {
	// Limiter is the limiter's Config.Name.
	Limiter string
	// Limit is the limit that binds, with its numbers: "rate 10/s (burst 5)", "MaxInFlight 3" or "MaxQueue 100".
	Limit string
	// RetryAfter is how long the caller would have waited, counting tokens, with the costs ahead of
	// it in the line, and taking permits as free. It is exact to 1 ns for each caller ahead; 0 where
	// only a permit lacks, whose return nobody knows; and the largest Duration where that is too short. For one that was
	// Dropped it is how much longer it would have waited in its place.
	RetryAfter time.Duration
	// Allowed is how long it could have waited: MaxWait, or the time to its deadline. 0 for a try.
	Allowed time.Duration
	// Reason says what the wait was too long for.
	Reason Reason
	// Ahead is how many callers were in line before it when it came; in a tree, in its own limiter's line.
	Ahead int
}

func (e *NotYetError) Error() string {
	wait := fmt.Sprintf("%s: wait %v", e.Limit, e.RetryAfter)
	if e.RetryAfter == 0 {
		wait = e.Limit + ": no permit is free"
	}
	switch e.Reason {
	case PastMaxWait:
		return fmt.Sprintf("throttle: %q: %s, above MaxWait %v", e.Limiter, wait, e.Allowed)
	case PastDeadline:
		if e.Allowed <= 0 {
			return fmt.Sprintf("throttle: %q: the deadline passed %v ago: %v", e.Limiter, -e.Allowed, context.DeadlineExceeded)
		}
		return fmt.Sprintf("throttle: %q: %s, and the deadline is in %v: %v", e.Limiter, wait, e.Allowed, context.DeadlineExceeded)
	case Dropped:
		return fmt.Sprintf("throttle: %q: %s: the oldest in line made room for a newcomer; the wait would have gone on for %v", e.Limiter, e.Limit, e.RetryAfter)
	case LineFull:
		return fmt.Sprintf("throttle: %q: %s callers are waiting already; the wait would be %v", e.Limiter, e.Limit, e.RetryAfter)
	}
	return fmt.Sprintf("throttle: %q: not yet: %s", e.Limiter, wait)
}

// Is makes errors.Is hold for what refused the caller: ErrQueueFull; or ErrWouldExceed, and
// context.DeadlineExceeded too if it was its deadline.
func (e *NotYetError) Is(target error) bool {
	switch target {
	case ErrQueueFull:
		return e.Reason == LineFull || e.Reason == Dropped
	case ErrWouldExceed:
		return e.Reason == PastMaxWait || e.Reason == PastDeadline
	case context.DeadlineExceeded:
		return e.Reason == PastDeadline
	}
	return false
}

// Timeout reports whether the caller's deadline refused it, as net.Error has it.
func (e *NotYetError) Timeout() bool { return e.Reason == PastDeadline }

// A LeftError tells a caller that its own context was done before its start. Nothing was taken.
// It unwraps to context.Cause and to the context's Err.
type LeftError struct {
	Limiter string        // the limiter's Config.Name
	Waited  time.Duration // time spent in the line; 0 if the context came done
	Ahead   int           // callers that were in line before it when it came
	Err     error         // the context's Err: context.Canceled or context.DeadlineExceeded

	ctx context.Context
}

// NewLeftError returns the error of a caller whose context is done, for limiters that are built on this package.
func NewLeftError(ctx context.Context, limiter string, waited time.Duration) *LeftError {
	return &LeftError{Limiter: limiter, Waited: waited, Err: ctx.Err(), ctx: ctx}
}

// Cause returns context.Cause of the caller's context. It is looked up when it is asked for, since that takes the context's lock,
// which whoever cancels many callers at once still holds while they leave.
func (e *LeftError) Cause() error {
	if e.ctx == nil {
		return e.Err
	}
	return context.Cause(e.ctx)
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("throttle: %q: gave up after %v in line, before the start: %v", e.Limiter, e.Waited, e.Cause())
}

// Unwrap returns the cause and the context's own error.
func (e *LeftError) Unwrap() []error { return []error{e.Cause(), e.Err} }

// Timeout reports whether the context ended by its deadline, as net.Error has it.
func (e *LeftError) Timeout() bool { return e.Err == context.DeadlineExceeded }

// tooLarge is the error of a cost or weight that does not fit.
func tooLarge(limiter, what string, asked int64, limit string) error {
	return fmt.Errorf("throttle: %q: %s %d is above %s: %w", limiter, what, asked, limit, ErrTooLarge)
}

// invalid is the error of an argument or field outside its range.
func invalid(limiter, format string, args ...any) error {
	return fmt.Errorf("throttle: %q: %s: %w", limiter, fmt.Sprintf(format, args...), ErrInvalid)
}
