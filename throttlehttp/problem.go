package throttlehttp

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers-10, section "Problem Types".
const (
	// ProblemQuotaExceeded is the type of a 429.
	ProblemQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// ProblemReducedCapacity is the type of a 503.
	ProblemReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

const problemMedia = "application/problem+json"

// A Refusal is a request that is not let through.
type Refusal struct {
	// Rule is the Name of the rule; "" where none could be found.
	Rule string
	// Status is that of the answer: 429, 503, 413 for a cost above what is ever allowed, or 500 for a Guard or Cost that is wrong.
	Status int
	// RetryAfter is the wait as it is known, not rounded; 0 where coming again does not help.
	RetryAfter time.Duration
	// Violated are the budgets that do not cover the request, as the RateLimit field names them: one or more with 429, none otherwise.
	Violated []string
	// Err is the limiter's answer. Its text is for the server's log, not for its clients.
	Err error
}

// Seconds is what Retry-After tells: RetryAfter in whole seconds, rounded up, so that who waits that long comes neither too early nor to 0. It is
// 0 only where RetryAfter is.
func (f Refusal) Seconds() int64 { return wholeSeconds(f.RetryAfter) }

// refuse writes the fields and the answer.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, a throttle.Admitter, f Refusal) {
	if b, ok := a.(budgeter); ok {
		tellBudgets(w.Header(), f.Rule, b.Budgets())
	}
	if s := f.Seconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	g.answer(w, r, f)
}

// Write answers with Status and a body: a problem (RFC 9457) where the Accept field asks for application/problem+json or application/json, and a
// line of text otherwise. It tells nothing of the server's insides.
func (f Refusal) Write(w http.ResponseWriter, r *http.Request) {
	if !wantsProblem(r.Header) {
		http.Error(w, fmt.Sprintf("%d %s: %s", f.Status, http.StatusText(f.Status), f.detail()), f.Status)
		return
	}
	p := problem{Type: "about:blank", Title: http.StatusText(f.Status), Status: f.Status, Detail: f.detail()}
	switch f.Status {
	case http.StatusTooManyRequests:
		p.Type, p.Title, p.Violated = ProblemQuotaExceeded, "Request cannot be satisfied as assigned quota has been exceeded", f.Violated
	case http.StatusServiceUnavailable:
		p.Type, p.Title = ProblemReducedCapacity, "Request cannot be satisfied due to temporary server capacity constraints"
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and a number: it cannot be
		http.Error(w, http.StatusText(f.Status), f.Status)
		return
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Set("Content-Type", problemMedia)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(f.Status)
	w.Write(append(body, '\n')) // whether the client still listens is not ours to mend
}

type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (f Refusal) detail() string {
	switch {
	case f.RetryAfter > 0:
		return fmt.Sprintf("try again in %d s", f.Seconds())
	case f.Status == http.StatusRequestEntityTooLarge:
		return "the request costs more than is ever allowed"
	}
	return "the request could not be judged"
}

// wantsProblem reports whether a client names a media type that a problem is of. A wildcard does not ask for one.
func wantsProblem(h http.Header) bool {
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil || media != problemMedia && media != "application/json" {
				continue
			}
			q, given := params["q"]
			if weight, err := strconv.ParseFloat(q, 64); !given || err == nil && weight > 0 {
				return true
			}
		}
	}
	return false
}
