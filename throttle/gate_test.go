package throttle

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// rated is one line of a rate, without a cap.
func rated(r Rate, burst, slack int64) setup {
	return setup{lines: []lineSetup{{rate: r, burst: burst, slack: slack, cap: -1}}}
}

// mustStartAsOf asserts as of which instants callers have started, in order.
func (t *twin) mustStartAsOf(tb testing.TB, want ...int64) {
	tb.Helper()
	is := []int64{}
	for _, e := range t.log {
		if e.what == starts {
			is = append(is, e.nominal)
		}
	}
	if !slices.Equal(is, want) {
		tb.Fatalf("started as of %v; want %v\nafter: %v", is, want, t)
	}
}

func TestC1_ALateTimerStartsAllThatWereDueAsOfTheirDues(t *testing.T) {
	w := script(t, rated(Rate{1, 10}, 1, 1000),
		arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), passBy(25), onTimer)
	w.mustStartAsOf(t, 0, 10, 20)
	w.then(t, passBy(10), onTimer)
	w.mustStartAsOf(t, 0, 10, 20, 30)
}

func TestC11_CatchUpAfterAPauseIsBoundedBySlack(t *testing.T) {
	for _, slack := range []int64{0, 25} {
		w := script(t, rated(Rate{1, 10}, 1, slack))
		for range 8 {
			w.then(t, arrival(0, 1, 1))
		}
		w.then(t, passBy(int64(time.Hour)), onTimer)
		h := int64(time.Hour)
		if slack == 0 {
			w.mustStartAsOf(t, 0, h)
		} else {
			w.mustStartAsOf(t, 0, h-25, h-15, h-5)
		}
	}
}

func TestC1_WaitingForAPermitEarnsNoCredit(t *testing.T) {
	s := setup{caps: []int64{1}, lines: []lineSetup{{rate: Rate{1, 10}, burst: 2, slack: 1000, cap: 0}}}
	w := script(t, s, arrival(0, 2, 1), arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), passBy(10), onTimer, passBy(190), releaseBy(0))
	w.mustStartAsOf(t, 0, 200)
	w.then(t, releaseBy(1), releaseBy(2)) // the bucket had filled to 2, and no further
	w.mustStartAsOf(t, 0, 200, 200)
	w.then(t, passBy(10), onTimer)
	w.mustStartAsOf(t, 0, 200, 200, 210)
}

func TestC1_TimeWithoutAFreePermitEarnsNoCreditThoughTheTimerIsLate(t *testing.T) {
	line := lineSetup{rate: Rate{1, 10}, burst: 1, slack: 1000, cap: 0}
	s := setup{caps: []int64{2}, lines: []lineSetup{line}}
	w := script(t, s, arrival(0, 1, 2), arrival(0, 1, 1), passBy(15), releaseBy(0), passBy(15), onTimer)
	w.mustStartAsOf(t, 0, 15) // due at 10, permit at 15, timer at 30

	// The weight of the one in line, who has not asked the cap yet, counts too.
	s = setup{caps: []int64{3}, lines: []lineSetup{line}}
	w = script(t, s, arrival(0, 1, 1), arrival(0, 1, 3), passBy(15), releaseBy(0), passBy(15), onTimer)
	w.mustStartAsOf(t, 0, 15)

	// Nor where it is another line that releases.
	s = setup{caps: []int64{3}, lines: []lineSetup{line, {cap: 0}}}
	w = script(t, s,
		arrival(0, 1, 1), arrival(1, 1, 1), releaseBy(0), arrival(0, 1, 3), passBy(15), releaseBy(1), passBy(15), onTimer)
	w.mustStartAsOf(t, 0, 0, 15)
}

func TestC5_ALateTimerLosesNothingWhilePermitsAreFree(t *testing.T) {
	s := setup{caps: []int64{3}, lines: []lineSetup{{rate: Rate{1, 10}, burst: 1, slack: 1000, cap: 0}, {cap: 0}}}
	w := script(t, s, arrival(0, 1, 1), arrival(1, 1, 1), arrival(0, 1, 1), passBy(15), releaseBy(1), passBy(15), onTimer)
	w.mustStartAsOf(t, 0, 0, 10)
}

func TestC1_NoStartIsCountedFromBeforeItsCallerCame(t *testing.T) {
	var fx effects
	g := &gate{bucket: newBucket(Rate{1, 1}, 2, 0)}
	g.init(&fx, nil, 1000)
	g.bucket.charge(0, 2)
	calls := []*call{{tokens: 2}, {tokens: 2}}
	g.join(calls[0], 0)
	g.join(calls[1], 50) // and does not look at the timer first, as the Limiter has its newcomers do
	fx.catchUp(60)
	for i, want := range []int64{2, 50} {
		if is := calls[i].at - int64(calls[i].late); calls[i].state != callStarted || is != want {
			t.Errorf("call %d is in state %d, started as of %d; want %d", i, calls[i].state, is, want)
		}
	}
}

