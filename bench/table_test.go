package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func inBubble(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }

func TestEverySubjectAnswersAsItsRowSays(t *testing.T) {
	for _, c := range append(append(tryContests(), bucketContest()), append(permitContests(), levelContest(), keyedContest())...) {
		for _, s := range c.subjects {
			c.run(s.make(), 2*c.goroutines, new(stopwatch)) // panics otherwise
		}
		for peer := range c.goals {
			if !has(c.subjects, func(s subject) bool { return s.name == peer }) {
				t.Errorf("%s: the goal is relative to %q, which is not among the subjects", c.what, peer)
			}
		}
	}
}

func TestEveryWaveLeavesAsItsRowSays(t *testing.T) {
	for _, s := range sieges(300) {
		for _, h := range s.halls {
			s.wave(h) // panics otherwise
		}
		for peer := range s.goals {
			if !has(s.halls, func(h hall) bool { return h.name == peer }) {
				t.Errorf("%s: the goal is relative to %q, which is not among the halls", s.what, peer)
			}
		}
	}
}

func has[T any](all []T, is func(T) bool) bool {
	for _, x := range all {
		if is(x) {
			return true
		}
	}
	return false
}

func TestAWaitersMemoryIsThatOfItsLimiterAlone(t *testing.T) {
	// A house whose waiters allocate 3 objects of 64 bytes each, and wait like those of the control.
	const n = 5000
	var kept atomic.Pointer[[64]byte]
	heavy := hall{"heavy", func() house {
		h := control()
		wait := h.pass
		h.pass = func(ctx context.Context) error {
			for range 3 {
				kept.Store(new([64]byte)) // on the heap
			}
			return wait(ctx)
		}
		return h
	}}
	for how := staying; how <= fromBehind; how++ {
		r := siege{halls: []hall{heavy, {plain, control}}, n: n, how: how}.lay(3)
		if o, b := median(r[0].objects), median(r[0].bytes); o < 2.9 || o > 3.1 || b < 182 || b > 202 {
			t.Errorf("leaving %d: %v objects, %v B; want 3 and 192", how, o, b)
		}
		if o, b := median(r[1].objects), median(r[1].bytes); o < -0.1 || o > 0.1 || b < -10 || b > 10 {
			t.Errorf("leaving %d, control: %v objects, %v B; want 0", how, o, b)
		}
	}
}

func TestMedianIsTheMiddleAndLeavesTheValues(t *testing.T) {
	values := []float64{9, 1, 4}
	if m := median(values); m != 4 || values[0] != 9 {
		t.Errorf("median %v, values now %v; want 4, and 9 in front", m, values)
	}
	if m := median([]float64{1, 8, 2, 4}); m != 3 {
		t.Errorf("median of 1, 8, 2, 4 is %v; want 3", m)
	}
}

func TestRatiosAreTakenWithinEachRound(t *testing.T) {
	// Everything took ten times as long in the second round: that is not to show.
	ours, peer := result{name: "Turnstile", ns: []float64{2, 20, 2}}, result{name: "peer", ns: []float64{4, 40, 4}}
	ours.bytes, ours.objects, peer.bytes, peer.objects = ours.ns, ours.ns, peer.ns, peer.ns
	for goal, met := range map[float64]string{0.5: "yes", 0.49: "**no**"} {
		rows := timeRows("x", map[string]float64{"peer": goal}, []result{ours, peer})
		if len(rows) != 1 || rows[0].ratio != "0.50 (0.50 to 0.50)" || rows[0].met != met {
			t.Errorf("goal %v: %+v; want one row, of ratio 0.50 (0.50 to 0.50), met: %s", goal, rows, met)
		}
	}
}

func TestMemoryGoalIsMissedByAWholeObject(t *testing.T) {
	for _, c := range []struct {
		objects, bytes float64 // allocated
		met            string
	}{{2.04, 192.3, "yes"}, {3, 192, "**no**"}, {2, 208, "**no**"}} {
		r := memoryRow("x", result{objects: []float64{c.objects}, bytes: []float64{c.bytes}}, 2, 192)
		if r.met != c.met {
			t.Errorf("%v objects of %v B, of 2 and 192: met %s; want %s", c.objects, c.bytes, r.met, c.met)
		}
	}
}

func TestTableIsMarkdown(t *testing.T) {
	var out bytes.Buffer
	heading(&out)
	for _, r := range virtualRows([]Virtual{{Name: "Turnstile", InSecond: 1, InTenth: 1, GiveUp: 1, Fast: 1}, {Name: "a", InSecond: 4, InTenth: 3, GiveUp: 1, Fast: 1}}) {
		r.print(&out)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines; want 6:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		if strings.Count(line, "|") != 9 || !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, " |") {
			t.Errorf("%q does not have 8 columns", line)
		}
	}
}

func TestBadFlagsAreToldWithTheirValue(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-count", "0"}, "-count is 0; want 1 or more"},
		{[]string{"-count", "x"}, `"x"`},
		{[]string{"-rows", "("}, `-rows is "("`},
		{[]string{"-fast"}, "-fast"},
		{[]string{"all"}, `argument "all"`},
	} {
		if _, err := parse(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bench: ") {
			t.Errorf("parse(%q): %v; want an error that begins bench: and has %s", c.args, err, c.want)
		}
	}
	if _, err := parse([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parse -help: %v; want flag.ErrHelp", err)
	}
	if p, err := parse([]string{"-quick", "-count=2"}, io.Discard); err != nil || p.rounds != 2 || p.waiters != 10_000 {
		t.Errorf("parse -quick -count=2: %+v, %v; want 2 rounds and 10,000 waiters", p, err)
	}
}

func TestThousandsAreSetApart(t *testing.T) {
	for n, want := range map[int]string{0: "0", 250: "250", 1000: "1,000", 100_000: "100,000", 1_002_030: "1,002,030"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) is %q; want %q", n, got, want)
		}
	}
}

func TestRateGoalIsMissedByOneRoundAboveOrAMedianBelow(t *testing.T) {
	peers := len(pacers()) - 1
	for _, c := range []struct {
		paces []pace
		met   string
	}{
		{[]pace{{0.90, -1}, {0.995, -1}, {0.999, -1}}, "yes"},
		{[]pace{{0.90, -1}, {0.994, -1}, {0.999, -1}}, "**no**"},
		{[]pace{{0.999, -1}, {0.999, 0.5}, {0.999, -1}}, "**no**"},
	} {
		results := [][]pace{c.paces}
		for range peers {
			results = append(results, []pace{{1, -1}})
		}
		if rows := reachRows("x", results); len(rows) != peers || rows[0].met != c.met {
			t.Errorf("%v: %+v; want %d rows, met: %s", c.paces, rows, peers, c.met)
		}
	}
}
