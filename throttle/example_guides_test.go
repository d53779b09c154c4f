package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// The examples of the guides in docs.

// untilWaiting returns once n callers are in lim's line.
func untilWaiting(lim *throttle.Limiter, n int) {
	fake.Until(context.Background(), func() bool { return lim.Stats().Waiting == n })
}

// The burst is what may be sent at once, and burst / rate the time until that much is there again.
func ExampleQuota_burst() {
	clock := fake.NewClock(time.Time{})
	for _, burst := range []int64{10, 600} {
		client := must(throttle.New(throttle.Config{Name: "client", Rate: throttle.PerSecond(10), Burst: burst, Clock: clock}))
		atOnce, emptied := passing(client, 1000), clock.Now()
		for client.Stats().Tokens < burst {
			clock.Advance(100 * time.Millisecond)
		}
		fmt.Println(atOnce, "at once, and as many again after", clock.Now().Sub(emptied))
	}
	// Output:
	// 10 at once, and as many again after 1s
	// 600 at once, and as many again after 1m0s
}

// Little's law: 10 calls a second that take 30 s each are 300 at a time, unless a cap says otherwise.
func ExampleConfig_maxInFlight() {
	for _, most := range []int64{0, 20} { // 0 is no cap
		clock := fake.NewClock(time.Time{})
		lim := must(throttle.New(throttle.Config{
			Name: "api", Rate: throttle.PerSecond(10), Burst: 10, MaxInFlight: most, Clock: clock,
		}))
		inFlight := 0
		for range 300 { // tries in 30 s, in which no call ends
			inFlight += passing(lim, 1)
			clock.Advance(100 * time.Millisecond)
		}
		fmt.Println("MaxInFlight", most, "has", inFlight, "in flight")
	}
	// Output:
	// MaxInFlight 0 has 300 in flight
	// MaxInFlight 20 has 20 in flight
}

// A caller that would wait longer than MaxWait is told at once: so the line is never longer than 10/s x 2 s.
func ExampleConfig_maxWait() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 10, MaxWait: 2 * time.Second, Clock: clock,
	}))
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	passing(lim, 10)
	for range 20 {
		go func() { left <- lim.Wait(ctx) }()
	}
	untilWaiting(lim, 20) // the last of them waits for 2 s
	fmt.Println(lim.Wait(ctx))
	cancel()
	for range 20 {
		<-left
	}
	// Output:
	// throttle: "api": rate 10/s (burst 10): wait 2.1s, above MaxWait 2s
}

// A hundred a minute, in several kinds: what passes a second before the minute ends, and a second after.
func ExampleFixedWindow() {
	for _, quota := range []throttle.Quota{
		throttle.FixedWindow(100, time.Minute).AlignedTo(fake.Epoch),
		{Rate: throttle.PerMinute(100), Burst: 100},
		throttle.AtMost(100, time.Minute),
		{Rate: throttle.PerSecond(1), Burst: 40},
	} {
		clock := fake.NewClock(fake.Epoch)
		lim := must(throttle.New(throttle.Config{Name: "api", Quotas: []throttle.Quota{quota}, Clock: clock}))
		clock.Advance(59 * time.Second)
		before := passing(lim, 1000)
		clock.Advance(2 * time.Second)
		fmt.Println(quota, "lets", before, "and", passing(lim, 1000), "through")
	}
	// Output:
	// 100 each 1m0s lets 100 and 100 through
	// rate 100/min (burst 100) lets 100 and 3 through
	// at most 100 in 1m0s lets 100 and 0 through
	// rate 1/s (burst 40) lets 40 and 2 through
}

// Never more than 100 in any 60 s, wherever they begin: a start makes room for another 60 s after it.
func ExampleAtMost() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{
		Name: "api", Quotas: []throttle.Quota{throttle.AtMost(100, time.Minute)}, Clock: clock,
	}))
	begin := clock.Now()
	for _, tries := range []int{60, 60, 100, 100} {
		passed := passing(lim, tries)
		fmt.Println("at", clock.Now().Sub(begin), passed, "of", tries)
		clock.Advance(30 * time.Second)
	}
	// Output:
	// at 0s 60 of 60
	// at 30s 40 of 60
	// at 1m0s 60 of 100
	// at 1m30s 40 of 100
}