func TestC4_ALineWhoseFrontLeavesIsOwedNothingForTheTimeBefore(t *testing.T) {
	w := script(t, rated(Rate{1, 10}, 2, 1000),
		arrival(0, 2, 1), arrival(0, 2, 1), arrival(0, 1, 1), passBy(17), leaveBy(1))
	w.mustStartAsOf(t, 0, 17)
	w = script(t, rated(Rate{1, 10}, 2, 1000),
		arrival(0, 2, 1), arrival(0, 2, 1), arrival(0, 1, 1), quitBy(1), passBy(27), onTimer)
	w.mustStartAsOf(t, 0, 27)
}

func TestC7_WhoeverWasDueStartsUnderTheOldLimits(t *testing.T) {
	s := setup{caps: []int64{5}, lines: []lineSetup{{rate: Rate{1, 10}, burst: 2, slack: 1000, cap: 0}}}
	for _, change := range []op{quota(0, Rate{1, 7}, 1), resizing(1), closing(0)} {
		w := script(t, s, arrival(0, 2, 1), arrival(0, 2, 2), arrival(0, 2, 2), passBy(25), change)
		w.mustStartAsOf(t, 0, 20)
	}
}

func TestC7_AChangedRateHoldsForThoseWhoWait(t *testing.T) {
	w := script(t, rated(PerSecond(1), 1, 0), arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), passBy(1e8))
	w.then(t, quota(0, PerSecond(1000), 1), passBy(9e5), onTimer)
	w.mustStartAsOf(t, 0, 1e8+9e5)
	w.then(t, passBy(1e6), onTimer)
	w.mustStartAsOf(t, 0, 1e8+9e5, 1e8+19e5)
}

// onTime lets time pass up to the instant end, and the timer go off whenever it is due.
func (t *twin) onTime(tb testing.TB, end int64) {
	tb.Helper()
	for {
		next := min(end, t.fx.nextDue())
		if next > t.now {
			must(tb, t.do(passBy(next-t.now)))
		}
		if t.fx.nextDue() <= t.now {
			must(tb, t.do(onTimer))
		}
		if t.now == end {
			return
		}
	}
}

func TestC1_OnAClockWithoutLatenessSlackChangesNothing(t *testing.T) {
	for seed := range uint64(60) {
		var first []event
		for _, slack := range []int64{0, 7, 1000} {
			r := &random{rand.New(rand.NewPCG(seed, 4)), 0}
			s := drawSetup(r)
			for i := range s.lines {
				s.lines[i].slack = slack
			}
			w := newTwin(s)
			for range 50 {
				w.onTime(t, w.now+1+r.Int64N(30))
				if o := w.draw(r); o.kind != opPass {
					must(t, w.do(o))
				}
			}
			must(t, w.audit()) // asserts that nominal and real starts are one
			if first == nil {
				first = w.log
			}
			if !slices.Equal(w.log, first) {
				t.Fatalf("seed %d: slack %d changes what became of whom\nafter: %v", seed, slack, w)
			}
		}
	}
}

// behindTheFront reports whether an arrival would join behind a front, and nothing is due.
func (t *twin) behindTheFront(o op) bool {
	return o.kind == opArrive && t.gates[o.line].line.n > 0 && t.fx.nextDue() > t.now
}

func TestC4_LeavingFromBehindTheFrontChangesNobodysStart(t *testing.T) {
	compared := 0
	for seed := range uint64(800) {
		r := &random{rand.New(rand.NewPCG(seed, 5)), 0}
		with := newTwin(drawSetup(r))
		without := newTwin(with.setup)
		who := -1 // of with: the one who leaves, and never joins without
		for range 40 {
			o := with.draw(r)
			if who < 0 && with.behindTheFront(o) && o.weight == 1 {
				who = len(with.callers)
				must(t, with.do(o))
				must(t, without.do(onTimer)) // every event looks at what has come due
				continue
			}
			if o.byCaller() && o.who == who {
				continue
			}
			if leaver := at(with.callers, who); leaver != nil && !leaver.over {
				after := with.clone()
				must(t, after.do(o))
				must(t, after.do(onTimer))
				c := after.callers[who]
				if r.IntN(8) == 0 || !c.waits() || after.gates[c.line].line.front == c.call {
					must(t, with.do(leaveBy(who))) // now at the latest it stands behind the front
					must(t, without.do(onTimer))
				}
			}
			must(t, with.do(o))
			if who >= 0 && o.byCaller() && o.who > who {
				o.who--
			}
			must(t, without.do(o))
		}
		if who < 0 {
			continue
		}
		others := []event{}
		for _, e := range with.log {
			switch {
			case e.who == who:
				continue
			case e.who > who:
				e.who--
			}
			others = append(others, e)
		}
		compared++
		if !slices.Equal(others, without.log) {
			t.Fatalf("seed %d: with caller %d, who leaves from behind the front:\n  %v\nwithout:\n  %v\nafter: %v", seed, who, others, without.log, with)
		}
	}
	if compared < 300 {
		t.Errorf("only %d histories have someone who leaves from behind the front", compared)
	}
}

