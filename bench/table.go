package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A row compares Turnstile with one peer, or with a goal of its own.
type row struct {
	what      string
	turnstile string
	peer      string
	figure    string // the peer's
	ratio     string // Turnstile's over the peer's
	goal      string
	met       string
	memory    string
}

// yes is what the column says of a goal.
func yes(met bool) string {
	if met {
		return "yes"
	}
	return "**no**"
}

// heading prints the columns' names.
func heading(w io.Writer) {
	fmt.Fprintln(w, "| what | Turnstile | peer | its figure | ratio (range) | goal | met | allocs, bytes: Turnstile; peer |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- |")
}

func (r row) print(w io.Writer) {
	fmt.Fprintf(w, "| %s |\n", strings.Join([]string{r.what, r.turnstile, r.peer, r.figure, r.ratio, r.goal, r.met, r.memory}, " | "))
}

// timeRows compare the first of the results with each other one, by the time that they took.
func timeRows(what string, goals map[string]float64, results []result) []row {
	var rows []row
	ours := results[0]
	for _, peer := range results[1:] {
		each := ratios(ours.ns, peer.ns)
		r := row{
			what: what, turnstile: nanoseconds(median(ours.ns)), peer: peer.name, figure: nanoseconds(median(peer.ns)),
			ratio:  fmt.Sprintf("%.2f (%.2f to %.2f)", median(each), slices.Min(each), slices.Max(each)),
			memory: memory(ours) + "; " + memory(peer),
		}
		if goal, has := goals[peer.name]; has {
			r.goal, r.met = fmt.Sprintf("at most %.2f", goal), yes(median(each) <= goal)
		}
		rows = append(rows, r)
	}
	return rows
}

// memoryRow judges what Turnstile allocates. A tenth of an object and half a byte cover what the runtime itself
// allocates meanwhile, spread over the operations.
func memoryRow(what string, ours result, objects float64, bytes float64) row {
	goal := fmt.Sprintf("at most %.0f allocs", objects)
	met := median(ours.objects) < objects+0.1
	if bytes > 0 {
		goal += fmt.Sprintf(", %.0f B", bytes)
		met = met && median(ours.bytes) < bytes+0.5
	}
	return row{what: what, turnstile: memory(ours), goal: goal, met: yes(met)}
}

func memory(r result) string {
	return fmt.Sprintf("%s, %s B", trimmed(median(r.objects)), trimmed(median(r.bytes)))
}

// trimmed shows a figure to a hundredth, without zeros at its end.
func trimmed(x float64) string {
	s := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func nanoseconds(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.1f ns", x)
	}
	return fmt.Sprintf("%.0f ns", x)
}

// thousands writes n as 100,000.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
