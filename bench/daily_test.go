package main

import (
	"context"
	"testing"

	"github.com/turnstile-go/turnstile/throttle"
)

// BenchmarkDaily measures what holders and a dry run cost beside the plain limiter, in one run: acquire and release of a rate and a cap, for one
// that need not wait, and, in a dry run, for one whose shadow must, and for one that would be refused.
func BenchmarkDaily(b *testing.B) {
	plain := throttle.Config{Rate: throttle.PerSecond(1e9), Burst: 1 << 40, MaxInFlight: 64, MaxQueue: 16}
	holders, dry := plain, plain
	holders.Holders, dry.DryRun = true, true
	// One call is in flight all the time, and fills the cap: whoever comes stands behind it. The oldest makes room, so that each has a shadow.
	refused, waits := dry, dry
	refused.MaxInFlight, refused.MaxQueue = 1, 1
	waits.MaxInFlight, waits.QueueFull = 1, throttle.DropOldest
	for _, c := range []struct {
		name  string
		of    throttle.Config
		taken int
	}{
		{"plain", plain, 0}, {"holders", holders, 0}, {"dry", dry, 0}, {"dry-refused", refused, 2}, {"dry-waits", waits, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := throttle.New(c.of)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			ctx := context.Background()
			for range c.taken {
				if _, err := l.Acquire(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				p, err := l.Acquire(ctx)
				if err != nil {
					b.Fatal(err)
				}
				p.Release()
			}
		})
	}
}
