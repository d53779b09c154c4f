package throttlehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

type problem struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
}

func problemOf(t testing.TB, res *http.Response) problem {
	t.Helper()
	var p problem
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type is %q", got)
	}
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// An outOfReach is a shared limiter whose server does not answer.
type outOfReach struct{ err error }

func (o outOfReach) Admit(context.Context, throttle.Cost) (context.Context, throttle.Held, error) {
	return nil, nil, o.err
}
func (o outOfReach) TryAdmit(context.Context, throttle.Cost) (context.Context, throttle.Held, error) {
	return nil, nil, o.err
}

var errDown = errors.New("dial tcp 10.1.2.3:6379: connection refused")

// Every reason to be refused, with what the client is told.
func TestSRV08_EachRefusalIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := newLimiter(t, rate(1, 1500*time.Millisecond, 1))
		spent.TryAcquire()
		busy := newLimiter(t, throttle.Config{MaxInFlight: 1})
		p, _ := busy.TryAcquire()
		defer p.Release()
		closed := newLimiter(t, throttle.Config{MaxInFlight: 1})
		closed.Close()
		paused := newLimiter(t, rate(10, time.Second, 10))
		paused.PauseFor(5 * time.Second)
		full, err := throttle.NewKeyedFrom(throttle.KeyedConfig[string]{Config: rate(1, time.Hour, 1), MaxKeys: 1})
		if err != nil {
			t.Fatal(err)
		}
		full.TryAcquire("another")
		for _, c := range []struct {
			name     string
			limiters throttlehttp.Limiters
			cost     throttle.Cost
			status   int
			retry    int
			kind     string
			violated string
		}{
			{"rate", throttlehttp.Shared(spent), throttle.One, 429, 2, throttlehttp.ProblemQuotaExceeded, "api"},
			{"pause", throttlehttp.Shared(paused), throttle.One, 429, 5, throttlehttp.ProblemQuotaExceeded, "api"},
			{"in flight", throttlehttp.Shared(busy), throttle.One, 503, 3, throttlehttp.ProblemReducedCapacity, ""},
			{"closed", throttlehttp.Shared(closed), throttle.One, 503, 3, throttlehttp.ProblemReducedCapacity, ""},
			{"too many keys", full, throttle.One, 503, 3, throttlehttp.ProblemReducedCapacity, ""},
			{"out of reach", throttlehttp.Shared(outOfReach{errDown}), throttle.One, 503, 3, throttlehttp.ProblemReducedCapacity, ""},
			{"too large", throttlehttp.Shared(spent), throttle.Cost{Tokens: 2, Weight: 1}, 413, -1, "about:blank", ""},
			{"no cost", throttlehttp.Shared(spent), throttle.Cost{Tokens: -1}, 500, -1, "about:blank", ""},
		} {
			h := newGuard(t, throttlehttp.GuardConfig{
				BusyRetry: 2500 * time.Millisecond,
				Rules:     []throttlehttp.Rule{{Name: "api", Limiters: c.limiters, Cost: func(*http.Request) throttle.Cost { return c.cost }}},
			}).Wrap(ok)
			res := serve(h, request("192.0.2.1:1", "Accept", "application/problem+json"))
			p := problemOf(t, res)
			if res.StatusCode != c.status || p.Status != c.status || retryAfter(t, res) != c.retry || p.Type != c.kind || strings.Join(p.Violated, " ") != c.violated {
				t.Errorf("%s: %d, Retry-After %d, problem %+v; want %d, %d, %s, violated %q", c.name, res.StatusCode, retryAfter(t, res), p, c.status, c.retry, c.kind, c.violated)
			}
			if strings.Contains(p.Detail, "10.1.2.3") {
				t.Errorf("%s: the client is told %q", c.name, p.Detail)
			}
			res = serve(h, request("192.0.2.1:1"))
			if body, _ := io.ReadAll(res.Body); res.StatusCode != c.status || len(body) == 0 || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: without Accept it is %d, %q, %q", c.name, res.StatusCode, res.Header.Get("Content-Type"), body)
			}
		}
	})
}

func TestAProblemIsWrittenToThoseWhoAskForIt(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                      false,
		"*/*":                                   false,
		"text/html, */*;q=0.8":                  false,
		"application/problem+json":              true,
		"text/html, Application/Problem+JSON":   true,
		"application/json":                      true,
		"application/problem+json;q=0":          false,
		"application/problem+json;q=0.000":      false,
		"application/problem+json;q=0.5":        true,
		"application/problem+json;q=high":       false,
		`garbage;;;="`:                          false,
		"application/xml":                       false,
		"application/problem+json-not;x=1, a/b": false,
	} {
		w := httptest.NewRecorder()
		throttlehttp.Refusal{Status: 429, RetryAfter: time.Second}.Write(w, request("192.0.2.1:1", "Accept", accept))
		if got := w.Header().Get("Content-Type") == "application/problem+json"; got != want || w.Code != 429 {
			t.Errorf("Accept %q: problem %v, status %d; want %v, 429", accept, got, w.Code, want)
		}
	}
}

// An unreachable limiter refuses unless the server's owner says otherwise.
func TestOnErrorMayLetThrough(t *testing.T) {
	for _, open := range []bool{false, true} {
		var told error
		h := newGuard(t, throttlehttp.GuardConfig{
			Rules:   []throttlehttp.Rule{{Name: "api", Limiters: throttlehttp.Shared(outOfReach{errDown})}},
			OnError: func(_ *http.Request, err error) bool { told = err; return open },
		}).Wrap(ok)
		res := serve(h, request("192.0.2.1:1"))
		if told != errDown || (res.StatusCode == 200) != open || (res.StatusCode == 503) == open {
			t.Errorf("OnError returns %v: told %v, answered %d", open, told, res.StatusCode)
		}
	}
}

func TestOnErrorIsNotAskedAboutAnswers(t *testing.T) {
	l := newLimiter(t, throttle.Config{MaxInFlight: 1})
	l.Close()
	h := newGuard(t, throttlehttp.GuardConfig{
		Rules:   []throttlehttp.Rule{{Name: "api", Limiters: throttlehttp.Shared(l)}},
		OnError: func(*http.Request, error) bool { t.Error("OnError is asked about ErrClosed"); return true },
	}).Wrap(ok)
	if res := serve(h, request("192.0.2.1:1")); res.StatusCode != 503 {
		t.Errorf("answered %d; want 503", res.StatusCode)
	}
}
