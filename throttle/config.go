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

// MaxShare is the largest Share.
const MaxShare = 1 << 20

// A Config says what a Limiter promises. A zero field means "no such limit"; at least one of
// Rate, Quotas, MaxInFlight, Semaphore and Parent must be set.
type Config struct {
	// Name is in every error and event, so that one sees which limit said no.
	Name string

	// Rate is how many tokens are earned in what time: see Rate for the range.
	Rate Rate
	// Burst is how many tokens may be saved up, and so the largest cost: 1 to MaxBurst. It must be set
	// with Rate, and not without. Burst 1 spaces starts evenly.
	Burst int64

	// Quotas are further quotas that hold as well, whatever Rate is: 1000 a day, never more than 100 in any minute.
	// All are charged at the same instant. Each has a name of its own, or none.
	Quotas []Quota

	// MaxInFlight is how much weight may be in flight at once: 1 to MaxCap. Without it, and without
	// Semaphore, what is in flight is not counted.
	MaxInFlight int64
	// Semaphore is a cap shared with other limiters, instead of MaxInFlight. If Trace has LimitChanged,
	// the Semaphore refers to the limiter from then on.
	Semaphore *Semaphore

	// Parent is a limiter above, whose limits hold as well: a caller starts when every level lets it, is charged
	// at every level at that instant, and holds a permit of each. Children share a parent's starts in turns.
	// They share its lock and its Clock.
	Parent *Limiter
	// Share is how large this limiter's turn at its Parent is: 1 to MaxShare; 0 is 1. One of Share 3 gets three
	// times the tokens of one of Share 1 when both have callers waiting. The Parent's own callers are as one child of Share 1.
	Share int64

	// Debt lets a cost above a burst through, of the rate or of one of Quotas, instead of telling it ErrTooLarge: it waits until
	// the quota is full, and what it costs beyond that is owed. Such a start is exempt from C1.
	Debt bool
	// Settled says that costs are known only afterwards: see Permit.Settle. Every permit must be released then, with a cap
	// or without. It costs memory for each call in flight, and O(calls in flight) for each start.
	Settled bool

	// MaxQueue is how many callers may wait: 1 or more. What happens to one more, QueueFull says.
	MaxQueue int
	// QueueFull says who is turned away when MaxQueue callers wait: RefuseNewcomer, the default, tells one more ErrQueueFull at once;
	// DropOldest lets it in, in the place of the oldest. It must not be set without MaxQueue.
	QueueFull QueueFull
	// MaxWait is the longest wait, as reckoned on arrival (tokens and the line ahead, taking permits as free),
	// that a caller is admitted with: above 0. One that would wait longer is told ErrWouldExceed at once. It does
	// not end a wait for a permit: a context with a deadline does.
	MaxWait time.Duration

	// Holders keeps who holds each permit, since when, and where it was acquired, for Limiter.Holders, of limiters below too. It needs something to be
	// held: MaxInFlight, Semaphore, Settled, or a cap above. Without it, it costs nothing; with it, each Acquire that is let through, or waits, takes
	// half a microsecond longer or more, which is a walk of its stack, and allocates 176 bytes.
	Holders bool

	// Slack bounds how much lateness is made up for, of timers and of pauses of the process: up to MaxSlack;
	// 0 is DefaultSlack, NoSlack none. See C1 in the package's documentation.
	Slack time.Duration

	// DryRun decides and records, and never delays or refuses: see docs/dry-run.md. Each call is let through at once, while a shadow of it
	// waits in line, is started, refused or leaves as the call would, and is in flight as long as the call was; Stats and Trace tell of the
	// shadows. It needs MaxQueue, since nothing else bounds how many shadows wait, of about 350 bytes each. Limiters below, above, and those that
	// share a Semaphore, must run dry too. What is told nevertheless: ErrClosed after Close, ErrCapped, and a nil context or a permit that is not one.
	DryRun bool

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
	case c.MaxInFlight == 0 && c.Semaphore == nil && len(c.Quotas) == 0 && c.Parent == nil:
		return "no limit is set; want Rate and Burst, Quotas, MaxInFlight, Semaphore or Parent, or several"
	}
	names := make(map[string]bool)
	for i, q := range c.Quotas {
		what := q.wrong()
		if what == "" && q.Name != "" && names[q.Name] {
			what = fmt.Sprintf("Name is %q, as that of another quota is; want one of its own", q.Name)
		}
		if what != "" {
			return fmt.Sprintf("Quotas[%d]: %s", i, what)
		}
		names[q.Name] = true
	}
	switch {
	case c.MaxInFlight < 0 || c.MaxInFlight > MaxCap:
		return fmt.Sprintf("MaxInFlight is %d; want 1 to %d (2^62), or 0 for no cap", c.MaxInFlight, int64(MaxCap))
	case c.MaxInFlight != 0 && c.Semaphore != nil:
		return fmt.Sprintf("MaxInFlight is %d and Semaphore is set; want one of them", c.MaxInFlight)
	case c.Semaphore != nil && c.Semaphore.dom.Load() == nil:
		return "Semaphore was not made by NewSemaphore"
	case c.Parent != nil && c.Parent.dom == nil:
		return "Parent was not made by New"
	case c.Share < 0 || c.Share > MaxShare:
		return fmt.Sprintf("Share is %d; want 1 to %d, or 0 for 1", c.Share, MaxShare)
	case c.Share != 0 && c.Parent == nil:
		return fmt.Sprintf("Share is %d, but Parent is not set; want both or neither", c.Share)
	case c.MaxQueue < 0:
		return fmt.Sprintf("MaxQueue is %d; want 1 or more, or 0 for no bound", c.MaxQueue)
	case c.DryRun && c.MaxQueue == 0:
		return "DryRun is set, but MaxQueue is not; want a bound on how many shadows of callers may wait"
	case c.QueueFull > DropOldest:
		return fmt.Sprintf("QueueFull is %d; want RefuseNewcomer or DropOldest", c.QueueFull)
	case c.QueueFull != RefuseNewcomer && c.MaxQueue == 0:
		return fmt.Sprintf("QueueFull is %d, but MaxQueue is not set; want both or neither", c.QueueFull)
	case c.MaxWait < 0:
		return fmt.Sprintf("MaxWait is %v; want above 0, or 0 for no bound", c.MaxWait)
	case c.Holders && c.MaxInFlight == 0 && c.Semaphore == nil && !c.Settled && (c.Parent == nil || !c.Parent.hasCap()):
		return "Holders is set, but no permit is held; want MaxInFlight, Semaphore or Settled with it, or a Parent with a cap"
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
	d := new(domain)
	switch {
	case c.Parent != nil:
		d = c.Parent.dom
	case c.Semaphore != nil:
		d = c.Semaphore.dom.Load()
	}
	l := newLimiter(c, d)
	l.dom.mu.Lock()
	now, err := l.build(c)
	l.dom.unlock(now)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// newLimiter returns a limiter in the domain d whose parts are yet to be built.
func newLimiter(c Config, d *domain) *Limiter {
	return &Limiter{
		dom: d, name: c.Name, maxQueue: c.MaxQueue, queueFull: c.QueueFull, maxWait: int64(c.MaxWait), trace: c.Trace, dry: c.DryRun,
		queueText: fmt.Sprintf("MaxQueue %d", c.MaxQueue),
	}
}

// build makes the limiter's parts and puts it below its parent, at the instant that it returns. The caller holds the lock.
func (l *Limiter) build(c Config) (now int64, err error) {
	d := l.dom
	if c.Parent != nil && c.Clock == nil {
		c.Clock = d.clock
	}
	if !d.bound && c.DryRun {
		d.dry = newDryRun(&d.effects)
	}
	if c.DryRun != (d.dry != nil) {
		return d.now(), fmt.Errorf("throttle: %q: Config.DryRun is %v, and is not for the limiters that it shares a Semaphore or Parent with; want the same for all: %w", c.Name, c.DryRun, ErrInvalid)
	}
	if !d.bind(c.Clock) {
		return d.now(), fmt.Errorf("throttle: %q: Config.Clock is not the Clock of the limiters that it shares a Semaphore or Parent with: %w", c.Name, ErrInvalid)
	}
	now = d.now()
	d.catchUp(now)
	switch {
	case c.Semaphore != nil:
		if what := c.Semaphore.join(l, c.Parent); what != "" {
			return now, fmt.Errorf("throttle: %q: Config.Semaphore %s: %w", c.Name, what, ErrInvalid)
		}
		l.cap, l.shared = &c.Semaphore.cap, true
	case c.MaxInFlight != 0:
		l.cap = new(inflight)
		l.cap.init(&d.effects, "MaxInFlight", c.MaxInFlight)
	}
	slack := c.Slack
	switch slack {
	case 0:
		slack = DefaultSlack
	case NoSlack:
		slack = 0
	}
	l.gate.init(&d.effects, l.cap, int64(slack))
	l.owner, l.floor = l, now
	l.tracked = l.cap != nil || c.Settled || c.Parent != nil && c.Parent.hasCap()
	l.debt = c.Debt
	if c.Holders {
		l.holders = make(map[uint64]*holding)
	}
	l.lists = c.Holders || c.Parent != nil && c.Parent.lists
	if c.Settled {
		l.bills = make(map[uint64]bill)
	}
	if c.Burst != 0 {
		l.setQuota(newBucket(c.Rate, c.Burst, now), c.Rate)
	}
	for _, q := range c.Quotas {
		l.more = append(l.more, meter{q.account(d, now), q.Name, q})
	}
	if c.Parent != nil {
		c.Parent.becomeParent(now)
		l.inTree = true
		l.adopt(&c.Parent.gate, max(c.Share, 1))
	}
	return now, nil
}

// becomeParent puts the limiter's own callers, those who wait too, into a child of their own, if they are not there yet.
func (l *Limiter) becomeParent(now int64) {
	if l.direct != nil {
		return
	}
	direct := new(gate)
	direct.init(&l.dom.effects, nil, l.slack)
	direct.owner, direct.floor = l, now
	waiting := l.line
	if waiting.front != nil {
		l.vacate(now)
		l.count(-waiting.n)
	}
	l.line = line{}
	direct.adopt(&l.gate, 1)
	direct.line = waiting
	if waiting.front != nil {
		direct.count(waiting.n)
	}
	l.direct, l.inTree = direct, true
	l.dom.mark(direct)
	l.dom.run(now)
}
