package throttlehttp

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

const (
	// maxName is the longest Policy.Name.
	maxName = 64
	// maxFieldInt is the largest Integer of a structured field (RFC 9651).
	maxFieldInt = 999_999_999_999_999
)

// A budgeter is an Admitter that can tell what is left.
type budgeter interface {
	Budgets() []throttle.Budget
}

// tellBudgets adds the fields RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-10), an item for each budget:
//
//	RateLimit-Policy: "api";q=10;w=60
//	RateLimit: "api";r=6;t=24
//
// q is the burst, w the seconds in which it is earned, r what is left, and t the seconds until all is there again. w and t are rounded up, and r is rounded
// down, so that a client that holds to them is let through. Fields that are there already, from a Guard around this one, are kept: they are lists.
//
// The numbers are those of one instant, right after the decision: what other requests of the same key took in between is in them.
func tellBudgets(h http.Header, policy string, budgets []throttle.Budget) {
	if len(budgets) == 0 {
		return
	}
	buf := make([]byte, 0, 128)
	for i, b := range budgets {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = appendItem(buf, policy, i, b)
		buf = appendParam(buf, ";q=", b.Quota.Burst)
		buf = appendParam(buf, ";w=", max(wholeSeconds(b.Window()), 1))
	}
	end := len(buf)
	for i, b := range budgets {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = appendItem(buf, policy, i, b)
		buf = appendParam(buf, ";r=", max(b.Tokens, 0))
		buf = appendParam(buf, ";t=", wholeSeconds(b.FullIn))
	}
	both := string(buf)
	add(h, "Ratelimit-Policy", both[:end])
	add(h, "Ratelimit", both[end:])
}

// add is Header.Add for a key in canonical form.
func add(h http.Header, key, value string) { h[key] = append(h[key], value) }

// appendItem appends a budget's name as a String.
func appendItem(buf []byte, policy string, i int, b throttle.Budget) []byte {
	buf = append(buf, '"')
	buf = appendName(buf, policy, i, b)
	return append(buf, '"')
}

// appendName appends what a budget of a policy is called: the policy's name, with the quota's own name, or its place, behind a slash. A character
// that may not stand in a field is replaced.
func appendName(buf []byte, policy string, i int, b throttle.Budget) []byte {
	buf = append(buf, policy...)
	switch {
	case b.Quota.Name != "":
		buf = append(buf, '/')
		for _, c := range []byte(b.Quota.Name) {
			if !mayStand(c) {
				c = '_'
			}
			buf = append(buf, c)
		}
	case i > 0:
		buf = append(buf, '/')
		buf = strconv.AppendInt(buf, int64(i), 10)
	}
	return buf
}

func appendParam(buf []byte, name string, n int64) []byte {
	buf = append(buf, name...)
	return strconv.AppendInt(buf, min(n, maxFieldInt), 10)
}

// mayStand reports whether c may stand in a String as it is.
func mayStand(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

func isFieldName(name string) bool {
	for _, c := range []byte(name) {
		if !mayStand(c) {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxName
}

// violated names the budgets that do not cover the cost, or the policy where all do: then it is a limit above, a pause or the line.
func violated(policy string, a throttle.Admitter, c throttle.Cost) []string {
	var names []string
	if b, ok := a.(budgeter); ok {
		for i, b := range b.Budgets() {
			cost, named := c.Quotas[b.Quota.Name]
			if !named || b.Quota.Name == "" {
				cost = c.Tokens
			}
			if b.Tokens < cost {
				names = append(names, string(appendName(nil, policy, i, b)))
			}
		}
	}
	if names == nil {
		names = []string{policy}
	}
	return names
}

// wholeSeconds rounds up: a client told 0 for 0.4 s would come back too soon.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	s := int64(d / time.Second)
	if d%time.Second != 0 && s < math.MaxInt64 {
		s++
	}
	return s
}
