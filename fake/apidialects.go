package fake

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// GitLab answers as GitLab: RateLimit-Limit, -Remaining, -Observed, -Reset (epoch seconds), -ResetTime (an HTTP date) and -Name of the
// tightest limit; refusals are 429 with Retry-After.
func GitLab(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		reset := epoch(s.Now, l.Reset)
		set(h, "RateLimit-Limit", l.Size())
		set(h, "RateLimit-Remaining", l.Remaining)
		set(h, "RateLimit-Observed", l.Size()-l.Remaining)
		set(h, "RateLimit-Reset", reset)
		h.Set("RateLimit-ResetTime", time.Unix(reset, 0).UTC().Format(http.TimeFormat))
		h.Set("RateLimit-Name", l.Limit.Name)
	}
	retryAfter(h, s)
	if s.Refused() == nil {
		return 0, nil
	}
	h.Set("Content-Type", "text/plain")
	return s.status(http.StatusTooManyRequests), []byte("Retry later\n")
}

// Discord answers as Discord: X-RateLimit-Limit, -Remaining, -Reset (epoch seconds with a fraction), -Reset-After (seconds with a
// fraction) and -Bucket (the limit's name) of the tightest limit; refusals are 429 with Retry-After, -Scope (Reason, or user), and
// retry_after in the body. A Hidden limit is the global one: its refusals have -Global and global: true.
func Discord(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		at := s.Now.Add(millis(l.Reset))
		set(h, "X-RateLimit-Limit", l.Size())
		set(h, "X-RateLimit-Remaining", l.Remaining)
		h.Set("X-RateLimit-Reset", fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6))
		h.Set("X-RateLimit-Reset-After", fraction(l.Reset))
		h.Set("X-RateLimit-Bucket", l.Limit.Name)
	}
	retryAfter(h, s)
	r := s.Refused()
	if r == nil {
		return 0, nil
	}
	if r.Limit.Hidden {
		h.Set("X-RateLimit-Global", "true")
		h.Set("X-RateLimit-Scope", cmp.Or(r.Limit.Reason, "global"))
	} else {
		h.Set("X-RateLimit-Scope", cmp.Or(r.Limit.Reason, "user"))
	}
	return s.refusal(http.StatusTooManyRequests, object{"message": "You are being rate limited.",
		"retry_after": millis(r.RetryAfter).Seconds(), "global": r.Limit.Hidden})
}

// fraction is d in seconds with three decimals, rounded up.
func fraction(d time.Duration) string { return strconv.FormatFloat(millis(d).Seconds(), 'f', 3, 64) }

// Anthropic answers as Anthropic's API: anthropic-ratelimit-<name>-limit, -remaining and -reset (RFC 3339) for each limit told, whose
// Name is "requests", "tokens", "input-tokens" or "output-tokens"; refusals are 429 with Retry-After.
func Anthropic(h http.Header, s APIState) (int, []byte) {
	for _, l := range s.Told() {
		prefix := "Anthropic-Ratelimit-" + l.Limit.Name
		set(h, prefix+"-Limit", l.Size())
		set(h, prefix+"-Remaining", l.Remaining)
		h.Set(prefix+"-Reset", time.Unix(epoch(s.Now, l.Reset), 0).UTC().Format(time.RFC3339))
	}
	retryAfter(h, s)
	return s.refusal(http.StatusTooManyRequests, object{"type": "error",
		"error": object{"type": "rate_limit_error", "message": "This request would exceed your rate limit."}})
}

// Slack answers as Slack: nothing but refusals, 429 with Retry-After.
func Slack(h http.Header, s APIState) (int, []byte) {
	retryAfter(h, s)
	return s.refusal(http.StatusTooManyRequests, object{"ok": false, "error": "ratelimited"})
}

// Stripe answers as Stripe: nothing but refusals, 429 without Retry-After, with Stripe-Should-Retry and Stripe-Rate-Limited-Reason: the
// limit's Reason, or global-concurrency for Concurrency, else global-rate.
func Stripe(h http.Header, s APIState) (int, []byte) {
	r := s.Refused()
	if r == nil {
		return 0, nil
	}
	reason := "global-rate"
	if r.Limit.Kind == Concurrency {
		reason = "global-concurrency"
	}
	h.Set("Stripe-Rate-Limited-Reason", cmp.Or(r.Limit.Reason, reason))
	h.Set("Stripe-Should-Retry", "true")
	return s.refusal(http.StatusTooManyRequests, object{"error": object{"type": "invalid_request_error", "code": "rate_limit",
		"message": "Request rate limit exceeded."}})
}

