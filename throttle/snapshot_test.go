package throttle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// saved returns s after it was written as JSON and read again, which must not change what is written.
func saved(t testing.TB, s throttle.Snapshot) (again throttle.Snapshot) {
	t.Helper()
	text, err := json.Marshal(s)
	mustDo(t, err)
	mustDo(t, json.Unmarshal(text, &again))
	second, err := json.Marshal(again)
	mustDo(t, err)
	if string(text) != string(second) {
		t.Fatalf("written twice:\n%s\n%s", text, second)
	}
	return again
}

// restarted returns a limiter of config c that has what l had spent.
func restarted(t testing.TB, l *throttle.Limiter, c throttle.Config) *throttle.Limiter {
	t.Helper()
	next := newLimiter(t, c)
	mustDo(t, next.Restore(saved(t, l.Snapshot())))
	return next
}

// answers must be the same of both: whether a try passes, and if not what it is told.
func sameAnswer(t testing.TB, when string, a, b error) {
	t.Helper()
	if (a == nil) != (b == nil) || a != nil && a.Error() != b.Error() {
		t.Fatalf("%s: the one that ran on says %v; the restarted one %v", when, a, b)
	}
}

// randomQuota returns a quota of that kind.
func randomQuota(rng *rand.Rand, kind int, align time.Time) throttle.Quota {
	n, period := 1+rng.Int64N(6), time.Duration(1+rng.Int64N(3e9))
	switch kind {
	case 0:
		return throttle.Quota{Rate: throttle.Per(n, period), Burst: 1 + rng.Int64N(9)}
	case 1:
		return throttle.AtMost(n, period)
	case 2:
		return throttle.FixedWindow(n, period)
	}
	return throttle.FixedWindow(n, period).AlignedTo(align)
}

// A restartTwin is one limiter that runs on, and one that is stopped and started again, told the same. Both have a parent of
// the same kind.
type restartTwin struct {
	t      testing.TB
	rng    *rand.Rand
	clock  *fake.Clock
	config [2]throttle.Config // of the parent and of the child
	kinds  [2][]int
	a, b   [2]*throttle.Limiter
	open   [][2]throttle.Permit
}

func newRestartTwin(t testing.TB, seed uint64) *restartTwin {
	w := &restartTwin{t: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: fake.NewClock(time.Time{})}
	settled := w.rng.IntN(2) == 0
	for level := range w.config {
		c := &w.config[level]
		*c = throttle.Config{Name: fmt.Sprint("level", level), Clock: w.clock, Settled: settled, Debt: w.rng.IntN(2) == 0}
		if w.rng.IntN(3) > 0 {
			q := randomQuota(w.rng, 0, time.Time{})
			c.Rate, c.Burst = q.Rate, q.Burst
		}
		for i := range w.rng.IntN(3) + 1 {
			kind := w.rng.IntN(4)
			q := randomQuota(w.rng, kind, fake.Epoch.Add(time.Duration(w.rng.Int64N(1e9))))
			q.Name = fmt.Sprint("q", level, i)
			c.Quotas, w.kinds[level] = append(c.Quotas, q), append(w.kinds[level], kind)
		}
	}
	w.a, w.b = w.build(), w.build()
	return w
}

func (w *restartTwin) build() (both [2]*throttle.Limiter) {
	both[0] = newLimiter(w.t, w.config[0])
	w.config[1].Parent = both[0]
	both[1] = newLimiter(w.t, w.config[1])
	return both
}

