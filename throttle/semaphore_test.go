package throttle

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// script returns a twin after so many operations, each of which was checked and compared.
func script(t testing.TB, s setup, ops ...op) *twin {
	t.Helper()
	w := newTwin(s)
	w.then(t, ops...)
	return w
}

// then does more operations.
func (t *twin) then(tb testing.TB, ops ...op) {
	tb.Helper()
	for _, o := range ops {
		must(tb, t.do(o))
	}
	must(tb, t.clone().audit())
}

// started returns who has started, in order.
func (t *twin) started() []int {
	who := []int{}
	for _, e := range t.log {
		if e.what == starts {
			who = append(who, e.who)
		}
	}
	return who
}

// mustStart asserts that exactly these have started, in this order.
func (t *twin) mustStart(tb testing.TB, want ...int) {
	tb.Helper()
	if is := t.started(); !slices.Equal(is, want) {
		tb.Fatalf("started: %v; want %v\nafter: %v", is, want, t)
	}
}

// mustRefuse asserts that exactly these were refused, for this reason.
func (t *twin) mustRefuse(tb testing.TB, why refusal, want ...int) {
	tb.Helper()
	is := []int{}
	for _, e := range t.log {
		if e.what == refused && e.why == why {
			is = append(is, e.who)
		}
	}
	if !slices.Equal(is, want) {
		tb.Fatalf("refused for reason %d: %v; want %v\nafter: %v", why, is, want, t)
	}
}

// capped is so many lines without a rate that share one cap.
func capped(size int64, lines int) setup {
	s := setup{caps: []int64{size}}
	for range lines {
		s.lines = append(s.lines, lineSetup{cap: 0})
	}
	return s
}

func releaseBy(who int) op { return op{kind: opRelease, who: who} }

func leaveBy(who int) op { return op{kind: opLeave, who: who} }

func quitBy(who int) op { return op{kind: opQuit, who: who} }

func passBy(n int64) op { return op{kind: opPass, n: n} }

var onTimer = op{kind: opTimer}

func TestC2_ResizingNeverRevokesAndNeverOvershoots(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		var fx effects
		var s inflight
		size := one[int64](&random{Rand: r}, 0, 1, 10, 100, MaxCap)
		s.init(&fx, "", size)
		g := new(gate)
		g.init(&fx, &s, 0)
		var held []int64
		for range 200 {
			switch k := r.IntN(10); {
			case k < 5:
				weight := 1 + r.Int64N(one[int64](&random{Rand: r}, 3, 70, MaxCap))
				if want, is := weight <= size-g.held, s.take(weight); is != want {
					t.Fatalf("seed %d: %d of %d are held, and %d more are granted: %v", seed, g.held, size, weight, is)
				} else if is {
					held = append(held, weight)
					g.held += weight
				}
			case k < 8 && len(held) > 0:
				i := r.IntN(len(held))
				g.held -= held[i]
				s.release(held[i])
				held = slices.Delete(held, i, i+1)
			default:
				size = one[int64](&random{Rand: r}, 0, 1, 2, 30, 63, 64, 65, 200, MaxCap, MaxCap-1)
				s.resize(size, 0)
			}
			if s.held != g.held || s.size != size {
				t.Fatalf("seed %d: %d of %d are held; want %d of %d", seed, s.held, s.size, g.held, size)
			}
			must(t, s.check([]*gate{g}))
		}
	}
}

func TestC2_AShrunkenCapGrantsOnlyOnceEnoughIsBack(t *testing.T) {
	w := script(t, capped(3, 1),
		arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), resizing(1), arrival(0, 1, 1), arrival(0, 1, 1))
	w.mustStart(t, 0, 1, 2)
	w.then(t, releaseBy(0), releaseBy(2))
	w.mustStart(t, 0, 1, 2)
	w.then(t, releaseBy(1))
	w.mustStart(t, 0, 1, 2, 3)
	w.then(t, resizing(2))
	w.mustStart(t, 0, 1, 2, 3, 4)
}

func TestC7_ACapOfZeroPausesAndRefusesNobody(t *testing.T) {
	w := script(t, capped(2, 2),
		arrival(0, 1, 2), arrival(0, 1, 2), arrival(1, 1, 1), resizing(0), arrival(0, 1, 3), arrival(1, 1, 1), trial(1, 1, 1), releaseBy(0))
	w.mustStart(t, 0)
	w.mustRefuse(t, aboveCap)
	w.then(t, resizing(2)) // the caller of weight 3, who came during the pause, no longer fits
	w.mustStart(t, 0, 1)
	w.mustRefuse(t, aboveCap, 3)
	w.then(t, releaseBy(1))
	w.mustStart(t, 0, 1, 2, 4)
}

