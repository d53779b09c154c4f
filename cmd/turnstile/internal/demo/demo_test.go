package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A short run against real servers. Nothing is asserted that depends on how fast the machine is.
func TestRun_TurnstileKeepsItsPromiseAndEveryCallIsAccountedFor(t *testing.T) {
	c := Config{
		Scenarios: Scenarios, Rate: throttle.PerSecond(100), Burst: 5, InFlight: 8, Arrivals: throttle.PerSecond(90),
		Service: 10 * time.Millisecond, StallAt: 200 * time.Millisecond, Stall: 200 * time.Millisecond, Duration: 600 * time.Millisecond, Seed: 3,
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Kept() {
		t.Errorf("Turnstile did not keep its promise:\n%s", r.Terminal(Look{}))
	}
	if len(r.acts) != 3 {
		t.Fatalf("%d scenarios, want 3", len(r.acts))
	}
	for _, a := range r.acts {
		for _, res := range a.results {
			started := 0
			for i, f := range res.flows {
				if f.started+f.gaveUp+f.cut != f.arrived || len(f.starts) != f.started {
					t.Errorf("%s, %s: %d arrived, but %d started (%d by the list of starts), %d gave up, %d were cut off",
						a.scenario.key, res.way.name, f.arrived, f.started, len(f.starts), f.gaveUp, f.cut)
				}
				if f.failed != 0 {
					t.Errorf("%s, %s: %d failed", a.scenario.key, res.way.name, f.failed)
				}
				if n := len(a.scenario.flows[i].arrivals); n > 0 && f.arrived != n {
					t.Errorf("%s, %s: %d arrived, want %d", a.scenario.key, res.way.name, f.arrived, n)
				}
				started += f.started
			}
			if res.received != started {
				t.Errorf("%s, %s: the server received %d of %d", a.scenario.key, res.way.name, res.received, started)
			}
			if int64(res.peak) > a.scenario.inFlight || int64(res.atServer) > a.scenario.inFlight {
				t.Errorf("%s, %s: %d in flight, %d at the server, where %d are allowed", a.scenario.key, res.way.name, res.peak, res.atServer, a.scenario.inFlight)
			}
		}
		if idle := a.results[len(ways)-1].idle; idle != 0 {
			t.Errorf("%s: Turnstile's callers held permits before they started, %v of the time", a.scenario.key, idle)
		}
	}
}

func TestRun_EndsAtOnceWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := Config{
		Scenarios: Scenarios, Rate: throttle.PerSecond(100), Burst: 5, InFlight: 8, Arrivals: throttle.PerSecond(90),
		Service: 10 * time.Second, StallAt: time.Second, Stall: time.Minute, Duration: 5 * time.Minute, Seed: 3,
	}
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
