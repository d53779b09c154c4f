package throttlehttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

// A discard is a ResponseWriter that a benchmark uses again and again.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkGuard calls a handler bare, and under a Guard that lets all through.
func BenchmarkGuard(b *testing.B) {
	plenty := throttle.Config{Rate: throttle.PerSecond(1_000_000_000), Burst: 1_000_000_000}
	capped := plenty
	capped.MaxInFlight = 1000
	refuses := newLimiter(b, rate(1, time.Hour, 1))
	refuses.TryAcquire()
	for _, c := range []struct {
		name string
		h    http.Handler
	}{
		{"bare", ok},
		{"capOnly", guardOf(b, throttlehttp.Rule{Limiters: throttlehttp.Shared(newLimiter(b, throttle.Config{MaxInFlight: 1000}))}).Wrap(ok)},
		{"rateAndCap", guardOf(b, throttlehttp.Rule{Limiters: throttlehttp.Shared(newLimiter(b, capped))}).Wrap(ok)},
		{"rateByAddress", guardOf(b, throttlehttp.Rule{Limiters: newKeyed(b, plenty), Key: throttlehttp.RemoteIP}).Wrap(ok)},
		{"refused", guardOf(b, throttlehttp.Rule{Limiters: throttlehttp.Shared(refuses)}).Wrap(ok)},
	} {
		b.Run(c.name, func(b *testing.B) {
			w, r := &discard{http.Header{}}, request("192.0.2.1:4711")
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				c.h.ServeHTTP(w, r)
			}
		})
	}
}
