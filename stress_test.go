package turnstile_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

var (
	stressFor  = flag.Duration("stress.for", 2*time.Second, "how long TestStress goes on, as in -stress.for=10m")
	stressSeed = flag.Uint64("stress.seed", 0, "the one seed to run, as a failure printed it; 0: new ones")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStress runs scripts made from seeds, each in three ways, and audits every start against C1 to C8:
//
//   - a storm in virtual time: many goroutines, all truly at once wherever their instants meet
//   - a storm in real time, on real timers
//   - one operation at a time, on fake.Clock: the limiter as the plain state machine that it is. This way a
//     seed gives the same history each time, and that is checked.
func TestStress(t *testing.T) {
	seeds := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	begun, rounds := time.Now(), 0
	for {
		seed := *stressSeed
		if seed == 0 {
			seed = seeds.Uint64()>>1 + 1
		}
		stressOnce(t, seed)
		rounds++
		if t.Failed() {
			t.Fatalf("reproduce with: go test -race -run TestStress . -stress.seed=%d", seed)
		}
		if *stressSeed != 0 || time.Since(begun) > *stressFor {
			break
		}
	}
	t.Logf("%d rounds", rounds)
}

func stressOnce(t *testing.T, seed uint64) {
	sc := newScript(seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(sc, nil)
		w.storm(func(d time.Duration) { time.Sleep(d) })
		w.judge(t, fmt.Sprintf("seed %d, virtual time", seed))
	})
	w := newWorld(sc, nil)
	w.storm(func(d time.Duration) { // in real time a call lasts for some turns of the scheduler
		for range d / (50 * time.Microsecond) {
			runtime.Gosched()
		}
	})
	w.judge(t, fmt.Sprintf("seed %d, real time", seed))

	first := alone(t, sc, fmt.Sprintf("seed %d, alone", seed))
	again := alone(t, sc, fmt.Sprintf("seed %d, alone again", seed))
	for _, line := range first {
		if !slices.Contains(again, line) {
			t.Errorf("seed %d: alone, the state machine did this once, and then not:\n%s", seed, line)
		}
	}
	for _, line := range again {
		if !slices.Contains(first, line) {
			t.Errorf("seed %d: alone, the state machine did this the second time only:\n%s", seed, line)
		}
	}
}

// A script is what a seed stands for: limits, and operations in order.
type script struct {
	lines  int   // limiters
	cap    int64 // of each, or of the shared semaphore or the parent; 0: none
	shared bool
	tree   bool  // they have a parent, which has the same limits as each of them
	window int64 // each has a quota of AtMost so many in windowSpan besides; 0: none
	rate   throttle.Rate
	burst  int64
	slack  time.Duration
	queue  int
	ops    []op
}

const windowSpan = 2 * time.Millisecond

// An op is one operation. Which fields count depends on its kind.
type op struct {
	kind     kind
	line     int
	cost     throttle.Cost
	patience time.Duration // of its context: 0 has no end, below 0 is over already
	cancels  bool          // by cancel and not by deadline
	hold     time.Duration
	releases int   // how often it gives its permit back
	actual   int64 // what it is settled to before; -1: not at all
	rate     throttle.Rate
	n        int64
	after    time.Duration // since the operation before
}

type kind int

const (
	acquire kind = iota
	try
	doPanic
	setRate
	setBurst
	setQuota
	resize
	pause
	closeLine
)

// changes reports whether such an operation changes a limit, and is no call.
func (k kind) changes() bool { return k >= setRate }