// restart stops the second limiters, lets time pass, and starts them again, with other quotas if changed.
func (w *restartTwin) restart(changed bool) {
	for _, p := range w.open {
		p[0].Release()
		p[1].Release()
	}
	w.open = nil
	var files [2]throttle.Snapshot
	for level, l := range w.b {
		files[level] = saved(w.t, l.Snapshot())
	}
	w.clock.Advance(time.Duration(w.rng.Int64N(2e9)))
	if changed {
		level := w.rng.IntN(2)
		c := &w.config[level]
		i := w.rng.IntN(len(c.Quotas))
		q := randomQuota(w.rng, w.kinds[level][i], fake.Epoch)
		q.Name = c.Quotas[i].Name
		if w.kinds[level][i] == 3 && w.rng.IntN(2) == 0 {
			n := q.Burst
			q = c.Quotas[i]
			q.Burst = n // another n alone
		}
		c.Quotas = slices.Clone(c.Quotas)
		c.Quotas[i] = q
		mustDo(w.t, w.a[level].SetQuota(q))
		if c.Burst != 0 {
			q := randomQuota(w.rng, 0, time.Time{})
			c.Rate, c.Burst = q.Rate, q.Burst
			mustDo(w.t, w.a[level].SetQuota(q))
		}
	}
	w.b = w.build()
	for level, l := range w.b {
		for range 1 + w.rng.IntN(2) { // twice is once
			mustDo(w.t, l.Restore(files[level]))
		}
	}
}

func (w *restartTwin) step(i int) {
	level := w.rng.IntN(2)
	a, b := w.a[level], w.b[level]
	switch w.rng.IntN(12) {
	case 0:
		w.restart(false)
	case 1:
		w.restart(w.rng.IntN(3) == 0)
	case 2, 3:
		w.clock.Advance(time.Duration(w.rng.Int64N(1e9)))
	case 4:
		k := w.rng.Int64N(5)
		name := w.config[level].Quotas[0].Name
		mustDo(w.t, a.LowerTo(name, k))
		mustDo(w.t, b.LowerTo(name, k))
	case 5:
		d := time.Duration(w.rng.Int64N(1e8))
		mustDo(w.t, a.PauseFor(d))
		mustDo(w.t, b.PauseFor(d))
	case 6:
		if n := len(w.open); n > 0 && w.config[0].Settled {
			actual := throttle.Cost{Tokens: w.rng.Int64N(9)}
			sameAnswer(w.t, "settle", w.open[n-1][0].Settle(actual), w.open[n-1][1].Settle(actual))
			w.open = w.open[:n-1] // settled once; in flight for good
		}
	default:
		cost := throttle.Cost{Tokens: 1 + w.rng.Int64N(3), Weight: 1}
		p, errA := a.TryAcquireCost(cost)
		q, errB := b.TryAcquireCost(cost)
		sameAnswer(w.t, fmt.Sprintf("step %d", i), errA, errB)
		if errA == nil {
			w.open = append(w.open, [2]throttle.Permit{p, q})
		}
	}
	for level := range w.a {
		is, want := w.b[level].Quotas(), w.a[level].Quotas()
		if sa, sb := w.a[level].Stats(), w.b[level].Stats(); sa.Tokens != sb.Tokens || sa.Paused != sb.Paused {
			w.t.Fatalf("step %d: the restarted one has %+v; want %+v", i, sb, sa)
		}
		for j := range want {
			if is[j].Tokens != want[j].Tokens {
				w.t.Fatalf("step %d, level %d: the restarted one has %+v; want %+v", i, level, is[j], want[j])
			}
		}
	}
}

// A limiter that is stopped and started again at random instants, with the same limits or others, admits what one admits that was there all
// the time and was changed live: call by call, with no rounding, in a tree, for every kind of quota.
func TestSnapshot_RestartsAdmitWhatOneRunWould(t *testing.T) {
	for seed := range uint64(400) {
		w := newRestartTwin(t, seed)
		for i := range 120 {
			if w.step(i); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// Those who wait when the process stops, and come again in their order, start when they would have.
func TestSnapshot_WaitersThatComeAgainStartOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := throttle.Config{Rate: throttle.PerSecond(3), Burst: 1, Quotas: []throttle.Quota{throttle.AtMost(2, 2*time.Second)}}
		l := newLimiter(t, c)
		var callers []*caller
		for range 3 {
			callers = append(callers, join(t.Context(), l, 1, 1))
		}
		time.Sleep(500 * time.Millisecond)
		callers[1].mustStartAt(t, 333333334)
		callers[2].leave()
		l = restarted(t, l, c)
		third, fourth := join(t.Context(), l, 1, 1), join(t.Context(), l, 1, 1)
		time.Sleep(2 * time.Second)
		third.mustStartAt(t, 2*time.Second)
		fourth.mustStartAt(t, 2*time.Second+333333334)
	})
}

