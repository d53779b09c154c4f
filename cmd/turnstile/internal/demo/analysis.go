package demo

import (
	"math"
	"slices"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
	"github.com/turnstile-go/turnstile/throttle"
)

// The windows in which starts are counted for showing. The promise is judged in every window.
const (
	longWindow  = time.Second
	shortWindow = 100 * time.Millisecond
)

// A result is what is shown of one scenario, played one way. All of it is reckoned from the record.
type result struct {
	way   way
	flows []flowResult

	peak     int     // most permits in use at once, from start to end
	received int     // requests at the server
	atServer int     // most requests at the server at once
	recvLong int     // most receipts in any longWindow
	idle     float64 // part of the time for which permits were held that they were held before the start

	startSpans  []measure.Span // of calls, from start to end
	serverSpans []measure.Span
}

// A flowResult is what is shown of one flow.
type flowResult struct {
	quota    throttle.Quota
	promise  measure.Promise
	starts   []int64
	worst    measure.Worst
	inLong   int // most starts in any longWindow
	inShort  int // most starts in any shortWindow
	arrived  int
	started  int
	gaveUp   int // by their own patience
	cut      int // still waiting when the run ended
	failed   int
	waits    measure.Percentiles // of those that started
	possible int                 // starts before the end of the arrivals that the limit and the demand allow
	inTime   int                 // starts before it
	waited   []point             // arrival, wait of those that started
}

// A point is something measured at an instant.
type point struct {
	at    int64
	value float64
}

// analyse reckons the result of a record.
func analyse(p *played) (result, error) {
	r := result{way: p.way, received: len(p.server), serverSpans: p.server}
	var all, before []measure.Span
	for i, f := range p.scenario.flows {
		flow, err := analyseFlow(f, p.flows[i], p.scenario.duration)
		if err != nil {
			return result{}, err
		}
		r.flows = append(r.flows, flow)
		for _, c := range p.flows[i].calls {
			if c.started >= 0 {
				r.startSpans = append(r.startSpans, measure.Span{From: c.started, To: c.ended})
				all = append(all, measure.Span{From: c.held, To: c.ended})
				before = append(before, measure.Span{From: c.held, To: c.started})
			} else if c.held >= 0 {
				all = append(all, measure.Span{From: c.held, To: c.ended})
				before = append(before, measure.Span{From: c.held, To: c.ended})
			}
		}
	}
	r.peak, _ = measure.Overlap(r.startSpans, 1, 1)
	r.atServer, _ = measure.Overlap(p.server, 1, 1)
	receipts := make([]int64, len(p.server))
	for i, s := range p.server {
		receipts[i] = s.From
	}
	r.recvLong, _ = measure.MostIn(receipts, int64(longWindow))
	if total := measure.Total(all); total > 0 {
		r.idle = float64(measure.Total(before)) / float64(total)
	}
	return r, nil
}

func analyseFlow(f flow, p playedFlow, duration time.Duration) (flowResult, error) {
	r := flowResult{
		quota:   f.quota,
		promise: measure.Promise{Rate: f.quota.Rate, Burst: f.quota.Burst, Slack: throttle.DefaultSlack},
		starts:  p.starts,
		arrived: len(p.calls),
	}
	var err error
	if r.worst, err = r.promise.Judge(p.starts); err != nil {
		return r, err
	}
	r.inLong, _ = measure.MostIn(p.starts, int64(longWindow))
	r.inShort, _ = measure.MostIn(p.starts, int64(shortWindow))
	var waits []time.Duration
	for _, c := range p.calls {
		switch {
		case c.started >= 0:
			r.started++
			waits = append(waits, time.Duration(c.started-c.arrived))
			r.waited = append(r.waited, point{c.arrived, float64(c.started-c.arrived) / 1e9})
		case c.cut:
			r.cut++
		default:
			r.gaveUp++
		}
		if c.failed {
			r.failed++
		}
	}
	slices.SortFunc(r.waited, func(a, b point) int { return int(a.at - b.at) })
	r.waits = measure.PercentilesOf(waits)
	// In [0, duration) a full bucket pays for burst starts at once, and for one more whenever a
	// token has come in, the last of them before the end.
	r.possible = int(f.quota.Burst) - 1 + int(math.Ceil(r.promise.PerSecond()*duration.Seconds()))
	if f.loopers == 0 {
		r.possible = min(r.possible, len(f.arrivals))
	}
	r.inTime, _ = slices.BinarySearch(p.starts, int64(duration))
	return r, nil
}

// reached is the part of the possible starts that happened.
func (r flowResult) reached() float64 { return float64(r.inTime) / float64(max(1, r.possible)) }

// promised is the most starts that a window of the given length may hold.
func (r flowResult) promised(window time.Duration) int { return int(r.promise.Within(window)) }

// An act is one scenario with what came of it each way.
type act struct {
	scenario scenario
	results  []result // in the order of ways
}

// span is how long the charts of an act reach: to the last start.
func (a act) span() time.Duration {
	last := int64(a.scenario.duration)
	for _, r := range a.results {
		for _, s := range r.startSpans {
			last = max(last, s.From+1)
		}
	}
	return (time.Duration(last) + time.Second - 1).Truncate(time.Second)
}