// 10/s with bursts of 20, and never more than 100 in any 60 s, and 1000 a day: the refusal names the one that binds.
func ExampleConfig_quotas() {
	clock := fake.NewClock(time.Time{}) // at noon
	midnight := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	lim, err := throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 20,
		Quotas: []throttle.Quota{
			throttle.AtMost(100, time.Minute),
			throttle.FixedWindow(1000, 24*time.Hour).AlignedTo(midnight),
		},
		Clock: clock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	started, seen := 0, map[string]bool{}
	for len(seen) < 3 {
		_, err := lim.TryAcquire()
		var yet *throttle.NotYetError
		if !errors.As(err, &yet) {
			started++
			continue
		}
		if !seen[yet.Limit] {
			fmt.Printf("at %v, after %d starts: %v: wait %v\n", clock.Now().Format(time.TimeOnly), started, yet.Limit, yet.RetryAfter)
		}
		seen[yet.Limit] = true
		clock.Advance(yet.RetryAfter)
	}
	// Output:
	// at 12:00:00, after 20 starts: rate 10/s (burst 20): wait 100ms
	// at 12:00:08, after 100 starts: at most 100 in 1m0s: wait 52s
	// at 12:09:08, after 1000 starts: 1000 each 24h0m0s: wait 11h50m52s
}

// A quota with a name can be changed, while callers wait too. What it has spent stays spent.
func ExampleLimiter_SetQuota() {
	clock := fake.NewClock(time.Time{})
	perMinute := throttle.AtMost(100, time.Minute)
	perMinute.Name = "minute"
	lim := must(throttle.New(throttle.Config{Name: "api", Quotas: []throttle.Quota{perMinute}, Clock: clock}))
	fmt.Println(passing(lim, 1000), "pass")

	more := throttle.AtMost(150, time.Minute)
	more.Name = "minute"
	if err := lim.SetQuota(more); err != nil {
		fmt.Println(err)
	}
	for _, q := range lim.Quotas() {
		fmt.Println(q.Quota, "has", q.Tokens, "left")
	}
	fmt.Println(passing(lim, 1000), "pass")
	// Output:
	// 100 pass
	// "minute", at most 150 in 1m0s has 50 left
	// 50 pass
}

// Two tenants share 10/s, three starts to one, while both have callers waiting.
func ExampleConfig_parent() {
	clock := fake.NewClock(time.Time{})
	api := must(throttle.New(throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 1, Clock: clock}))
	gold := must(throttle.New(throttle.Config{Name: "gold", Parent: api, Share: 3}))
	free := must(throttle.New(throttle.Config{Name: "free", Parent: api}))
	api.TryAcquire() // the token that was there
	started := make(chan string)
	for _, tenant := range []struct {
		name string
		lim  *throttle.Limiter
	}{{"gold", gold}, {"free", free}} {
		for range 6 {
			go func() {
				if tenant.lim.Wait(context.Background()) == nil {
					started <- tenant.name
				}
			}()
		}
		untilWaiting(tenant.lim, 6)
	}
	var order []string
	for range 12 {
		clock.AdvanceToNext()
		order = append(order, <-started)
	}
	fmt.Println(strings.Join(order, " "))
	// Output:
	// gold free gold gold free gold gold gold free free free free
}

// A tenant whose calls hang holds its own permits, and not the others': its callers wait in its own line.
func ExampleLimiter_tenants() {
	clock := fake.NewClock(time.Time{})
	api := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(100), Burst: 20, MaxInFlight: 6, Clock: clock,
	}))
	ann := must(throttle.New(throttle.Config{Name: "ann", MaxInFlight: 4, Parent: api}))
	bob := must(throttle.New(throttle.Config{Name: "bob", MaxInFlight: 4, Parent: api}))
	passing(ann, 4) // they hang
	left := make(chan error)
	go func() { _, err := ann.Acquire(context.Background()); left <- err }()
	untilWaiting(ann, 1)
	fmt.Println("bob:", passing(bob, 4), "of 4;", api.Stats().InFlight, "in flight")
	_, err := bob.TryAcquire()
	fmt.Println(err)

	api.PauseFor(2 * time.Second)
	_, err = bob.TryAcquire()
	fmt.Println(err)
	api.Close()
	fmt.Println(<-left)
	_, err = bob.TryAcquire()
	fmt.Println(err)
	// Output:
	// bob: 2 of 4; 6 in flight
	// throttle: "bob": not yet: "api" above: MaxInFlight 6: no permit is free
	// throttle: "bob": not yet: "api" above: a pause: wait 2s
	// throttle: "ann": closed while it waited: limiter is closed
	// throttle: "bob": "api" above: limiter is closed
}