func newScript(seed uint64) *script {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
	sc := &script{
		lines: 1 + r.IntN(2),
		cap:   pick(0, 1, 2, 4, 8),
		rate:  throttle.PerSecond(pick(500, 3000, 7777, 20_000)),
		burst: pick(3, 4, 10, 50),
		slack: time.Duration(pick(int64(throttle.NoSlack), 0, int64(time.Millisecond))),
		queue: int(pick(0, 0, 5, 40)),
	}
	switch r.IntN(3) {
	case 0:
		sc.shared = sc.cap > 0 && sc.lines == 2
	case 1:
		sc.tree = true
		sc.lines = 1 + r.IntN(3)
		sc.window = pick(0, 4, 9)
	}
	for range 250 {
		o := op{
			kind:     acquire,
			line:     r.IntN(sc.lines),
			cost:     throttle.Cost{Tokens: 1 + r.Int64N(3), Weight: 1 + r.Int64N(3)},
			hold:     time.Duration(r.Int64N(int64(time.Millisecond))),
			releases: 1,
			actual:   -1,
			rate:     throttle.PerSecond(pick(400, 2500, 9999, 30_000)),
			n:        pick(1, 2, 3, 5, 20),
			after:    time.Duration(r.Int64N(int64(200 * time.Microsecond))),
		}
		switch p := r.IntN(100); {
		case p < 10:
			o.patience = -1
		case p < 40:
			o.patience = time.Duration(1 + r.Int64N(int64(2*time.Millisecond)))
			o.cancels = r.IntN(2) == 0
		}
		if r.IntN(8) == 0 {
			o.releases = 2 + r.IntN(2)
		}
		if sc.tree && r.IntN(2) == 0 {
			o.actual = r.Int64N(o.cost.Tokens + 1)
		}
		if p := r.IntN(100); p >= 75 {
			o.kind = try + kind(r.IntN(int(closeLine-try)))
		}
		if o.kind == resize && r.IntN(3) == 0 {
			o.n = 0 // a pause, until the next resize
		}
		sc.ops = append(sc.ops, o)
	}
	// Whatever was paused goes on, and one line may close before the end.
	for line := range sc.lines {
		sc.ops = append(sc.ops, op{kind: resize, line: line, n: 4}, op{kind: resize, line: line, n: 5})
	}
	if r.IntN(3) == 0 {
		sc.ops = append(sc.ops, op{kind: closeLine, line: r.IntN(sc.lines)})
	}
	return sc
}

// A world is the limiters of one run, and what was seen of them.
type world struct {
	*script
	lims   []*throttle.Limiter
	sem    *throttle.Semaphore
	parent *throttle.Limiter
	ledger fake.Ledger
	config fake.AuditConfig

	mu      sync.Mutex
	starts  []started
	actual  map[callID]int64 // what calls were settled to
	asked   []uint64         // by line: callers with a valid cost
	doubles []uint64
	faults  []string
}

// A callID names a call of a line.
type callID struct {
	line string
	id   uint64
}

// A started is a start, which goes to the ledger when what it was settled to is known.
type started struct {
	callID
	e throttle.Event
}

func newWorld(sc *script, clock throttle.Clock) *world {
	w := &world{script: sc, actual: map[callID]int64{}, asked: make([]uint64, sc.lines), doubles: make([]uint64, sc.lines)}
	w.config = fake.AuditConfig{Lines: map[string]fake.Limits{}, Slack: max(sc.slack, 0)}
	if sc.slack == 0 {
		w.config.Slack = throttle.DefaultSlack
	}
	if sc.shared {
		w.sem, _ = throttle.NewSemaphore(sc.cap)
		w.config.MaxInFlight = sc.cap
	}
	if sc.tree {
		parent, err := throttle.New(throttle.Config{
			Name: "parent", Rate: sc.rate, Burst: sc.burst, MaxInFlight: sc.cap, Slack: sc.slack, Clock: clock,
			Trace: &throttle.Trace{LimitChanged: func(e throttle.Event) {
				w.ledger.Limit(e.Seq, e.At, e.Rate.N, e.Rate.Period, e.Burst, e.MaxInFlight)
			}},
		})
		if err != nil {
			panic(err)
		}
		w.parent = parent
		w.config.Limits = fake.Limits{N: sc.rate.N, Period: sc.rate.Period, Burst: sc.burst, MaxInFlight: sc.cap}
	}
	for i := range sc.lines {
		name := fmt.Sprint("line", i)
		c := throttle.Config{
			Name: name, Rate: sc.rate, Burst: sc.burst, Slack: sc.slack,
			MaxQueue: sc.queue, Clock: clock, Trace: w.trace(name),
		}
		if sc.tree {
			c.Parent, c.Share, c.Settled = w.parent, 1+int64(i), true
			if sc.window > 0 {
				c.Quotas = []throttle.Quota{throttle.AtMost(sc.window, windowSpan)}
			}
		}
		limits := fake.Limits{N: sc.rate.N, Period: sc.rate.Period, Burst: sc.burst}
		if sc.shared {
			c.Semaphore = w.sem
		} else {
			c.MaxInFlight, limits.MaxInFlight = sc.cap, sc.cap
		}
		lim, err := throttle.New(c)
		if err != nil {
			panic(err)
		}
		w.lims = append(w.lims, lim)
		w.config.Lines[name] = limits
	}
	return w
}

