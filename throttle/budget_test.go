package throttle_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestBudgetsAreThoseOfOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := throttle.Config{Name: "test", Rate: throttle.Per(1, 2*time.Second), Burst: 3, Quotas: []throttle.Quota{
			{Name: "day", Rate: throttle.Per(100, 24*time.Hour), Burst: 100},
			throttle.AtMost(5, time.Minute),
			throttle.FixedWindow(7, time.Hour),
		}}
		lim := must(throttle.New(config))
		keyed, err := throttle.NewKeyed[string](config)
		if err != nil {
			t.Fatal(err)
		}
		if got := keyed.Budgets("a"); got != nil || keyed.Len() != 0 {
			t.Errorf("an unknown key has %v, and %d keys are there; want none", got, keyed.Len())
		}
		lim.TryAcquireN(2)
		keyed.TryAcquireCost("a", throttle.Cost{Tokens: 2})
		time.Sleep(time.Second)
		for _, all := range [][]throttle.Budget{lim.Budgets(), keyed.Budgets("a"), keyed.For("a").(interface{ Budgets() []throttle.Budget }).Budgets()} {
			got := ""
			for _, b := range all {
				got += fmt.Sprintf("%q %d of %d, full in %v of %v\n", b.Quota.Name, b.Tokens, b.Quota.Burst, b.FullIn, b.Window())
			}
			want := `"" 1 of 3, full in 3s of 6s
"day" 98 of 100, full in 28m47s of 24h0m0s
"" 3 of 5, full in 59s of 1m0s
"" 5 of 7, full in 59m59s of 1h0m0s
`
			if got != want {
				t.Errorf("budgets are\n%s\nwant\n%s", got, want)
			}
		}
		if err := lim.SetQuota(throttle.Quota{Rate: throttle.PerSecond(1), Burst: 3}); err != nil {
			t.Fatal(err)
		}
		if b := lim.Budgets()[0]; b.Quota.Rate != throttle.PerSecond(1) || b.FullIn != 1500*time.Millisecond {
			t.Errorf("after a change it is %+v; want 1/s, full in 1.5s", b)
		}
	})
}

// A key held as its bucket's numbers tells the same as its limiter would, through changes of all keys too.
func TestBudgetsOfACompactKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keyed, err := throttle.NewKeyed[string](throttle.Config{Rate: throttle.PerSecond(1), Burst: 10})
		if err != nil {
			t.Fatal(err)
		}
		keyed.TryAcquireCost("a", throttle.Cost{Tokens: 4})
		if b := keyed.Budgets("a"); len(b) != 1 || b[0].Tokens != 6 || b[0].FullIn != 4*time.Second {
			t.Errorf("budgets are %+v; want 6 tokens, full in 4s", b)
		}
		if err := keyed.SetQuotaAll(throttle.Quota{Rate: throttle.PerSecond(2), Burst: 20}); err != nil {
			t.Fatal(err)
		}
		b := keyed.Budgets("a")
		if len(b) != 1 || b[0].Tokens != 6 || b[0].FullIn != 7*time.Second || b[0].Window() != 10*time.Second {
			t.Errorf("after a change they are %+v; want 6 tokens, full in 7s of 10s", b)
		}
	})
}

func TestWindowOfABudgetIsRoundedUpAndSaturates(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		r := throttle.Per(1+dice.Int64N(1<<dice.IntN(31)), time.Duration(1+dice.Int64N(1<<dice.IntN(55))))
		burst := 1 + dice.Int64N(1<<dice.IntN(62))
		want := new(big.Int).Mul(big.NewInt(burst), big.NewInt(int64(r.Period)))
		want.Add(want, big.NewInt(r.N-1)).Div(want, big.NewInt(r.N))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := (throttle.Budget{Quota: throttle.Quota{Rate: r, Burst: burst}}).Window(); int64(got) != want.Int64() {
			t.Fatalf("%v, burst %d: the window is %d; want %d", r, burst, got, want)
		}
	}
	if got := (throttle.Budget{}).Window(); got != 0 {
		t.Errorf("the zero Budget's window is %v", got)
	}
}

func ExampleBudget() {
	clock := fake.NewClock(time.Time{})
	lim := must(throttle.New(throttle.Config{Name: "api", Rate: throttle.Per(10, time.Minute), Burst: 10, Clock: clock}))
	passing(lim, 4)
	clock.Advance(5 * time.Second)
	for _, b := range lim.Budgets() {
		fmt.Println(b.Tokens, "of", b.Quota.Burst, "are left; all are there again in", b.FullIn)
	}
	// Output:
	// 6 of 10 are left; all are there again in 19s
}