// A limiter for each tenant, made and forgotten by itself, all of them below one.
func ExampleKeyed_tenants() {
	clock := fake.NewClock(time.Time{})
	api := must(throttle.New(throttle.Config{
		Name: "api", Rate: throttle.PerSecond(100), Burst: 20, MaxInFlight: 50, Clock: clock,
	}))
	tenants, err := throttle.NewKeyedFrom(throttle.KeyedConfig[string]{
		Config: throttle.Config{
			Name: "tenant", Rate: throttle.PerSecond(5), Burst: 5, MaxInFlight: 2, Parent: api,
		},
		MaxKeys: 10_000,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var permits []throttle.Permit
	for _, tenant := range []string{"ann", "ann", "ann", "bob"} {
		permit, err := tenants.TryAcquire(tenant)
		fmt.Println(tenant, err)
		permits = append(permits, permit)
	}
	fmt.Println(api.Stats().InFlight, "in flight, forgotten:", tenants.EvictIdle())
	for _, permit := range permits {
		permit.Release()
	}
	clock.Advance(time.Second)
	fmt.Println(api.Stats().InFlight, "in flight, forgotten:", tenants.EvictIdle())
	// Output:
	// ann <nil>
	// ann <nil>
	// ann throttle: "tenant": not yet: MaxInFlight 2: no permit is free
	// bob <nil>
	// 3 in flight, forgotten: 0
	// 0 in flight, forgotten: 2
}

// A model's API counts requests, model tokens and calls at a time. What a call costs in model tokens is estimated when it
// starts, and corrected when the answer says.
func ExamplePermit_Settle() {
	clock := fake.NewClock(time.Time{})
	model := must(throttle.New(throttle.Config{
		Name: "model", Rate: throttle.PerMinute(500), Burst: 50, MaxInFlight: 8,
		Quotas: []throttle.Quota{
			{Name: "tokens", Rate: throttle.PerMinute(90_000), Burst: 90_000},
		},
		Settled: true,
		Clock:   clock,
	}))
	left := func() int64 { return model.Quotas()[0].Tokens }
	call := func(estimate, used int64) error {
		permit, err := model.AcquireCost(context.Background(), throttle.Cost{
			Tokens: 1, Weight: 1, Quotas: map[string]int64{"tokens": estimate},
		})
		if err != nil {
			return err
		}
		defer permit.Release()
		fmt.Print("estimated ", estimate, ": ", left(), " left")
		// ... the call itself, which tells what it has used ...
		err = permit.Settle(throttle.Cost{Tokens: 1, Quotas: map[string]int64{"tokens": used}})
		fmt.Println("; used", used, "and so", left())
		return err
	}
	fmt.Println(call(1_800, 650))
	fmt.Println(call(1_800, 2_400))
	fmt.Println(model.Stats().Tokens, "requests left")
	// Output:
	// estimated 1800: 88200 left; used 650 and so 89350
	// <nil>
	// estimated 1800: 87550 left; used 2400 and so 86950
	// <nil>
	// 48 requests left
}

// A cost above the burst is told ErrTooLarge, or, with Debt, let through once the quota is full; the rest is owed.
func ExampleConfig_debt() {
	clock := fake.NewClock(time.Time{})
	for _, debt := range []bool{false, true} {
		lim := must(throttle.New(throttle.Config{
			Name: "model", Rate: throttle.PerSecond(1_500), Burst: 90_000, Debt: debt, Clock: clock,
		}))
		if _, err := lim.TryAcquireN(120_000); err != nil {
			fmt.Println(err)
			continue
		}
		_, err := lim.TryAcquire()
		fmt.Println(lim.Stats().Tokens, err)
	}
	// Output:
	// throttle: "model": cost 120000 is above the burst 90000: larger than the limit ever allows
	// -30000 throttle: "model": not yet: rate 1500/s (burst 90000): wait 20.000666667s
}

// The answer was 429 with Retry-After: 30.
func ExampleLimiter_PauseFor() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{Name: "model", Rate: throttle.PerMinute(60), Burst: 5, Clock: clock}))
	begin, started := clock.Now(), make(chan time.Duration, 1)
	if err := lim.PauseFor(30 * time.Second); err != nil {
		fmt.Println(err)
	}
	go func() {
		if lim.Wait(context.Background()) == nil {
			started <- clock.Now().Sub(begin)
		}
	}()
	fake.Until(context.Background(), func() bool { return len(started)+lim.Stats().Waiting == 1 })
	ctx, cancel := clock.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(lim.Wait(ctx)) // at once
	cancel()
	clock.AdvanceToNext()
	fmt.Println("started at", <-started, "with", passing(lim, 100), "more")
	// Output:
	// throttle: "model": a pause: wait 30s, and the deadline is in 10s: context deadline exceeded
	// started at 30s with 4 more
}
