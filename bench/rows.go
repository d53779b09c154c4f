package main

import (
	"fmt"
	"slices"
)

// rows lays s and compares: the time until the last waiter is gone, by the waiter, and what a waiter allocates. Of a
// second wave only the latter is of interest.
func (s siege) rows(rounds int) []row {
	results := s.lay(rounds)
	if s.again {
		return []row{memoryRow(s.what+": allocated by a waiter", results[0], s.objects, s.bytes)}
	}
	rows := timeRows(s.what, s.goals, results)
	return append(rows, memoryRow(s.what+": allocated by a waiter", results[0], s.objects, s.bytes))
}

// reachRows show the share of the rate that each pacer reached, and whether it was ever above, in any round.
func reachRows(what string, results [][]pace) []row {
	show := func(paces []pace) (text string, share, excess float64) {
		var shares []float64
		excess = paces[0].excess
		for _, p := range paces {
			shares, excess = append(shares, p.share), max(excess, p.excess)
		}
		text = fmt.Sprintf("%.4f (%.4f to %.4f)", median(shares), slices.Min(shares), slices.Max(shares))
		if excess > 0 {
			text += fmt.Sprintf(", up to %.1f starts above", excess)
		}
		return text, median(shares), excess
	}
	ours, share, excess := show(results[0])
	var rows []row
	for i, p := range pacers()[1:] {
		theirs, reached, _ := show(results[i+1])
		r := row{what: what, turnstile: ours, peer: p.name, figure: theirs, ratio: fmt.Sprintf("%.3f", share/reached)}
		if i == 0 {
			r.goal, r.met = "0.995 or more, never above 1 + rate x elapsed", yes(share >= 0.995 && excess <= 0)
		}
		rows = append(rows, r)
	}
	return rows
}

// virtualRows compare Turnstile with the compositions in the cases on virtual time.
func virtualRows(all []Virtual) []row {
	cases := []struct {
		what, goal string
		of         func(Virtual) float64
		met        func(float64) bool
	}{
		{"most starts in 1 s after a 5 s stall, over the promise (virtual time)", "at most 1.0", func(v Virtual) float64 { return v.InSecond }, atMostOne},
		{"most starts in 100 ms after a 5 s stall, over the promise (virtual time)", "at most 1.0", func(v Virtual) float64 { return v.InTenth }, atMostOne},
		{"callers that give up after 1 s, 300/s at 100/s: starts, over those possible (virtual time)", "1.0", func(v Virtual) float64 { return v.GiveUp }, atLeastOne},
		{"500/s limiter sharing 20 permits with a 5/s one: share of its rate (virtual time)", "1.0", func(v Virtual) float64 { return v.Fast }, atLeastOne},
	}
	var rows []row
	for _, c := range cases {
		ours := c.of(all[0])
		for i, peer := range all[1:] {
			r := row{what: c.what, turnstile: fmt.Sprintf("%.2f", ours), peer: peer.Name, figure: fmt.Sprintf("%.2f", c.of(peer)),
				ratio: fmt.Sprintf("%.2f", ours/c.of(peer))}
			if i == 0 {
				r.goal, r.met = c.goal, yes(c.met(ours))
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func atMostOne(x float64) bool  { return x <= 1 }
func atLeastOne(x float64) bool { return x >= 1 }
