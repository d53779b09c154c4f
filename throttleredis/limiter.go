package throttleredis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/turnstile-go/turnstile/throttle"
)

// A Limiter is a limit that all processes share which give it the same Prefix and Name. Do runs a function under it; Acquire returns a Permit,
// whose Context is to be used for the call; TryAcquire never waits in line, but takes a round trip.
//
// All methods may be called from many goroutines. It must be made by New, and closed.
type Limiter struct {
	config  Config
	client  redis.UniversalClient
	process string
	keys    keys
	asked   settings
	trusted bool              // a push that nobody hears means that the process is gone
	local   *throttle.Limiter // what holds while Redis is unreachable, under Local

	mu       sync.Mutex
	pending  []*call           // not brought before Redis yet, in order of arrival
	waiting  map[string]*call  // brought before Redis and not answered, or in line there
	line     []*call           // those of waiting that are in line, in order
	held     map[string]*lease // permits
	gone     []departure       // to be told to Redis
	flying   bool              // a call to Redis is on its way, or about to be
	breaker  breaker
	batch    int64
	lastID   int64
	epoch    string // of the state in Redis, as last seen
	seen     response
	sentAt   time.Time // when the call was sent that seen answers
	pollAt   time.Time // when those in line are to ask again
	renewAt  time.Time // when the leases are to be renewed
	timer    *time.Timer
	listener *listener
	closed   bool
	idle     chan struct{} // closed when nothing is flying any more; nil if nobody waits for that
}

// A call is a caller that waits.
type call struct {
	id      string
	cost    throttle.Cost
	allowed int64 // the longest wait in microseconds: 0 for a try, -1 for any
	ahead   int
	came    time.Time
	done    chan struct{} // closed once there is an answer
	left    bool

	permit *lease
	err    error // errFallback: the policy is to be applied
}

// A departure is an id that Redis is to be told of, as long as that matters.
type departure struct {
	id    string
	until time.Time
}

// New returns a Limiter, or an error that names the field of c that is wrong. It does not call Redis.
func New(c Config) (*Limiter, error) {
	c = c.withDefaults()
	if what := c.wrong(); what != "" {
		return nil, fmt.Errorf("throttleredis: %q: Config: %s: %w", c.Name, what, throttle.ErrInvalid)
	}
	l := &Limiter{
		config: c, client: c.Client, process: newProcess(), asked: c.settings(),
		waiting: make(map[string]*call), held: make(map[string]*lease),
	}
	_, l.trusted = c.Client.(*redis.Client)
	l.keys = keysOf(c.Prefix, c.Name, l.process)
	l.seen.settings = l.asked
	if c.Unreachable == Local {
		local, err := throttle.New(c.share())
		if err != nil {
			return nil, fmt.Errorf("throttleredis: %q: the local share: %w", c.Name, err)
		}
		l.local = local
	}
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	return l, nil
}

// Acquire waits for its turn among the callers of all processes, a token and a permit, as throttle.Limiter.Acquire does, with the same errors,
// or an *UnavailableError. The caller must release the permit, and make its call with the permit's Context.
func (l *Limiter) Acquire(ctx context.Context) (*Permit, error) {
	return l.AcquireCost(ctx, throttle.One)
}

// AcquireCost is Acquire for a cost of its own. Quotas must be empty: a Limiter has one rate.
func (l *Limiter) AcquireCost(ctx context.Context, c throttle.Cost) (*Permit, error) {
	allowed := int64(-1)
	if l.config.MaxWait > 0 {
		allowed = l.config.MaxWait.Microseconds() + 1 // a wait equal to MaxWait is admitted
	}
	return l.acquire(ctx, c, allowed)
}

// TryAcquire is Acquire without waiting in line: where it could not start at once it returns a *throttle.NotYetError.
func (l *Limiter) TryAcquire(ctx context.Context) (*Permit, error) {
	return l.TryAcquireCost(ctx, throttle.One)
}

// TryAcquireCost is TryAcquire for a cost of its own.
func (l *Limiter) TryAcquireCost(ctx context.Context, c throttle.Cost) (*Permit, error) {
	return l.acquire(ctx, c, 0)
}

// Do acquires, calls f with the permit's context, and releases, also if f panics or exits its goroutine.
func (l *Limiter) Do(ctx context.Context, f func(context.Context) error) error {
	p, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	defer p.Release()
	return f(p.Context())
}

// Admit is AcquireCost, as adapters call it.
func (l *Limiter) Admit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	return admitted(l.AcquireCost(ctx, c))
}