// A restart is no refill: the synctest clock is the wall clock and the monotonic one at once.
func TestSnapshot_CreditsTheTimeBetweenExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := throttle.Config{Rate: throttle.Per(1, time.Second), Burst: 100}
		l := newLimiter(t, c)
		mustTry(t, l, 100, 0)
		s := saved(t, l.Snapshot())
		time.Sleep(time.Second - 1)
		early := newLimiter(t, c)
		mustDo(t, early.Restore(s))
		if _, err := early.TryAcquire(); err == nil {
			t.Fatal("a token 1 ns early")
		}
		time.Sleep(1)
		mustTry(t, early, 1, 0)
		onTime := newLimiter(t, c)
		mustDo(t, onTime.Restore(s))
		mustTry(t, onTime, 1, 0)
		if got := onTime.Stats().Tokens; got != 0 {
			t.Fatalf("%d tokens are left; want 0", got)
		}
	})
}

// restoredAt returns a limiter with nothing left, as saved at the instant given, and restored by a process whose clock says now.
func restoredAt(t *testing.T, clock *fake.Clock, saved time.Time) *throttle.Limiter {
	t.Helper()
	var s throttle.Snapshot
	text := fmt.Sprintf(`{"turnstile":"limiter","version":1,"saved":%q,"name":"","quotas":[
		{"kind":"rate","tokens":1,"period_ns":1000000000,"burst":5,"missing":5},
		{"kind":"at-most","tokens":5,"period_ns":1000000000,"starts":[[1,5]]},
		{"kind":"fixed-window","tokens":5,"period_ns":1000000000,"opened_ns_ago":1,"used":5}]}`, saved.Format(time.RFC3339Nano))
	mustDo(t, json.Unmarshal([]byte(text), &s))
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 5, Clock: clock,
		Quotas: []throttle.Quota{throttle.AtMost(5, time.Second), throttle.FixedWindow(5, time.Second)}})
	mustDo(t, l.Restore(s))
	return l
}

func TestSnapshot_AClockThatWentBackMintsNothing(t *testing.T) {
	for _, back := range []time.Duration{0, 1, time.Hour, 290 * 365 * 24 * time.Hour} {
		clock := fake.NewClock(fake.Epoch)
		l := restoredAt(t, clock, fake.Epoch.Add(back))
		if s := l.Stats(); s.Tokens != 0 || l.Quotas()[0].Tokens != 0 || l.Quotas()[1].Tokens != 0 {
			t.Errorf("back by %v: %d tokens, %+v; want none", back, s.Tokens, l.Quotas())
		}
		clock.Advance(time.Second) // and from there on as ever
		if s := l.Stats(); s.Tokens != 1 || l.Quotas()[0].Tokens != 5 || l.Quotas()[1].Tokens != 5 {
			t.Errorf("back by %v, a second later: %d tokens, %+v; want 1, 5 and 5", back, s.Tokens, l.Quotas())
		}
	}
}

func TestSnapshot_ALongTimeSaturates(t *testing.T) {
	for _, at := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), fake.Epoch.AddDate(-200, 0, 0), fake.Epoch.Add(-5 * time.Second)} {
		l := restoredAt(t, fake.NewClock(fake.Epoch), at)
		if s := l.Stats(); s.Tokens != 5 || l.Quotas()[0].Tokens != 5 || l.Quotas()[1].Tokens != 5 {
			t.Errorf("saved at %v: %d tokens, %+v; want 5 each", at, s.Tokens, l.Quotas())
		}
	}
	if l := restoredAt(t, fake.NewClock(fake.Epoch), fake.Epoch.Add(-3*time.Second-1)); l.Stats().Tokens != 3 {
		t.Errorf("%d tokens after 3 s; want 3", l.Stats().Tokens)
	}
}

