package throttlehttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

func loginRules(t testing.TB) throttlehttp.GuardConfig {
	return throttlehttp.GuardConfig{Rules: []throttlehttp.Rule{
		{Name: "sign_in", Patterns: []string{"POST /login", "/login/{step}"}, Limiters: newKeyed(t, rate(1, 10*time.Second, 5)), Key: throttlehttp.RemoteIP},
		{Name: "rest", Limiters: newKeyed(t, rate(100, time.Second, 20)), Key: throttlehttp.RemoteIP},
	}}
}

// Rules are chosen by pattern, whether the Guard stands before the mux or before its handlers.
func TestRulesByPattern(t *testing.T) {
	for _, before := range []bool{true, false} {
		g := newGuard(t, loginRules(t))
		mux := http.NewServeMux()
		var h http.Handler = mux
		inner := func(h http.Handler) http.Handler { return h }
		if before {
			h = g.Wrap(mux)
		} else {
			inner = g.Wrap
		}
		for _, pattern := range []string{"POST /login", "/login/{step}", "/"} {
			mux.Handle(pattern, inner(ok))
		}
		if n := passed(h, 10, func(i int) *http.Request {
			return httptest.NewRequest("POST", []string{"/login", "/login/2"}[i%2], nil)
		}); n != 5 {
			t.Errorf("before the mux %v: %d of 10 sign-ins pass; want 5", before, n)
		}
		if n := passed(h, 30, func(int) *http.Request { return httptest.NewRequest("GET", "/login", nil) }); n != 20 {
			t.Errorf("before the mux %v: %d of 30 others pass; want 20", before, n)
		}
	}
}

// What has no route is for rules without patterns; but where routes cannot be told at all, nothing passes by mistake.
func TestAGuardThatCannotTellRoutesSaysSo(t *testing.T) {
	c := loginRules(t)
	c.Rules = c.Rules[:1]
	var told error
	c.Answer = func(w http.ResponseWriter, r *http.Request, f throttlehttp.Refusal) { told = f.Err; f.Write(w, r) }
	res := serve(newGuard(t, c).Wrap(ok), request("192.0.2.1:1"))
	if res.StatusCode != 500 || told == nil || !strings.Contains(told.Error(), "GuardConfig.Route") {
		t.Errorf("told %d, %v; want 500 and what to set", res.StatusCode, told)
	}
	c.Route = func(r *http.Request) string { return r.Method + " " + r.URL.Path }
	if n := passed(newGuard(t, c).Wrap(ok), 10, func(int) *http.Request { return httptest.NewRequest("POST", "/login", nil) }); n != 5 {
		t.Errorf("with Route, %d of 10 pass; want 5", n)
	}
	c.Route = nil
	mux := http.NewServeMux()
	mux.Handle("POST /login", ok)
	if res := serve(newGuard(t, c).Wrap(mux), httptest.NewRequest("GET", "/nowhere", nil)); res.StatusCode != 404 {
		t.Errorf("what the mux does not know is told %d; want 404", res.StatusCode)
	}
}

// Guards may stand one in the other: each tells its own budget.
func TestFieldsOfSeveralGuardsAreOneList(t *testing.T) {
	outer := guardOf(t, throttlehttp.Rule{Name: "all", Limiters: throttlehttp.Shared(newLimiter(t, rate(1, time.Hour, 9)))})
	inner := guardOf(t, throttlehttp.Rule{Name: "mine", Limiters: throttlehttp.Shared(newLimiter(t, rate(1, time.Hour, 3)))})
	res := serve(outer.Wrap(inner.Wrap(ok)), request("192.0.2.1:1"))
	limits, err := throttlehttp.ParseLimits(res.Header.Values("RateLimit"))
	if err != nil || len(limits) != 2 || limits[0].Remaining != 8 || limits[1].Remaining != 2 {
		t.Errorf("RateLimit is %q, %v", res.Header.Values("RateLimit"), err)
	}
}

func TestGuardConfigIsChecked(t *testing.T) {
	some := throttlehttp.Shared(newLimiter(t, throttle.Config{MaxInFlight: 1}))
	one := func(r throttlehttp.Rule) throttlehttp.GuardConfig {
		return throttlehttp.GuardConfig{Rules: []throttlehttp.Rule{r}}
	}
	for want, c := range map[string]throttlehttp.GuardConfig{
		"Rules is empty":                  {},
		"BusyRetry is -1s":                {BusyRetry: -time.Second, Rules: []throttlehttp.Rule{{Name: "a", Limiters: some}}},
		`Rules[0]: Name is ""`:            one(throttlehttp.Rule{Limiters: some}),
		`Rules[0]: Name is "é"`:           one(throttlehttp.Rule{Name: "é", Limiters: some}),
		`Name is "a\"b"`:                  one(throttlehttp.Rule{Name: `a"b`, Limiters: some}),
		"want 1 to 64 characters":         one(throttlehttp.Rule{Name: strings.Repeat("a", 65), Limiters: some}),
		"Limiters is not set":             one(throttlehttp.Rule{Name: "a"}),
		"Limiters is Shared(nil)":         one(throttlehttp.Rule{Name: "a", Limiters: throttlehttp.Shared(nil)}),
		"MaxWait is -1ns":                 one(throttlehttp.Rule{Name: "a", Limiters: some, MaxWait: -1}),
		"MaxWaiting is -1":                one(throttlehttp.Rule{Name: "a", Limiters: some, MaxWaiting: -1}),
		"MaxWait is 1s and MaxWaiting is": one(throttlehttp.Rule{Name: "a", Limiters: some, MaxWait: time.Second}),
		"MaxWait is 0s and MaxWaiting is": one(throttlehttp.Rule{Name: "a", Limiters: some, MaxWaiting: 1}),
		`Patterns has ""`:                 one(throttlehttp.Rule{Name: "a", Limiters: some, Patterns: []string{""}}),
		`Rules[1]: Name is "a", as that`:  {Rules: []throttlehttp.Rule{{Name: "a", Limiters: some}, {Name: "a", Limiters: some}}},
	} {
		g, err := throttlehttp.NewGuard(c)
		if g != nil || !errors.Is(err, throttlehttp.ErrInvalid) || !strings.HasPrefix(err.Error(), "throttlehttp: GuardConfig: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("NewGuard: %v; want %q in it", err, want)
		}
	}
}
