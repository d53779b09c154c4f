package throttle

import (
	"fmt"
	"reflect"
	"time"
)

// DefaultSlack is the Slack of a Config that sets none.
const DefaultSlack = 10 * time.Millisecond

// NoSlack is a Slack that makes up for no lateness at all.
const NoSlack time.Duration = -1

// MaxSlack is the largest Slack.
const MaxSlack = time.Second

// A Config says what a Limiter promises. A zero field means "no such limit"; at least one of
// Rate, MaxInFlight and Semaphore must be set.
type Config struct {
	// Name is in every error and event, so that one sees which limit said no.
	Name string

	// Rate is how many tokens are earned in what time: see Rate for the range.
	Rate Rate
	// Burst is how many tokens may be saved up, and so the largest cost: 1 to MaxBurst. It must be set
	// with Rate, and not without. Burst 1 spaces starts evenly.
	Burst int64

	// MaxInFlight is how much weight may be in flight at once: 1 to MaxCap. Without it, and without
	// Semaphore, what is in flight is not counted.
	MaxInFlight int64
	// Semaphore is a cap shared with other limiters, instead of MaxInFlight. If Trace has LimitChanged,
	// the Semaphore refers to the limiter from then on.
	Semaphore *Semaphore

	// MaxQueue is how many callers may wait: 1 or more. One more is told ErrQueueFull at once.
	MaxQueue int
	// MaxWait is the longest wait, as reckoned on arrival (tokens and the line ahead, taking permits as free),
	// that a caller is admitted with: above 0. One that would wait longer is told ErrWouldExceed at once. It does
	// not end a wait for a permit: a context with a deadline does.
	MaxWait time.Duration

	// Slack bounds how much lateness is made up for, of timers and of pauses of the process: up to MaxSlack;
	// 0 is DefaultSlack, NoSlack none. See C1 in the package's documentation.
	Slack time.Duration

	// Clock is the time; nil is the process's monotonic clock.
	Clock Clock
	// Trace is told what happens; nil costs nothing.
	Trace *Trace
}

// wrong says which field is wrong, and what would be right, or nothing.
func (c *Config) wrong() string {
	switch {
	case !c.Rate.IsZero() || c.Burst != 0:
		if c.Rate.IsZero() {
			return fmt.Sprintf("Burst is %d, but Rate is not set; want both or neither", c.Burst)
		}
		if what := (Quota{Rate: c.Rate, Burst: c.Burst}).wrong(); what != "" {
			return what
		}
	case c.MaxInFlight == 0 && c.Semaphore == nil:
		return "no limit is set; want Rate and Burst, MaxInFlight or Semaphore, or several"
	}
	switch {
	case c.MaxInFlight < 0 || c.MaxInFlight > MaxCap:
		return fmt.Sprintf("MaxInFlight is %d; want 1 to %d (2^62), or 0 for no cap", c.MaxInFlight, int64(MaxCap))
	case c.MaxInFlight != 0 && c.Semaphore != nil:
		return fmt.Sprintf("MaxInFlight is %d and Semaphore is set; want one of them", c.MaxInFlight)
	case c.Semaphore != nil && c.Semaphore.dom == nil:
		return "Semaphore was not made by NewSemaphore"
	case c.MaxQueue < 0:
		return fmt.Sprintf("MaxQueue is %d; want 1 or more, or 0 for no bound", c.MaxQueue)
	case c.MaxWait < 0:
		return fmt.Sprintf("MaxWait is %v; want above 0, or 0 for no bound", c.MaxWait)
	case c.Slack < NoSlack || c.Slack > MaxSlack:
		return fmt.Sprintf("Slack is %v; want up to %v, 0 for %v, or NoSlack", c.Slack, MaxSlack, DefaultSlack)
	case c.Clock != nil && !reflect.ValueOf(c.Clock).Comparable():
		return fmt.Sprintf("Clock is of type %T, which cannot be compared; want a pointer", c.Clock)
	}
	return ""
}

// New returns a Limiter, with a full bucket and nothing in flight, or an error that names
// the field of c that is wrong.
func New(c Config) (*Limiter, error) {
	if what := c.wrong(); what != "" {
		return nil, fmt.Errorf("throttle: %q: Config: %s: %w", c.Name, what, ErrInvalid)
	}
	l := &Limiter{name: c.Name, maxQueue: c.MaxQueue, maxWait: int64(c.MaxWait), trace: c.Trace}
	if c.Semaphore != nil {
		l.dom, l.cap, l.shared = c.Semaphore.dom, &c.Semaphore.cap, true
	} else {
		l.dom = new(domain)
	}
	d := l.dom
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.bind(c.Clock) {
		return nil, fmt.Errorf("throttle: %q: Config.Clock is not the Clock of the limiters that share its Semaphore: %w", c.Name, ErrInvalid)
	}
	if c.Semaphore != nil && c.Trace != nil && c.Trace.LimitChanged != nil {
		c.Semaphore.traced = append(c.Semaphore.traced, l)
	}
	if c.MaxInFlight != 0 {
		l.cap = new(inflight)
		l.cap.init(&d.effects, c.MaxInFlight)
	}
	slack := c.Slack
	switch slack {
	case 0:
		slack = DefaultSlack
	case NoSlack:
		slack = 0
	}
	now := d.now()
	l.gate.init(&d.effects, l.cap, int64(slack))
	l.floor = now
	l.alarm = alarm{fire: l.onTime, clock: c.Clock, armed: never}
	if c.Burst != 0 {
		l.setQuota(newBucket(c.Rate, c.Burst, now), c.Rate)
	}
	return l, nil
}
