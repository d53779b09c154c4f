package fake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrFailed is what a Downstream's failures return where no other error is configured.
var ErrFailed = errors.New("fake: the downstream failed")

// DownstreamConfig describes a dependency. A zero field means that there is no such thing.
type DownstreamConfig struct {
	// Clock is what service times run on. Nil: package time, which is virtual within a testing/synctest bubble.
	Clock TimeSource
	// Service is the distribution of service times. Zero: the answer comes at once.
	Service Dist
	// Seed makes draws and random failures reproducible: the k-th start always gets the same ones.
	Seed uint64
	// Stalls are the times in which nothing finishes. They may overlap.
	Stalls []Stall

	// FailEvery k makes the k-th, 2k-th, ... start fail, after its service time. 0 or more.
	FailEvery int64
	// FailProbability makes each start fail with that probability. 0 to 1.
	FailProbability float64
	// Failure is the error of those. Nil: ErrFailed.
	Failure error

	// Limits are what the dependency itself enforces. A call beyond them is rejected with a *RejectedError and
	// does not start. Unlike a limiter's, they make nobody wait.
	Limits
}

// RejectedError is how a Downstream turns away a call beyond its own limits.
type RejectedError struct {
	Limit      string        // "rate" or "in flight"
	N          int64         // the limit: the burst, or the cap
	RetryAfter time.Duration // rate: until a token is there, at most the longest Duration; in flight: 0, not known
}

// Error names the limit and its number.
func (e *RejectedError) Error() string {
	if e.Limit == "rate" {
		return fmt.Sprintf("fake: the downstream rejected the call: rate: burst of %d used up, retry after %v", e.N, e.RetryAfter)
	}
	return fmt.Sprintf("fake: the downstream rejected the call: in flight: %d already", e.N)
}

// DownstreamStats counts what a Downstream has seen.
type DownstreamStats struct {
	Started          uint64 // accepted
	Succeeded        uint64 // ended well
	Failed           uint64 // ended by a configured failure
	Abandoned        uint64 // ended early by their context
	RejectedRate     uint64
	RejectedInFlight uint64
	InFlight         int64 // now
	PeakInFlight     int64
}

// Downstream plays a slow dependency: the service that a limiter protects. It keeps a ledger of the calls that reached it.
//
//	from     event                           to        who moves it
//	-        Call, within own limits         serving   the caller
//	-        Call, beyond own limits         rejected  the caller
//	serving  service time over, not stalled  ended     the clock's callback
//	serving  context done                    ended     the caller
//
// Truths: 1. Every start has one end. 2. InFlight is the number serving. 3. Nothing ends within a stall, but by its context.
//
// Use NewDownstream; the zero Downstream is unusable. All methods may be called from many goroutines. A call costs one timer and two
// ledger events; it starts no goroutine.
type Downstream struct {
	config  DownstreamConfig
	clock   TimeSource
	born    time.Time
	stalls  []Stall // merged, in order
	ledger  *Ledger
	mu      sync.Mutex
	service *rand.Rand
	luck    *rand.Rand   // apart, so that neither shifts the other
	bucket  *tokenBucket // nil: no rate of its own
	seq     uint64       // of ledger events
	stats   DownstreamStats
}

// NewDownstream returns a downstream that begins now on its clock. A value out of its range is an error that names it.
func NewDownstream(c DownstreamConfig) (*Downstream, error) {
	errs := []error{c.Service.err, checkRate(c.N, c.Period, c.Burst)}
	for i, s := range c.Stalls {
		if s.From < 0 || s.To <= s.From {
			errs = append(errs, fmt.Errorf("Stalls[%d] is %v to %v: must be 0 <= From < To", i, s.From, s.To))
		}
	}
	if c.FailEvery < 0 {
		errs = append(errs, fmt.Errorf("FailEvery is %d: must be 0 or more", c.FailEvery))
	}
	if !(c.FailProbability >= 0 && c.FailProbability <= 1) {
		errs = append(errs, fmt.Errorf("FailProbability is %v: must be 0 to 1", c.FailProbability))
	}
	if c.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("MaxInFlight is %d: must be 0 or more", c.MaxInFlight))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("fake: DownstreamConfig: %w", err)
	}
	if c.Failure == nil {
		c.Failure = ErrFailed
	}
	d := &Downstream{config: c, clock: c.Clock, stalls: mergeStalls(c.Stalls), ledger: &Ledger{},
		service: rand.New(rand.NewPCG(c.Seed, 1)), luck: rand.New(rand.NewPCG(c.Seed, 2))}
	if d.clock == nil {
		d.clock = processClock{}
	}
	if c.N > 0 {
		d.bucket = newTokenBucket(c.N, c.Period, c.Burst)
	}
	d.born = d.clock.Now()
	return d, nil
}

