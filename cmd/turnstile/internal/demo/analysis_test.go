package demo

import (
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
	"github.com/turnstile-go/turnstile/throttle"
)

const ms = int64(time.Millisecond)

// record is a stall of 10/s, burst 2, cap 2, for one second, made up: five start where at most 2 + 10 x 0.05 may.
func record() *played {
	s := scenario{
		key: "stall", title: "The server stalls", story: "made up", why: "because", inFlight: 2,
		stall: measure.Span{From: 200 * ms, To: 500 * ms}, duration: time.Second,
		flows: []flow{{
			quota:    throttle.Quota{Name: "stall", Rate: throttle.PerSecond(10), Burst: 2},
			arrivals: make([]arrival, 7),
		}},
	}
	p := &played{scenario: s, way: ways[1], flows: make([]playedFlow, 1)}
	for i := range int64(5) {
		at := 500*ms + i*10*ms
		p.flows[0].starts = append(p.flows[0].starts, at)
		p.flows[0].calls = append(p.flows[0].calls, callRecord{
			arrived: 100 * ms * i, held: at - 20*ms, started: at, ended: at + 20*ms, failed: i == 4,
		})
		p.server = append(p.server, measure.Span{From: at + ms, To: at + 19*ms})
	}
	// One gave up with a permit in its hand, one without, one was still waiting.
	p.flows[0].calls = append(p.flows[0].calls,
		callRecord{arrived: 0, held: 100 * ms, started: -1, ended: 200 * ms},
		callRecord{arrived: 0, held: -1, started: -1, ended: 200 * ms},
		callRecord{arrived: 0, held: -1, started: -1, ended: 300 * ms, cut: true})
	return p
}

func TestAnalyse_CountsWhatIsInTheRecord(t *testing.T) {
	r, err := analyse(record())
	if err != nil {
		t.Fatal(err)
	}
	f := r.flows[0]
	if f.arrived != 8 || f.started != 5 || f.gaveUp != 2 || f.cut != 1 || f.failed != 1 {
		t.Errorf("arrived %d, started %d, gave up %d, cut %d, failed %d; want 8, 5, 2, 1, 1", f.arrived, f.started, f.gaveUp, f.cut, f.failed)
	}
	if f.worst.Kept || f.worst.Starts != 5 || f.worst.Length != 40*time.Millisecond || f.worst.Allowed != 2.5 {
		t.Errorf("worst window %+v, want 5 in 40ms where 2.5 are promised, broken", f.worst)
	}
	if f.inLong != 5 || f.inShort != 5 || f.promised(longWindow) != 12 || f.promised(shortWindow) != 3 {
		t.Errorf("in 1 s %d of %d, in 100 ms %d of %d", f.inLong, f.promised(longWindow), f.inShort, f.promised(shortWindow))
	}
	if r.peak != 2 || r.atServer != 2 || r.received != 5 || r.recvLong != 5 {
		t.Errorf("peak %d, at server %d, received %d, in 1 s %d; want 2, 2, 5, 5", r.peak, r.atServer, r.received, r.recvLong)
	}
	// Permits were held for 5 x 40 + 100 ms, of which 5 x 20 + 100 before a start.
	if r.idle != 200.0/300 {
		t.Errorf("idle %v, want two thirds", r.idle)
	}
	if f.waits.Max != 500*time.Millisecond || f.waits.P50 != 320*time.Millisecond {
		t.Errorf("waits %v", f.waits)
	}
	if f.possible != 7 || f.inTime != 5 {
		t.Errorf("%d of %d possible, want 5 of 7", f.inTime, f.possible)
	}
}

func TestAnalyse_PossibleIsWhatTheRateAllowsBeforeTheEnd(t *testing.T) {
	// 5/s, burst 1, for 10 s: at 0, 0.2, ... 9.8 s. The one at 10 s is too late.
	f := flow{quota: throttle.Quota{Rate: throttle.PerSecond(5), Burst: 1}, loopers: 1}
	r, err := analyseFlow(f, playedFlow{starts: []int64{0, int64(10 * time.Second)}}, 10*time.Second)
	if err != nil || r.possible != 50 || r.inTime != 1 {
		t.Errorf("possible %d, in time %d, %v; want 50, 1", r.possible, r.inTime, err)
	}
}

func TestServer_AStallHoldsUpWhatIsInsideAndWhatComes(t *testing.T) {
	s := &server{stall: measure.Span{From: 100, To: 200}}
	for _, c := range []struct{ received, end int64 }{
		{0, 50}, {50, 100}, {51, 201}, {99, 249}, {100, 250}, {199, 250}, {200, 250}, {300, 350},
	} {
		if got := s.end(c.received, 50); got != c.end {
			t.Errorf("received at %d: answered at %d, want %d", c.received, got, c.end)
		}
	}
	if got := (&server{}).end(7, 50); got != 57 {
		t.Errorf("without a stall: %d, want 57", got)
	}
}

func TestDraw_TheSameSeedBringsTheSameCallers(t *testing.T) {
	c := Config{Arrivals: throttle.PerSecond(200), Service: 50 * time.Millisecond, Duration: 10 * time.Second, Seed: 7}
	a, b := c.draw(1, 1), c.draw(1, 1)
	c.Seed = 8
	other := c.draw(1, 1)
	if len(a) < 1700 || len(a) > 2300 { // 2000, give or take seven standard deviations
		t.Errorf("%d arrivals, want about 2000", len(a))
	}
	same := len(other) == len(a)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("arrival %d differs with the same seed", i)
		}
		if a[i].at < 0 || a[i].at >= c.Duration || i > 0 && a[i].at < a[i-1].at {
			t.Fatalf("arrival %d at %v", i, a[i].at)
		}
		if s := a[i].service; s < 40*time.Millisecond || s > 60*time.Millisecond {
			t.Fatalf("service %v, want within 20 %% of 50ms", s)
		}
		same = same && a[i] == other[i]
	}
	if same {
		t.Error("another seed brings the same callers")
	}
}

func TestCheck_NamesTheFlagAndTheRange(t *testing.T) {
	good := Config{
		Rate: throttle.PerSecond(100), Burst: 10, InFlight: 20, Arrivals: throttle.PerSecond(90), Service: 50 * time.Millisecond,
		StallAt: time.Second, Stall: time.Second, Duration: 10 * time.Second,
	}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"--rate 1/min: want 1/s to 2000/s":      func(c *Config) { c.Rate = throttle.PerMinute(1) },
		"--burst 0: want 1 to 10000":            func(c *Config) { c.Burst = 0 },
		"--in-flight -1: want 1 to 500":         func(c *Config) { c.InFlight = -1 },
		"--arrivals 7000/s: want 1/s to 6000/s": func(c *Config) { c.Arrivals = throttle.PerSecond(7000) },
		"--service 0s: want 1ms to 10s":         func(c *Config) { c.Service = 0 },
		"--duration 6m0s: want 500ms to 5m":     func(c *Config) { c.Duration = 6 * time.Minute },
		"--stall 1s from --stall-at 9.5s on: want both 0 or more, ending within --duration 10s": func(c *Config) { c.StallAt = 9500 * time.Millisecond },
		"--stall -1s from --stall-at 1s on: want both 0 or more, ending within --duration 10s":  func(c *Config) { c.Stall = -time.Second },
		"--duration 5m0s with --arrivals 2000/s and --rate 100/s: want at most 200000 calls a scenario": func(c *Config) {
			c.Arrivals, c.Duration = throttle.PerSecond(2000), 5*time.Minute
		},
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
