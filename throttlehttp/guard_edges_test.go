package throttlehttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

// Those who have waited, and those who were refused, count no longer among those who wait.
func TestPlacesAmongThoseWhoWaitComeFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, rate(1, time.Second, 1))
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), MaxWait: time.Minute, MaxWaiting: 2}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := r.Context().Err(); err != nil {
				t.Errorf("the context of a request that waited has ended: %v", err)
			}
		}))
		serve(h, request("192.0.2.1:1"))
		for round := range 3 {
			answers := make(chan int, 4)
			for range 4 {
				go func() { answers <- serve(h, request("192.0.2.1:1")).StatusCode }()
			}
			count := map[int]int{}
			for range 4 {
				count[<-answers]++
			}
			if count[200] != 2 || count[429] != 2 {
				t.Errorf("round %d: of 4, where 2 may wait, %v; want 2 and 2", round, count)
			}
		}
	})
}

// The permit of an Admitter that gives a context comes back after a wait too, and the context ends with it.
func TestAPermitWithAContextComesBackAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		p, _ := l.TryAcquire()
		var ctx context.Context
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(&leased{Admitter: l}), MaxWait: time.Minute, MaxWaiting: 1}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() }))
		time.AfterFunc(time.Second, p.Release)
		if res := serve(h, request("192.0.2.1:1")); res.StatusCode != 200 || l.Stats().InFlight != 0 || ctx.Err() == nil {
			t.Errorf("told %d, %d in flight, the context's error is %v; want 200, none, one", res.StatusCode, l.Stats().InFlight, ctx.Err())
		}
	})
}

// A late is an Admitter that lets a caller through after its context has ended, as a race may have it.
type late struct{ leased }

func (l *late) Admit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	<-ctx.Done()
	_, h, err := l.Admitter.Admit(context.WithoutCancel(ctx), c)
	return l.with(ctx, h, err)
}

func TestAPermitThatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		p, _ := l.TryAcquire()
		time.AfterFunc(500*time.Millisecond, p.Release)
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(&late{leased{Admitter: l}}), MaxWait: time.Second, MaxWaiting: 1}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := r.Context().Err(); err != nil {
				t.Errorf("the handler's context has ended: %v", err)
			}
		}))
		if res := serve(h, request("192.0.2.1:1")); res.StatusCode != 200 || l.Stats().InFlight != 0 {
			t.Errorf("told %d, %d in flight; want 200, by the try that follows, and none", res.StatusCode, l.Stats().InFlight)
		}
	})
}

// Answers of a limiter, and the end of a request, are never OnError's to overrule.
func TestOnErrorOverrulesNoAnswer(t *testing.T) {
	full, err := throttle.NewKeyedFrom(throttle.KeyedConfig[string]{Config: rate(1, time.Hour, 1), MaxKeys: 1})
	if err != nil {
		t.Fatal(err)
	}
	full.TryAcquire("another")
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		limiters throttlehttp.Limiters
		ctx      context.Context
	}{
		"too many keys": {full, t.Context()},
		"left":          {throttlehttp.Shared(newLimiter(t, rate(1, time.Hour, 1))), ended},
		"left, in an error that is not throttle's": {throttlehttp.Shared(outOfReach{context.Canceled}), ended},
		"left, as the limiter says":                {throttlehttp.Shared(outOfReach{throttle.NewLeftError(ended, "x", 0)}), t.Context()},
	} {
		h := newGuard(t, throttlehttp.GuardConfig{
			Rules:   []throttlehttp.Rule{{Name: "api", Limiters: c.limiters}},
			OnError: func(*http.Request, error) bool { t.Errorf("%s: OnError is asked", name); return true },
		}).Wrap(ok)
		if res := serve(h, request("192.0.2.1:1").WithContext(c.ctx)); res.StatusCode != 503 || retryAfter(t, res) != 1 {
			t.Errorf("%s: told %d, Retry-After %d; want 503, 1", name, res.StatusCode, retryAfter(t, res))
		}
	}
}

func TestFieldsOfUnusualQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		debt := rate(1, time.Second, 2)
		debt.Debt = true
		for _, c := range []struct {
			config        throttle.Config
			tokens        int64
			policy, limit string
		}{
			{rate(10, 100*time.Millisecond, 10), 1, `"api";q=10;w=1`, `"api";r=9;t=1`},
			{debt, 5, `"api";q=2;w=2`, `"api";r=0;t=5`},
			{throttle.Config{Quotas: []throttle.Quota{{Name: `a"b\é`, Rate: throttle.PerSecond(1), Burst: 2}, throttle.AtMost(3, time.Minute)}}, 1, `"api/a_b__";q=2;w=2, "api/1";q=3;w=60`, `"api/a_b__";r=1;t=1, "api/1";r=2;t=60`},
			{rate(1_000_000_000, time.Second, throttle.MaxBurst), 1, `"api";q=999999999999999;w=4611686019`, `"api";r=999999999999999;t=1`},
		} {
			h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(newLimiter(t, c.config)), Cost: func(*http.Request) throttle.Cost { return throttle.Cost{Tokens: c.tokens, Weight: 1} }}).Wrap(ok)
			res := serve(h, request("192.0.2.1:1"))
			if p, l := res.Header.Get("RateLimit-Policy"), res.Header.Get("RateLimit"); p != c.policy || l != c.limit {
				t.Errorf("the fields are\n%s\n%s\nwant\n%s\n%s", p, l, c.policy, c.limit)
			}
		}
	})
}

func TestAProblemHasNoFieldsOfAnotherBody(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", "7")
	throttlehttp.Refusal{Status: 429}.Write(w, request("192.0.2.1:1", "Accept", "application/json"))
	if got := w.Header(); got.Get("Content-Encoding") != "" || got.Get("Content-Length") != "" {
		t.Errorf("the header is %v", got)
	}
}

func TestClientIPKeepsItsOwnConfig(t *testing.T) {
	trusted := prefixes("10.0.0.0/8")
	key := newClientIP(t, throttlehttp.ClientIP{TrustedProxies: trusted})
	trusted[0] = netip.MustParsePrefix("192.0.2.0/24")
	if got := key(request("192.0.2.1:1", "X-Forwarded-For", "9.9.9.9")); got != "192.0.2.1" {
		t.Errorf("the client is %s; want 192.0.2.1", got)
	}
	malformed := newClientIP(t, throttlehttp.ClientIP{TrustedHops: 1, Header: "Forwarded"})
	if got := malformed(request("10.0.0.1:1", "Forwarded", `for="9.9.9.9"x;for="192.0.2.1"`)); got != "10.0.0.1" {
		t.Errorf("of a malformed line the client is %s; want the connection's", got)
	}
}
