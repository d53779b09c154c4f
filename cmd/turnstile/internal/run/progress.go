package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Notes is standard error: messages, and below them, on a terminal, one line of progress that is
// drawn over and over. Results that go to the same terminal are written through Results.
type Notes struct {
	mu    sync.Mutex
	w     io.Writer
	width int    // of the terminal; 0: none, so no progress
	line  string // on the terminal now
}

// NewNotes writes to w, a terminal of the given width, or not a terminal (0).
func NewNotes(w io.Writer, width int) *Notes { return &Notes{w: w, width: width} }

// Say writes one message.
func (n *Notes) Say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	fmt.Fprintf(n.w, "turnstile: "+format+"\n", args...)
	io.WriteString(n.w, n.line)
}

// draw replaces the line of progress.
func (n *Notes) draw(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	n.line = fit(line, n.width-1)
	io.WriteString(n.w, n.line)
}

// erase takes the line of progress off the terminal. The caller draws it again.
func (n *Notes) erase() {
	if n.line != "" {
		io.WriteString(n.w, "\r\x1b[K")
	}
}

// Results returns w so wrapped that what is written to it does not mix with the line of progress on the same terminal.
func (n *Notes) Results(w io.Writer) io.Writer { return &aside{n, w} }

type aside struct {
	notes *Notes
	w     io.Writer
}

func (a *aside) Write(p []byte) (int, error) {
	a.notes.mu.Lock()
	defer a.notes.mu.Unlock()
	a.notes.erase()
	defer io.WriteString(a.notes.w, a.notes.line)
	return a.w.Write(p)
}

// fit cuts s to at most width characters.
func fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width)])
}

const (
	drawEvery  = 200 * time.Millisecond
	rateWindow = 10 // draws: the rate now is that of the last 2 s
)

// progress draws the line of progress until done is closed.
func (r *runner) progress(done <-chan struct{}) {
	if r.Notes.width == 0 {
		return
	}
	ctx, cancel := context.WithCancel(r.stop)
	defer cancel()
	total := make(chan int64, 1)
	r.side.Go(func() {
		if n, ok := countLines(ctx, r.Sources); ok {
			total <- n
		}
	})
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	defer r.Notes.draw("")
	var known int64
	var past []Snapshot
	for {
		select {
		case <-done:
			return
		case known = <-total:
		case <-tick.C:
			now := r.tally.snapshot()
			now.Read, now.Total = r.reader.count.Load(), known
			if r.reader.ended.Load() {
				now.Total = now.Read
			}
			past = append(past, now)
			if len(past) > rateWindow {
				past = past[1:]
			}
			r.Notes.draw(progressLine(past, perSecond(r.Limits.Rate), r.Limits.MaxInFlight, r.stop.Err() != nil))
		}
	}
}

// progressLine shows the last of the snapshots, with the rate since the first. rate is the limit in starts a second,
// 0 for none; inFlight is the cap.
func progressLine(past []Snapshot, rate float64, inFlight int64, stopping bool) string {
	now := past[len(past)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "%d", now.Done)
	if now.Total > 0 {
		fmt.Fprintf(&b, "/%d", now.Total)
	}
	b.WriteString(" done")
	if now.Failed > 0 {
		fmt.Fprintf(&b, " (%d failed)", now.Failed)
	}
	waiting := max(0, max(now.Read, now.Total)-now.Started-now.NeverRun)
	fmt.Fprintf(&b, ", %d in flight, %d waiting, ", now.Running, waiting)
	var before Snapshot
	if len(past) > 1 {
		before = past[0]
	}
	if d := now.Elapsed - before.Elapsed; d > 0 {
		fmt.Fprintf(&b, "%.1f/s now", float64(now.Started-before.Started)/d.Seconds())
	}
	switch {
	case stopping:
		b.WriteString(", stopping")
	case now.Total == 0:
		b.WriteString(", input goes on")
	default:
		if left, ok := eta(now, rate, inFlight); ok {
			fmt.Fprintf(&b, ", ETA %v", left)
		}
	}
	return b.String()
}

// eta reckons the time left: n lines take at least n/rate, for the rate, and n x latency/in flight, for
// the cap; the larger binds. Those that run now count half.
func eta(s Snapshot, rate float64, inFlight int64) (time.Duration, bool) {
	unstarted := float64(max(0, s.Total-s.Started-s.NeverRun))
	var byRate, byCap float64
	if rate > 0 {
		byRate = unstarted / rate
	}
	byCap = (unstarted + float64(s.Running)/2) * s.Latency.Seconds() / float64(inFlight)
	seconds := max(byRate, byCap)
	if rate == 0 && s.Latency == 0 || seconds > 1e9 {
		return 0, false
	}
	left := time.Duration(seconds * float64(time.Second))
	if left < 10*time.Second {
		return left.Round(100 * time.Millisecond), true
	}
	return left.Round(time.Second), true
}
