package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
	"github.com/turnstile-go/turnstile/throttle"
)

// A Summary is what came of a run.
type Summary struct {
	Snapshot
	Lost        int64 // results that could not be written
	NeverBegun  int64 // lines read that were not started, because the run was stopped
	More        bool  // there may be more of them, in input that was not read to its end
	BadInputs   int   // sources that could not be read, or not to their ends
	Interrupted bool
	Peak        int64 // in flight
	Cap         int64
	Waits       measure.Percentiles
	Services    measure.Percentiles
	Promise     measure.Promise // zero Rate: none
	Worst       measure.Worst
	unjudged    error         // why Worst could not be found
	firstToLast time.Duration // from the first start to the last
}

// Exit codes of a run.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

func (r *runner) summary() *Summary {
	s := &Summary{Snapshot: r.tally.snapshot()}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	s.Read = r.reader.count.Load()
	s.NeverBegun = max(0, s.Read-s.Started-s.NeverRun)
	s.More = !r.reader.ended.Load() && r.stop.Err() != nil
	s.BadInputs, s.Interrupted = r.tally.inputs, r.tally.stopped
	s.Peak, s.Cap = r.tally.peak, r.Limits.MaxInFlight
	s.Lost = r.sink.lost.Load() // without the sink's lock, which a write that never ends may hold
	s.Waits = measure.PercentilesOf(r.tally.waits)
	s.Services = measure.PercentilesOf(r.tally.services)
	slack := r.Limits.Slack
	if slack == 0 {
		slack = throttle.DefaultSlack
	}
	s.Promise = measure.Promise{Rate: r.Limits.Rate, Burst: r.Limits.Burst, Slack: max(0, slack)}
	if !s.Promise.Rate.IsZero() {
		s.Worst, s.unjudged = s.Promise.Judge(r.tally.starts)
	}
	if n := len(r.tally.starts); n > 1 {
		first, last := r.tally.starts[0], r.tally.starts[0]
		for _, at := range r.tally.starts {
			first, last = min(first, at), max(last, at)
		}
		s.firstToLast = time.Duration(last - first)
	}
	return s
}

// ExitCode returns what the process should exit with.
func (s *Summary) ExitCode() int {
	switch {
	case s.Interrupted:
		return ExitInterrupted
	case s.BadInputs > 0 && s.Done == 0:
		return ExitUsage
	case s.Failed > 0 || s.Lost > 0 || s.BadInputs > 0 || s.NeverBegun > 0:
		return ExitFailed
	}
	return ExitOK
}

// String returns the summary in lines.
func (s *Summary) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "turnstile: %d of %d lines done in %v: %d ok, %d failed\n",
		s.Done, s.Read, measure.Round(s.Elapsed), s.Done-s.Failed, s.Failed)
	if s.NeverBegun > 0 || s.More {
		more := ""
		if s.More {
			more = ", and what input was left unread"
		}
		row("unstarted", "%d lines%s", s.NeverBegun, more)
	}
	if s.Lost > 0 {
		row("lost", "%d results could not be written", s.Lost)
	}
	if s.BadInputs > 0 {
		row("inputs", "%d could not be read to the end", s.BadInputs)
	}
	mean := ""
	if s.firstToLast > 0 {
		mean = fmt.Sprintf(" in %v, from first to last %.1f/s",
			measure.Round(s.firstToLast), float64(s.Started-1)/s.firstToLast.Seconds())
	}
	row("starts", "%d%s", s.Started, mean)
	if s.Started == 0 {
		return b.String()
	}
	row("wait", "%v", s.Waits)
	row("service", "%v", s.Services)
	row("in flight", "at most %d, where %d are allowed", s.Peak, s.Cap)
	if !s.Promise.Rate.IsZero() {
		row("promise", "at most %v starts in any time t", s.Promise)
		if s.unjudged != nil {
			row("worst", "could not be judged: %v", s.unjudged)
		} else {
			row("worst", "%v", s.Worst)
		}
	}
	return b.String()
}

// perSecond returns a rate in starts a second; 0 for none.
func perSecond(r throttle.Rate) float64 {
	if r.IsZero() {
		return 0
	}
	return measure.Promise{Rate: r}.PerSecond()
}