func TestC7_AWaiterTooHeavyForTheNewCapIsRefusedAndThoseBehindGoOn(t *testing.T) {
	w := script(t, capped(4, 1),
		arrival(0, 1, 2), arrival(0, 1, 4), arrival(0, 1, 1), arrival(0, 1, 3), arrival(0, 1, 1), resizing(3))
	w.mustRefuse(t, aboveCap, 1)
	w.mustStart(t, 0, 2)
	w.then(t, releaseBy(0), releaseBy(2))
	w.mustStart(t, 0, 2, 3)
}

func TestC3_LinesThatShareACapAreServedOneCallerEachInTurn(t *testing.T) {
	w := script(t, capped(1, 3), arrival(0, 1, 1))
	for range 3 {
		for line := range 3 {
			w.then(t, arrival(line, 1, 1))
		}
	}
	w.then(t, arrival(2, 1, 1), arrival(2, 1, 1))
	for w.gates[2].line.n > 0 {
		started := w.started()
		w.then(t, releaseBy(started[len(started)-1]))
	}
	// 1, 2, 3 are the first of lines 0, 1 and 2; the two who came last are all of line 2.
	w.mustStart(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
}

func TestC3_ASmallWeightDoesNotOvertakeALargeOneThroughAnotherLine(t *testing.T) {
	w := script(t, capped(3, 2),
		arrival(0, 1, 2), arrival(0, 1, 3), arrival(1, 1, 1), trial(1, 1, 1))
	w.mustStart(t, 0)
	w.then(t, releaseBy(0))
	w.mustStart(t, 0, 1)
	w.then(t, releaseBy(1))
	w.mustStart(t, 0, 1, 2)
}

func TestC4_WhoLeavesTheCapsFrontLetsTheOtherLinesThrough(t *testing.T) {
	for _, gone := range [][]op{
		{leaveBy(1)},
		{quitBy(1), releaseBy(0)}, // found gone when permits come
		{quitBy(1), leaveBy(1)},   // found gone by itself
		{quitBy(1), resizing(4)},  // found gone when the cap is looked at
		{closing(0)},
	} {
		w := script(t, capped(4, 2), arrival(0, 1, 2), arrival(0, 1, 4), arrival(1, 1, 1), arrival(1, 1, 1))
		w.mustStart(t, 0) // 2 and 3 have room, and stand behind 1
		w.then(t, gone...)
		w.mustStart(t, 0, 2, 3)
	}
}

func TestC4_ALineWhoseFrontLeavesAsksTheCapAnewAtTheTail(t *testing.T) {
	w := script(t, capped(1, 2),
		arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), arrival(1, 1, 1), leaveBy(1), releaseBy(0))
	w.mustStart(t, 0, 3)
	w.then(t, releaseBy(3))
	w.mustStart(t, 0, 3, 2)
}

func TestC5_PermitsKeptAsideServeEveryLine(t *testing.T) {
	const size = 2 * maxSpare
	w := script(t, capped(size, 2))
	for range 3 {
		w.then(t, arrival(0, 1, 1)) // takes one
		first := len(w.callers) - 1
		w.then(t, arrival(0, 1, size-1), releaseBy(first), releaseBy(first+1))
		if w.caps[0].spare != maxSpare {
			t.Fatalf("spare is %d after much came back; want %d", w.caps[0].spare, maxSpare)
		}
		w.then(t, arrival(1, 1, size)) // the other line can have all
		w.then(t, releaseBy(first+2))
	}
	if n := len(w.started()); n != 9 {
		t.Errorf("%d started; want 9", n)
	}
	w.then(t, resizing(maxSpare/2)) // what is kept aside does not outlive a shrink
	if w.caps[0].spare > maxSpare/2 {
		t.Errorf("spare is %d of a cap of %d", w.caps[0].spare, maxSpare/2)
	}
}

func TestC5_AGrowthStartsAllThatItHasRoomFor(t *testing.T) {
	w := script(t, capped(1, 2),
		arrival(0, 1, 1), arrival(0, 1, 1), arrival(1, 1, 1), arrival(0, 1, 1), arrival(1, 1, 1), resizing(4))
	w.mustStart(t, 0, 1, 2, 3)
	w.then(t, resizing(MaxCap))
	w.mustStart(t, 0, 1, 2, 3, 4)
}
