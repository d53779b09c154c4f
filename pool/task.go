package pool

import (
	"context"

	"github.com/turnstile-go/turnstile/throttle"
)

// A task is one function of a Group. It is also the context that the function gets: the limiter's, with the task as a value, so
// that Go can tell who calls it.
type task struct {
	context.Context
	group  *Group
	number int
	cost   throttle.Cost
	f      func(context.Context) error
	done   func(ending)    // in the place of the Group's Report, if set
	under  context.Context // what it was added with
	held   throttle.Held
	unjoin func()
}

// member is the key of a Group's context, whose value is the *task, or nil between tasks.
type member struct{ group *Group }

// Value returns the task itself to its Group.
func (t *task) Value(key any) any {
	if m, ok := key.(member); ok && m.group == t.group {
		return t
	}
	return t.Context.Value(key)
}

// add has a task wait for its start, or keeps it if a task of the group adds it.
func (g *Group) add(ctx context.Context, c throttle.Cost, f func(context.Context) error, done func(ending)) error {
	t := &task{group: g, number: g.number(), cost: c, f: f, done: done}
	g.open.Add(1)
	if err := usable(ctx, f == nil); err != nil {
		t.end(false, ending{err: err})
		return err
	}
	t.under = g.outlasting(ctx)
	if adder, _ := ctx.Value(member{g}).(*task); adder != nil {
		g.keep(t)
		return nil
	}
	return t.start()
}

// outlasting returns the context in whose place a task's own is that adds another: the task's may end with its permit.
func (g *Group) outlasting(ctx context.Context) context.Context {
	if adder, ok := ctx.(*task); ok && adder.group == g {
		return adder.under
	}
	return ctx
}

// join returns ctx, or one derived from it that ends with the group's as well, and how to let go of it.
func (g *Group) join(ctx context.Context) (joined context.Context, unjoin func()) {
	if g.ctx == nil {
		return ctx, func() {}
	}
	if _, ours := ctx.Value(member{g}).(*task); ours {
		return ctx, func() {}
	}
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })
	return joined, func() {
		stop()
		cancel(nil)
	}
}

// start waits for the task's turn and starts its goroutine. A limiter that panics, by its Trace, is the task's outcome.
func (t *task) start() (refusal error) {
	var ctx context.Context
	ctx, t.unjoin = t.group.join(t.under)
	attempt(func() (err error) {
		t.Context, t.held, err = t.group.limiter().Admit(ctx, t.cost)
		return err
	}, func(end ending) {
		if refusal = end.err; refusal != nil {
			t.unjoin()
			t.end(false, end)
			return
		}
		go t.run()
	})
	return refusal
}

func (t *task) run() {
	attempt(func() error {
		defer t.unjoin()
		defer t.held.Release()
		return t.f(t)
	}, func(end ending) { t.end(true, end) })
}

// end reports the outcome.
func (t *task) end(started bool, end ending) {
	g := t.group
	g.note(t, end)
	attempt(func() error {
		switch {
		case t.done != nil:
			t.done(end)
		case g.Report != nil:
			g.Report(Outcome{t.number, started, end.err})
		}
		return nil
	}, func(reported ending) {
		g.note(t, reported)
		g.open.Done()
	})
}

// keep puts t behind those kept, and sees to it that they are started.
func (g *Group) keep(t *task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = append(g.kept, t)
	g.startKeptLocked()
}

func (g *Group) startKeptLocked() {
	if len(g.kept) > 0 && !g.starting {
		g.starting = true
		g.open.Add(1)
		go g.startKept()
	}
}

// startKept starts those kept, one after the other.
func (g *Group) startKept() {
	defer g.open.Done()
	defer func() { // also if a Trace of the limiter ends this goroutine
		g.mu.Lock()
		defer g.mu.Unlock()
		g.starting = false
		g.startKeptLocked()
	}()
	for {
		t := g.nextKept()
		if t == nil {
			return
		}
		t.start()
	}
}

func (g *Group) nextKept() *task {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.kept) == 0 {
		return nil
	}
	t := g.kept[0]
	g.kept[0], g.kept = nil, g.kept[1:]
	return t
}
