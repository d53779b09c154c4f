package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Config says what to play.
type Config struct {
	Scenarios []string // of Scenarios
	Rate      throttle.Rate
	Burst     int64
	InFlight  int64
	Arrivals  throttle.Rate // of the stall; three times the rate arrive where callers give up
	Service   time.Duration // mean, of the server
	StallAt   time.Duration
	Stall     time.Duration
	Duration  time.Duration // how long callers arrive
	Seed      uint64
}

// Check says which field is out of its range, by the name of its flag, and what would be right.
func (c Config) Check() error {
	rate, arrivals := perSecond(c.Rate), perSecond(c.Arrivals)
	switch {
	case rate < 1 || rate > 2000:
		return fmt.Errorf("--rate %v: want 1/s to 2000/s", c.Rate)
	case c.Burst < 1 || c.Burst > 10_000:
		return fmt.Errorf("--burst %d: want 1 to 10000", c.Burst)
	case c.InFlight < 1 || c.InFlight > 500:
		return fmt.Errorf("--in-flight %d: want 1 to 500", c.InFlight)
	case arrivals < 1 || arrivals > 6000:
		return fmt.Errorf("--arrivals %v: want 1/s to 6000/s", c.Arrivals)
	case c.Service < time.Millisecond || c.Service > 10*time.Second:
		return fmt.Errorf("--service %v: want 1ms to 10s", c.Service)
	case c.Duration < 500*time.Millisecond || c.Duration > 5*time.Minute:
		return fmt.Errorf("--duration %v: want 500ms to 5m", c.Duration)
	case c.Stall < 0 || c.StallAt < 0 || c.StallAt+c.Stall > c.Duration:
		return fmt.Errorf("--stall %v from --stall-at %v on: want both 0 or more, ending within --duration %v", c.Stall, c.StallAt, c.Duration)
	case max(arrivals, giveUpArrivals*rate)*c.Duration.Seconds() > 200_000:
		return fmt.Errorf("--duration %v with --arrivals %v and --rate %v: want at most 200000 calls a scenario", c.Duration, c.Arrivals, c.Rate)
	}
	return nil
}

// Run plays all scenarios all ways, at the same time, and returns what came of them. It ends early with
// ctx's error.
func Run(ctx context.Context, c Config) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	report := &Report{Config: c, At: time.Now()}
	var scenarios []scenario
	for _, key := range c.Scenarios {
		scenarios = append(scenarios, c.scenario(key))
	}
	type outcome struct {
		scenario, way int
		played        *played
		err           error
	}
	began := time.Now()
	outcomes := make(chan outcome)
	done, pause := make(chan struct{}), make(chan time.Duration, 1)
	go func() { pause <- watchPauses(done) }()
	for i, s := range scenarios {
		for j, w := range ways {
			go func() {
				p, err := play(ctx, s, w, began)
				outcomes <- outcome{i, j, p, err}
			}()
		}
		report.acts = append(report.acts, act{scenario: s, results: make([]result, len(ways))})
	}
	var first error
	for range len(scenarios) * len(ways) {
		o := <-outcomes
		if o.err == nil {
			report.acts[o.scenario].results[o.way], o.err = analyse(o.played)
		}
		if o.err != nil {
			if first == nil {
				first = o.err
			}
			cancel()
		}
	}
	close(done)
	report.Pause = <-pause
	if first != nil {
		return nil, first
	}
	report.Took = time.Since(began)
	return report, nil
}

// A Report is what a run found.
type Report struct {
	Config Config
	At     time.Time
	Took   time.Duration
	Pause  time.Duration // the longest for which the process stood still
	acts   []act
}

// Kept reports whether Turnstile kept its promise everywhere: in every window, and in flight.
func (r *Report) Kept() bool {
	for _, a := range r.acts {
		own := a.results[len(a.results)-1]
		if int64(own.peak) > a.scenario.inFlight {
			return false
		}
		for _, f := range own.flows {
			if !f.worst.Kept {
				return false
			}
		}
	}
	return true
}
