package pool

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/turnstile-go/turnstile/throttle"
)

// DefaultAhead is the Ahead of a Config that sets none.
const DefaultAhead = 64

// A Config says how ForEach and Map run a function for each item of a sequence. The zero Config has no limit but Ahead.
type Config struct {
	// Limiter lets the calls through; nil lets all through at once.
	Limiter throttle.Admitter
	// Cost is that of each call; the zero Cost stands for throttle.One.
	Cost throttle.Cost
	// KeepGoing says that an error ends nothing: each item is tried, and every error is told.
	KeepGoing bool

	// Ahead is how many items Map may have taken from the sequence beyond the results that it has delivered, and so how many calls
	// may be in flight at a time, whatever the Limiter allows: 1 or more; 0 stands for DefaultAhead. ForEach does not look at it.
	Ahead int
	// AsTheyCome has Map deliver results as they come, instead of in the order of their items. ForEach does not look at it.
	AsTheyCome bool
}

// wrong returns what is wrong with the arguments of the function named what.
func (c Config) wrong(what string, ctx context.Context, noSeq, noFunc bool) error {
	text := ""
	switch {
	case c.Ahead < 0:
		text = fmt.Sprintf("Config: Ahead is %d; want 1 or more, or 0 for %d", c.Ahead, DefaultAhead)
	case ctx == nil:
		text = "the context is nil; want context.Background() or the caller's"
	case noSeq:
		text = "the sequence is nil; want one of no items, if there are none"
	case noFunc:
		text = "the function is nil; want one to call for each item"
	default:
		return nil
	}
	return fmt.Errorf("pool: %s: %s: %w", what, text, throttle.ErrInvalid)
}

// errEnded is the cause with which calls end whose results nobody wants any more.
var errEnded = errors.New("pool: nobody waits for the result any more")

// ForEach calls f for each item of seq, under the limiter, in goroutines, and waits for all. The calls start in the order of the items.
//
// Items are taken from seq by the caller's own goroutine, each when the one before it has started: never more than one that waits for
// its start. The first error, of f or of the limiter, ends ctx for the others and is returned; with KeepGoing all items are tried, while ctx is
// not done and the limiter not closed, and all errors are returned, joined in the order of the items. A panic of f is carried to the caller as a *PanicError, and a
// Goexit too; seq's own passes through. Whatever happens, nothing is left running when ForEach has returned.
func ForEach[T any](ctx context.Context, c Config, seq iter.Seq[T], f func(context.Context, T) error) error {
	if err := c.wrong("ForEach", ctx, seq == nil, f == nil); err != nil {
		return err
	}
	g, ctx := WithContext(ctx, c.Limiter)
	g.Cost, g.KeepGoing = c.Cost, c.KeepGoing
	waiting := false
	defer func() {
		if !waiting { // seq panicked
			g.cancel(errEnded)
			g.open.Wait()
		}
	}()
	for item := range seq {
		refusal := g.add(ctx, g.cost(), func(ctx context.Context) error { return f(ctx, item) }, nil)
		if refusal != nil && (!c.KeepGoing || ctx.Err() != nil || errors.Is(refusal, throttle.ErrClosed)) {
			break
		}
	}
	waiting = true
	return g.Wait()
}
