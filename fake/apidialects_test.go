package fake_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

// The clock stands at 2030-01-01T12:00:00Z, epoch second 1893499200; the limit is one request each minute and a half second.
func TestEachDialectWritesItsHeadersAndRefusals(t *testing.T) {
	window := fake.APILimit{Name: "requests", Kind: fake.FixedWindow, N: 1, Period: time.Minute + 500*time.Millisecond}
	for _, c := range []struct {
		name    string
		dialect fake.Dialect
		status  int
		headers string // of the refusal; "-" before a name: absent
		body    string // part of the refusal's
	}{
		{"Generic", fake.Generic, 429, `RateLimit-Policy: "requests";q=1;w=61|RateLimit: "requests";r=0;t=61|Retry-After: 61|Content-Type: application/problem+json`, `"violated-policies":["requests"]`},
		{"Plain", fake.Plain, 429, "Retry-After: 61|-RateLimit", "too many"},
		{"Unavailable", fake.Unavailable, 503, "Retry-After: 61", "unavailable"},
		{"GitHub", fake.GitHub, 403, "X-RateLimit-Limit: 1|X-RateLimit-Remaining: 0|X-RateLimit-Used: 1|X-RateLimit-Reset: 1893499261|X-RateLimit-Resource: requests|-Retry-After", "API rate limit exceeded"},
		{"GitLab", fake.GitLab, 429, "RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Observed: 1|RateLimit-Reset: 1893499261|RateLimit-ResetTime: Tue, 01 Jan 2030 12:01:01 GMT|Retry-After: 61", "Retry later"},
		{"Discord", fake.Discord, 429, "X-RateLimit-Limit: 1|X-RateLimit-Remaining: 0|X-RateLimit-Reset: 1893499260.500|X-RateLimit-Reset-After: 60.500|X-RateLimit-Bucket: requests|X-RateLimit-Scope: user|-X-RateLimit-Global|Retry-After: 61", `"retry_after":60.5`},
		{"OpenAI", fake.OpenAI, 429, "x-ratelimit-limit-requests: 1|x-ratelimit-remaining-requests: 0|x-ratelimit-reset-requests: 1m0.5s|Retry-After: 61|Retry-After-Ms: 60500", "rate_limit_exceeded"},
		{"Anthropic", fake.Anthropic, 429, "anthropic-ratelimit-requests-limit: 1|anthropic-ratelimit-requests-remaining: 0|anthropic-ratelimit-requests-reset: 2030-01-01T12:01:01Z|retry-after: 61", "rate_limit_error"},
		{"Slack", fake.Slack, 429, "Retry-After: 61", "ratelimited"},
		{"Stripe", fake.Stripe, 429, "Stripe-Rate-Limited-Reason: global-rate|Stripe-Should-Retry: true|-Retry-After", "rate_limit"},
		{"Shopify", fake.Shopify, 429, "X-Shopify-Shop-Api-Call-Limit: 1/1|Retry-After: 61.0", "Exceeded"},
		{"ShopifyGraphQL", fake.ShopifyGraphQL, 200, "-Retry-After", `"code":"THROTTLED"`},
		{"Okta", fake.Okta, 429, "X-Rate-Limit-Limit: 1|X-Rate-Limit-Remaining: 0|X-Rate-Limit-Reset: 1893499261|-Retry-After", "E0000047"},
		{"Confluence", fake.Confluence, 429, "X-RateLimit-Limit: 1|X-RateLimit-Remaining: 0|X-RateLimit-Interval-Seconds: 61|X-RateLimit-FillRate: 1|Retry-After: 61", "Rate limited"},
		{"Cloudflare", fake.Cloudflare, 429, `RateLimit-Policy: "requests";q=1;w=61|RateLimit: "requests";r=0;t=61|Retry-After: 61`, "971"},
		{"Zendesk", fake.Zendesk, 429, "X-Rate-Limit: 1|X-Rate-Limit-Remaining: 0|ratelimit-reset: 61|Retry-After: 61", "APIRateLimitExceeded"},
		{"Reddit", fake.Reddit, 429, "X-Ratelimit-Used: 1|X-Ratelimit-Remaining: 0.0|X-Ratelimit-Reset: 61|-Retry-After", "Too Many"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := fake.NewClock(fake.Epoch)
			rt := newAPI(t, fake.APIConfig{Clock: clock, Dialect: c.dialect, Limits: []fake.APILimit{window}}).Transport()
			if r, body := get(t, rt, "http://api/", "k"); r.StatusCode != 200 || strings.Contains(body, "THROTTLED") {
				t.Errorf("the first: %d %s", r.StatusCode, body)
			} else if r.Header.Get("Retry-After") != "" {
				t.Errorf("the first has Retry-After")
			}
			r, body := get(t, rt, "http://api/", "k")
			if r.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("the refusal: %d %s; want %d with %s", r.StatusCode, body, c.status, c.body)
			}
			for _, want := range strings.Split(c.headers, "|") {
				if name, absent := strings.CutPrefix(want, "-"); absent {
					if v := r.Header.Get(name); v != "" {
						t.Errorf("%s: %q, want none", name, v)
					}
				} else if name, value, _ := strings.Cut(want, ": "); r.Header.Get(name) != value {
					t.Errorf("%s: %q, want %q", name, r.Header.Get(name), value)
				}
			}
		})
	}
}

