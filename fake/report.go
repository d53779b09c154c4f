package fake

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Violation is one breach that Audit found.
type Violation struct {
	Clause string // of the contract: "C1", "C2", "C3", "C8"; "input" where what was given cannot be judged
	Line   string // the line of the call or of the limits concerned
	ID     uint64 // the call that was one too many; 0 where no single one was
	At     time.Time
	Text   string // what happened, with its numbers
}

// Error gives the clause, the line if it has a name, and the text.
func (v Violation) Error() string {
	if v.Line == "" {
		return v.Clause + ": " + v.Text
	}
	return fmt.Sprintf("%s: line %q: %s", v.Clause, v.Line, v.Text)
}

// Report is Audit's verdict.
type Report struct {
	Calls      int         // calls in the ledger
	Started    int         // of these, let through
	Ended      int         // of these, given back
	Left       int         // gave up before their start
	Replayed   int         // starts judged by their nominal instants, once for each rate over them
	Worst      Window      // real starts: of Windows, the one with the largest excess; no rate: zero
	Windows    []Window    // real starts: the worst window of each rate, the whole ledger's first, then by line
	PeakWeight int64       // most weight in flight at once, all lines together
	Violations []Violation // input first, then C8, C2 and C3 by seq, then C1
}

// OK reports whether nothing was violated.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// Err returns nil if nothing was violated, else an error that lists every violation with its numbers; errors.As finds a
// Violation in it.
func (r Report) Err() error {
	if r.OK() {
		return nil
	}
	errs := make([]error, len(r.Violations))
	for i, v := range r.Violations {
		errs[i] = v
	}
	return fmt.Errorf("fake: audit: %s:\n%w", count(len(errs), "violation"), errors.Join(errs...))
}

// listed is how many violations String lists.
const listed = 20

// String is a summary of a few lines: counts, windows, then the first violations.
func (r Report) String() string {
	var s strings.Builder
	verdict := "held"
	if !r.OK() {
		verdict = count(len(r.Violations), "violation")
	}
	fmt.Fprintf(&s, "audit: %s\n", verdict)
	fmt.Fprintf(&s, "calls: %d, started %d, ended %d, left %d, peak weight %d\n", r.Calls, r.Started, r.Ended, r.Left, r.PeakWeight)
	for _, w := range r.Windows {
		name := "worst window"
		if w.Line != "" {
			name = fmt.Sprintf("worst window of line %q", w.Line)
		}
		fmt.Fprintf(&s, "%s: %v\n", name, w)
	}
	for i, v := range r.Violations {
		if i == listed {
			fmt.Fprintf(&s, "... and %d more\n", len(r.Violations)-listed)
			break
		}
		fmt.Fprintln(&s, v.Error())
	}
	return s.String()
}

// count writes a number of things, in the singular for one.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// instant writes t for a message, in UTC, to the nanosecond.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

// decimal writes r with up to three decimals, and says when there are more.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.RatString()
	}
	text := strings.TrimRight(r.FloatString(3), "0")
	if exact, ok := new(big.Rat).SetString(strings.TrimSuffix(text, ".")); ok && exact.Cmp(r) == 0 {
		return text
	}
	return "about " + r.FloatString(3)
}