// A clock that goes back while the limiter runs is held: what it earned before is not earned again after a restart.
func TestSnapshot_AHeldClockEarnsNothingTwice(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Clock: clock}
	l := newLimiter(t, c)
	mustTry(t, l, 10, 0)
	clock.Advance(5 * time.Second)
	if got := l.Stats().Tokens; got != 5 {
		t.Fatalf("%d tokens; want 5", got)
	}
	clock.Step(-3 * time.Second)
	s := saved(t, l.Snapshot())
	clock.Advance(3 * time.Second) // where it was
	next := newLimiter(t, c)
	mustDo(t, next.Restore(s))
	if got := next.Stats().Tokens; got != 5 {
		t.Fatalf("%d tokens after the restart; want 5", got)
	}
}

// Restoring never adds a token: of two levels the lower counts, at every instant after.
func TestSnapshot_TheLowerLevelCounts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		clock := fake.NewClock(time.Time{})
		q := randomQuota(rng, int(seed%4), fake.Epoch.Add(12345))
		c := throttle.Config{Clock: clock, Quotas: []throttle.Quota{q}}
		one, other, both := newLimiter(t, c), newLimiter(t, c), newLimiter(t, c)
		for range 12 {
			clock.Advance(time.Duration(rng.Int64N(int64(q.Rate.Period)/2 + 1)))
			if rng.IntN(2) == 0 {
				_, _ = one.TryAcquire()
			} else {
				_, _ = other.TryAcquire()
			}
		}
		mustDo(t, both.Restore(one.Snapshot()))
		mustDo(t, both.Restore(other.Snapshot()))
		mustDo(t, both.Restore(one.Snapshot()))
		for range 12 {
			got := both.Quotas()[0].Tokens
			want := min(one.Quotas()[0].Tokens, other.Quotas()[0].Tokens)
			if got > want || got < want && q.String()[0] != '1' && seed%4 < 2 {
				t.Fatalf("seed %d: %v: %d tokens; want %d", seed, q, got, want)
			}
			clock.Advance(time.Duration(rng.Int64N(int64(q.Rate.Period)/4 + 1)))
		}
	}
}

// Debt, and what calls in flight were charged, survive; what is settled in the process that stopped is not known any more.
func TestSnapshot_DebtAndOpenCallsSurvive(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Settled: true, Clock: clock}
	l := newLimiter(t, c)
	first, second := mustTry(t, l, 5, 1), mustTry(t, l, 5, 1)
	mustDo(t, first.Settle(throttle.Cost{Tokens: 25}))
	next := restarted(t, l, c)
	mustDo(t, second.Settle(throttle.Cost{Tokens: 0})) // too late
	if got := next.Stats().Tokens; got != -20 {
		t.Fatalf("%d tokens; want -20", got)
	}
}

func TestSnapshot_PausesSurviveAsInstants(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Clock: clock}
	l := newLimiter(t, c)
	mustDo(t, l.PauseFor(time.Minute))
	s := saved(t, l.Snapshot())
	clock.Advance(20 * time.Second)
	next := newLimiter(t, c)
	mustDo(t, next.Restore(s))
	if got := next.Stats().Paused; got != 40*time.Second {
		t.Fatalf("paused for %v; want 40s", got)
	}
	clock.Advance(40 * time.Second)
	over := newLimiter(t, c)
	mustDo(t, over.Restore(s))
	mustTry(t, over, 1, 0)
}

