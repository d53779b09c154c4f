package fake

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// WithTimeout is WithDeadline with the deadline d from now on this clock.
func (c *Clock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithDeadline(parent, c.Now().Add(d))
}

// WithDeadline is context.WithDeadline on this clock: Deadline reports at, and Done closes, with Err
// context.DeadlineExceeded, inside the Advance that reaches it. context.Cause and contexts derived from it work as ever.
// Call stop when done with it: it ends the context with context.Canceled and disarms the timer.
//
// Where parent was made on the same clock and ends no later, its deadline holds and no timer is armed. An instant not
// after Now gives a context that has ended already. After a Step the timer keeps its remaining duration, though Deadline
// still reports at. A parent's own end reaches this context at once, and from there, by a goroutine that ends at once, its
// children and its timer. A nil parent is a bug of the caller and panics, as in package context.
func (c *Clock) WithDeadline(parent context.Context, at time.Time) (ctx context.Context, stop context.CancelFunc) {
	if parent == nil {
		panic("fake: Clock.WithDeadline: parent is nil: must be a context")
	}
	key := clockKey{c}
	if earlier, ok := parent.Deadline(); ok && !earlier.After(at) && parent.Value(key) != nil {
		return context.WithCancel(parent)
	}
	d := &deadlineCtx{parent: parent, key: key, at: at}
	d.inner, d.cancel = context.WithCancelCause(parent)
	d.unwatch = context.AfterFunc(d.inner, d.release)

	late := c.lateness()
	c.mu.Lock()
	left := at.Sub(c.wall)
	if left > 0 {
		disarm := c.armLocked(left, late, func() { d.end(context.DeadlineExceeded) })
		c.mu.Unlock()
		d.setDisarm(disarm)
	} else {
		c.mu.Unlock()
		d.end(context.DeadlineExceeded)
	}
	return d, func() { d.end(context.Canceled) }
}

// clockKey finds, among a context's values, whether its deadline is on a clock.
type clockKey struct{ clock *Clock }

// deadlineCtx is a context with its deadline on a Clock. Package context offers no way to end a context of its own with
// DeadlineExceeded, so this is built around one: inner, a child of parent that nobody else sees. It gives Done and settles who
// ended it first; when that was deadline or stop, its cause is an *ownEnd that says so.
//
// Truths: 1. Done is closed if and only if Err is not nil, and Err never changes again. 2. A derived context ends with this
// context's own Err, which is why it must come through AfterFunc: were inner to be found by Value, package context would
// hang it on inner and end it with Canceled. 3. Once ended, no hook and no timer is kept.
type deadlineCtx struct {
	parent  context.Context
	key     clockKey
	at      time.Time
	inner   context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool

	mu     sync.Mutex
	disarm func() bool
	hooks  map[*hook]struct{}
}

type hook struct{ f func() }

// ownEnd is inner's cause where deadline or stop ended it: err is what Err says; values, the parent's values under an
// ended context with that cause, is where context.Cause finds it.
type ownEnd struct {
	err    error
	values context.Context
}

func (e *ownEnd) Error() string { return e.err.Error() }

func (d *deadlineCtx) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadlineCtx) Done() <-chan struct{} { return d.inner.Done() }

func (d *deadlineCtx) Err() error {
	err := d.inner.Err()
	if err == nil {
		return nil
	}
	if own, ok := context.Cause(d.inner).(*ownEnd); ok {
		return own.err
	}
	return err
}

func (d *deadlineCtx) Value(key any) any {
	if key == any(d.key) {
		return d
	}
	if own, ok := context.Cause(d.inner).(*ownEnd); ok {
		return own.values.Value(key)
	}
	return d.parent.Value(key)
}

func (d *deadlineCtx) String() string {
	return fmt.Sprintf("fake.Clock.WithDeadline(%v)", d.at)
}

// AfterFunc has f called when the context ends; package context looks for this method and hangs derived contexts on it.
func (d *deadlineCtx) AfterFunc(f func()) (stop func() bool) {
	h := &hook{f}
	d.mu.Lock()
	if d.inner.Err() != nil {
		d.mu.Unlock()
		go f() // package context holds a lock that f needs
		return func() bool { return false }
	}
	if d.hooks == nil {
		d.hooks = make(map[*hook]struct{})
	}
	d.hooks[h] = struct{}{}
	d.mu.Unlock()
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, had := d.hooks[h]
		delete(d.hooks, h)
		return had
	}
}

// end ends the context with err, unless it has ended, and everything that hangs on it before it returns.
func (d *deadlineCtx) end(err error) {
	if d.inner.Err() == nil {
		values, cancel := context.WithCancelCause(context.WithoutCancel(d.parent))
		cancel(err)
		d.unwatch()
		d.cancel(&ownEnd{err, values})
	}
	d.release()
}

// release disarms the timer and calls the hooks of a context that has ended.
func (d *deadlineCtx) release() {
	d.mu.Lock()
	disarm, hooks := d.disarm, d.hooks
	d.disarm, d.hooks = nil, nil
	d.mu.Unlock()
	if disarm != nil {
		disarm()
	}
	for h := range hooks {
		h.f()
	}
}

// setDisarm keeps what disarms the timer, or uses it where the context has ended meanwhile.
func (d *deadlineCtx) setDisarm(disarm func() bool) {
	d.mu.Lock()
	d.disarm = disarm
	d.mu.Unlock()
	if d.inner.Err() != nil {
		d.release()
	}
}
