package main

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// A subject is one contender: Turnstile, a rival, or a floor.
type subject struct {
	name string
	// make sets the contender up, untimed, and returns what performs n operations one after the other. What
	// it returns may be called from many goroutines at once.
	make func() func(n int)
}

// A contest is one operation that several subjects perform; the first is Turnstile.
type contest struct {
	what       string // the row of the table
	method     string // Benchmark<method>/<name>
	name       string
	goroutines int
	subjects   []subject
	goals      map[string]float64 // by subject: the largest ratio, Turnstile's time over the subject's
	objects    float64            // the most objects that an operation of Turnstile's may allocate
}

// A timer is what a *testing.B and a stopwatch have in common: work before ResetTimer and after StopTimer
// is not measured.
type timer interface {
	ResetTimer()
	StopTimer()
}

// run performs n operations, spread over the contest's goroutines, which exist before the timer starts.
func (c contest) run(perform func(n int), n int, t timer) {
	if c.goroutines == 1 {
		t.ResetTimer()
		perform(n)
		t.StopTimer()
		return
	}
	gate := make(chan struct{})
	var crowd sync.WaitGroup
	for i := range c.goroutines {
		crowd.Go(func() {
			<-gate
			perform((n + i) / c.goroutines)
		})
	}
	awaitParked(c.goroutines)
	t.ResetTimer()
	close(gate)
	crowd.Wait()
	t.StopTimer()
}

// A stopwatch measures time, and what was allocated.
type stopwatch struct {
	begun          time.Time
	took           time.Duration
	bytes, objects uint64
	memory         runtime.MemStats
}

func (s *stopwatch) ResetTimer() {
	runtime.ReadMemStats(&s.memory)
	s.bytes, s.objects = s.memory.TotalAlloc, s.memory.Mallocs
	s.begun = time.Now()
}

func (s *stopwatch) StopTimer() {
	s.took = time.Since(s.begun)
	runtime.ReadMemStats(&s.memory)
	s.bytes, s.objects = s.memory.TotalAlloc-s.bytes, s.memory.Mallocs-s.objects
}

// A result is what a subject did in each round, each an operation's share.
type result struct {
	name           string
	ns             []float64
	bytes, objects []float64
}

// race lets the subjects of c perform in turn, round after round, for about lap each. Each round takes new
// subjects, so that a lucky place in memory does not decide, and begins with another one.
//
// One goroutine alone takes a quarter of the lap and four times the rounds, so that what else the machine does
// falls on neighbours alike; a crowd, whose order of events differs from run to run, takes three laps.
func (c contest) race(rounds int, lap time.Duration) []result {
	if c.goroutines == 1 {
		lap, rounds = lap/4, rounds*4
	} else {
		lap *= 3
	}
	results := make([]result, len(c.subjects))
	ops := make([]int, len(c.subjects))
	for i, s := range c.subjects {
		results[i].name = s.name
		ops[i] = c.calibrate(s.make(), lap)
	}
	for round := range rounds {
		for i := range c.subjects {
			i := (i + round) % len(c.subjects)
			perform := c.subjects[i].make()
			c.run(perform, ops[i]/10+1, new(stopwatch)) // warms caches and free lists
			runtime.GC()
			var t stopwatch
			c.run(perform, ops[i], &t)
			n := float64(ops[i])
			r := &results[i]
			r.ns = append(r.ns, float64(t.took.Nanoseconds())/n)
			r.bytes = append(r.bytes, float64(t.bytes)/n)
			r.objects = append(r.objects, float64(t.objects)/n)
		}
	}
	return results
}

// calibrate returns how many operations take about lap; in a crowd, 50 for each goroutine at the least, so that
// what a limiter allocates once for each of them does not count as what it allocates each time.
func (c contest) calibrate(perform func(n int), lap time.Duration) int {
	fewest := 1
	if c.goroutines > 1 {
		fewest = 50 * c.goroutines
	}
	for n := max(1000, fewest); ; n *= 4 {
		var t stopwatch
		c.run(perform, n, &t)
		if t.took >= lap/8 {
			return max(fewest, int(float64(n)*float64(lap)/float64(t.took)))
		}
	}
}

// median returns the middle of the values, which are not changed.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// ratios returns a over b, round by round: what disturbs a whole round does not change them.
func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

// must stops the run: a subject that fails does other work than the row says.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// mustBe stops the run unless the subject answered as the row says.
func mustBe(want, got bool) {
	if got != want {
		panic("a subject did not answer as its row says")
	}
}
