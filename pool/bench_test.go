package pool_test

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/turnstile-go/turnstile/pool"
	"github.com/turnstile-go/turnstile/throttle"
)

// BenchmarkGo starts tasks that do nothing, 8 at a time.
func BenchmarkGo(b *testing.B) {
	b.Run("errgroup with SetLimit", func(b *testing.B) {
		b.ReportAllocs()
		g, ctx := errgroup.WithContext(context.Background())
		g.SetLimit(8)
		for b.Loop() {
			g.Go(func() error { return ctx.Err() })
		}
		g.Wait()
	})
	b.Run("Group with MaxInFlight", func(b *testing.B) {
		b.ReportAllocs()
		g, ctx := pool.WithContext(context.Background(), newLimiter(b, throttle.Config{MaxInFlight: 8}))
		for b.Loop() {
			g.Go(ctx, func(ctx context.Context) error { return ctx.Err() })
		}
		g.Wait()
	})
}
