package throttlehttp_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

// Told 0.2 s as 0 s, clients come again at once.
func TestSRV01_RetryAfterIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		period time.Duration
		want   int
	}{{200 * time.Millisecond, 1}, {400 * time.Millisecond, 1}, {time.Second, 1}, {1001 * time.Millisecond, 2}, {time.Nanosecond * 1_000_000_001, 2}} {
		synctest.Test(t, func(t *testing.T) {
			h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(newLimiter(t, rate(1, c.period, 1)))}).Wrap(ok)
			serve(h, request("192.0.2.1:1"))
			res := serve(h, request("192.0.2.1:1"))
			if got := retryAfter(t, res); got != c.want || res.StatusCode != http.StatusTooManyRequests {
				t.Errorf("one each %v: the second is told %d, Retry-After %d; want 429, %d", c.period, res.StatusCode, got, c.want)
			}
			time.Sleep(time.Duration(c.want) * time.Second)
			if res := serve(h, request("192.0.2.1:1")); res.StatusCode != http.StatusOK {
				t.Errorf("one each %v: who waits for Retry-After is told %d; want 200", c.period, res.StatusCode)
			}
		})
	}
}

func TestSRV02_WhoWaitsExactlyRetryAfterPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 7
		period := 10 * time.Second
		h := guardOf(t, throttlehttp.Rule{Limiters: newKeyed(t, rate(n, period, n))}).Wrap(ok)
		dice := rand.New(rand.NewPCG(1, 2))
		for round := range 100 {
			var res *http.Response
			for res = serve(h, request("192.0.2.1:1")); res.StatusCode == http.StatusOK; res = serve(h, request("192.0.2.1:1")) {
			}
			wait := retryAfter(t, res)
			if wait < 1 || time.Duration(wait)*time.Second > period {
				t.Fatalf("round %d: Retry-After is %d; want 1 to %v", round, wait, period)
			}
			time.Sleep(time.Duration(wait) * time.Second)
			if res := serve(h, request("192.0.2.1:1")); res.StatusCode != http.StatusOK {
				t.Fatalf("round %d: the retry after %d s is told %d", round, wait, res.StatusCode)
			}
			time.Sleep(time.Duration(dice.Int64N(int64(period))))
		}
	})
}

func TestSRV03_TheWaitToldCountsTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused throttlehttp.Refusal
		g := newGuard(t, throttlehttp.GuardConfig{
			Rules:  []throttlehttp.Rule{{Name: "api", Limiters: throttlehttp.Shared(newLimiter(t, rate(1, time.Second, 5)))}},
			Answer: func(w http.ResponseWriter, r *http.Request, f throttlehttp.Refusal) { refused = f; f.Write(w, r) },
		})
		if n := passed(g.Wrap(ok), 6, func(int) *http.Request { return request("192.0.2.1:1") }); n != 5 || refused.RetryAfter != time.Second {
			t.Errorf("%d of 6 pass, and the wait is %v; want 5, 1s", n, refused.RetryAfter)
		}
	})
}

func TestSRV04_TheResetIsInSecondsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, rate(10, time.Minute, 10))
		h := guardOf(t, throttlehttp.Rule{Limiters: k}).Wrap(ok)
		var res *http.Response
		for want := int64(9); want >= 6; want-- {
			res = serve(h, request("192.0.2.1:1"))
			if l := left(t, res); l.Remaining != want || l.Reset != time.Duration(10-want)*6*time.Second {
				t.Errorf("left is %+v; want %d, all there in %d s", l, want, (10-want)*6)
			}
		}
		if got := res.Header.Get("RateLimit-Policy"); got != `"api";q=10;w=60` {
			t.Errorf("RateLimit-Policy is %s", got)
		}
		time.Sleep(5 * time.Second)
		if l := left(t, serve(h, request("192.0.2.1:1"))); l.Remaining != 5 || l.Reset != 25*time.Second {
			t.Errorf("5 s on, after one more, left is %+v; want 5, in 25 s", l)
		}
	})
}

func TestSRV05_OfSeveralLimitersTheSlowestTellsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Name: "test", Quotas: []throttle.Quota{
			{Name: "hour", Rate: throttle.Per(1, 10200*time.Millisecond), Burst: 1},
			{Name: "day", Rate: throttle.Per(1, 3600500*time.Millisecond), Burst: 1},
		}})
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l)}).Wrap(ok)
		serve(h, request("192.0.2.1:1"))
		res := serve(h, request("192.0.2.1:1", "Accept", "application/problem+json"))
		if got := retryAfter(t, res); got != 3601 {
			t.Errorf("Retry-After is %d; want 3601", got)
		}
		if got, want := res.Header.Get("RateLimit"), `"api/hour";r=0;t=11, "api/day";r=0;t=3601`; got != want {
			t.Errorf("RateLimit is %s; want %s", got, want)
		}
		if got := problemOf(t, res).Violated; fmt.Sprint(got) != "[api/hour api/day]" {
			t.Errorf("violated-policies are %v", got)
		}
		time.Sleep(time.Minute)
		res = serve(h, request("192.0.2.1:1", "Accept", "application/problem+json"))
		if got := problemOf(t, res).Violated; fmt.Sprint(got) != "[api/day]" {
			t.Errorf("a minute on, violated-policies are %v; want the day alone", got)
		}
	})
}

func TestSRV06_NobodyWaitsUnlessToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, throttle.Config{Name: "test", MaxInFlight: 2})
		h := guardOf(t, throttlehttp.Rule{Limiters: k, Key: throttlehttp.RemoteIP}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Second) }))
		begin, answers := time.Now(), make(chan *http.Response, 100)
		for range 100 {
			go func() { answers <- serve(h, request("192.0.2.1:1")) }()
		}
		for range 98 {
			res := <-answers
			if res.StatusCode != http.StatusServiceUnavailable || retryAfter(t, res) != 1 || time.Since(begin) != 0 {
				t.Fatalf("after %v one is told %d, Retry-After %d; want 503 at once, 1", time.Since(begin), res.StatusCode, retryAfter(t, res))
			}
		}
		for range 2 {
			if res := <-answers; res.StatusCode != http.StatusOK || time.Since(begin) != 10*time.Second {
				t.Errorf("a handler's answer is %d after %v", res.StatusCode, time.Since(begin))
			}
		}
	})
}

func TestSRV07_OnlyRefusalsTellRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait time.Duration
		g := newGuard(t, throttlehttp.GuardConfig{
			Rules: []throttlehttp.Rule{{Name: "api", Limiters: throttlehttp.Shared(newLimiter(t, rate(1, 10*time.Second, 1)))}},
			Answer: func(w http.ResponseWriter, r *http.Request, f throttlehttp.Refusal) {
				wait = f.RetryAfter
				f.Write(w, r)
			},
		})
		h := g.Wrap(ok)
		for i := range 100 {
			res := serve(h, request("192.0.2.1:1"))
			if i%50 == 0 {
				if res.StatusCode != http.StatusOK || retryAfter(t, res) != -1 {
					t.Errorf("call %d: %d, Retry-After %d; want 200 without it", i, res.StatusCode, retryAfter(t, res))
				}
			} else if want := 10*time.Second - time.Duration(i%50)*200*time.Millisecond; wait != want || retryAfter(t, res) < 1 {
				t.Errorf("call %d: the wait is %v, Retry-After %d; want %v, 1 or more", i, wait, retryAfter(t, res), want)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// The worked case: capacity 3, one token per 2 s.
func TestRemainingIsTrueAtTheDecisionForEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := guardOf(t, throttlehttp.Rule{Limiters: newKeyed(t, rate(1, 2*time.Second, 3)), Key: throttlehttp.RemoteIP}).Wrap(ok)
		step := func(addr string, status int, remaining int64, retry int) {
			t.Helper()
			res := serve(h, request(addr))
			if l := left(t, res); res.StatusCode != status || l.Remaining != remaining || retryAfter(t, res) != retry {
				t.Errorf("%s: %d, %d left, Retry-After %d; want %d, %d, %d", addr, res.StatusCode, l.Remaining, retryAfter(t, res), status, remaining, retry)
			}
		}
		step("10.0.0.1:1", 200, 2, -1)
		step("10.0.0.1:2", 200, 1, -1)
		step("10.0.0.1:3", 200, 0, -1)
		step("10.0.0.1:4", 429, 0, 2)
		step("10.0.0.2:1", 200, 2, -1)
		time.Sleep(time.Second)
		step("10.0.0.1:5", 429, 0, 1)
		time.Sleep(time.Second)
		step("10.0.0.1:6", 200, 0, -1)
	})
}

// The worked case: capacity 2, 1/s for each key.
func TestEachAddressHasItsOwnBudgetAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, rate(1, time.Second, 2))
		h := guardOf(t, throttlehttp.Rule{Limiters: k, Key: throttlehttp.RemoteIP}).Wrap(ok)
		if n := passed(h, 3, func(int) *http.Request { return request("10.0.0.1:1") }); n != 2 {
			t.Errorf("%d of 3 pass; want 2", n)
		}
		if res := serve(h, request("10.0.0.2:1")); res.StatusCode != 200 || k.Len() != 2 {
			t.Errorf("the other is told %d, and %d keys are there; want 200, 2", res.StatusCode, k.Len())
		}
		time.Sleep(3 * time.Second)
		if k.EvictIdle(); k.Len() != 0 {
			t.Errorf("%d keys are there 3 s later; want none", k.Len())
		}
	})
}

func TestLimitsAreTheGuardsAcrossConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardOf(t, throttlehttp.Rule{Limiters: newKeyed(t, rate(1, time.Minute, 5))})
		mux := http.NewServeMux()
		mux.Handle("/a", g.Wrap(ok))
		mux.Handle("/b", g.Wrap(ok))
		s := newPipeServer(mux)
		defer s.server.Close()
		count := map[int]int{}
		for i := range 40 {
			res, err := s.client().Get("http://server/" + "ab"[i%2:i%2+1])
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			count[res.StatusCode]++
		}
		if count[200] != 5 || count[429] != 35 {
			t.Errorf("40 connections are told %v; want 5 times 200, 35 times 429", count)
		}
	})
}