func TestC5_TheRateReachedUnderDemandIsTheRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	for _, c := range []struct {
		rate  Rate
		burst int64
		late  int64 // the most by which a timer is
	}{
		{PerSecond(10_000), 1, 0}, {PerSecond(10_000), 1, 1e6}, {PerSecond(100_000), 1, 1e6},
		{Rate{7, 1000}, 1, 0}, {Rate{7, 1000}, 2, 0}, {Rate{7, 1000}, 3, 900},
	} {
		w := newTwin(rated(c.rate, c.burst, int64(DefaultSlack)))
		const n = 150
		for range n {
			w.ops = nil // no audit: it would be slow
			must(t, w.do(arrival(0, 1, 1)))
		}
		for w.gates[0].line.n > 0 {
			must(t, w.do(passBy(w.gates[0].due-w.now+r.Int64N(c.late+1))))
			must(t, w.do(onTimer))
		}
		last := w.log[len(w.log)-1]
		earned := n - c.burst // by the last start
		want := new(big.Rat).Quo(whole(earned), rational(c.rate))
		most := ceil(want)
		if c.burst == 1 {
			most += earned // each empties a full bucket, on a whole nanosecond
		}
		if last.nominal < ceil(want) || last.nominal > most {
			t.Errorf("%v burst %d: the last of %d starts as of %d; want %v to %d", c.rate, c.burst, n, last.nominal, want, most)
		}
	}
}

func TestC6_TheReckonedWaitIsExactToANanosecondForEachCallerAhead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 200 {
		rate, burst := Rate{1 + r.Int64N(20), time.Duration(20 + r.Int64N(500))}, 1+r.Int64N(4)
		w := newTwin(rated(rate, burst, 0))
		reckoned, ahead := map[int]int64{}, map[int]int64{}
		for range 12 {
			w.onTime(t, w.now+r.Int64N(60))
			tokens, who := 1+r.Int64N(burst), len(w.callers)
			reckoned[who] = w.now + waitOf(w.gates[0].reckon(&w.gates[0].line, tokens, nil, w.now))
			ahead[who] = int64(w.gates[0].line.n)
			must(t, w.do(arrival(0, tokens, 1)))
		}
		w.onTime(t, w.now+1e6)
		for _, e := range w.log {
			if off := e.at - reckoned[e.who]; off < 0 || off > ahead[e.who] {
				t.Errorf("caller %d, %d ahead, starts %d after the instant reckoned\nafter: %v", e.who, ahead[e.who], off, w)
			}
		}
		if len(w.started()) != 12 {
			t.Fatalf("%d of 12 have started", len(w.started()))
		}
	}
}

func TestC5_AWideCallOfLongAgoCostsNoThroughput(t *testing.T) {
	// 10,000/s, timers 1 ms late, calls of 0.4 ms: each lateness sees permits return.
	const late, hold, n = 1e6, 4e5, 150
	for _, wide := range []int64{1, 64} {
		w := newTwin(setup{caps: []int64{64}, lines: []lineSetup{{rate: PerSecond(10_000), burst: 1, slack: int64(DefaultSlack), cap: 0}}})
		w.then(t, arrival(0, 1, wide), releaseBy(0))
		for range n {
			must(t, w.do(arrival(0, 1, 1)))
		}
		back := 1 // whose permit comes next
		for g := w.gates[0]; g.line.n > 0; {
			started := w.started()
			switch next := g.due + late; {
			case back < len(started) && w.callers[started[back]].call.at+hold <= next:
				must(t, w.do(passBy(max(0, w.callers[started[back]].call.at+hold-w.now))))
				must(t, w.do(releaseBy(started[back])))
				back++
			default:
				must(t, w.do(passBy(next-w.now)))
				must(t, w.do(onTimer))
			}
		}
		if last := w.log[len(w.log)-1]; last.nominal != n*1e5 {
			t.Errorf("after a call of weight %d, the last of %d starts as of %d; want %d", wide, n, last.nominal, int64(n*1e5))
		}
	}
}
