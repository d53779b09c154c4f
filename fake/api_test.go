package fake_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

func newAPI(t *testing.T, c fake.APIConfig) *fake.API {
	t.Helper()
	api, err := fake.NewAPI(c)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// get sends one request as key and returns the answer, its body read.
func get(t *testing.T, rt http.RoundTripper, url, key string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", key)
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestARefusedClientIsAdmittedWhenToldNotBefore(t *testing.T) {
	for _, l := range []fake.APILimit{
		{Name: "l", Kind: fake.FixedWindow, N: 3, Period: 10 * time.Second},
		{Name: "l", Kind: fake.FixedWindow, N: 3, Period: 10 * time.Second, Aligned: true},
		{Name: "l", Kind: fake.SlidingWindow, N: 3, Period: 10 * time.Second},
		{Name: "l", Kind: fake.TokenBucket, N: 1, Period: 10 * time.Second, Burst: 3},
	} {
		t.Run(l.Kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := newAPI(t, fake.APIConfig{Limits: []fake.APILimit{l}}).Transport()
				for range 3 {
					if r, _ := get(t, rt, "http://api/", "k"); r.StatusCode != 200 {
						t.Fatalf("within the limit: status %d", r.StatusCode)
					}
				}
				r, _ := get(t, rt, "http://api/", "k")
				if r.StatusCode != 429 || r.Header.Get("Retry-After") != "10" {
					t.Fatalf("beyond it: status %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
				}
				time.Sleep(10*time.Second - 1)
				if r, _ := get(t, rt, "http://api/", "k"); r.StatusCode != 429 {
					t.Errorf("1ns early: status %d", r.StatusCode)
				}
				time.Sleep(1)
				if r, _ := get(t, rt, "http://api/", "k"); r.StatusCode != 200 {
					t.Errorf("in time: status %d", r.StatusCode)
				}
			})
		})
	}
}

func TestEachDialectOverTheLoopbackAndInMemoryIsTheSame(t *testing.T) {
	limits := []fake.APILimit{{Name: "requests", Kind: fake.FixedWindow, N: 1, Period: time.Hour}}
	for name, dialect := range map[string]fake.Dialect{"generic": fake.Generic, "github": fake.GitHub, "openai": fake.OpenAI} {
		t.Run(name, func(t *testing.T) {
			clock := fake.NewClock(fake.Epoch)
			server, err := newAPI(t, fake.APIConfig{Limits: limits, Dialect: dialect, Clock: clock}).Start()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			loopback := &http.Transport{}
			defer loopback.CloseIdleConnections()
			memory := newAPI(t, fake.APIConfig{Limits: limits, Dialect: dialect, Clock: clock}).Transport()
			for range 2 {
				a, bodyA := get(t, loopback, server.URL, "k")
				b, bodyB := get(t, memory, "http://api", "k")
				if a.StatusCode != b.StatusCode || bodyA != bodyB {
					t.Errorf("loopback %d %s, in memory %d %s", a.StatusCode, bodyA, b.StatusCode, bodyB)
				}
				a.Header.Del("Date")
				for name := range a.Header {
					if a.Header.Get(name) != b.Header.Get(name) {
						t.Errorf("%s: loopback %q, in memory %q", name, a.Header.Get(name), b.Header.Get(name))
					}
				}
				if len(a.Header) != len(b.Header) {
					t.Errorf("loopback %v, in memory %v", a.Header, b.Header)
				}
			}
		})
	}
}
