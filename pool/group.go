package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Group runs tasks under a limiter and waits for them, in the shape of errgroup.Group. Make it by WithContext, so that the first error ends
// the others; or use the zero Group, which has no limits and does not cancel, or one with its fields set. The fields are to be set before the
// first task. A Group must not be copied, nor used again after Wait.
//
//	from      event                                  to        who moves it
//	-         Go                                     in line   the caller of Go, who waits
//	-         Go, by a task of the Group             kept      the task, which does not wait
//	kept      those kept before it have left         in line   the one goroutine that starts those kept
//	in line   the limiter refuses it                 ended     who waits
//	in line   the limiter lets it through            running   who waits, by starting the task's goroutine
//	running   the function returned, panicked, ...   ended     the task's goroutine
//
// Truths:
//
//  1. Every task ends, once. It is reported then, and Wait returns after the report of the last.
//  2. Only a running task has a goroutine of its own and holds a permit. The permit is given back before the task is reported.
//  3. Tasks added by one goroutine, or by one task, get in line in the order in which they were added.
//  4. While tasks are kept, one goroutine starts them, one after the other. It holds no permit while it waits.
//
// Adding a task costs what the limiter costs, a goroutine, and about 150 bytes.
type Group struct {
	// Limiter lets the tasks through; nil lets all through at once.
	Limiter throttle.Admitter
	// Cost is that of each task added by Go or TryGo; the zero Cost stands for throttle.One.
	Cost throttle.Cost
	// KeepGoing says that an error ends no other task, and that Wait returns all errors.
	KeepGoing bool
	// Report, if set, is told the outcome of each task, once, after its permit is given back: by the task's goroutine, or, of a task that was
	// refused, by whoever waited for it. It may be called by several goroutines at a time.
	Report func(Outcome)

	ctx    context.Context // WithContext's, or nil
	cancel context.CancelCauseFunc
	added  atomic.Int64
	open   sync.WaitGroup // tasks that have not ended

	mu       sync.Mutex
	first    error     // the first error, unless KeepGoing
	all      []failure // if KeepGoing
	broken   error     // the first panic, or the first Goexit if there was no panic
	kept     []*task
	starting bool // a goroutine starts those kept
}

type failure struct {
	task int
	err  error
}

// WithContext returns a Group whose tasks pass lim, and the context to add them with, derived from ctx. It ends with the first error of a task,
// unless KeepGoing is set, with the first panic, and when Wait returns.
func WithContext(ctx context.Context, lim throttle.Admitter) (*Group, context.Context) {
	g := &Group{Limiter: lim}
	if ctx == nil {
		bad, cancel := context.WithCancelCause(context.Background())
		cancel(fmt.Errorf("pool: WithContext: the context is nil; want context.Background() or the caller's: %w", throttle.ErrInvalid))
		ctx = bad
	}
	ctx, g.cancel = context.WithCancelCause(ctx)
	g.ctx = context.WithValue(ctx, member{g}, (*task)(nil))
	return g, g.ctx
}

// Go waits until f may start, and calls it in a new goroutine. It reports whether f was started; if not, the limiter's refusal is
// the task's outcome, as an error of f would be, and Wait returns it.
//
// Go waits under ctx, and f gets what the limiter makes of ctx: mostly one derived from it. In a Group made by WithContext it is that
// function's context or one derived from it; any other ends with the Group as well, at the price of a context more for each task.
//
// A task may add tasks to its own Group, with the context that it was given. Then Go does not wait, for the task holds a permit, perhaps the very one
// that it would wait for: it keeps f, returns true, and a goroutine of the Group's gets f in line, under the context that the task itself was added
// with. (A context derived from the task's own works too, and f gets in line under that one; the task must not end it.) Those kept
// take memory, without a bound. With any other context Go waits as ever, and a limiter whose permits are all held by tasks that do so
// starts nobody any more.
func (g *Group) Go(ctx context.Context, f func(context.Context) error) bool {
	return g.GoCost(ctx, g.cost(), f)
}

