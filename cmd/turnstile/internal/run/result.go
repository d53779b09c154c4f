package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is what is told of one line of input. Its JSON is part of the command's interface.
type Result struct {
	File            string     `json:"file,omitempty"` // where several inputs are read
	Line            int64      `json:"line"`           // its number there, from 1
	Input           string     `json:"input"`
	Start           *time.Time `json:"start,omitempty"` // absent: never started
	Wait            *Seconds   `json:"wait,omitempty"`  // in the limiter's line
	Duration        *Seconds   `json:"duration,omitempty"`
	Status          int        `json:"status,omitempty"`    // of a URL
	Location        string     `json:"location,omitempty"`  // of a URL that redirects elsewhere
	ExitCode        *int       `json:"exit_code,omitempty"` // of a command; 128 + n: ended by signal n
	Bytes           int64      `json:"bytes"`               // read: the body; written: standard output
	Stdout          string     `json:"stdout,omitempty"`
	StdoutTruncated bool       `json:"stdout_truncated,omitempty"`
	Stderr          string     `json:"stderr,omitempty"`
	StderrTruncated bool       `json:"stderr_truncated,omitempty"`
	Error           string     `json:"error,omitempty"`

	failed bool // counts as failed: has an error, a status of 400 or more, or an exit code that is not 0
}

// Seconds is a duration that JSON shows in seconds, as a number with all its digits: 0.050000001.
type Seconds time.Duration

// MarshalJSON is exact to the nanosecond.
func (s Seconds) MarshalJSON() ([]byte, error) {
	sign, ns := "", int64(s)
	if ns < 0 {
		sign, ns = "-", -ns
	}
	text := fmt.Sprintf("%s%d.%09d", sign, ns/1e9, ns%1e9)
	return bytes.TrimRight(bytes.TrimRight([]byte(text), "0"), "."), nil
}

const (
	orderLines = 1024
	orderBytes = 32 << 20
)

// A sink writes results, each with one Write, in the order of the input or as they come.
type sink struct {
	keepOrder bool
	failed    func(error)  // told of the first failed write, once
	lost      atomic.Int64 // results that could not be written

	mu     sync.Mutex
	room   sync.Cond // in order: signalled when the earliest missing result came, and on a failure
	w      io.Writer
	broken bool
	next   int64            // in order: the place of the result to write next
	held   map[int64][]byte // in order: results that wait for earlier ones; nil for a place left empty
	bytes  int              // in held
}

func newSink(w io.Writer, keepOrder bool, failed func(error)) *sink {
	s := &sink{w: w, keepOrder: keepOrder, failed: failed, held: make(map[int64][]byte)}
	s.room.L = &s.mu
	return s
}

// admit waits until the result of the given place could be held, in order. It returns false when
// ctx is done first. Each place admitted must be put or skipped.
func (s *sink) admit(ctx context.Context, place int64) bool {
	if !s.keepOrder {
		return ctx.Err() == nil
	}
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && place != s.next && (place-s.next >= orderLines || s.bytes > orderBytes) {
		s.room.Wait()
	}
	return ctx.Err() == nil
}

// put writes the result, or holds it until those before it have come.
func (s *sink) put(place int64, r *Result) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil { // a year beyond 9999, at most
		text.Reset()
		text.WriteString(`{"line":` + strconv.FormatInt(r.Line, 10) + `,"error":` + strconv.Quote(err.Error()) + "}\n")
	}
	s.deliver(place, text.Bytes())
}

// skip gives up a place: its line was never started.
func (s *sink) skip(place int64) { s.deliver(place, nil) }

func (s *sink) deliver(place int64, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.keepOrder {
		s.write(text)
		return
	}
	s.held[place] = text
	s.bytes += len(text)
	for {
		text, ok := s.held[s.next]
		if !ok {
			break
		}
		delete(s.held, s.next)
		s.bytes -= len(text)
		s.next++
		s.write(text)
	}
	s.room.Broadcast()
}

func (s *sink) write(text []byte) {
	if text == nil {
		return
	}
	if !s.broken {
		_, err := s.w.Write(text)
		if err == nil {
			return
		}
		s.broken = true
		s.failed(err)
	}
	s.lost.Add(1)
}
