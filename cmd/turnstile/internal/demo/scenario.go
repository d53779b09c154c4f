package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
	"github.com/turnstile-go/turnstile/throttle"
)

// A scenario is something that happens to callers who share limits.
type scenario struct {
	key      string // as --scenario has it
	title    string
	story    string // what happens, with the numbers
	why      string // how that comes about
	inFlight int64  // the cap, shared by all flows
	stall    measure.Span
	duration time.Duration // no one arrives after it
	drain    time.Duration // how long those who wait then may take
	flows    []flow
}

// A flow is a rate limit and those who call through it: either arrivals, which come when they
// come, or loopers, each of whom calls again as soon as its last call has ended.
type flow struct {
	quota    throttle.Quota
	arrivals []arrival
	loopers  int
	service  time.Duration // of loopers
	patience time.Duration // a caller who has waited so long gives up; 0: never
}

type arrival struct {
	at      time.Duration // since the beginning
	service time.Duration
}

// Scenarios are the names that --scenario takes, besides "all".
var Scenarios = []string{"stall", "shared", "giveup"}

// scenario returns the one with that key.
func (c Config) scenario(key string) scenario {
	switch key {
	case "stall":
		return c.stalling()
	case "shared":
		return c.sharing()
	default:
		return c.givingUp()
	}
}

// stalling: arrivals somewhat below the rate, and a server that answers nobody for a while.
func (c Config) stalling() scenario {
	return scenario{
		key:   "stall",
		title: "The server stalls",
		story: fmt.Sprintf("%v, burst %d, %d in flight; %v arrive, each takes the server about %v; it answers nobody from %v to %v",
			c.Rate, c.Burst, c.InFlight, c.Arrivals, c.Service, c.StallAt, c.StallAt+c.Stall),
		why: "Token first: who waits for a permit has paid already, so all of them start as soon as the server is back. " +
			"Permit first: no such burst, but permits are held while waiting for tokens. " +
			"Turnstile takes both at the start and holds neither before.",
		inFlight: c.InFlight,
		stall:    measure.Span{From: int64(c.StallAt), To: int64(c.StallAt + c.Stall)},
		duration: c.Duration,
		drain:    c.Duration,
		flows: []flow{{
			quota:    throttle.Quota{Name: "stall", Rate: c.Rate, Burst: c.Burst},
			arrivals: c.draw(1, 1),
		}},
	}
}

// The shared scenario's numbers. 500/s at 20 ms keep 10 permits busy, 5/s a tenth of one.
const (
	sharedSlow     = 5
	sharedFast     = 500
	sharedCap      = 20
	sharedLoopers  = 40
	sharedService  = 20 * time.Millisecond
	giveUpArrivals = 3 // times the rate
	giveUpPatience = time.Second
)

// sharing: a slow and a fast rate limit share one cap.
func (c Config) sharing() scenario {
	slow, fast := throttle.PerSecond(sharedSlow), throttle.PerSecond(sharedFast)
	return scenario{
		key:   "shared",
		title: "A slow and a fast limiter share one cap",
		story: fmt.Sprintf("%v (burst 1) and %v (burst 10) share %d in flight; %d callers of each call again and again, each call takes the server %v",
			slow, fast, sharedCap, sharedLoopers, sharedService),
		why: "Permit first: callers of the slow limiter hold the permits while they wait for their tokens, and those of the fast one find none. " +
			"Turnstile's callers hold no permit before they start.",
		inFlight: sharedCap,
		duration: c.Duration,
		drain:    time.Second,
		flows: []flow{
			{quota: throttle.Quota{Name: "slow", Rate: slow, Burst: 1}, loopers: sharedLoopers, service: sharedService},
			{quota: throttle.Quota{Name: "fast", Rate: fast, Burst: 10}, loopers: sharedLoopers, service: sharedService},
		},
	}
}

// givingUp: three times as many arrive as the rate lets through, and no one waits for long.
func (c Config) givingUp() scenario {
	return scenario{
		key:   "giveup",
		title: "Callers give up",
		story: fmt.Sprintf("%v, burst %d, %d in flight; %.4g/s arrive, each takes the server about %v; a caller that has waited %v cancels",
			c.Rate, c.Burst, c.InFlight, giveUpArrivals*perSecond(c.Rate), c.Service, giveUpPatience),
		why: "rate.Wait takes a token as the wait begins, to be paid later; who cancels gives back only a part of it where others have come since. " +
			"So tokens go to callers who have left. With Turnstile nothing is taken before the start, and there is nothing to give back.",
		inFlight: c.InFlight,
		duration: c.Duration,
		drain:    c.Duration,
		flows: []flow{{
			quota:    throttle.Quota{Name: "giveup", Rate: c.Rate, Burst: c.Burst},
			arrivals: Config{Rate: c.Rate, Arrivals: c.Rate, Service: c.Service, Duration: c.Duration, Seed: c.Seed}.draw(giveUpArrivals, 2),
			patience: giveUpPatience,
		}},
	}
}

// draw returns arrivals at times the arrival rate: gaps are exponential, service times even within
// 20 % about the mean, both from the seed, so that every way meets the same callers.
func (c Config) draw(times float64, stream uint64) []arrival {
	random := rand.New(rand.NewPCG(c.Seed, stream))
	mean := 1 / (times * perSecond(c.Arrivals))
	var list []arrival
	for at := 0.0; ; {
		at += random.ExpFloat64() * mean
		if at >= c.Duration.Seconds() {
			return list
		}
		service := float64(c.Service) * (0.8 + 0.4*random.Float64())
		list = append(list, arrival{time.Duration(at * float64(time.Second)), time.Duration(service)})
	}
}

// perSecond returns a rate in events a second.
func perSecond(r throttle.Rate) float64 { return measure.Promise{Rate: r}.PerSecond() }