// GoCost is Go for a cost of its own.
func (g *Group) GoCost(ctx context.Context, c throttle.Cost, f func(context.Context) error) bool {
	return g.add(ctx, c, f, nil) == nil
}

// TryGo is Go without waiting in line. If it returns an error, that of the limiter, there is no such task, and no outcome.
func (g *Group) TryGo(ctx context.Context, f func(context.Context) error) error {
	return g.TryGoCost(ctx, g.cost(), f)
}

// TryGoCost is TryGo for a cost of its own.
func (g *Group) TryGoCost(ctx context.Context, c throttle.Cost, f func(context.Context) error) error {
	if err := usable(ctx, f == nil); err != nil {
		return err
	}
	t := &task{group: g, cost: c, f: f}
	t.under = g.outlasting(ctx)
	ctx, unjoin := g.join(t.under)
	inner, held, err := g.limiter().TryAdmit(ctx, c)
	if err != nil {
		unjoin()
		return err
	}
	t.number = g.number()
	g.open.Add(1)
	t.Context, t.held, t.unjoin = inner, held, unjoin
	go t.run()
	return nil
}

// Wait waits until all tasks have ended. It returns the first error; if KeepGoing is set, it returns all, joined in the order in which the tasks
// were added. If a function panicked, Wait panics with its *PanicError; if one called runtime.Goexit, and none panicked, so does Wait. A task
// must not wait for its own Group.
func (g *Group) Wait() error {
	g.open.Wait()
	g.mu.Lock()
	broken, err := g.broken, g.first
	if len(g.all) > 0 {
		slices.SortFunc(g.all, func(a, b failure) int { return cmp.Compare(a.task, b.task) })
		errs := make([]error, len(g.all))
		for i, f := range g.all {
			errs[i] = f.err
		}
		err = errors.Join(errs...)
	}
	g.mu.Unlock()
	if g.cancel != nil {
		g.cancel(err)
	}
	carry(broken)
	return err
}

// note keeps what Wait is to return, and ends the others if it must.
func (g *Group) note(t *task, end ending) {
	if end.err == nil {
		return
	}
	g.mu.Lock()
	stop := true
	switch {
	case end.broken:
		_, had := g.broken.(*PanicError)
		if _, panicked := end.err.(*PanicError); g.broken == nil || panicked && !had {
			g.broken = end.err
		}
	case t.done != nil:
		stop = false // Map judges its errors itself
	case g.KeepGoing:
		g.all = append(g.all, failure{t.number, end.err})
		stop = false
	case g.first == nil:
		g.first = end.err
	}
	g.mu.Unlock()
	if stop && g.cancel != nil {
		g.cancel(end.err)
	}
}

func (g *Group) number() int { return int(g.added.Add(1) - 1) }

func (g *Group) cost() throttle.Cost {
	if g.Cost.Tokens == 0 && g.Cost.Weight == 0 && g.Cost.Quotas == nil {
		return throttle.One
	}
	return g.Cost
}

func (g *Group) limiter() throttle.Admitter {
	if g.Limiter == nil {
		return unlimited{}
	}
	return g.Limiter
}

// unlimited lets every caller through whose context is not done.
type unlimited struct{}

func (unlimited) Admit(ctx context.Context, _ throttle.Cost) (context.Context, throttle.Held, error) {
	if ctx.Err() != nil {
		return nil, nil, throttle.NewLeftError(ctx, "no limit", 0)
	}
	return ctx, unlimited{}, nil
}

func (u unlimited) TryAdmit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	return u.Admit(ctx, c)
}

func (unlimited) Release() {}

// usable returns what is wrong with the arguments of Go.
func usable(ctx context.Context, noFunc bool) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("pool: Go: the context is nil; want context.Background() or the caller's: %w", throttle.ErrInvalid)
	case noFunc:
		return fmt.Errorf("pool: Go: the function is nil; want the task's: %w", throttle.ErrInvalid)
	}
	return nil
}
