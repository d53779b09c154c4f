package throttle_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A visit is one call of an open-loop trace: when it comes does not depend on answers.
type visit struct {
	at       time.Duration
	level    int // which of the limiters
	cost     throttle.Cost
	lasts    time.Duration // its call, unless its context ends it
	patience time.Duration // after which it is cancelled, less than lasts; 0: never
	deadline time.Duration // after its arrival; 0: none
	tries    bool
	settles  int64 // its cost, halfway through; 0: no
}

// A scenario is limiters and their visits. Changes happen to limiters at instants of their own.
type scenario struct {
	configs []throttle.Config // a Parent is told by below
	below   int               // of all but the first; -1: none
	visits  []visit
	changes []func([]*throttle.Limiter)
	times   []time.Duration
}

// told is a Trace that keeps everything.
type told struct {
	mu     sync.Mutex
	events []string
	seqs   []uint64
}

func (r *told) trace() *throttle.Trace {
	keep := func(kind string) func(throttle.Event) {
		return func(e throttle.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			text := fmt.Sprintf("%4d %-8s %s call %d at %v as of %v wait %v tokens %d weight %d: %v", e.Seq, kind, e.Limiter, e.ID, e.At.Sub(bubbleStart),
				e.Nominal.Sub(bubbleStart), e.Wait, e.Tokens, e.Weight, e.Err)
			if yet, ok := e.Err.(*throttle.NotYetError); ok {
				text += fmt.Sprintf(" %+v", *yet)
			}
			if left, ok := e.Err.(*throttle.LeftError); ok {
				text += fmt.Sprintf(" %v %d", left.Waited, left.Ahead)
			}
			r.events, r.seqs = append(r.events, text), append(r.seqs, e.Seq)
		}
	}
	return &throttle.Trace{Queued: keep("queued"), Started: keep("started"), Refused: keep("refused"), Left: keep("left"), Released: keep("released")}
}

// inOrder returns the events in the order in which they happened.
func (r *told) inOrder() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	order := make([]int, len(r.events))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.seqs[a], r.seqs[b]) })
	var out []string
	for _, i := range order {
		out = append(out, r.events[i])
	}
	return out
}

// run has the visits come, dry or not, and returns what the Trace and the Stats tell of it.
func (s scenario) run(t *testing.T, dry bool) (out []string, numbers []throttle.Stats) {
	synctest.Test(t, func(t *testing.T) {
		var r told
		var levels []*throttle.Limiter
		for i, c := range s.configs {
			c.Trace, c.DryRun = r.trace(), dry
			if i > 0 && s.below >= 0 {
				c.Parent = levels[s.below]
			}
			levels = append(levels, newLimiter(t, c))
		}
		var all sync.WaitGroup
		for _, v := range s.visits {
			all.Go(func() { v.happen(t, levels[v.level], dry) })
		}
		for i, change := range s.changes {
			time.AfterFunc(s.times[i], func() { change(levels) })
		}
		all.Wait()
		time.Sleep(time.Hour) // shadows may outlive the calls
		out = r.inOrder()
		for i, l := range levels {
			numbers = append(numbers, l.Stats())
			if st := l.Stats(); st.Waiting != 0 || st.InFlight != 0 {
				t.Errorf("dry %v: limiter %d is left with %+v", dry, i, st)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := l.Drain(ctx); err != nil && l.Stats().MaxInFlight != 0 {
				t.Errorf("dry %v: limiter %d: %v", dry, i, err)
			}
			cancel()
		}
	})
	return out, numbers
}

// happen makes the call. It heeds its context.
func (v visit) happen(t *testing.T, l *throttle.Limiter, dry bool) {
	time.Sleep(v.at)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if v.deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, v.deadline)
		defer cancel()
	}
	if v.patience > 0 {
		time.AfterFunc(v.patience, cancel)
	}
	came := time.Now()
	acquire := func() (throttle.Permit, error) {
		if v.tries {
			return l.TryAcquireCost(v.cost)
		}
		return l.AcquireCost(ctx, v.cost)
	}
	p, err := acquire()
	if dry && (err != nil || !time.Now().Equal(came)) {
		t.Errorf("a dry run delays a call by %v, or refuses it: %v", time.Since(came), err)
	}
	if err != nil {
		return
	}
	defer p.Release()
	half := func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(v.lasts / 2):
			return true
		}
	}
	if half() {
		if v.settles > 0 {
			if err := p.Settle(throttle.Cost{Tokens: v.settles}); err != nil && !dry {
				t.Error(err)
			}
		}
		half()
	}
}

