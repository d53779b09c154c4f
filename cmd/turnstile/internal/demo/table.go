package demo

import (
	"fmt"
	"strconv"
	"time"
)

// A row is one line of the table that the terminal and the page show: one number, each way. One
// without cells is a heading.
type row struct {
	label string
	bound string // the most that was promised, or possible
	cells []cell // in the order of ways
}

// A cell is one number, and whether it is as it should be.
type cell struct {
	text string
	mark mark
}

type mark int

const (
	plain mark = iota
	good
	bad
)

// table returns what is worth comparing in the act.
func (a act) table() []row {
	var rows []row
	add := func(label string, bound int, each func(result) cell) {
		r := row{label: label}
		if bound > 0 {
			r.bound = strconv.Itoa(bound)
		}
		for _, res := range a.results {
			r.cells = append(r.cells, each(res))
		}
		rows = append(rows, r)
	}
	several := len(a.scenario.flows) > 1
	for i, f := range a.scenario.flows {
		if several {
			rows = append(rows, row{label: fmt.Sprintf("%s limiter, %v", f.quota.Name, f.quota.Rate)})
		}
		a.flowRows(i, add)
	}
	if several {
		rows = append(rows, row{label: "both"})
	}
	slots := int(a.scenario.inFlight)
	add("most starts in flight", slots, func(r result) cell { return atMost(r.peak, slots) })
	add("most at the server", slots, func(r result) cell { return atMost(r.atServer, slots) })
	add("most received in 1 s", 0, func(r result) cell { return cell{strconv.Itoa(r.recvLong), plain} })
	add("permit time waiting", 0, func(r result) cell {
		return cell{percent(r.idle), pick(r.idle > 0.5, bad, plain)}
	})
	return rows
}

// flowRows adds the rows of flow i.
func (a act) flowRows(i int, add func(label string, bound int, each func(result) cell)) {
	each := func(f func(flowResult) cell) func(result) cell {
		return func(r result) cell { return f(r.flows[i]) }
	}
	scenario, first := a.scenario.flows[i], a.results[0].flows[i]
	if a.scenario.key == "stall" { // what was held up by the stall is made up for later
		arrivals := len(scenario.arrivals)
		add("started, of all callers", arrivals, each(func(f flowResult) cell {
			return cell{strconv.Itoa(f.started), pick(f.started < arrivals, bad, good)}
		}))
	} else {
		add("started, of possible", first.possible, each(func(f flowResult) cell {
			return cell{fmt.Sprintf("%d (%s)", f.inTime, percent(f.reached())),
				pick(f.reached() < 0.9, bad, pick(f.reached() >= 0.98, good, plain))}
		}))
	}
	long, short := first.promised(longWindow), first.promised(shortWindow)
	add("most starts in 1 s", long, each(func(f flowResult) cell { return atMost(f.inLong, long) }))
	add("most starts in 100 ms", short, each(func(f flowResult) cell { return atMost(f.inShort, short) }))
	add("promise, any window", 0, each(func(f flowResult) cell {
		return cell{pick(f.worst.Kept, "kept", "BROKEN"), pick(f.worst.Kept, good, bad)}
	}))
	add("  worst window", 0, each(func(f flowResult) cell {
		return cell{fmt.Sprintf("%d in %v", f.worst.Starts, seconds(f.worst.Length)), plain}
	}))
	add("  promised for it", 0, each(func(f flowResult) cell {
		return cell{strconv.FormatFloat(f.worst.Allowed, 'f', 1, 64), plain}
	}))
	optional := func(label string, count func(flowResult) int) {
		sum := 0
		for _, r := range a.results {
			sum += count(r.flows[i])
		}
		if sum > 0 {
			add(label, 0, each(func(f flowResult) cell { return cell{strconv.Itoa(count(f)), plain} }))
		}
	}
	if scenario.loopers == 0 {
		add("wait, median", 0, each(func(f flowResult) cell { return cell{seconds(f.waits.P50), plain} }))
		add("wait, 99 %", 0, each(func(f flowResult) cell { return cell{seconds(f.waits.P99), plain} }))
		optional("gave up waiting", func(f flowResult) int { return f.gaveUp })
		optional("waiting at the end", func(f flowResult) int { return f.cut })
	}
	optional("got no good answer", func(f flowResult) int { return f.failed })
}

// atMost shows n, and by how much it exceeds its bound.
func atMost(n, bound int) cell {
	if n <= bound {
		return cell{strconv.Itoa(n), good}
	}
	return cell{fmt.Sprintf("%d (%.1f x)", n, float64(n)/float64(bound)), bad}
}

func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

// percent shows a part: "7.0 %", "99.8 %", "100 %".
func percent(part float64) string {
	if p := part * 100; p >= 99.95 || p == 0 {
		return fmt.Sprintf("%.0f %%", p)
	}
	return fmt.Sprintf("%.1f %%", part*100)
}

// seconds shows a time: "0 ms", "1.3 ms", "12 ms", "2.31 s".
func seconds(d time.Duration) string {
	switch {
	case d < 50*time.Microsecond:
		return "0 ms"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
