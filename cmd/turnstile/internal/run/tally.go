package run

import (
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A tally counts what happens to lines, and keeps the start, wait and duration of each: 24 bytes.
type tally struct {
	mu       sync.Mutex
	limits   throttle.Config
	began    time.Time
	starts   []int64         // since began, in the order told, which may differ from the true one
	waits    []time.Duration // from joining the limiter's line to the start
	services []time.Duration // of those that ended
	busy     time.Duration   // sum of services
	peak     int64
	now      Snapshot
	inputs   int // sources that could not be read, or not to their ends
	stopped  bool
}

// A Snapshot is how far a run has come.
type Snapshot struct {
	Read     int64 // lines read, blank ones aside
	Total    int64 // lines there are in all; 0: not known yet
	Started  int64
	Running  int64
	Done     int64 // ended, or can never be run
	Failed   int64 // of Done
	NeverRun int64 // of Failed: never started, since they cannot be run
	Elapsed  time.Duration
	Latency  time.Duration // mean of those that ended
}

func newTally(limits throttle.Config) *tally {
	return &tally{limits: limits, began: time.Now()}
}

func (t *tally) started(at time.Time, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts = append(t.starts, int64(at.Sub(t.began)))
	t.waits = append(t.waits, wait)
	t.now.Started++
	t.now.Running++
	t.peak = max(t.peak, t.now.Running)
}

func (t *tally) ended(service time.Duration, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.services = append(t.services, service)
	t.busy += service
	t.now.Running--
	t.now.Done++
	if failed {
		t.now.Failed++
	}
}

func (t *tally) neverRun() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Done++
	t.now.Failed++
	t.now.NeverRun++
}

func (t *tally) inputFailed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inputs++
}

func (t *tally) interrupted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

func (t *tally) snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.now
	s.Elapsed = time.Since(t.began)
	if n := len(t.services); n > 0 {
		s.Latency = t.busy / time.Duration(n)
	}
	return s
}
