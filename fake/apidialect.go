package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Dialect tells a caller the state of its limits as some API does: it sets the headers, and returns the status and the body. Status 0
// stands for 429 where the request is refused (s.Refused() is not nil), else for 200; body nil for the default one. APIConfig.Answer
// replaces status and body of requests that are let through, not the headers. It must not call the API.
//
// Those here are functions of that form: Generic, GitHub, OpenAI, and more. Your own is one as well.
type Dialect func(h http.Header, s APIState) (status int, body []byte)

// APIState is what a dialect may tell.
type APIState struct {
	Now     time.Time     // on the API's clock
	Request *http.Request // its body can no longer be relied on
	Key     string
	Limits  []LimitState // as configured, after the request was charged

	refusing int // -1: none
}

// LimitState is one limit of a key.
type LimitState struct {
	Limit      APILimit
	Cost       int64         // of the request
	Remaining  int64         // whole units
	Reset      time.Duration // until all of it is there again; 0 for Concurrency
	Refused    bool          // this limit had no room
	RetryAfter time.Duration // where it refused: until it would have, were no one else to come; 0 for Concurrency
}

// Refused returns the limit that refuses the request, the one with the longest wait of several; nil: it is let through.
func (s APIState) Refused() *LimitState {
	if s.refusing < 0 {
		return nil
	}
	return &s.Limits[s.refusing]
}

// Size is the most that the limit can have: N, or a TokenBucket's Burst.
func (l LimitState) Size() int64 { return l.Limit.size() }

// Told returns the rate limits that headers may tell: not Hidden, not Concurrency.
func (s APIState) Told() []LimitState {
	var told []LimitState
	for _, l := range s.Limits {
		if !l.Limit.Hidden && l.Limit.Kind != Concurrency {
			told = append(told, l)
		}
	}
	return told
}

// Tightest returns the one limit that a dialect tells which knows only one: the refusing one if it may be told, else the one with the
// smallest part left, the first of several; nil: there is none to tell.
func (s APIState) Tightest() *LimitState {
	if r := s.Refused(); r != nil && !r.Limit.Hidden && r.Limit.Kind != Concurrency {
		return r
	}
	var tightest *LimitState
	for _, l := range s.Told() {
		if tightest == nil || float64(l.Remaining)/float64(l.Size()) < float64(tightest.Remaining)/float64(tightest.Size()) {
			tightest = &l
		}
	}
	return tightest
}

// seconds is d in whole seconds, rounded up: a client told less would come back too early.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// epoch is the first whole second of the Unix epoch not before now+d.
func epoch(now time.Time, d time.Duration) int64 {
	at := now.Add(d)
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

func set(h http.Header, name string, n int64) { h.Set(name, strconv.FormatInt(n, 10)) }

// retryAfter sets Retry-After in seconds where the request is refused and there is a wait to tell.
func retryAfter(h http.Header, s APIState) {
	if r := s.Refused(); r != nil && !r.Limit.NoRetryAfter && r.RetryAfter > 0 {
		set(h, "Retry-After", seconds(r.RetryAfter))
	}
}

// status is the limit's own status, or else the dialect's; 0 where the request is let through.
func (s APIState) status(dialects int) int {
	r := s.Refused()
	switch {
	case r == nil:
		return 0
	case r.Limit.Status != 0:
		return r.Limit.Status
	}
	return dialects
}

// refusal is status and a JSON body where the request is refused.
func (s APIState) refusal(status int, body any) (int, []byte) {
	if s.Refused() == nil {
		return 0, nil
	}
	return s.status(status), toJSON(body)
}

// toJSON is for values that have no way to fail.
func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

type object map[string]any

// Generic writes RateLimit and RateLimit-Policy as draft-ietf-httpapi-ratelimit-headers-10 has them, concurrency as
// qu="concurrent-requests", and refuses with 429, Retry-After and a problem of type quota-exceeded. A TokenBucket whose Burst is not N
// is told as Burst in the time in which that comes back.
func Generic(h http.Header, s APIState) (int, []byte) {
	draft(h, s)
	retryAfter(h, s)
	r := s.Refused()
	if r == nil {
		return 0, nil
	}
	h.Set("Content-Type", "application/problem+json")
	status := s.status(http.StatusTooManyRequests)
	problem := object{"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Request cannot be satisfied as assigned quota has been exceeded",
		"status": status}
	if !r.Limit.Hidden {
		problem["violated-policies"] = []string{r.Limit.Name}
	}
	return status, toJSON(problem)
}

// draft writes the fields of the IETF draft.
func draft(h http.Header, s APIState) {
	var policies, states []string
	for _, l := range s.Limits {
		if l.Limit.Hidden {
			continue
		}
		policy, state := fmt.Sprintf("%q;q=%d", l.Limit.Name, l.Size()), fmt.Sprintf("%q;r=%d", l.Limit.Name, l.Remaining)
		if l.Limit.Kind == Concurrency {
			policy += `;qu="concurrent-requests"`
		} else {
			policy += fmt.Sprintf(";w=%d", seconds(l.Limit.window()))
			state += fmt.Sprintf(";t=%d", seconds(l.Reset))
		}
		policies, states = append(policies, policy), append(states, state)
	}
	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
		h.Set("RateLimit", strings.Join(states, ", "))
	}
}