// Shopify answers as Shopify's REST API: X-Shopify-Shop-Api-Call-Limit, used/size, of the tightest limit; refusals are 429 with
// Retry-After in seconds with one decimal, rounded up to whole ones: 2.0.
func Shopify(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		h.Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", l.Size()-l.Remaining, l.Size()))
	}
	if r := s.Refused(); r != nil && !r.Limit.NoRetryAfter && r.RetryAfter > 0 {
		h.Set("Retry-After", fmt.Sprintf("%d.0", seconds(r.RetryAfter)))
	}
	return s.refusal(http.StatusTooManyRequests, object{"errors": "Exceeded the API call limit. Reduce request rates to resume uninterrupted service."})
}

// ShopifyGraphQL answers as Shopify's GraphQL API: always 200, refusals with an error of code THROTTLED and no header; the body tells
// the cost and, of the tightest limit, maximumAvailable, currentlyAvailable and restoreRate in points a second.
func ShopifyGraphQL(_ http.Header, s APIState) (int, []byte) {
	extensions := object{}
	if l := s.Tightest(); l != nil {
		cost := object{"requestedQueryCost": l.Cost, "actualQueryCost": l.Cost, "throttleStatus": object{
			"maximumAvailable": l.Size(), "currentlyAvailable": l.Remaining, "restoreRate": float64(l.Limit.N) / l.Limit.Period.Seconds()}}
		if s.Refused() != nil {
			cost["actualQueryCost"] = nil
		}
		extensions["cost"] = cost
	}
	if s.Refused() == nil {
		return 0, toJSON(object{"data": object{}, "extensions": extensions})
	}
	return s.refusal(http.StatusOK, object{"extensions": extensions,
		"errors": []object{{"message": "Throttled", "extensions": object{"code": "THROTTLED"}}}})
}

// Okta answers as Okta: X-Rate-Limit-Limit, -Remaining and -Reset (epoch seconds) of the tightest limit; refusals are 429 without
// Retry-After.
func Okta(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		set(h, "X-Rate-Limit-Limit", l.Size())
		set(h, "X-Rate-Limit-Remaining", l.Remaining)
		set(h, "X-Rate-Limit-Reset", epoch(s.Now, l.Reset))
	}
	return s.refusal(http.StatusTooManyRequests, object{"errorCode": "E0000047",
		"errorSummary": "API call exceeded rate limit due to too many requests."})
}

// Confluence answers as Confluence Data Center: X-RateLimit-Limit, -Remaining, -Interval-Seconds (Period, rounded up) and -FillRate (N)
// of the tightest limit; refusals are 429 with Retry-After.
func Confluence(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		set(h, "X-RateLimit-Limit", l.Size())
		set(h, "X-RateLimit-Remaining", l.Remaining)
		set(h, "X-RateLimit-Interval-Seconds", seconds(l.Limit.Period))
		set(h, "X-RateLimit-FillRate", l.Limit.N)
	}
	retryAfter(h, s)
	return s.refusal(http.StatusTooManyRequests, object{"message": "Rate limited."})
}

// Cloudflare answers as Cloudflare's API: RateLimit and RateLimit-Policy as Generic has them; refusals are 429 with Retry-After.
func Cloudflare(h http.Header, s APIState) (int, []byte) {
	draft(h, s)
	retryAfter(h, s)
	return s.refusal(http.StatusTooManyRequests, object{"success": false, "result": nil,
		"errors": []object{{"code": 971, "message": "Please wait and consider throttling your request speed"}}})
}

// Zendesk answers as Zendesk: X-Rate-Limit, X-Rate-Limit-Remaining and ratelimit-reset (seconds from now) of the tightest limit; refusals
// are 429 with Retry-After.
func Zendesk(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		set(h, "X-Rate-Limit", l.Size())
		set(h, "X-Rate-Limit-Remaining", l.Remaining)
		set(h, "Ratelimit-Reset", seconds(l.Reset))
	}
	retryAfter(h, s)
	return s.refusal(http.StatusTooManyRequests, object{"error": "APIRateLimitExceeded", "description": "Number of allowed API requests exceeded"})
}

// Reddit answers as Reddit: X-Ratelimit-Used, -Remaining (with one decimal) and -Reset (seconds from now) of the tightest limit; refusals are 429
// without Retry-After.
func Reddit(h http.Header, s APIState) (int, []byte) {
	if l := s.Tightest(); l != nil {
		set(h, "X-Ratelimit-Used", l.Size()-l.Remaining)
		h.Set("X-Ratelimit-Remaining", fmt.Sprintf("%d.0", l.Remaining))
		set(h, "X-Ratelimit-Reset", seconds(l.Reset))
	}
	return s.refusal(http.StatusTooManyRequests, object{"message": "Too Many Requests", "error": 429})
}
