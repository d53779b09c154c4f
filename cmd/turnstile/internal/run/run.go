package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Config says what to run, under which limits.
type Config struct {
	Limits    throttle.Config // Name and Trace are set by Run; MaxInFlight must be set
	Job       Job
	Timeout   time.Duration // of each line, from its start; 0: none
	KeepOrder bool
	Sources   []Source

	Results    io.Writer        // one Write for each result
	Notes      *Notes           // messages, progress and the summary
	Interrupts <-chan os.Signal // the first stops starting, the second aborts; nil: none
}

// A runner is one run at work.
type runner struct {
	Config
	limiter *throttle.Limiter
	reader  *reader
	sink    *sink
	tally   *tally
	waiting *semaphore.Weighted // one for each line in the limiter's line
	slots   *semaphore.Weighted // one for each line there, running or being written

	stop    context.Context // done: nothing more is started
	doStop  context.CancelCauseFunc
	abort   context.Context // done: what runs is ended
	doAbort context.CancelCauseFunc

	work sync.WaitGroup // lines that wait, run or are being written
	side sync.WaitGroup // signals, progress, counting

	mu      sync.Mutex
	joining *call            // the line that is about to join the limiter's line
	calls   map[uint64]*call // those that wait there, by their event's ID
}

// A call is one line on its way through the limiter.
type call struct {
	line
	place  int64
	joined func() // tells, once, that the next line may join
	start  time.Time
	wait   time.Duration
}

// Run runs all lines and returns what came of it. The error is about the limits alone, before
// anything is read.
func Run(c Config) (*Summary, error) {
	r := &runner{Config: c, calls: make(map[uint64]*call)}
	r.Limits.Name = "run"
	r.Limits.Trace = &throttle.Trace{Queued: r.onQueued, Started: r.onStarted}
	limiter, err := throttle.New(r.Limits)
	if err != nil {
		return nil, err
	}
	r.limiter = limiter
	r.abort, r.doAbort = context.WithCancelCause(context.Background())
	r.stop, r.doStop = context.WithCancelCause(r.abort)
	r.tally = newTally(r.Limits)
	r.reader = newReader(r.Sources, func(err error) {
		r.tally.inputFailed()
		r.Notes.Say("%v", err)
	})
	r.sink = newSink(r.Results, r.KeepOrder, func(err error) {
		r.doStop(fmt.Errorf("results cannot be written: %w", err))
		r.Notes.Say("results cannot be written any more (%v): nothing more is started; waiting for what runs", err)
	})
	waiting := ahead(r.Limits.Rate)
	r.waiting = semaphore.NewWeighted(waiting)
	r.slots = semaphore.NewWeighted(r.Limits.MaxInFlight + waiting)

	sideDone := make(chan struct{})
	r.side.Go(func() { r.watch(sideDone) })
	r.side.Go(func() { r.progress(sideDone) })
	go r.reader.run(r.stop, r.abort)
	r.start()
	r.finish()
	close(sideDone)
	r.side.Wait()
	r.doAbort(nil)
	r.Job.Close()
	return r.summary(), nil
}

// ahead returns how many lines wait in the limiter's line: 10 ms worth of the rate, so that a late
// timer finds them there and costs no throughput, at least 1 and at most 256.
func ahead(rate throttle.Rate) int64 {
	if rate.IsZero() {
		return 1
	}
	const window, most = 10 * time.Millisecond, 256
	if float64(rate.N)/float64(rate.Period)*float64(window) >= most {
		return most
	}
	return max(1, int64(float64(rate.N)/float64(rate.Period)*float64(window)))
}

// start lets the lines join the limiter's line, one after the other, until there are no more or
// stop is done.
func (r *runner) start() {
	for place := int64(0); ; place++ {
		var l line
		select {
		case <-r.stop.Done():
			return
		case next, ok := <-r.reader.lines:
			if !ok {
				return
			}
			l = next
		}
		if !r.sink.admit(r.stop, place) || r.slots.Acquire(r.stop, 1) != nil {
			return
		}
		if l.err == nil {
			l.err = r.Job.Check(l.text)
		}
		if l.err != nil {
			r.tally.neverRun()
			r.sink.put(place, &Result{File: l.source, Line: l.number, Input: l.text, Error: l.err.Error()})
			r.slots.Release(1)
			continue
		}
		if r.waiting.Acquire(r.stop, 1) != nil {
			r.slots.Release(1)
			return
		}
		joined := make(chan struct{})
		c := &call{line: l, place: place, joined: sync.OnceFunc(func() { close(joined) })}
		r.mu.Lock()
		r.joining = c
		r.mu.Unlock()
		r.work.Go(func() { r.pass(c) })
		<-joined
	}
}

// onQueued, called by the goroutine of the line that is joining, notes its ID and lets the next one join behind it.
func (r *runner) onQueued(e throttle.Event) {
	r.mu.Lock()
	c := r.joining
	r.calls[e.ID] = c
	r.mu.Unlock()
	c.joined()
}

// onStarted notes when the line started. One that was not queued is the one that is joining.
func (r *runner) onStarted(e throttle.Event) {
	r.mu.Lock()
	c := r.calls[e.ID]
	if c == nil {
		c = r.joining
	}
	delete(r.calls, e.ID)
	r.mu.Unlock()
	c.start, c.wait = e.At.UTC(), e.Wait
	r.tally.started(e.At, e.Wait)
}

// pass waits for the line's turn, runs it and writes its result.
func (r *runner) pass(c *call) {
	defer r.slots.Release(1)
	permit, err := r.limiter.Acquire(r.stop)
	r.waiting.Release(1)
	c.joined()
	if err != nil { // stop is done
		r.sink.skip(c.place)
		return
	}
	// Released once the result is written, so that with one in flight results come in order.
	defer permit.Release()
	result := &Result{File: c.source, Line: c.number, Input: c.text, Start: &c.start, Wait: (*Seconds)(&c.wait)}
	duration := r.do(c, result)
	result.Duration = (*Seconds)(&duration)
	r.tally.ended(duration, result.failed)
	r.sink.put(c.place, result)
}

// do runs the line and returns how long that took since its start.
func (r *runner) do(c *call, result *Result) time.Duration {
	ctx := r.abort
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Timeout, timeoutError(r.Timeout))
		defer cancel()
	}
	r.Job.Do(ctx, c.text, result)
	return time.Since(c.start)
}

// finish waits until what runs has ended and all input that can be counted was.
func (r *runner) finish() {
	ended := make(chan struct{})
	go func() { r.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-r.abort.Done():
		select {
		case <-ended:
		case <-time.After(killGrace + time.Second): // results that nobody reads
			r.Notes.Say("gave up waiting for results to be written")
		}
	}
	if r.stop.Err() == nil || r.reader.whole() {
		select {
		case <-r.reader.done:
		case <-r.abort.Done():
		}
	}
}

// watch turns interrupts into stop and abort.
func (r *runner) watch(done <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case s := <-r.Interrupts:
			switch n {
			case 0:
				r.tally.interrupted()
				r.doStop(fmt.Errorf("interrupted (%v)", s))
				if running := r.tally.snapshot().Running; running > 0 {
					r.Notes.Say("interrupted: nothing more is started; waiting for the %d that run (once more to abort them)", running)
				}
			case 1:
				r.doAbort(errAborted)
				r.Notes.Say("aborting what runs")
			}
		}
	}
}