// trace writes a limiter's events to the ledger.
func (w *world) trace(name string) *throttle.Trace {
	// Limiters that share no lock number their events apart: each line has its ids and its seq, and no
	// promise in the ledger spans two of them.
	n := w.ledger.Line(name)
	return &throttle.Trace{
		Queued: func(e throttle.Event) { n.Join(e.ID, e.Seq, e.At) },
		Started: func(e throttle.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.starts = append(w.starts, started{callID{name, e.ID}, e})
		},
		Released: func(e throttle.Event) { n.End(e.ID, e.Seq, e.At) },
		Left:     func(e throttle.Event) { n.Leave(e.ID, e.Seq, e.At) },
		Refused:  func(e throttle.Event) { n.Leave(e.ID, e.Seq, e.At) },
		LimitChanged: func(e throttle.Event) {
			inFlight := e.MaxInFlight
			if w.shared {
				w.ledger.Limit(e.Seq, e.At, 0, 0, 0, inFlight)
				inFlight = fake.NoCap
			}
			n.Limit(e.Seq, e.At, e.Rate.N, e.Rate.Period, e.Burst, inFlight)
		},
	}
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// storm runs the script's operations from many goroutines at once. One makes all changes of limits, since
// a caller may wait for the change that ends a pause.
func (w *world) storm(hold func(time.Duration)) {
	const workers = 32
	var all sync.WaitGroup
	all.Go(func() {
		for _, o := range w.ops {
			if o.kind.changes() {
				hold(o.after)
				w.change(o)
			}
		}
	})
	for g := range workers {
		all.Go(func() {
			for i := g; i < len(w.ops); i += workers {
				if o := w.ops[i]; !o.kind.changes() {
					hold(o.after)
					w.call(o, hold)
				}
			}
		})
	}
	all.Wait()
}

// change carries out o, which changes a limit.
func (w *world) change(o op) {
	lim := w.lims[o.line]
	if w.tree && o.n%2 == 0 {
		lim = w.parent
	}
	var err error
	switch o.kind {
	case pause:
		err = lim.PauseFor(o.hold)
	case setRate:
		err = lim.SetRate(o.rate)
	case setBurst:
		err = lim.SetBurst(max(o.n, 3))
	case setQuota:
		err = lim.SetQuota(throttle.Quota{Rate: o.rate, Burst: max(o.n, 3)})
	case resize:
		switch {
		case w.shared:
			err = w.sem.Resize(o.n)
		case w.cap > 0:
			err = lim.SetMaxInFlight(o.n)
		default:
			if err := lim.SetMaxInFlight(o.n); !errors.Is(err, throttle.ErrUncapped) {
				w.fault("SetMaxInFlight without a cap: %v", err)
			}
		}
	case closeLine:
		lim.Close()
	}
	if err != nil {
		w.fault("%v: %v", o, err)
	}
}

// context makes the caller's context.
func (o op) context() (context.Context, context.CancelFunc) {
	switch {
	case o.patience < 0:
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	case o.patience > 0 && o.cancels:
		ctx, cancel := context.WithCancelCause(context.Background())
		timer := time.AfterFunc(o.patience, func() { cancel(errImpatient) })
		return ctx, func() { timer.Stop(); cancel(nil) }
	case o.patience > 0:
		return context.WithTimeout(context.Background(), o.patience)
	}
	return context.Background(), func() {}
}

var errImpatient = errors.New("impatient")

// call is one caller: it acquires, holds and releases, as often as o says.
func (w *world) call(o op, hold func(time.Duration)) {
	lim := w.lims[o.line]
	ctx, cancel := o.context()
	defer cancel()
	var p throttle.Permit
	var err error
	switch o.kind {
	case try:
		p, err = lim.TryAcquireCost(o.cost)
	case doPanic:
		func() {
			defer func() {
				if recover() == nil && err == nil {
					w.fault("Do swallowed a panic")
				}
			}()
			err = lim.Do(ctx, func(context.Context) error { hold(o.hold); panic("as asked") })
		}()
	default:
		p, err = lim.AcquireCost(ctx, o.cost)
	}
	w.count(o, ctx, p, err)
	if err != nil || o.kind == doPanic {
		return
	}
	hold(o.hold)
	w.settle(o, p)
	var all sync.WaitGroup
	for range o.releases - 1 { // copies, all at once
		all.Go(p.Release)
	}
	p.Release()
	all.Wait()
}

// settle settles the call to what it cost, if it is to be settled.
func (w *world) settle(o op, p throttle.Permit) {
	if !w.tree || o.actual < 0 {
		return
	}
	if err := p.Settle(throttle.Cost{Tokens: o.actual}); err != nil {
		w.fault("%v: %v", o, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.actual[callID{fmt.Sprint("line", o.line), p.ID()}] = o.actual
}

// tell writes the starts to the ledger, at what they were settled to, and judges the quotas that the ledger does not know.
func (w *world) tell(t *testing.T, run string) {
	t.Helper()
	inWindow := map[string][]started{}
	slices.SortFunc(w.starts, func(a, b started) int { return cmp.Compare(a.e.Seq, b.e.Seq) })
	for _, s := range w.starts {
		if k, ok := w.actual[s.callID]; ok {
			s.e.Tokens = k
		}
		w.ledger.Line(s.line).Start(s.e.ID, s.e.Seq, s.e.At, s.e.Nominal, s.e.Tokens, s.e.Weight)
		if w.window == 0 {
			continue
		}
		in := append(inWindow[s.line], s)
		for !in[0].e.At.Add(windowSpan).After(s.e.At) {
			in = in[1:]
		}
		inWindow[s.line] = in
		spent := int64(0)
		for _, x := range in {
			spent += x.e.Tokens
		}
		if spent > w.window {
			t.Errorf("%s: %s: %d tokens started within %v before %v; at most %d", run, s.line, spent, windowSpan, s.e.At, w.window)
		}
	}
}

// count keeps the books and checks that an error is of the kind that it should be.
func (w *world) count(o op, ctx context.Context, p throttle.Permit, err error) {
	w.mu.Lock()
	w.asked[o.line]++
	if err == nil && o.kind != doPanic && (w.cap > 0 || w.tree) {
		w.doubles[o.line] += uint64(o.releases - 1)
	}
	w.mu.Unlock()
	var yet *throttle.NotYetError
	var gone *throttle.LeftError
	switch {
	case err == nil:
		if o.patience < 0 && o.kind != try {
			w.fault("C4: %v was started though its context was done before", o)
		}
	case p != throttle.Permit{}:
		w.fault("%v: an error and a permit: %v", o, err)
	case errors.As(err, &yet):
		if yet.RetryAfter < 0 || yet.Limit == "" || yet.Limiter == "" {
			w.fault("%v: %#v", o, yet)
		}
	case errors.As(err, &gone):
		if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) || !errors.Is(err, ctx.Err()) {
			w.fault("%v: left with %v, but the context says %v", o, err, ctx.Err())
		}
	case !errors.Is(err, throttle.ErrTooLarge) && !errors.Is(err, throttle.ErrClosed):
		w.fault("%v: %v", o, err)
	}
}

// judge checks that nothing is left over, that the books agree, and that the contract was kept.
func (w *world) judge(t *testing.T, run string) {
	t.Helper()
	for i, lim := range w.lims {
		if w.cap > 0 {
			if err := lim.Drain(context.Background()); err != nil {
				t.Errorf("%s: %v", run, err)
			}
		}
		s := lim.Stats()
		if s.Waiting != 0 || s.InFlight != 0 || answers(s) != w.asked[i] || s.DoubleReleases != w.doubles[i] {
			t.Errorf("%s: line %d: at rest, %d asked and %d doubles: %+v", run, i, w.asked[i], w.doubles[i], s)
		}
	}
	if w.sem != nil && w.sem.InFlight() != 0 {
		t.Errorf("%s: the semaphore has %d in flight at rest", run, w.sem.InFlight())
	}
	for _, f := range w.faults {
		t.Errorf("%s: %s", run, f)
	}
	w.tell(t, run)
	if report := fake.Audit(&w.ledger, w.config); !report.OK() {
		t.Errorf("%s: %d lines, cap %d, shared %v, slack %v, queue %d: %v", run, w.lines, w.cap, w.shared, w.slack, w.queue, report)
	}
}

// alone runs the script one operation at a time, moving the clock from one timer to the next and letting everybody
// come to rest in between. It returns what happened, a line for each call.
func alone(t *testing.T, sc *script, run string) []string {
	t.Helper()
	clock := fake.NewClock(time.Time{})
	w := newWorld(sc, clock)
	patience, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	until := func(cond func() bool) {
		if err := fake.Until(patience, cond); err != nil {
			t.Fatalf("%s: %v", run, err)
		}
	}
	type caller struct {
		ctx  context.Context
		line int
	}
	live := map[int]caller{} // callers that have not returned; under w.mu
	atRest := func() bool {  // each caller has booked its answer, or stands in line with a live context that outlasts every pause
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range live {
			paused := w.lims[c.line].Stats().Paused
			if w.tree {
				paused = max(paused, w.parent.Stats().Paused)
			}
			deadline, ok := c.ctx.Deadline()
			if c.ctx.Err() != nil || ok && paused > 0 && !deadline.After(clock.Now().Add(paused)) {
				return false
			}
		}
		booked, answered := uint64(0), uint64(0)
		for i, lim := range w.lims {
			booked += w.asked[i]
			answered += answers(lim.Stats())
		}
		return booked == answered
	}

	var all sync.WaitGroup
	begin := func(i int, o op) {
		lim := w.lims[o.line]
		before := lim.Stats()
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if o.patience != 0 {
			ctx, cancel = clock.WithTimeout(ctx, o.patience)
		}
		w.mu.Lock()
		live[i] = caller{ctx, o.line}
		w.mu.Unlock()
		all.Go(func() {
			var p throttle.Permit
			var err error
			if o.kind == try {
				p, err = lim.TryAcquireCost(o.cost)
			} else {
				o.kind = acquire
				p, err = lim.AcquireCost(ctx, o.cost)
			}
			if err == nil { // the clock's driver gives it back
				clock.AfterFunc(o.hold, func() {
					w.settle(o, p)
					for range o.releases {
						p.Release()
					}
				})
			}
			cancel() // before it counts as returned, lest its timer move the clock
			w.mu.Lock()
			delete(live, i)
			w.mu.Unlock()
			w.count(o, ctx, p, err)
		})
		until(func() bool {
			s := lim.Stats()
			return answers(s)+uint64(s.Waiting) > answers(before)+uint64(before.Waiting)
		})
	}

	now := time.Duration(0)
	var due []int
	for i, o := range sc.ops {
		now += o.after
		clock.AfterFunc(now, func() { due = append(due, i) })
	}
	for {
		if _, more := clock.AdvanceToNext(); !more {
			break
		}
		until(atRest)
		for _, i := range due {
			if o := sc.ops[i]; o.kind.changes() {
				w.change(o)
			} else {
				begin(i, o)
			}
			until(atRest)
		}
		due = nil
	}
	until(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(live) == 0 })
	all.Wait()
	w.judge(t, run)
	var history []string
	for i, lim := range w.lims {
		history = append(history, fmt.Sprintf("line %d: %+v", i, lim.Stats()))
	}
	since := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return t.Sub(fake.Epoch)
	}
	for _, e := range w.ledger.Entries() {
		// Not the ids: callers that a pause turns away at one instant go in any order.
		history = append(history, fmt.Sprintf("%s: a call joined %v, started %v, ended %v, left %v",
			e.Line, since(e.Joined), since(e.Nominal), since(e.Ended), since(e.Left)))
	}
	slices.Sort(history)
	return history
}

// answers is how many callers have had their answer.
func answers(s throttle.Stats) uint64 {
	return s.Started + s.Left + s.RefusedNever + s.RefusedNotYet + s.RefusedQueueFull + s.RefusedClosed
}