// A restored limiter's waiting callers learn of it: the front is due later, and starts then.
func TestSnapshot_RestoreReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 3}
		old, l := newLimiter(t, c), newLimiter(t, c)
		mustTry(t, old, 3, 0)
		mustTry(t, l, 2, 0)
		c2 := join(t.Context(), l, 2, 0) // due after 1 s
		mustDo(t, l.Restore(old.Snapshot()))
		time.Sleep(2 * time.Second)
		c2.mustStartAt(t, 2*time.Second)
	})
}

// A child that asks its parent already does not start on tokens that a restore has taken from it.
func TestSnapshot_RestoreReachesThoseWhoAskAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		c := throttle.Config{Rate: throttle.Every(5 * time.Second), Burst: 1}
		old := newLimiter(t, c)
		mustTry(t, old, 1, 0)
		c.Parent = all
		child := newLimiter(t, c)
		mustTry(t, all, 1, 0)
		waits := join(t.Context(), child, 1, 0)
		mustDo(t, child.Restore(old.Snapshot()))
		time.Sleep(5 * time.Second)
		waits.mustStartAt(t, 5*time.Second)
	})
}

// Who was due before the snapshot has started in it, though its timer is late.
func TestSnapshot_HasTheStartsThatALateTimerHasNotTold(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	clock.SetLateness(func() time.Duration { return 5 * time.Millisecond })
	c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, Clock: clock}
	l := newLimiter(t, c)
	mustTry(t, l, 1, 0)
	done := make(chan error, 1)
	go func() { _, err := l.Acquire(t.Context()); done <- err }()
	mustDo(t, clock.WaitTimers(t.Context(), 1))
	clock.Advance(time.Second)
	next := newLimiter(t, c)
	mustDo(t, next.Restore(l.Snapshot()))
	if got := next.Stats().Tokens; got != 0 {
		t.Fatalf("%d tokens; want 0: the caller that was due has started", got)
	}
	mustDo(t, <-done)
}

// A call that is settled after a restore gets nothing back for which there was no room before it.
func TestSnapshot_RestoreLeavesOpenCallsNoMoreRoom(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.Config{Rate: throttle.PerSecond(1), Burst: 10, Settled: true, Clock: clock}
	l, old := newLimiter(t, c), newLimiter(t, c)
	p := mustTry(t, l, 5, 1)
	clock.Advance(5 * time.Second) // full again
	mustTry(t, old, 10, 1)
	mustDo(t, l.Restore(old.Snapshot()))
	mustDo(t, p.Settle(throttle.Cost{Tokens: 0}))
	if got := l.Stats().Tokens; got != 0 {
		t.Fatalf("%d tokens; want 0", got)
	}
}

// Windows on the wall clock are those of the new process: where the old one's clock was a minute off, no second budget is given out.
func TestSnapshot_AlignedWindowsAreOnTheNewClocksGrid(t *testing.T) {
	hourly := throttle.FixedWindow(10, time.Hour).AlignedTo(fake.Epoch)
	head := fmt.Sprintf(`"version":1,"saved":%q,"name":""`, fake.Epoch.Add(59*time.Minute).Format(time.RFC3339))
	limits := `"kind":"fixed-window","tokens":10,"period_ns":3600000000000`
	spent := `"opened_ns_ago":3599999999999,"used":10`
	c := throttle.Config{Quotas: []throttle.Quota{hourly}, Clock: fake.NewClock(fake.Epoch.Add(59*time.Minute + 30*time.Second))}
	var s throttle.Snapshot
	mustDo(t, json.Unmarshal([]byte(`{"turnstile":"limiter",`+head+`,"quotas":[{`+limits+","+spent+`}]}`), &s))
	l := newLimiter(t, c)
	mustDo(t, l.Restore(s))
	if got := l.Quotas()[0].Tokens; got != 0 {
		t.Errorf("%d tokens within the same hour; want 0", got)
	}
	var keys throttle.KeyedSnapshot[int]
	mustDo(t, json.Unmarshal([]byte(`{"turnstile":"keyed",`+head+`,"limits":[[{`+limits+`}]],"keys":[{"key":1,"limits":0,"spent":[{`+spent+`}]}]}`), &keys))
	k := newKeyed[int](t, c)
	mustDo(t, k.Restore(keys))
	passKey(t, k, 1, 1, 0)
	c.Clock = fake.NewClock(fake.Epoch.Add(time.Hour))
	l = newLimiter(t, c)
	mustDo(t, l.Restore(s))
	if got := l.Quotas()[0].Tokens; got != 10 {
		t.Errorf("%d tokens in the next hour; want 10", got)
	}
}