// drawScenario draws limits and visits that come somewhat faster than the limits let them, at instants that do not
// coincide; nor do windows: lines that come due at one instant are served in no promised order.
func drawScenario(r *rand.Rand) scenario {
	s := scenario{below: -1}
	levels := 1
	if r.IntN(3) == 0 {
		levels, s.below = 3, 0
	}
	capped, settled := r.IntN(4) > 0, r.IntN(4) == 0
	for i := range levels {
		c := throttle.Config{Name: fmt.Sprint("level", i), MaxQueue: 1 + r.IntN(12), QueueFull: throttle.QueueFull(r.IntN(2)), Settled: settled}
		if i == 0 || r.IntN(2) == 0 {
			c.Rate, c.Burst = throttle.Rate{N: int64(5 + r.IntN(40)), Period: time.Second}, int64(2+r.IntN(4))
		}
		if capped && (i == 0 || r.IntN(2) == 0) {
			c.MaxInFlight = int64(2 + r.IntN(4))
		}
		if r.IntN(3) == 0 {
			c.Quotas = []throttle.Quota{throttle.AtMost(int64(4+r.IntN(8)), time.Duration(777+13*i)*time.Millisecond)}
		}
		if r.IntN(3) == 0 {
			c.MaxWait = time.Duration(1 + r.IntN(int(time.Second)))
		}
		s.configs = append(s.configs, c)
	}
	at := time.Duration(0)
	for range 80 {
		at += time.Duration(1 + r.IntN(int(60*time.Millisecond)))
		v := visit{at: at, cost: throttle.Cost{Tokens: int64(1 + r.IntN(3)), Weight: int64(1 + r.IntN(2))}}
		v.level = r.IntN(levels)
		v.lasts = 2 * time.Duration(1+r.IntN(int(100*time.Millisecond)))
		switch r.IntN(8) {
		case 0:
			v.deadline = time.Duration(1 + r.IntN(int(400*time.Millisecond)))
		case 1:
			v.tries = true
		case 2:
			if capped {
				v.patience = time.Duration(1 + r.IntN(int(v.lasts-1)))
			}
		case 3:
			v.cost.Tokens = 7 // above the burst, where there is one
		}
		if settled && !v.tries && r.IntN(2) == 0 {
			v.settles = int64(1 + r.IntN(5))
		}
		s.visits = append(s.visits, v)
	}
	for range r.IntN(4) {
		n := 1 + r.IntN(4)
		s.times = append(s.times, time.Duration(r.IntN(int(at))))
		s.changes = append(s.changes, []func([]*throttle.Limiter){
			func(l []*throttle.Limiter) { _ = l[0].SetRate(throttle.Rate{N: int64(9 * n), Period: time.Second}) },
			func(l []*throttle.Limiter) { _ = l[0].SetBurst(int64(n)) },
			func(l []*throttle.Limiter) { _ = l[0].PauseFor(time.Duration(n) * 77777777) },
			func(l []*throttle.Limiter) { _ = l[0].SetMaxInFlight(int64(n)) },
			func(l []*throttle.Limiter) { _ = l[0].SetQuota(throttle.Quota{Rate: throttle.PerSecond(20), Burst: 1}) },
		}[r.IntN(5)])
	}
	return s
}

// This is the promise of a dry run: where arrivals do not depend on the answers, all events are those of the real run, each with its
// instant, number, wait and error; so are all counts.
func TestDryRun_EventsAndCountsAreThoseOfTheRealRun(t *testing.T) {
	kinds := map[string]int{}
	n := 300
	if testing.Short() {
		n = 60
	}
	for seed := range n {
		s := drawScenario(rand.New(rand.NewPCG(uint64(seed), 4)))
		real, numbers := s.run(t, false)
		dry, dryNumbers := s.run(t, true)
		for i := range max(len(real), len(dry)) {
			if i >= len(real) || i >= len(dry) || real[i] != dry[i] {
				t.Fatalf("seed %d: event %d of %d and %d:\nreal %s\ndry  %s\nafter %q", seed, i, len(real), len(dry),
					at(real, i), at(dry, i), real[max(0, i-3):min(i, len(real))])
			}
			kinds[real[i][5:12]]++
		}
		if !slices.Equal(numbers, dryNumbers) {
			t.Fatalf("seed %d: stats\nreal %+v\ndry  %+v", seed, numbers, dryNumbers)
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"queued ", "started", "refused", "left   ", "release"} {
		if kinds[kind] < 20 {
			t.Errorf("only %d events %q were compared", kinds[kind], kind)
		}
	}
}

func TestDryRun_CloseIsToldAndDrainWaitsForTheCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "api", MaxInFlight: 1, MaxQueue: 1, DryRun: true})
		starts, waits, refused := join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)
		for _, c := range []*caller{starts, waits, refused} {
			c.mustStartAt(t, 0)
		}
		if s := l.Stats(); s.Started != 1 || s.Waiting != 1 || s.RefusedQueueFull != 1 || s.InFlight != 1 {
			t.Errorf("%+v; want 1 started and in flight, 1 waiting, 1 refused", s)
		}
		l.Close()
		if _, err := l.Acquire(t.Context()); !errors.Is(err, throttle.ErrClosed) {
			t.Errorf("after Close: %v; want ErrClosed", err)
		}
		drained := make(chan error, 1)
		go func() { drained <- l.Drain(t.Context()) }()
		for _, c := range []*caller{starts, waits, refused} {
			synctest.Wait()
			select {
			case err := <-drained:
				t.Fatalf("drained with a call under way: %v", err)
			default:
			}
			c.permit.Release()
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		waits.permit.Release()
		refused.permit.Release()
		if s := l.Stats(); s.RefusedClosed != 2 || s.DoubleReleases != 2 {
			t.Errorf("%+v; want the one in line and the latecomer closed, and 2 double releases", s)
		}
	})
}

