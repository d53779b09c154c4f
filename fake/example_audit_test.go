package fake_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

// The methods take what a limiter's trace events carry, for instance:
//
//	Started:  func(e throttle.Event) { ledger.Start(e.ID, e.Seq, e.At, e.Nominal, e.Tokens, e.Weight) },
//	Released: func(e throttle.Event) { ledger.End(e.ID, e.Seq, e.At) },
func ExampleLedger() {
	var ledger fake.Ledger
	t := fake.Epoch
	ledger.Start(1, 2, t, t, 1, 1) // appended out of order: seq orders them
	ledger.Join(1, 1, t)
	ledger.End(1, 3, t.Add(time.Second))
	for _, e := range ledger.Entries() {
		fmt.Println("call", e.ID, "joined", e.JoinSeq, "started", e.StartSeq, "took", e.Ended.Sub(e.Started))
	}
	// Output: call 1 joined 1 started 2 took 1s
}

// Two limiters share one semaphore, so one seq: each writes under its own name, and has a promise of its own.
func ExampleLine() {
	var ledger fake.Ledger
	search, mail := ledger.Line("search"), ledger.Line("mail")
	t := fake.Epoch
	search.Start(1, 1, t, t, 1, 1)
	mail.Start(1, 2, t, t, 1, 1)
	report := fake.Audit(&ledger, fake.AuditConfig{
		Limits: fake.Limits{MaxInFlight: 1}, // of the semaphore, over both
		Lines:  map[string]fake.Limits{"mail": {N: 1, Period: time.Second, Burst: 1}},
	})
	fmt.Println(report.Violations[0])
	// Output: C2: call 1, weight 1, started at 2030-01-01T12:00:00Z, seq 2, with 1 in flight: the cap is 1
}

func ExampleEntry() {
	var ledger fake.Ledger
	ledger.Start(1, 1, fake.Epoch.Add(time.Millisecond), fake.Epoch, 5, 2)
	e := ledger.Entries()[0]
	fmt.Println("late by", e.Started.Sub(e.Nominal), "cost", e.Cost, "weight", e.Weight, "ended:", !e.Ended.IsZero())
	// Output: late by 1ms cost 5 weight 2 ended: false
}

func ExampleLimitChange() {
	var ledger fake.Ledger
	ledger.Limit(1, fake.Epoch, 10, time.Second, 5, fake.NoCap)
	for _, c := range ledger.Limits() {
		fmt.Println(c.N, "per", c.Period, "burst", c.Burst, "capped:", c.Cap >= 0)
	}
	// Output: 10 per 1s burst 5 capped: false
}

// Six starts at once, where five were promised.
func ExampleAudit() {
	var ledger fake.Ledger
	for id := range uint64(6) {
		ledger.Start(id, id, fake.Epoch, fake.Epoch, 1, 1)
	}
	report := fake.Audit(&ledger, fake.AuditConfig{Limits: fake.Limits{N: 10, Period: time.Second, Burst: 5}})
	fmt.Print(report)
	// Output:
	// audit: 2 violations
	// calls: 6, started 6, ended 0, left 0, peak weight 6
	// worst window: 6 starts costing 6 in 0s from 2030-01-01T12:00:00Z: allowed 5, excess 1
	// C1: call 5, nominal start 2030-01-01T12:00:00Z, cost 1: the bucket held 0 of 5
	// C1: real starts, slack 0s: 6 starts costing 6 in 0s from 2030-01-01T12:00:00Z: allowed 5, excess 1
}

// A promise out of range is reported, not guessed at.
func ExampleAuditConfig() {
	var ledger fake.Ledger
	report := fake.Audit(&ledger, fake.AuditConfig{Slack: -time.Second})
	fmt.Println(report.Violations[0])
	// Output: input: AuditConfig.Slack is -1s: must be 0 or more
}

func ExampleLimits() {
	promise := fake.Limits{N: 10, Period: time.Second, Burst: 5} // MaxInFlight 0: no cap
	report := fake.Audit(&fake.Ledger{}, fake.AuditConfig{Limits: promise})
	fmt.Println(report.OK())
	// Output: true
}

func ExampleReport() {
	var ledger fake.Ledger
	ledger.Start(1, 1, fake.Epoch, fake.Epoch, 1, 1)
	ledger.End(1, 2, fake.Epoch)
	report := fake.Audit(&ledger, fake.AuditConfig{Limits: fake.Limits{N: 1, Period: time.Second, Burst: 3}})
	fmt.Println(report.Err(), report.Worst)
	// Output: <nil> 1 start costing 1 in 0s from 2030-01-01T12:00:00Z: allowed 3, headroom 2
}

func ExampleViolation() {
	var ledger fake.Ledger
	ledger.Start(4, 1, fake.Epoch, fake.Epoch, 1, 1)
	ledger.End(4, 2, fake.Epoch)
	ledger.End(4, 3, fake.Epoch)
	var v fake.Violation
	if errors.As(fake.Audit(&ledger, fake.AuditConfig{}).Err(), &v) {
		fmt.Println(v.Clause, v.ID, v.Text)
	}
	// Output: C8 4 call 4 ended a second time, at 2030-01-01T12:00:00Z, seq 3
}

// 3/s with a burst of 1: the second start came a third of a second after the first, less 1 ms.
func ExampleWorstWindow() {
	starts := []fake.Start{{At: fake.Epoch}, {At: fake.Epoch.Add(time.Second/3 - time.Millisecond)}}
	worst, err := fake.WorstWindow(starts, 1, 3, time.Second, 0)
	fmt.Println(err, worst.OK(), worst.Excess)
	worst, err = fake.WorstWindow(starts, 1, 3, time.Second, 10*time.Millisecond)
	fmt.Println(err, worst.OK())
	// Output:
	// <nil> false 3000001/1000000000
	// <nil> true
}

func ExampleStart() {
	worst, _ := fake.WorstWindow([]fake.Start{{At: fake.Epoch, Cost: 4}}, 5, 1, time.Second, 0)
	fmt.Println(worst)
	// Output: 1 start costing 4 in 0s from 2030-01-01T12:00:00Z: allowed 5, headroom 1
}

func ExampleWindow() {
	starts := []fake.Start{{At: fake.Epoch}, {At: fake.Epoch.Add(time.Second)}, {At: fake.Epoch.Add(time.Second)}}
	worst, _ := fake.WorstWindow(starts, 1, 1, time.Second, 0)
	fmt.Println(worst.To.Sub(worst.From), worst.Starts, worst.Cost, worst.Allowed.RatString(), worst.Excess.RatString())
	// Output: 1s 3 3 2 1
}

func forgetful(leaks *fake.Leaks) { leaks.Took(2) } // in its place: lim.Acquire, whose trace calls Took

// Hand Took and Gave to a limiter's trace; the permits never given back are named with the function that acquired them.
func ExampleLeaks() {
	var leaks fake.Leaks
	leaks.Took(1)
	forgetful(&leaks)
	leaks.Gave(1)
	message, _, _ := strings.Cut(leaks.Err().Error(), "\n\t")
	fmt.Println(message)
	// Output:
	// fake: leaks: 1 report:
	// permit 2 not released; acquired by
	// github.com/turnstile-go/turnstile/fake_test.forgetful
}

func ExampleLeak() {
	var leaks fake.Leaks
	forgetful(&leaks)
	for _, leak := range leaks.Outstanding() {
		fmt.Println(leak.ID, leak.Func)
	}
	// Output: 2 github.com/turnstile-go/turnstile/fake_test.forgetful
}
