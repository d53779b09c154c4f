package fake

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"time"
)

// LimitKind is how an APILimit counts.
type LimitKind int

// The kinds of limit that APIs enforce.
const (
	// FixedWindow allows N in each window. A window begins with the first request after the last one's end, or, where Aligned, at
	// multiples of Period since the Unix epoch. Across an edge, 2*N may pass within less than a Period: real APIs have that flaw.
	FixedWindow LimitKind = iota + 1
	// SlidingWindow allows N in every half-open span [t, t+Period).
	SlidingWindow
	// TokenBucket allows Burst at once and N each Period, refilled continuously, exactly. It begins full.
	TokenBucket
	// Concurrency allows N in flight. It knows no time, so its refusals tell no wait unless its dialect invents one.
	Concurrency
)

// String gives the constant's name.
func (k LimitKind) String() string {
	switch k {
	case FixedWindow:
		return "FixedWindow"
	case SlidingWindow:
		return "SlidingWindow"
	case TokenBucket:
		return "TokenBucket"
	case Concurrency:
		return "Concurrency"
	}
	return fmt.Sprintf("LimitKind(%d)", int(k))
}

// APILimit is one limit of an API, counted for each key apart.
type APILimit struct {
	// Name is unique in the API; letters, digits, - and _. Dialects with several limits put it in header names: "requests", "tokens".
	Name string
	Kind LimitKind
	// N is 1 to 2^40: the cost allowed in a window, or each Period, or in flight.
	N int64
	// Period is above 0; 0 for Concurrency.
	Period time.Duration
	// Burst is for TokenBucket alone, 1 to 2^40. Zero: N.
	Burst int64
	// Aligned is for FixedWindow alone.
	Aligned bool

	// Cost is what a request costs, below 0 counts as 0, and above 2^41 as that. Nil: 1. A request that costs more than N (or Burst) is always refused.
	Cost func(*http.Request) int64
	// Key is whose limit it is, where it is not the API's Key: one limit for all callers, say, or one for each path.
	Key func(*http.Request) string

	// Hidden keeps the limit out of headers, as GitHub's secondary limits are.
	Hidden bool
	// NoRetryAfter keeps Retry-After out of refusals by this limit.
	NoRetryAfter bool
	// Status is that of refusals by this limit, 400 to 599. Zero: the dialect's.
	Status int
	// Reason is what dialects that tell one say in refusals. Empty: by kind.
	Reason string
}

// maxSize keeps every sum of costs within an int64, for 4 million requests of the highest cost.
const maxSize = 1 << 40

var limitName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (l APILimit) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !limitName.MatchString(l.Name) {
		bad("Name is %q: must be one or more of letters, digits, - and _", l.Name)
	}
	if l.Kind < FixedWindow || l.Kind > Concurrency {
		bad("Kind is %v: must be FixedWindow, SlidingWindow, TokenBucket or Concurrency", l.Kind)
	}
	if l.N < 1 || l.N > maxSize {
		bad("N is %d: must be 1 to 2^40", l.N)
	}
	if l.Kind == Concurrency && l.Period != 0 {
		bad("Period is %v: must be 0 for Concurrency", l.Period)
	}
	if l.Kind != Concurrency && l.Period <= 0 {
		bad("Period is %v: must be above 0", l.Period)
	}
	if l.Burst < 0 || l.Burst > maxSize || l.Burst > 0 && l.Kind != TokenBucket {
		bad("Burst is %d: must be 1 to 2^40 for a TokenBucket, or 0 for N, and 0 for other kinds", l.Burst)
	}
	if l.Aligned && l.Kind != FixedWindow {
		bad("Aligned is true: must be false for other kinds than FixedWindow")
	}
	if l.Status != 0 && (l.Status < 400 || l.Status > 599) {
		bad("Status is %d: must be 400 to 599, or 0 for the dialect's", l.Status)
	}
	return errors.Join(errs...)
}

// size is the most that can be there at once.
func (l APILimit) size() int64 {
	if l.Kind == TokenBucket && l.Burst > 0 {
		return l.Burst
	}
	return l.N
}

// window is the time in which size comes back: Period, or the time in which an empty bucket fills, rounded up.
func (l APILimit) window() time.Duration {
	if l.Kind != TokenBucket || l.size() == l.N {
		return l.Period
	}
	b := newTokenBucket(l.N, l.Period, l.size())
	b.level.SetInt64(0)
	return b.wait(l.size())
}

