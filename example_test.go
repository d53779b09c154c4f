package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// The whole toolkit at work, on a clock that moves when it is told to: a slow downstream is called by 40 callers at
// once, its ledger is kept by the limiter's trace, and the contract is audited.
func Example() {
	clock := fake.NewClock(time.Time{})
	var ledger fake.Ledger
	lim, err := throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(100), Burst: 10, MaxInFlight: 4, Clock: clock,
		Trace: &throttle.Trace{
			Queued:   func(e throttle.Event) { ledger.Join(e.ID, e.Seq, e.At) },
			Started:  func(e throttle.Event) { ledger.Start(e.ID, e.Seq, e.At, e.Nominal, e.Tokens, e.Weight) },
			Released: func(e throttle.Event) { ledger.End(e.ID, e.Seq, e.At) },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	downstream, err := fake.NewDownstream(fake.DownstreamConfig{Clock: clock, Service: fake.Constant(50 * time.Millisecond)})
	if err != nil {
		fmt.Println(err)
		return
	}
	var callers sync.WaitGroup
	for range 40 {
		callers.Go(func() { lim.Do(context.Background(), downstream.Call) })
	}
	for lim.Stats().Started < 40 || lim.Stats().InFlight > 0 { // let everybody come to rest, then move on to the next timer
		fake.Until(context.Background(), func() bool {
			s := lim.Stats()
			return s.Started+uint64(s.Waiting) == 40 && int64(downstream.Stats().InFlight) == s.InFlight
		})
		clock.AdvanceToNext()
	}
	callers.Wait()

	report := fake.Audit(&ledger, fake.AuditConfig{
		Limits: fake.Limits{N: 100, Period: time.Second, Burst: 10, MaxInFlight: 4}, Slack: throttle.DefaultSlack,
	})
	fmt.Println("kept:", report.OK())
	fmt.Println("started:", report.Started, "most in flight:", report.PeakWeight)
	// Output:
	// kept: true
	// started: 40 most in flight: 4
}

// What README shows, line by line.

func fiveMinutes(ctx context.Context, call func(context.Context) error) error {
	lim, err := throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 5, MaxInFlight: 3,
	})
	if err != nil {
		return err
	}

	// Run a function under the limits. The permit is given back on return and on panic.
	err = lim.Do(ctx, func(ctx context.Context) error {
		return call(ctx)
	})
	if err != nil {
		return err
	}

	permit, err := lim.Acquire(ctx)
	if err != nil {
		return err
	}
	defer permit.Release()
	return call(ctx)
}

func shedLoad(lim *throttle.Limiter, w http.ResponseWriter) {
	permit, err := lim.TryAcquire()
	var yet *throttle.NotYetError
	if errors.As(err, &yet) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(yet.RetryAfter.Seconds()))))
	}
	if err != nil {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	defer permit.Release()
}

func published(midnight time.Time) (*throttle.Limiter, error) {
	lim, err := throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 20, MaxInFlight: 8,
		Quotas: []throttle.Quota{
			throttle.AtMost(100, time.Minute),
			throttle.FixedWindow(1000, 24*time.Hour).AlignedTo(midnight),
		},
	})
	return lim, err
}

func Example_readme() {
	calls := 0
	err := fiveMinutes(context.Background(), func(context.Context) error { calls++; return nil })
	fmt.Println(err, calls)

	clock := fake.NewClock(time.Time{})
	lim, _ := throttle.New(throttle.Config{Name: "api", Rate: throttle.PerMinute(40), Burst: 1, Clock: clock})
	for range 2 {
		w := httptest.NewRecorder()
		shedLoad(lim, w)
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}

	api, err := published(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(err, len(api.Quotas()))
	// Output:
	// <nil> 2
	// 200 ""
	// 429 "2"
	// <nil> 2
}
