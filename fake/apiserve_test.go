package fake_test

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

func TestCloseWaitsForTheLastHandler(t *testing.T) {
	var entered, left atomic.Bool
	server, err := newAPI(t, fake.APIConfig{Answer: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered.Store(true)
		<-r.Context().Done()
		for range 1000 {
			runtime.Gosched()
		}
		left.Store(true)
	})}).Start()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
		if response, err := transport.RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}()
	if err := fake.Until(t.Context(), entered.Load); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if !left.Load() {
		t.Error("Close returned while a handler was running")
	}
	<-done
}

func TestTransportHandsOverWhatWasSent(t *testing.T) {
	api := newAPI(t, fake.APIConfig{Answer: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Before", r.Host+r.RequestURI)
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("After", "too late")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("body"))
	})})
	r, body := get(t, api.Transport(), "http://api.example/a?b=c", "k")
	if r.StatusCode != 202 || r.Status != "202 Accepted" || body != "body" || r.Header.Get("Before") != "api.example/a?b=c" || r.Header.Get("After") != "" {
		t.Errorf("%s %v %q", r.Status, r.Header, body)
	}
	response, err := (&http.Client{Transport: api.Transport()}).Head("http://api.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := response.Body.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("an answer to HEAD has a body")
	}
}

func TestAClockThatGoesBackGivesNothing(t *testing.T) {
	for _, kind := range []fake.LimitKind{fake.FixedWindow, fake.SlidingWindow, fake.TokenBucket} {
		clock := fake.NewClock(fake.Epoch)
		rt := newAPI(t, fake.APIConfig{Clock: clock, Dialect: fake.Plain,
			Limits: []fake.APILimit{{Name: "l", Kind: kind, N: 1, Period: time.Minute}}}).Transport()
		get(t, rt, "http://api/", "k")
		clock.Step(-time.Hour)
		if r, _ := get(t, rt, "http://api/", "k"); r.StatusCode != 429 || r.Header.Get("Retry-After") != "60" {
			t.Errorf("%v: %d, Retry-After %q", kind, r.StatusCode, r.Header.Get("Retry-After"))
		}
	}
}

func TestTheLongestWaitIsToldAndTheTightestLimitShown(t *testing.T) {
	clock := fake.NewClock(fake.Epoch)
	api := newAPI(t, fake.APIConfig{Clock: clock, Dialect: fake.GitLab, Limits: []fake.APILimit{
		{Name: "wide", Kind: fake.FixedWindow, N: 100, Period: time.Hour},
		{Name: "day", Kind: fake.FixedWindow, N: 2, Period: 24 * time.Hour},
		{Name: "minute", Kind: fake.FixedWindow, N: 2, Period: time.Minute},
	}})
	if r, _ := get(t, api.Transport(), "http://api/", "k"); r.Header.Get("RateLimit-Name") != "day" {
		t.Errorf("shown: %v", r.Header)
	}
	get(t, api.Transport(), "http://api/", "k")
	if r, _ := get(t, api.Transport(), "http://api/", "k"); r.Header.Get("Retry-After") != "86400" || r.Header.Get("RateLimit-Name") != "day" {
		t.Errorf("told: %v", r.Header)
	}
	if r := api.Report(); r.RefusedBy["day"] != 1 || r.Limits[2].Refused != 1 {
		t.Errorf("%v", r)
	}
}

func TestGenericTellsABucketAsItsBurst(t *testing.T) {
	rt := newAPI(t, fake.APIConfig{Clock: fake.NewClock(fake.Epoch), Limits: []fake.APILimit{
		{Name: "b", Kind: fake.TokenBucket, N: 10, Period: time.Minute, Burst: 5}}}).Transport()
	r, _ := get(t, rt, "http://api/", "k")
	if got := r.Header.Get("RateLimit-Policy") + " " + r.Header.Get("RateLimit"); got != `"b";q=5;w=30 "b";r=4;t=6` {
		t.Error(got)
	}
}
