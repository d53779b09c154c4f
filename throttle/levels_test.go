package throttle

import (
	"slices"
	"testing"
	"time"
)

// below returns a line without limits of its own below line 0, with that share.
func below(share int64) lineSetup { return lineSetup{cap: -1, above: 1, share: share} }

// oneAtATime has whoever is in flight return, again and again, and tells in which lines callers started.
func (t *twin) oneAtATime(tb testing.TB, n int) (lines []int) {
	tb.Helper()
	for range n {
		started := t.started()
		t.then(tb, releaseBy(started[len(started)-1]))
	}
	for _, who := range t.started() {
		lines = append(lines, t.callers[who].line)
	}
	return lines
}

func TestTree_AChildOfShare3HasThreeTimesTheStartsOfOneOfShare1WithinATurn(t *testing.T) {
	s := setup{caps: []int64{1}, lines: []lineSetup{{cap: 0}, below(3), below(1), below(1)}}
	w := script(t, s, arrival(2, 1, 1))
	for range 12 {
		w.then(t, arrival(1, 1, 1))
	}
	for range 4 {
		w.then(t, arrival(2, 1, 1), arrival(3, 1, 1))
	}
	lines := w.oneAtATime(t, 20)[1:]
	var n [4]int
	for i, line := range lines {
		n[line]++
		if off := n[1] - 3*n[2]; off < -3 || off > 3 || n[2]-n[3] < 0 || n[2]-n[3] > 1 {
			t.Errorf("the first %d starts are in lines %v: not 3 to 1 to 1 within a turn", i+1, lines[:i+1])
		}
	}
}

func TestTree_ATurnIsMeasuredInTokensAndWhatWasSpentTooMuchIsPaidBack(t *testing.T) {
	s := setup{caps: []int64{1}, lines: []lineSetup{{cap: 0}, below(1), below(1)}}
	w := script(t, s, arrival(1, 1, 1))
	for range 3 {
		w.then(t, arrival(1, 4, 1))
	}
	for range 10 {
		w.then(t, arrival(2, 1, 1))
	}
	lines := w.oneAtATime(t, 13)[1:]
	want := []int{1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1, 2, 2}
	if !slices.Equal(lines, want) {
		t.Errorf("starts in lines %v; want %v", lines, want)
	}
}

func TestTree_AStalledChildDoesNotHoldTheParent(t *testing.T) {
	s := setup{caps: []int64{2, 1}, lines: []lineSetup{
		{cap: 0},
		{cap: 1, above: 1, share: 5},
		{rate: Rate{1, 100}, burst: 1, cap: -1, above: 1, share: 5},
		below(1),
	}}
	w := script(t, s, arrival(1, 1, 1), arrival(1, 1, 1), arrival(2, 1, 1), releaseBy(2), arrival(2, 1, 1), arrival(3, 1, 1))
	w.mustStart(t, 0, 2, 4) // 1 lacks the permit of its line, 3 its token: line 3 goes on
}

func TestTree_WhoWaitsHoldsNothingAtAnyLevel(t *testing.T) {
	s := setup{caps: []int64{1, 1}, lines: []lineSetup{{cap: 0}, {cap: 1, above: 1, share: 1}, {cap: 1}, below(1)}}
	w := script(t, s, arrival(3, 1, 1), arrival(1, 1, 1), arrival(2, 1, 1))
	w.mustStart(t, 0, 2) // 1 waits for the permit above, and that of its line is free for another who shares it
	w.then(t, releaseBy(0))
	w.mustStart(t, 0, 2)
	w.then(t, arrival(3, 1, 1)) // nor does it hold the one above while it waits for that of its line
	w.mustStart(t, 0, 2, 3)
	w.then(t, releaseBy(2), releaseBy(3))
	w.mustStart(t, 0, 2, 3, 1)
}

func TestTree_APauseAboveHoldsAllBelowAndOneBelowOnlyItself(t *testing.T) {
	s := setup{lines: []lineSetup{{cap: -1}, below(1), below(1)}}
	w := script(t, s, pausing(1, 10), arrival(1, 1, 1), arrival(2, 1, 1))
	w.mustStart(t, 1)
	w.then(t, pausing(0, 25), arrival(2, 1, 1), passBy(12), onTimer)
	w.mustStart(t, 1)
	w.then(t, passBy(13), onTimer)
	w.mustStart(t, 1, 2, 0) // line 2 asks since 0, line 1 since 12
	w.mustStartAsOf(t, 0, 25, 25)
}

func TestQuotas_TheLatestDueCountsAndAllAreChargedAsOfIt(t *testing.T) {
	s := setup{lines: []lineSetup{{
		rate: Rate{1, 10}, burst: 1, slack: 100, cap: -1, quotas: []Quota{AtMost(2, 35), FixedWindow(3, 50)},
	}}}
	w := script(t, s)
	for range 5 {
		w.then(t, arrival(0, 1, 1))
	}
	w.onTime(t, 200)
	// The bucket at 10, the window at 35, and the period that began at 0 ends at 50.
	w.mustStartAsOf(t, 0, 10, 35, 50, 70)
}

func TestQuotas_AWindowIsFullToItsLastNanosecondAndAPeriodToo(t *testing.T) {
	for _, q := range []Quota{AtMost(1, 7), FixedWindow(1, 7), FixedWindow(1, 7).AlignedTo(time.Time{}.Add(14))} {
		w := script(t, setup{lines: []lineSetup{{cap: -1, quotas: []Quota{q}}}}, arrival(0, 1, 1), passBy(6), trial(0, 1, 1))
		w.mustStart(t, 0)
		w.then(t, passBy(1), trial(0, 1, 1))
		w.mustStart(t, 0, 2)
	}
}