// What a snapshot cannot be put to is refused, with the reason, and changes nothing.
func TestSnapshot_WhatDoesNotFitIsRefused(t *testing.T) {
	day := throttle.FixedWindow(10, 24*time.Hour)
	name := func(name string, q throttle.Quota) throttle.Quota { q.Name = name; return q }
	quotas := func(q ...throttle.Quota) throttle.Config { return throttle.Config{Name: "api", Quotas: q} }
	for _, c := range []struct {
		was, is throttle.Config
		want    string // "": it fits
		tokens  int64  // of the first quota then
	}{
		{quotas(name("day", day)), quotas(name("day", day)), "", 9},
		{quotas(name("day", day)), quotas(name("daily", day)), "renamed", 10},
		{quotas(name("day", day)), quotas(name("day", throttle.AtMost(10, time.Hour))), "want one of the same kind", 10},
		{quotas(name("day", day)), quotas(name("hour", throttle.AtMost(7, time.Hour))), "", 7},
		{quotas(name("day", day)), quotas(name("new", throttle.AtMost(7, time.Hour)), name("day", day)), "", 7},
		{quotas(name("day", day), name("old", throttle.AtMost(7, time.Hour))), quotas(name("day", day)), "", 9},
		{quotas(day, throttle.AtMost(7, time.Hour)), quotas(throttle.AtMost(6, time.Hour), day), "", 5},
		{quotas(day, day), quotas(day), "want a Name for each", 10},
		{quotas(day), quotas(name("day", day)), "renamed", 10},
		{quotas(name("day", day)), throttle.Config{Name: "web", Quotas: []throttle.Quota{day}}, `Name is "api"; want "web",`, 10},
		{throttle.Config{Name: "api", Rate: throttle.PerHour(1), Burst: 5}, throttle.Config{Name: "api", Rate: throttle.PerHour(1), Burst: 8,
			Quotas: []throttle.Quota{day}}, "", 10},
		{throttle.Config{Name: "api", Rate: throttle.PerHour(1), Burst: 5}, quotas(name("r", throttle.Quota{Rate: throttle.PerHour(1), Burst: 5})), "renamed", 5},
	} {
		l, next := newLimiter(t, c.was), newLimiter(t, c.is)
		mustTry(t, l, 1, 0)
		err := next.Restore(saved(t, l.Snapshot()))
		if c.want == "" {
			mustDo(t, err)
		} else {
			mustSay(t, err, throttle.ErrInvalid, "Restore", c.want)
		}
		if got := next.Quotas()[0].Tokens; got != c.tokens {
			t.Errorf("%v, then %v: %d tokens; want %d", c.was.Quotas, c.is.Quotas, got, c.tokens)
		}
	}
	l := newLimiter(t, quotas(day))
	mustSay(t, l.Restore(throttle.Snapshot{}), throttle.ErrInvalid, "empty")
	var zero throttle.Limiter
	if err := zero.Restore(l.Snapshot()); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("the zero Limiter: %v", err)
	}
	if !reflect.DeepEqual(zero.Snapshot(), throttle.Snapshot{}) {
		t.Error("the zero Limiter's snapshot is not empty")
	}
	if _, err := json.Marshal(throttle.Snapshot{}); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("an empty snapshot was written: %v", err)
	}
}
