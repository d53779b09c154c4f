package throttlehttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// ErrInvalid: a field of a configuration that is outside its range. It is throttle.ErrInvalid.
var ErrInvalid = throttle.ErrInvalid

// A Guard lets requests through to handlers under limits, and answers the rest itself: 429 where time will help, 503 where
// only the end of other requests will. Its limits are those of the Guard, whatever number of connections and handlers it guards.
//
// A request passes one rule: the first that matches. What several rules are to share is a Parent of their limiters. A request that matches
// none is not limited. HEAD and OPTIONS are requests like any other, CORS preflights too: to spare some, give them no rule (Rule.Match), or
// answer them before the Guard.
//
// A permit is held until the handler returns, also by a panic or http.ErrAbortHandler: to the end of a streamed body, and of a hijacked
// connection as long as its handler stays. A Guard must be made by NewGuard; it may be used from many goroutines, and starts none.
type Guard struct {
	rules   []*rule
	route   func(*http.Request) string
	routed  bool // a rule has Patterns
	onError func(*http.Request, error) bool
	answer  func(http.ResponseWriter, *http.Request, Refusal)
	busy    time.Duration
}

// DefaultBusyRetry is the BusyRetry of a GuardConfig that sets none.
const DefaultBusyRetry = time.Second

// A GuardConfig says what a Guard promises. Only Rules must be set.
type GuardConfig struct {
	// Rules are tried in order; the first that matches a request is the one it passes.
	Rules []Rule
	// Route names a request's route, for Rule.Patterns. nil is Request.Pattern, as http.ServeMux sets it before it calls a handler; where Wrap
	// is given a *http.ServeMux itself, it is MuxRoute of that.
	Route func(*http.Request) string
	// OnError is told of an error of a limiter that is no answer: a shared limiter that is out of reach. If it returns true the request is let
	// through unlimited; otherwise, or where OnError is nil, it is refused with 503, since what a Guard stands before is to be kept whole.
	OnError func(*http.Request, error) bool
	// Answer writes the body of a refusal, in place of Refusal.Write. Retry-After, RateLimit and RateLimit-Policy are in the header then; the status is
	// to be Refusal.Status.
	Answer func(http.ResponseWriter, *http.Request, Refusal)
	// BusyRetry is what Retry-After tells where nobody knows the wait: no permit is free, or the limiter is closed or out of reach. It is
	// above 0, and rounded up to a second; 0 is DefaultBusyRetry.
	BusyRetry time.Duration
}

// A Rule is what some requests have to pass. Name and Limiters must be set.
type Rule struct {
	// Name is in the RateLimit fields and in problems: 1 to 64 characters of printable ASCII, without quote and backslash, no other rule's.
	Name string
	// Patterns are the routes that it is for, as they were registered: "POST /login". Without any it is for every route.
	Patterns []string
	// Match, if set, must hold too.
	Match func(*http.Request) bool
	// Key says whose request it is: each key has a budget of its own. nil, and "", are one budget for all. A key above 64 bytes is replaced by
	// its SHA-256, so that nobody fills the memory with long ones.
	Key KeyFunc
	// Limiters are the limiters of the keys: a *throttle.Keyed[string], or Shared.
	Limiters Limiters
	// Cost is what a request costs; nil is throttle.One.
	Cost func(*http.Request) throttle.Cost
	// MaxWait is how long a request may wait for its start; 0: none waits, and who cannot start is refused at once. A client that goes away meanwhile
	// leaves its place, as its request's context ends; over HTTP/1 the server sees that only once the request's body has been read.
	MaxWait time.Duration
	// MaxWaiting is how many requests may wait at once, of all keys: 1 or more with MaxWait, 0 without. One more is refused.
	MaxWaiting int
}

// Limiters have an Admitter for each key. A *throttle.Keyed[string] is one. Where the Admitter also has the method Budgets, as
// those of package throttle have, answers tell the budget left. For must be quick, and safe from many goroutines.
type Limiters interface {
	For(key string) throttle.Admitter
}

// Shared is the Limiters in which all keys have one Admitter.
func Shared(a throttle.Admitter) Limiters { return shared{a} }

type shared struct{ throttle.Admitter }

func (s shared) For(string) throttle.Admitter { return s.Admitter }

// A rule is a Rule in use.
type rule struct {
	Rule
	waiting atomic.Int64 // requests that wait: at most MaxWaiting
}