// TryAdmit is TryAcquireCost, as adapters call it.
func (l *Limiter) TryAdmit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	return admitted(l.TryAcquireCost(ctx, c))
}

func admitted(p *Permit, err error) (context.Context, throttle.Held, error) {
	if err != nil {
		return nil, nil, err
	}
	return p.Context(), p, nil
}

func (l *Limiter) acquire(ctx context.Context, c throttle.Cost, allowed int64) (*Permit, error) {
	if ctx == nil {
		return nil, l.invalid("the context is nil; want context.Background() or the caller's")
	}
	if err := l.normal(&c); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, throttle.NewLeftError(ctx, l.config.Name, 0)
	}
	now := time.Now()
	if deadline, ok := ctx.Deadline(); ok && allowed != 0 {
		if us := max(deadline.Sub(now).Microseconds(), 1); allowed < 0 || us < allowed {
			allowed = us
		}
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fmt.Errorf("throttleredis: %q: %w", l.config.Name, throttle.ErrClosed)
	}
	if !l.breaker.lets(now, l.config.Probe) {
		l.mu.Unlock()
		return l.fallback(ctx, c, allowed == 0, errBreaker)
	}
	k := &call{cost: c, allowed: allowed, came: now, done: make(chan struct{}), ahead: len(l.pending) + len(l.line)}
	l.pending = append(l.pending, k)
	l.kick()
	l.mu.Unlock()

	select {
	case <-k.done:
	case <-ctx.Done():
		l.mu.Lock()
		select {
		case <-k.done: // it started first
		default:
			l.abandon(k)
			l.mu.Unlock()
			return nil, throttle.NewLeftError(ctx, l.config.Name, time.Since(now))
		}
		l.mu.Unlock()
	}
	if k.err != nil {
		if down, ok := k.err.(*unreached); ok {
			return l.fallback(ctx, c, allowed == 0, down.err)
		}
		return nil, k.err
	}
	return l.permit(ctx, k.permit), nil
}

// normal checks a cost and makes what is ignored 1.
func (l *Limiter) normal(c *throttle.Cost) error {
	if len(c.Quotas) > 0 {
		return l.invalid("Cost.Quotas is set, but a shared limiter has no named quotas; want Tokens and Weight only")
	}
	check := func(what string, v *int64, limited bool) error {
		least := int64(0)
		if limited {
			least = 1
		}
		if *v < least || *v > MaxExact {
			return l.invalid(fmt.Sprintf("%s is %d; want %d to %d", what, *v, least, int64(MaxExact)))
		}
		if !limited {
			*v = 1
		}
		return nil
	}
	if err := check("Cost.Tokens", &c.Tokens, l.asked.n > 0); err != nil {
		return err
	}
	return check("Cost.Weight", &c.Weight, l.asked.limit > 0)
}

func (l *Limiter) invalid(what string) error {
	return fmt.Errorf("throttleredis: %q: %s: %w", l.config.Name, what, throttle.ErrInvalid)
}

// abandon takes out a caller that gave up, with whatever Redis may have given it. The caller holds the lock.
func (l *Limiter) abandon(k *call) {
	k.left = true
	for i, other := range l.pending {
		if other == k {
			l.pending = append(l.pending[:i:i], l.pending[i+1:]...)
			return
		}
	}
	l.unwait(k)
	l.depart(k.id)
}

// Close refuses callers and those who wait with throttle.ErrClosed, tells Redis what is not needed any more, and returns once that is done or
// Timeout has passed. Permits that are held are no longer renewed; their contexts are cancelled with ErrLeaseLost in time.
func (l *Limiter) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	err := fmt.Errorf("throttleredis: %q: %w", l.config.Name, throttle.ErrClosed)
	for _, k := range l.pending {
		k.answer(nil, err)
	}
	l.pending = nil
	for id, k := range l.waiting {
		l.unwait(k)
		k.answer(nil, err)
		l.depart(id)
	}
	l.kick()
	idle := make(chan struct{})
	l.idle = idle
	l.settleIdle()
	listening := l.listener
	l.listener = nil
	l.mu.Unlock()
	if listening != nil {
		listening.stop()
	}
	<-idle
	if l.local != nil {
		l.local.Close()
	}
	return nil
}

func (l *Limiter) settleIdle() {
	if l.idle != nil && !l.flying {
		close(l.idle)
		l.idle = nil
	}
}

func (l *Limiter) event(what string, err error) {
	if l.config.OnEvent != nil {
		l.config.OnEvent(Event{l.config.Name, what, err})
	}
}
