package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
)

// A Look is what the terminal can show.
type Look struct {
	Width   int  // columns; 0: not a terminal, 80 are assumed
	ASCII   bool // no characters beyond ASCII
	Colours bool
}

const (
	plotRows = 6
	axisWide = 6 // columns left of a plot
)

// Terminal returns the report as text.
func (r *Report) Terminal(look Look) string {
	if look.Width == 0 {
		look.Width = 80
	}
	look.Width = min(max(look.Width, 60), 110)
	var b strings.Builder
	for _, a := range r.acts {
		b.WriteString("\n" + look.paint("1", strings.ToUpper(a.scenario.title)) + "\n")
		for _, line := range wrap(a.scenario.story, look.Width) {
			b.WriteString(line + "\n")
		}
		b.WriteString("\n")
		look.table(&b, a.table())
		b.WriteString("\n")
		for _, line := range wrap(a.scenario.why, look.Width) {
			b.WriteString(line + "\n")
		}
		b.WriteString("\n")
		if a.scenario.key == "stall" {
			look.plots(&b, a)
		} else {
			look.bars(&b, a)
		}
	}
	b.WriteString("\n")
	for _, line := range wrap(r.footnote(), look.Width) {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// footnote says what the numbers are.
func (r *Report) footnote() string {
	return fmt.Sprintf("Promised in any time t: burst + rate x (t + %v) starts, judged exactly in every window. Starts: when both "+
		"limits had let the caller through, by the clock read after the second call (hand-made ways) or by its trace (Turnstile). "+
		"Received and at the server: by its handler, network jitter included. All ran at the same time, in %v, each against a server of its own; seed %d.",
		r.acts[0].results[0].flows[0].promise.Slack, r.Took.Round(100*time.Millisecond), r.Config.Seed) + pauseNote(r.Pause)
}

// table writes the rows, the ways side by side.
func (look Look) table(b *strings.Builder, rows []row) {
	label := 0
	for _, r := range rows {
		label = max(label, len(r.label))
	}
	bound, wide := len("at most"), make([]int, len(ways))
	for i, w := range ways {
		wide[i] = len(w.short)
		for _, r := range rows {
			if r.cells == nil {
				continue
			}
			wide[i] = max(wide[i], utf8.RuneCountInString(r.cells[i].text))
		}
	}
	line := func(first, second string, cells []cell) {
		fmt.Fprintf(b, "%-*s %*s", label, first, bound, second)
		for i, c := range cells {
			b.WriteString("  " + strings.Repeat(" ", wide[i]-utf8.RuneCountInString(c.text)) + look.marked(c))
		}
		b.WriteString("\n")
	}
	var heads []cell
	for _, w := range ways {
		heads = append(heads, cell{text: w.short})
	}
	line("", "at most", heads)
	for _, r := range rows {
		if r.cells == nil {
			b.WriteString(look.paint("1", r.label) + "\n")
			continue
		}
		line(r.label, r.bound, r.cells)
	}
}

// plots draws, for each way, how many starts fell into the second before, against the promise.
func (look Look) plots(b *strings.Builder, a act) {
	columns := look.Width - axisWide - 1
	span := a.span()
	promise := a.results[0].flows[0].promised(longWindow)
	top := promise
	for _, r := range a.results {
		top = max(top, r.flows[0].inLong)
	}
	for i, r := range a.results {
		f := r.flows[0]
		values := measure.Trailing(f.starts, int64(longWindow), int64(span), columns)
		fmt.Fprintf(b, "%s: starts in the last second, of %d promised\n", ways[i].name, promise)
		look.plot(b, values, promise, top)
		look.axis(b, columns, span, a.scenario.stall)
	}
}

// plot draws columns up to top, with a line at the bound. What is above the bound is marked.
func (look Look) plot(b *strings.Builder, values []int, bound, top int) {
	steps := []rune(" ▁▂▃▄▅▆▇█")
	if look.ASCII {
		steps = []rune(" .:#")
	}
	fine := len(steps) - 1
	boundRow := bound * plotRows / max(1, top) // the row in which the line lies
	if boundRow == plotRows {
		boundRow--
	}
	for row := plotRows - 1; row >= 0; row-- {
		label := ""
		switch row {
		case plotRows - 1:
			label = fmt.Sprint(top)
		case boundRow:
			label = fmt.Sprint(bound)
		case 0:
			label = "0"
		}
		fmt.Fprintf(b, "%*s ", axisWide-1, label)
		for _, v := range values {
			filled := v*plotRows*fine/max(1, top) - row*fine
			switch {
			case v > 0 && row == 0:
				filled = max(filled, 1)
			}
			filled = min(max(filled, 0), fine)
			above := v > bound && row >= boundRow
			switch {
			case filled == 0 && row == boundRow:
				b.WriteString(look.line())
			case filled == 0:
				b.WriteByte(' ')
			case above && look.Colours:
				b.WriteString(look.paint("31", string(steps[filled])))
			case above && look.ASCII:
				b.WriteByte('!')
			case above:
				b.WriteString("▓")
			default:
				b.WriteRune(steps[filled])
			}
		}
		b.WriteByte('\n')
	}
}

// line is a piece of the line at the bound.
func (look Look) line() string { return pick(look.ASCII, "-", "┄") }

// axis writes seconds below a plot, and where the server stalled.
func (look Look) axis(b *strings.Builder, columns int, span time.Duration, stall measure.Span) {
	at := func(ns int64) int { return int(ns * int64(columns) / int64(span)) }
	every := time.Second
	for at(int64(every)) < 6 {
		every *= 2
	}
	marks := []byte(strings.Repeat(" ", columns))
	for t := time.Duration(0); t <= span; t += every {
		text := fmt.Sprintf("%ds", int(t.Seconds()))
		copy(marks[min(at(int64(t)), columns-len(text)):], text)
	}
	fmt.Fprintf(b, "%*s%s\n", axisWide, "", strings.TrimRight(string(marks), " "))
	if from, to := at(stall.From), at(stall.To); to-from >= 2 {
		dash := pick(look.ASCII, "-", "─")
		bar := func(n int) string { return strings.Repeat(dash, max(0, n)) }
		text := pick(to-from >= 9, " stall ", "")
		left := (to - from - 2 - len(text)) / 2
		fmt.Fprintf(b, "%*s%s%s%s%s%s\n", axisWide+from, "", pick(look.ASCII, "|", "├"),
			bar(left), text, bar(to-from-2-len(text)-left), pick(look.ASCII, "|", "┤"))
	}
}

// bars draws what part of the possible starts happened.
func (look Look) bars(b *strings.Builder, a act) {
	label := 0
	for _, w := range ways {
		label = max(label, len(w.short))
	}
	columns := look.Width - label - len(" 100.0 %") - 2
	full, empty := pick(look.ASCII, "#", "█"), pick(look.ASCII, ".", "░")
	for i, f := range a.scenario.flows {
		who := pick(len(a.scenario.flows) > 1, f.quota.Name+" limiter, ", "")
		fmt.Fprintf(b, "%sstarts, of the %d possible\n", who, a.results[0].flows[i].possible)
		for j, r := range a.results {
			part := r.flows[i].reached()
			n := min(columns, int(part*float64(columns)+0.5))
			colour := pick(part < 0.9, "31", "32")
			fmt.Fprintf(b, "%-*s %s%s %8s\n", label, ways[j].short,
				look.paint(colour, strings.Repeat(full, n)), strings.Repeat(empty, columns-n), percent(part))
		}
	}
}

// marked colours a cell by its mark.
func (look Look) marked(c cell) string {
	switch c.mark {
	case good:
		return look.paint("32", c.text)
	case bad:
		return look.paint("1;31", c.text)
	}
	return c.text
}

// paint wraps s in an ANSI colour, where colours are wanted.
func (look Look) paint(code, s string) string {
	if !look.Colours || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// wrap breaks text into lines of at most width characters, at spaces.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
