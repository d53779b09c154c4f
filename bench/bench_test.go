package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The benchmarks are the command's own subjects, one at a time: for profiles, and for benchstat. Figures of different
// subjects are best compared by the command, which takes them in turn.

func BenchmarkTryAcquire(b *testing.B) {
	benchmark(b, "TryAcquire", append(tryContests(), keyedContest()))
}
func BenchmarkBucketTake(b *testing.B) { benchmark(b, "BucketTake", []contest{bucketContest()}) }
func BenchmarkAcquire(b *testing.B) {
	benchmark(b, "Acquire", append(permitContests(), levelContest()))
}

func benchmark(b *testing.B, method string, contests []contest) {
	for _, c := range contests {
		if c.method != method {
			b.Fatalf("the contest %q is of %s; want one of %s", c.name, c.method, method)
		}
		for _, s := range c.subjects {
			b.Run(named(c.name, s.name), func(b *testing.B) {
				b.ReportAllocs()
				c.run(s.make(), b.N, b)
			})
		}
	}
}

// BenchmarkDrain and BenchmarkCancel count a wave of 100,000 waiters as one operation: B/op and allocs/op are the whole wave's,
// goroutines included; B/waiter and objects/waiter are the limiter's alone.
func BenchmarkDrain(b *testing.B) {
	benchmarkWaves(b, func(how leaving) bool { return how == staying })
}
func BenchmarkCancel(b *testing.B) {
	benchmarkWaves(b, func(how leaving) bool { return how != staying })
}

func benchmarkWaves(b *testing.B, wanted func(leaving) bool) {
	for _, s := range sieges(100_000) {
		if !wanted(s.how) {
			continue
		}
		for _, h := range s.halls {
			b.Run(named(s.name, h.name), func(b *testing.B) {
				b.ReportAllocs()
				flood(control(), s.n, s.how) // the runtime's own free lists
				idle := flood(control(), s.n, s.how)
				var took time.Duration
				var bytes, objects []float64
				for b.Loop() {
					w := s.wave(h)
					took += w.took
					bytes, objects = append(bytes, w.bytes-idle.bytes), append(objects, w.objects-idle.objects)
				}
				b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*s.n), "ns/waiter")
				b.ReportMetric(median(bytes), "B/waiter")
				b.ReportMetric(median(objects), "objects/waiter")
			})
		}
	}
}

// BenchmarkWait has 1,000 goroutines ask for starts at burst 1 for one real second, which is one operation.
func BenchmarkWait(b *testing.B) {
	for _, perSecond := range []int{1000, 10_000, 100_000} {
		for _, p := range pacers() {
			b.Run(named(fmt.Sprint(perSecond), p.name), func(b *testing.B) {
				b.ReportAllocs()
				var shares, excesses []float64
				for b.Loop() {
					reached := demand(p, perSecond, 1000, time.Second)
					shares, excesses = append(shares, reached.share), append(excesses, reached.excess)
				}
				b.ReportMetric(slices.Min(shares), "of-the-rate")
				b.ReportMetric(slices.Max(excesses), "starts-above")
			})
		}
	}
}

// named joins the parts of a benchmark's name; a slash within one would make two of it.
func named(parts ...string) string {
	for i := range parts {
		parts[i] = strings.NewReplacer("/", "-", ", ", "-", " ", "-", ":", "").Replace(parts[i])
	}
	return strings.Join(parts, "/")
}
