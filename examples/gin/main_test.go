package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func status(h http.Handler, method, path, key string) (int, http.Header) {
	r := httptest.NewRequest(method, path, nil)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header()
}

func TestSignInsAndItemsHaveTheirOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := newHandler()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			want := 200
			if i >= 5 {
				want = 429
			}
			code, fields := status(h, "POST", "/login", "")
			if code != want || (fields.Get("Retry-After") == "10") != (want == 429) {
				t.Errorf("sign-in %d: %d, Retry-After %q; want %d", i, code, fields.Get("Retry-After"), want)
			}
		}
		for i := range 25 {
			want := 200
			if i >= 20 {
				want = 429
			}
			if code, _ := status(h, "GET", "/items/7", "k1"); code != want {
				t.Errorf("item %d: %d; want %d", i, code, want)
			}
		}
		if code, fields := status(h, "GET", "/items/7", "k2"); code != 200 || fields.Get("RateLimit") != `"api";r=19;t=1` {
			t.Errorf("another key: %d, RateLimit %s", code, fields.Get("RateLimit"))
		}
		for range 70 { // more than may be in flight: a panic gives its permit back
			if code, _ := status(h, "GET", "/fault", "k3"); code != 500 {
				t.Fatalf("a fault is told %d; want 500", code)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if code, _ := status(h, "POST", "/login", ""); code != 200 {
			t.Errorf("10 s later a sign-in is told %d", code)
		}
	})
}
