// Command bench measures Turnstile beside its peers, in one process and in turn, and prints a table in
// Markdown. The README says what each row means.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == virtualTime {
		beVirtual()
	}
	p, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := p.print(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A program is what the command has been asked for.
type program struct {
	args    []string
	rounds  int
	lap     time.Duration // of one subject in one round
	waiters int           // at once
	long    time.Duration // of one reach for a rate
	rows    *regexp.Regexp
}

// parse reads the command's arguments.
func parse(args []string, out io.Writer) (program, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	count := flags.Int("count", 5, "rounds: 1 or more; waves take half as many, the rates reached a third")
	quick := flags.Bool("quick", false, "short rounds and 10,000 waiters: to see that it works, not to publish")
	rows := flags.String("rows", "", "a regular expression: only the rows that match")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(out, "Usage: go run ./bench [flags] >table.md")
			flags.SetOutput(out)
			flags.PrintDefaults()
			return program{}, err
		}
		return program{}, fmt.Errorf("bench: %w; -help tells the flags", err)
	}
	if flags.NArg() > 0 {
		return program{}, fmt.Errorf("bench: argument %q; want flags only: -help tells them", flags.Arg(0))
	}
	if *count < 1 {
		return program{}, fmt.Errorf("bench: -count is %d; want 1 or more", *count)
	}
	only, err := regexp.Compile(*rows)
	if err != nil {
		return program{}, fmt.Errorf("bench: -rows is %q: %w", *rows, err)
	}
	p := program{args: args, rounds: *count, lap: 40 * time.Millisecond, waiters: 100_000, long: time.Second, rows: only}
	if *quick {
		p.lap, p.waiters, p.long = 4*time.Millisecond, 10_000, 500*time.Millisecond
	}
	return p, nil
}

// print measures, and prints each row as it is known. The table goes to out, what is being done to log.
func (p program) print(out, log io.Writer) error {
	if err := p.header(out); err != nil {
		return fmt.Errorf("bench: print the table: %w", err)
	}
	heading(out)
	begun := time.Now()
	doing := func(what string) bool {
		if !p.rows.MatchString(what) {
			return false
		}
		fmt.Fprintf(log, "%4.0f s  %s\n", time.Since(begun).Seconds(), what)
		return true
	}
	for _, c := range slices.Concat(tryContests(), []contest{bucketContest()}, permitContests(), []contest{levelContest(), keyedContest()}) {
		if doing(c.what) {
			results := c.race(p.rounds, p.lap)
			printAll(out, timeRows(c.what, c.goals, results))
			memoryRow(c.what, results[0], c.objects, 0).print(out)
		}
	}
	for _, s := range sieges(p.waiters) {
		if doing(s.what) {
			printAll(out, s.rows((p.rounds+1)/2))
		}
	}
	for _, perSecond := range []int{1000, 10_000, 100_000} {
		what := fmt.Sprintf("%s/s, burst 1, 1,000 goroutines: rate reached", thousands(perSecond))
		if doing(what) {
			printAll(out, reachRows(what, reach(perSecond, (p.rounds+2)/3, p.long)))
		}
	}
	if doing("stall and shared cap, on virtual time") {
		all, err := virtual()
		if err != nil {
			return err
		}
		printAll(out, virtualRows(all))
	}
	fmt.Fprintf(log, "%4.0f s  done\n", time.Since(begun).Seconds())
	_, err := fmt.Fprintln(out)
	return err
}

func printAll(out io.Writer, rows []row) {
	for _, r := range rows {
		r.print(out)
	}
}