// Plain tells nothing but refusals: 429 with Retry-After in seconds.
func Plain(h http.Header, s APIState) (int, []byte) {
	retryAfter(h, s)
	return s.refusal(http.StatusTooManyRequests, object{"error": "too many requests"})
}

// Unavailable is Plain with 503.
func Unavailable(h http.Header, s APIState) (int, []byte) {
	retryAfter(h, s)
	return s.refusal(http.StatusServiceUnavailable, object{"error": "service unavailable"})
}

// GitHub answers as GitHub's REST API: X-RateLimit-Limit, -Remaining, -Used, -Reset (epoch seconds) and -Resource (the limit's
// name) of the tightest limit; refusals are 403, or 429 by APILimit.Status. A Hidden limit is a secondary one: its refusal has another
// message, and Retry-After unless NoRetryAfter.
func GitHub(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		set(h, "X-RateLimit-Limit", l.Size())
		set(h, "X-RateLimit-Remaining", l.Remaining)
		set(h, "X-RateLimit-Used", l.Size()-l.Remaining)
		set(h, "X-RateLimit-Reset", epoch(s.Now, l.Reset))
		h.Set("X-RateLimit-Resource", l.Limit.Name)
	}
	message := "API rate limit exceeded."
	documentation := "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"
	if r := s.Refused(); r != nil && (r.Limit.Hidden || r.Limit.Kind == Concurrency) {
		message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
		documentation += "#about-secondary-rate-limits"
		retryAfter(h, s)
	}
	return s.refusal(http.StatusForbidden, object{"message": message, "documentation_url": documentation})
}

// OpenAI answers as OpenAI's API: x-ratelimit-limit-, -remaining- and -reset- (a duration like 6m0s) for each limit told, whose Name ends
// the header's name: "requests", "tokens". Refusals are 429 with Retry-After and retry-after-ms.
func OpenAI(h http.Header, s APIState) (int, []byte) {
	for _, l := range s.Told() {
		set(h, "X-Ratelimit-Limit-"+l.Limit.Name, l.Size())
		set(h, "X-Ratelimit-Remaining-"+l.Limit.Name, l.Remaining)
		h.Set("X-Ratelimit-Reset-"+l.Limit.Name, millis(l.Reset).String())
	}
	retryAfter(h, s)
	r := s.Refused()
	if r == nil {
		return 0, nil
	}
	if r.RetryAfter > 0 && !r.Limit.NoRetryAfter {
		set(h, "Retry-After-Ms", millis(r.RetryAfter).Milliseconds())
	}
	return s.refusal(http.StatusTooManyRequests, object{"error": object{"message": "Rate limit reached on " + r.Limit.Name + ".",
		"type": r.Limit.Name, "param": nil, "code": "rate_limit_exceeded"}})
}

// millis rounds up to a millisecond.
func millis(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest > 0 {
		return d - rest + time.Millisecond
	}
	return d
}
