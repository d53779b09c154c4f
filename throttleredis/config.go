package throttleredis

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/turnstile-go/turnstile/throttle"
)

// What a Config that does not set them has.
const (
	DefaultPrefix  = "turnstile"
	DefaultLease   = 15 * time.Second
	DefaultTimeout = 250 * time.Millisecond
	DefaultProbe   = time.Second
	DefaultBatch   = 64
)

// Ranges of a Config.
const (
	MinLease   = 100 * time.Millisecond
	MaxLease   = time.Hour
	MinTimeout = time.Millisecond
	MaxTimeout = time.Minute
	MaxBatch   = 256
	MaxName    = 256
	// MaxExact bounds the numbers of a quota, which Redis reckons in doubles: see Config.Burst.
	MaxExact = 1 << 52
)

// A Policy says what happens to calls while Redis cannot be reached, or does not answer within Timeout. There is no default.
type Policy uint8

const (
	Closed Policy = iota + 1 // calls fail with an *UnavailableError: the limits hold
	Open                     // calls start at once: no limit holds
	Local                    // calls pass a limiter of this process, with its share of the limits: see Config.Processes
)

func (p Policy) String() string {
	switch p {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case Local:
		return "local"
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// A Config says what a Limiter promises. All processes that use the same Prefix and Name in one Redis share one limiter, and should
// give it the same limits: see Version.
type Config struct {
	// Client reaches Redis; tested with one server of version 7.0.15, and neither with a cluster nor with a Sentinel. The option ContextTimeoutEnabled must be set,
	// so that a call can end within Timeout. It is not closed by Close.
	Client redis.UniversalClient
	// Prefix begins the name of every key: 1 to 256 bytes of letters, digits, ".", "_", "-", "/"; "" is DefaultPrefix.
	Prefix string
	// Name names the limiter, in Redis and in errors: 1 to MaxName bytes of any kind.
	Name string

	// Rate is how many tokens are earned in what time, and Burst how many may be saved up: 1 or more. Both or neither. The arithmetic is
	// exact in whole numbers; for a rate of n tokens per p microseconds in lowest terms, Burst x p + n + p must be at most MaxExact (2^52).
	// So 10/s may have a burst of 45 milliards, and 1000 a day one of 52 million.
	Rate  throttle.Rate
	Burst int64
	// MaxInFlight is how much weight may be in flight at once, over all processes: 1 to 2^31 - 1; 0 is no cap.
	MaxInFlight int64
	// Version orders settings: where processes differ in Rate, Burst or MaxInFlight, the highest Version holds for all of them, at once, and of
	// two that are equal the one that was there first. 0 or more.
	Version int64

	// Lease is how long a permit outlives a process that died: MinLease to MaxLease; 0 is DefaultLease. It is renewed each third of it.
	// A holder is told ErrLeaseLost after nine tenths of it without a renewal.
	Lease time.Duration
	// MaxQueue is how many callers may stand in line in Redis, of all processes: 0 for no bound. One more is told throttle.ErrQueueFull.
	MaxQueue int
	// MaxWait is the longest wait, as reckoned in Redis, with which a caller may join the line; 0 for no bound.
	MaxWait time.Duration
	// Batch is how many callers of a process may stand in line in Redis at a time: 1 to MaxBatch; 0 is DefaultBatch. 1 gives each process one place,
	// so that processes share evenly however many callers each has; a large one serves callers more nearly in order of arrival.
	Batch int

	// Unreachable says what happens while Redis cannot be reached. It must be set.
	Unreachable Policy
	// Processes is how many processes share the limiter, by your estimate: with Local, each takes this part of every limit, and 1 at the least.
	// It must be set with Local, and not without.
	Processes int64
	// Timeout is how long one call to Redis may take, with what it is tried again: MinTimeout to MaxTimeout; 0 is DefaultTimeout.
	Timeout time.Duration
	// Probe is how long Redis is left alone after a call has failed, before one caller tries again: 1 ms to MaxTimeout; 0 is DefaultProbe.
	Probe time.Duration
	// Strict makes a limiter whose state Redis has lost grant nothing for one Lease, while holders report their permits. Without it, up to MaxInFlight more may be
	// in flight until the holders' next renewals, a third of a Lease later at the most. A limiter's very first use counts as a loss.
	Strict bool

	// OnEvent, if set, is told what an operator would want to know. It is called outside of locks, and must return soon.
	OnEvent func(Event)
}

// An Event is something that an operator would want to know.
type Event struct {
	Limiter string // Config.Name
	What    string // "unreachable", "reachable", "state lost", "lease lost", "settings differ"
	Err     error  // for "unreachable" and "lease lost"
}

// withDefaults returns c with its zero fields set.
func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Probe == 0 {
		c.Probe = DefaultProbe
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	return c
}

// wrong says which field is wrong, and what would be right, or nothing. The defaults are set.
func (c *Config) wrong() string {
	if what := wrongClient(c.Client); what != "" {
		return what
	}
	switch {
	case !plain(c.Prefix):
		return fmt.Sprintf("Prefix is %q; want 1 to 256 letters, digits, '.', '_', '-' and '/'", c.Prefix)
	case c.Name == "" || len(c.Name) > MaxName:
		return fmt.Sprintf("Name has %d bytes; want 1 to %d", len(c.Name), MaxName)
	case c.Rate.IsZero() != (c.Burst == 0):
		return fmt.Sprintf("Rate is %v and Burst is %d; want both or neither", c.Rate, c.Burst)
	case c.Rate.IsZero() && c.MaxInFlight == 0:
		return "no limit is set; want Rate and Burst, or MaxInFlight, or all"
	case c.MaxInFlight < 0 || c.MaxInFlight > 1<<31-1:
		return fmt.Sprintf("MaxInFlight is %d; want 1 to %d, or 0 for no cap", c.MaxInFlight, 1<<31-1)
	case c.Version < 0 || c.Version > MaxExact:
		return fmt.Sprintf("Version is %d; want 0 to %d", c.Version, int64(MaxExact))
	case c.Lease < MinLease || c.Lease > MaxLease:
		return fmt.Sprintf("Lease is %v; want %v to %v, or 0 for %v", c.Lease, MinLease, MaxLease, DefaultLease)
	case c.MaxQueue < 0:
		return fmt.Sprintf("MaxQueue is %d; want 1 or more, or 0 for no bound", c.MaxQueue)
	case c.MaxWait < 0:
		return fmt.Sprintf("MaxWait is %v; want above 0, or 0 for no bound", c.MaxWait)
	case c.Batch < 1 || c.Batch > MaxBatch:
		return fmt.Sprintf("Batch is %d; want 1 to %d, or 0 for %d", c.Batch, MaxBatch, DefaultBatch)
	case c.Unreachable < Closed || c.Unreachable > Local:
		return fmt.Sprintf("Unreachable is %d; want Closed, Open or Local: there is no default", uint8(c.Unreachable))
	case c.Unreachable == Local && c.Processes < 1:
		return fmt.Sprintf("Processes is %d with Unreachable Local; want how many processes share the limiter, 1 or more", c.Processes)
	case c.Unreachable != Local && c.Processes != 0:
		return fmt.Sprintf("Processes is %d, but Unreachable is %v; want it with Local only", c.Processes, c.Unreachable)
	case c.Timeout < MinTimeout || c.Timeout > MaxTimeout:
		return fmt.Sprintf("Timeout is %v; want %v to %v, or 0 for %v", c.Timeout, MinTimeout, MaxTimeout, DefaultTimeout)
	case c.Probe < time.Millisecond || c.Probe > MaxTimeout:
		return fmt.Sprintf("Probe is %v; want 1ms to %v, or 0 for %v", c.Probe, MaxTimeout, DefaultProbe)
	}
	if c.Burst != 0 {
		if _, err := throttle.New(throttle.Config{Rate: c.Rate, Burst: c.Burst}); err != nil {
			return fmt.Sprintf("Rate %v, Burst %d: %v", c.Rate, c.Burst, err)
		}
		if _, ok := exact(c.Rate, c.Burst); !ok {
			n, p := perMicrosecond(c.Rate)
			return fmt.Sprintf("Rate is %v and Burst is %d: in lowest terms %d tokens per %d µs, and Burst x %[4]d + %[3]d + %[4]d is above %[5]d (2^52); want a smaller Burst or a rounder Rate",
				c.Rate, c.Burst, n, p, int64(MaxExact))
		}
	}
	return ""
}

func wrongClient(client redis.UniversalClient) string {
	enabled := true
	switch c := client.(type) {
	case nil:
		return "Client is nil; want a client of go-redis"
	case *redis.Client:
		enabled = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		enabled = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		enabled = c.Options().ContextTimeoutEnabled
	}
	if !enabled {
		return "Client has ContextTimeoutEnabled false, so that a call could not end within Timeout; want true"
	}
	return ""
}

func plain(s string) bool {
	return len(s) >= 1 && len(s) <= 256 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") == ""
}

// perMicrosecond returns r as n tokens per p microseconds, in lowest terms.
func perMicrosecond(r throttle.Rate) (n, p uint64) {
	n, p = uint64(r.N), uint64(r.Period)
	g := gcd(n, p)
	n, p = n/g, p/g
	g = gcd(1000, p) // n per p ns is 1000 n per p us
	hi, lo := bits.Mul64(n, 1000/g)
	if hi != 0 {
		return 1<<64 - 1, p / g
	}
	return lo, p / g
}

// settings are a Config's limits in the units of the scripts.
type settings struct {
	version, n, p, burst, limit int64
}

// exact returns the rate and burst in the units of the scripts, if all that is reckoned with them stays a whole double.
func exact(r throttle.Rate, burst int64) (settings, bool) {
	n, p := perMicrosecond(r)
	hi, lo := bits.Mul64(uint64(burst), p)
	sum, c1 := bits.Add64(lo, n, 0)
	sum, c2 := bits.Add64(sum, p, 0)
	if hi+c1+c2 != 0 || sum > MaxExact {
		return settings{}, false
	}
	return settings{n: int64(n), p: int64(p), burst: burst}, true
}

// settings returns c's limits. c is valid.
func (c *Config) settings() settings {
	var s settings
	if c.Burst != 0 {
		s, _ = exact(c.Rate, c.Burst)
	}
	s.version, s.limit = c.Version, c.MaxInFlight
	return s
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
