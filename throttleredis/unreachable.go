package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

var errBreaker = errors.New("throttleredis: a call failed a moment ago; Redis is left alone for a while")

// unreached is the answer to callers whom the policy is to be applied to.
type unreached struct{ err error }

func (u *unreached) Error() string { return u.err.Error() }

// fallback applies the policy.
func (l *Limiter) fallback(ctx context.Context, c throttle.Cost, try bool, err error) (*Permit, error) {
	switch l.config.Unreachable {
	case Open:
		return &Permit{l: l, ctx: ctx}, nil
	case Local:
		admit := l.local.Admit
		if try {
			admit = l.local.TryAdmit
		}
		inner, held, err := admit(ctx, c)
		if err != nil {
			return nil, err
		}
		return &Permit{l: l, ctx: inner, held: held}, nil
	}
	return nil, &UnavailableError{l.config.Name, err}
}

// share returns one process's part of the limits: of each at least 1.
func (c *Config) share() throttle.Config {
	part := throttle.Config{Name: c.Name + " (local share)", MaxQueue: c.MaxQueue, MaxWait: c.MaxWait}
	if c.Burst != 0 {
		period := c.Rate.Period
		if int64(period) <= int64(1<<62)/c.Processes {
			period *= time.Duration(c.Processes)
		} else {
			period = 1 << 62
		}
		part.Rate, part.Burst = throttle.Per(c.Rate.N, period), max(c.Burst/c.Processes, 1)
	}
	if c.MaxInFlight != 0 {
		part.MaxInFlight = max(c.MaxInFlight/c.Processes, 1)
	}
	return part
}

// id names a caller in Redis. It says what the scripts must know: whose it is, what it costs, and whether its process listens.
func (l *Limiter) newID(c throttle.Cost) string {
	l.lastID++
	return fmt.Sprintf("%s:%d:%d:%d:%s", l.process, l.lastID, c.Tokens, c.Weight, flag(l.listener.ready()))
}