// Call is one call of the dependency. It returns after the service time, stalls included: nil or the configured failure. A call
// beyond the downstream's own limits is rejected at once with a *RejectedError. When ctx ends first, the call ends there and
// its cause is returned; with a ctx that is done already the call does not reach the downstream. A nil ctx is an error.
func (d *Downstream) Call(ctx context.Context) error {
	if ctx == nil {
		return errors.New("fake: Downstream.Call: ctx is nil: must be a context")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	call, err := d.start()
	if err != nil {
		return err
	}
	left := call.due.Sub(d.clock.Now())
	if left <= 0 {
		d.end(call)
		return call.result
	}
	stop := d.clock.AfterFunc(left, func() { d.end(call) })
	select {
	case <-call.done:
	case <-ctx.Done():
		stop()
		d.abandon(call, context.Cause(ctx))
	}
	return call.result
}

// Ledger returns the downstream's ledger: a start, when the call arrived, and an end for each call that was not
// rejected; each costs 1 token and weighs 1. It goes on growing while calls are made.
func (d *Downstream) Ledger() *Ledger { return d.ledger }

// Stats returns the counts so far, all of one moment.
func (d *Downstream) Stats() DownstreamStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// serving is one call that has started. result and ended are guarded by the downstream's mu until done is closed.
type serving struct {
	id      uint64
	due     time.Time
	outcome error // what it returns if it is let run
	result  error
	ended   bool
	done    chan struct{}
}

// start lets a call in, or says which limit rejects it.
func (d *Downstream) start() (*serving, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if most := d.config.MaxInFlight; most > 0 && d.stats.InFlight >= most {
		d.stats.RejectedInFlight++
		return nil, &RejectedError{Limit: "in flight", N: most}
	}
	if d.bucket != nil && !d.bucket.take(now, 1) {
		d.stats.RejectedRate++
		return nil, &RejectedError{Limit: "rate", N: d.config.Burst, RetryAfter: d.bucket.wait(1)}
	}
	number := int64(d.stats.Started)
	d.stats.Started++
	d.stats.InFlight++
	d.stats.PeakInFlight = max(d.stats.PeakInFlight, d.stats.InFlight)
	var service time.Duration
	if d.config.Service.draw != nil {
		service = max(d.config.Service.draw(number, d.service), 0)
	}
	unlucky := d.luck.Float64() < d.config.FailProbability
	call := &serving{id: d.stats.Started, done: make(chan struct{})}
	if every := d.config.FailEvery; unlucky || every > 0 && (number+1)%every == 0 {
		call.outcome = d.config.Failure
	}
	call.due = d.born.Add(endOfService(d.stalls, now.Sub(d.born), service))
	d.seq++
	d.ledger.Start(call.id, d.seq, now, time.Time{}, 1, 1)
	return call, nil
}

// end ends a call as it was drawn, unless it has ended.
func (d *Downstream) end(call *serving) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case call.ended:
	case call.outcome == nil:
		d.stats.Succeeded++
		d.endLocked(call, nil)
	default:
		d.stats.Failed++
		d.endLocked(call, call.outcome)
	}
}

// abandon ends a call because its context did, unless it has ended.
func (d *Downstream) abandon(call *serving, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !call.ended {
		d.stats.Abandoned++
		d.endLocked(call, cause)
	}
}

func (d *Downstream) endLocked(call *serving, result error) {
	call.ended, call.result = true, result
	d.stats.InFlight--
	d.seq++
	d.ledger.End(call.id, d.seq, d.clock.Now())
	close(call.done)
}

// processClock is the process's own clock.
type processClock struct{}

func (processClock) Now() time.Time { return time.Now() }

func (processClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