// counter is the account of one key under one limit. Instants never go back.
type counter interface {
	fits(now time.Time, cost int64) (bool, time.Duration)   // whether it may pass, else the wait until it might
	take(now time.Time, cost int64)                         // only where it fits
	release(cost int64)                                     // of what take took, when the request ends
	held() int64                                            // cost in flight
	state(now time.Time) (remaining int64, r time.Duration) // r: until all of it is there again
}

// newCounter returns an unused account under the limit.
func (l APILimit) newCounter() counter {
	switch l.Kind {
	case FixedWindow:
		return &fixedWindow{n: l.N, period: l.Period, aligned: l.Aligned}
	case SlidingWindow:
		return &slidingWindow{n: l.N, period: l.Period}
	case TokenBucket:
		return &bucketLimit{bucket: newTokenBucket(l.N, l.Period, l.size())}
	}
	return &concurrency{n: l.N}
}

// flying counts what is in flight, for every kind.
type flying int64

func (f *flying) release(cost int64) { *f -= flying(cost) }
func (f *flying) held() int64        { return int64(*f) }

type fixedWindow struct {
	flying
	n       int64
	period  time.Duration
	aligned bool
	end     time.Time // of the window last opened
	used    int64
}

func (f *fixedWindow) roll(now time.Time) {
	if now.Before(f.end) {
		return
	}
	f.used = 0
	if f.aligned {
		into := new(big.Int).Mod(between(time.Unix(0, 0), now), big.NewInt(int64(f.period)))
		f.end = now.Add(f.period - time.Duration(into.Int64()))
	}
}

func (f *fixedWindow) fits(now time.Time, cost int64) (bool, time.Duration) {
	f.roll(now)
	if cost <= f.n-f.used {
		return true, 0
	}
	_, reset := f.state(now)
	return false, reset
}

func (f *fixedWindow) take(now time.Time, cost int64) {
	if !now.Before(f.end) { // not aligned, and the first of its window
		f.end = now.Add(f.period)
	}
	f.used += cost
	f.flying += flying(cost)
}

func (f *fixedWindow) state(now time.Time) (int64, time.Duration) {
	if !now.Before(f.end) {
		return f.n, f.period
	}
	return f.n - f.used, f.end.Sub(now)
}

type slidingWindow struct {
	flying
	n      int64
	period time.Duration
	in     []spending // less than a period old
	used   int64
}

func (s *slidingWindow) expire(now time.Time) {
	for len(s.in) > 0 && !now.Before(s.in[0].at.Add(s.period)) {
		s.used -= s.in[0].cost
		s.in = s.in[1:]
	}
}

func (s *slidingWindow) fits(now time.Time, cost int64) (bool, time.Duration) {
	s.expire(now)
	used := s.used
	if cost <= s.n-used {
		return true, 0
	}
	wait := s.period // where nothing ever makes it fit
	for _, e := range s.in {
		used -= e.cost
		wait = e.at.Add(s.period).Sub(now)
		if cost <= s.n-used {
			break
		}
	}
	return false, wait
}

func (s *slidingWindow) take(now time.Time, cost int64) {
	s.in = append(s.in, spending{now, cost})
	s.used += cost
	s.flying += flying(cost)
}

func (s *slidingWindow) state(now time.Time) (int64, time.Duration) {
	s.expire(now)
	if len(s.in) == 0 {
		return s.n, 0
	}
	return s.n - s.used, s.in[len(s.in)-1].at.Add(s.period).Sub(now)
}

type bucketLimit struct {
	flying
	bucket *tokenBucket
}

func (b *bucketLimit) fits(now time.Time, cost int64) (bool, time.Duration) {
	b.bucket.to(now)
	wait := b.bucket.wait(cost)
	return wait == 0, wait
}

func (b *bucketLimit) take(now time.Time, cost int64) {
	b.bucket.take(now, cost)
	b.flying += flying(cost)
}

func (b *bucketLimit) state(now time.Time) (int64, time.Duration) {
	b.bucket.to(now)
	return new(big.Int).Quo(b.bucket.level, b.bucket.p).Int64(), b.bucket.wait(b.bucket.burst)
}

type concurrency struct {
	flying
	n int64
}

func (c *concurrency) fits(_ time.Time, cost int64) (bool, time.Duration) {
	return cost <= c.n-c.held(), 0
}

func (c *concurrency) take(_ time.Time, cost int64) { c.flying += flying(cost) }

func (c *concurrency) state(time.Time) (int64, time.Duration) { return c.n - c.held(), 0 }