func TestDryRun_NeverRefusesWhateverTheLimitWouldSay(t *testing.T) {
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 1, MaxWait: time.Second, DryRun: true})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for i, ask := range []func() (throttle.Permit, error){
		func() (throttle.Permit, error) { return l.AcquireN(t.Context(), 2) },
		func() (throttle.Permit, error) { return l.AcquireN(t.Context(), -1) },
		func() (throttle.Permit, error) { return l.Acquire(done) },
		l.TryAcquire, l.TryAcquire,
		func() (throttle.Permit, error) { return throttle.Permit{}, l.Wait(t.Context()) },
	} {
		p, err := ask()
		if err != nil {
			t.Errorf("ask %d: %v; want none", i, err)
		}
		p.Release()
	}
	l.Close() // whoever is in line is not waited for
}

func TestDryRun_IsTheSameForAllWhoShareALock(t *testing.T) {
	dry := newLimiter(t, throttle.Config{MaxInFlight: 1, MaxQueue: 1, DryRun: true})
	real := newLimiter(t, throttle.Config{MaxInFlight: 1})
	for _, c := range []throttle.Config{
		{Parent: dry}, {Parent: real, MaxQueue: 1, DryRun: true}, {MaxInFlight: 1, DryRun: true},
	} {
		if _, err := throttle.New(c); !errors.Is(err, throttle.ErrInvalid) {
			t.Errorf("%+v: %v; want ErrInvalid", c, err)
		}
	}
}

func TestDryRun_EachKeyRunsDry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := throttle.NewKeyedFrom(throttle.KeyedConfig[string]{
			Config:  throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxQueue: 1, DryRun: true},
			MaxKeys: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "a", "a", "b"} { // b finds no room
			if _, err := k.Acquire(t.Context(), key); err != nil {
				t.Errorf("key %s: %v", key, err)
			}
		}
		if s, _ := k.Stats("a"); s.Started != 1 || s.Waiting != 1 || s.RefusedQueueFull != 1 {
			t.Errorf("%+v; want 1 started, 1 waiting, 1 refused", s)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s, _ := k.Stats("a"); s.Started != 2 || s.Waiting != 0 {
			t.Errorf("%+v; want 2 started", s)
		}
	})
}

// A call that is made again is one more newcomer if its shadow has not come to an end.
func TestDryRun_ACallMadeAgainGoesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 2, MaxQueue: 2, DryRun: true})
		for range 2 {
			p, err := l.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if p, err = l.AcquireAgain(t.Context(), p, throttle.One); err != nil {
					t.Fatal(err)
				}
			}
			p.Release()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := l.Stats(); s.Waiting != 0 || s.InFlight != 0 || s.Started != 3 || s.RefusedQueueFull != 5 {
			t.Errorf("%+v; want nobody left, 3 started and 5 refused", s)
		}
	})
}

func TestDryRun_NothingIsLeftAfterALoad(t *testing.T) {
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100_000), Burst: 5, MaxInFlight: 2, MaxQueue: 20, Holders: true, QueueFull: throttle.DropOldest, DryRun: true})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 300 {
				ctx, cancel := context.WithCancel(context.Background())
				p, err := l.Acquire(ctx)
				if err != nil {
					t.Error(err)
				}
				if (i+j)%3 == 0 {
					cancel()
				}
				p.Release()
				p.Release()
				cancel()
				l.Holders()
			}
		})
	}
	all.Wait()
	l.Close()
	if err := l.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	s := l.Stats()
	if n := s.Started + s.Left + s.RefusedNotYet + s.RefusedQueueFull + s.RefusedClosed; n != 2400 || s.DoubleReleases != 2400 || s.Waiting != 0 {
		t.Errorf("%+v; want 2400 calls, each counted once, and as many double releases", s)
	}
}

func at(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}