// NewGuard returns a Guard, or an error that names the field of c that is wrong.
func NewGuard(c GuardConfig) (*Guard, error) {
	if what := c.wrong(); what != "" {
		return nil, fmt.Errorf("throttlehttp: GuardConfig: %s: %w", what, ErrInvalid)
	}
	g := &Guard{route: c.Route, onError: c.OnError, answer: c.Answer, busy: c.BusyRetry}
	if g.busy == 0 {
		g.busy = DefaultBusyRetry
	}
	if g.answer == nil {
		g.answer = func(w http.ResponseWriter, r *http.Request, refused Refusal) { refused.Write(w, r) }
	}
	for _, p := range c.Rules {
		p.Patterns = slices.Clone(p.Patterns)
		g.routed = g.routed || len(p.Patterns) > 0
		g.rules = append(g.rules, &rule{Rule: p})
	}
	return g, nil
}

// wrong says which field is wrong, and what would be right, or nothing.
func (c *GuardConfig) wrong() string {
	if len(c.Rules) == 0 {
		return "Rules is empty; want 1 or more"
	}
	if c.BusyRetry < 0 {
		return fmt.Sprintf("BusyRetry is %v; want above 0, or 0 for %v", c.BusyRetry, DefaultBusyRetry)
	}
	names := make(map[string]bool)
	for i, p := range c.Rules {
		what := p.wrong()
		if what == "" && names[p.Name] {
			what = fmt.Sprintf("Name is %q, as that of another rule is; want one of its own", p.Name)
		}
		if what != "" {
			return fmt.Sprintf("Rules[%d]: %s", i, what)
		}
		names[p.Name] = true
	}
	return ""
}

func (p *Rule) wrong() string {
	switch {
	case !isFieldName(p.Name):
		return fmt.Sprintf("Name is %q; want 1 to %d characters of printable ASCII, without quote and backslash", p.Name, maxName)
	case p.Limiters == nil:
		return "Limiters is not set; want a *throttle.Keyed[string], or Shared(limiter)"
	case p.Limiters == shared{}:
		return "Limiters is Shared(nil); want a limiter"
	case p.MaxWait < 0:
		return fmt.Sprintf("MaxWait is %v; want above 0, or 0 for no waiting", p.MaxWait)
	case p.MaxWaiting < 0:
		return fmt.Sprintf("MaxWaiting is %d; want 1 or more, or 0 for no waiting", p.MaxWaiting)
	case (p.MaxWait == 0) != (p.MaxWaiting == 0):
		return fmt.Sprintf("MaxWait is %v and MaxWaiting is %d; want both or neither", p.MaxWait, p.MaxWaiting)
	case slices.Contains(p.Patterns, ""):
		return `Patterns has ""; want patterns as registered, or no Patterns for every route`
	}
	return ""
}

// errNoRoute is what a request is told that a rule with Patterns could not be found for.
var errNoRoute = errors.New("throttlehttp: the request has no Pattern, by which rules are chosen: wrap the *http.ServeMux or its handlers, or set GuardConfig.Route")

// Wrap returns a handler that calls next for the requests that are let through. It may be called for many handlers: all share the Guard's limits.
// The request that next is given is the one that came, unless an Admitter gave a context of its own.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	route := g.route
	if mux, ok := next.(*http.ServeMux); ok && route == nil {
		route = MuxRoute(mux)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := g.ruleOf(r, route)
		if err != nil {
			g.refuse(w, r, nil, Refusal{Status: http.StatusInternalServerError, Err: err})
			return
		}
		if p == nil {
			next.ServeHTTP(w, r)
			return
		}
		a, cost := p.Limiters.For(keyOf(p.Key, r)), throttle.One
		if p.Cost != nil {
			cost = p.Cost(r)
		}
		ctx, held, err := p.admit(r.Context(), a, cost)
		if err != nil {
			if refused, ok := g.judge(r, p, a, cost, err); ok {
				g.refuse(w, r, a, refused)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		defer held.Release()
		if b, ok := a.(budgeter); ok {
			tellBudgets(w.Header(), p.Name, b.Budgets())
		}
		if ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// ruleOf returns the rule of r, or nil if none matches.
func (g *Guard) ruleOf(r *http.Request, route func(*http.Request) string) (*rule, error) {
	pattern := r.Pattern
	if g.routed {
		switch {
		case route != nil:
			pattern = route(r)
		case pattern == "":
			return nil, errNoRoute
		}
	}
	for _, p := range g.rules {
		if (len(p.Patterns) == 0 || slices.Contains(p.Patterns, pattern)) && (p.Match == nil || p.Match(r)) {
			return p, nil
		}
	}
	return nil, nil
}

// MuxRoute names the route of a request by the pattern that mux will find for it, and "" where it will find none. It is a look-up in the mux of its own.
func MuxRoute(mux *http.ServeMux) func(*http.Request) string {
	return func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	}
}