// refusal asks twice of an API with that limit, and returns the second answer.
func refusal(t *testing.T, dialect fake.Dialect, l fake.APILimit) (*http.Response, string) {
	t.Helper()
	l.Name, l.N = "hidden", 1
	api := newAPI(t, fake.APIConfig{Clock: fake.NewClock(fake.Epoch), Dialect: dialect, Limits: []fake.APILimit{
		{Name: "core", Kind: fake.FixedWindow, N: 10, Period: time.Hour}, l}})
	get(t, api.Transport(), "http://api/", "k")
	return get(t, api.Transport(), "http://api/", "k")
}

func TestAHiddenLimitIsToldByNoHeader(t *testing.T) {
	secondary := fake.APILimit{Kind: fake.SlidingWindow, Period: time.Minute, Hidden: true}
	r, body := refusal(t, fake.GitHub, secondary)
	if r.StatusCode != 403 || !strings.Contains(body, "secondary") || r.Header.Get("X-RateLimit-Remaining") != "9" || r.Header.Get("Retry-After") != "60" {
		t.Errorf("GitHub: %d %v %s", r.StatusCode, r.Header, body)
	}
	secondary.Status, secondary.NoRetryAfter = 429, true
	if r, _ := refusal(t, fake.GitHub, secondary); r.StatusCode != 429 || r.Header.Get("Retry-After") != "" {
		t.Errorf("GitHub, with 429 and no header: %d %v", r.StatusCode, r.Header)
	}
	if r, body := refusal(t, fake.Generic, secondary); strings.Contains(r.Header.Get("RateLimit")+body, "hidden") {
		t.Errorf("generic: %v %s", r.Header, body)
	}
	if r, body := refusal(t, fake.Discord, secondary); r.Header.Get("X-RateLimit-Global") != "true" || !strings.Contains(body, `"global":true`) {
		t.Errorf("Discord: %v %s", r.Header, body)
	}
}

// whileOneIsServed holds one request in flight and returns the answer to a second.
func whileOneIsServed(t *testing.T, dialect fake.Dialect) *http.Response {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	api := newAPI(t, fake.APIConfig{Dialect: dialect,
		Limits: []fake.APILimit{{Name: "flight", Kind: fake.Concurrency, N: 1}},
		Answer: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-leave })})
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(t, api.Transport(), "http://api/", "k")
	}()
	<-entered
	r, _ := get(t, api.Transport(), "http://api/", "k")
	close(leave)
	<-done
	return r
}

func TestConcurrencyIsToldAsSuch(t *testing.T) {
	r := whileOneIsServed(t, fake.Generic)
	if got := r.Header.Get("RateLimit-Policy") + " " + r.Header.Get("RateLimit"); r.StatusCode != 429 || got != `"flight";q=1;qu="concurrent-requests" "flight";r=0` {
		t.Errorf("generic: %d %s", r.StatusCode, got)
	}
	if r := whileOneIsServed(t, fake.Stripe); r.Header.Get("Stripe-Rate-Limited-Reason") != "global-concurrency" {
		t.Errorf("Stripe: %v", r.Header)
	}
	if r := whileOneIsServed(t, fake.GitHub); r.StatusCode != 403 || r.Header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("GitHub: %d %v", r.StatusCode, r.Header)
	}
}
