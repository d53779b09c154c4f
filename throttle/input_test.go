package throttle_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// A sliceClock cannot be compared: == on it panics.
type sliceClock []int

func (sliceClock) Now() time.Time                              { return time.Unix(0, 0) }
func (sliceClock) AfterFunc(time.Duration, func()) func() bool { return func() bool { return true } }

// An anyClock can be compared, unless what its tag holds cannot.
type anyClock struct {
	throttle.Clock
	tag any
}

func TestNew_RefusesAWrongFieldByNameAndValue(t *testing.T) {
	good := func(change func(*throttle.Config)) throttle.Config {
		c := throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 5}
		change(&c)
		return c
	}
	const (
		most       = "4611686018427387904 (2^62)"
		wantBurst  = "want 1 to " + most
		wantRate   = "above 1000000000/s; count in larger units"
		wantPeriod = "want 1ns or more"
	)
	for _, c := range []struct {
		name   string
		change func(*throttle.Config)
		words  []string
	}{
		{"nothing", func(c *throttle.Config) { c.Rate, c.Burst = throttle.Rate{}, 0 }, []string{"no limit is set", "Rate and Burst, Quotas, MaxInFlight"}},
		{"rate 0", func(c *throttle.Config) { c.Rate = throttle.PerSecond(0) }, []string{"Rate is 0/s", "N is 0", "want 1 or more"}},
		{"rate negative", func(c *throttle.Config) { c.Rate = throttle.PerSecond(-10) }, []string{"Rate is -10/s", "N is -10", "want 1 or more"}},
		{"rate least", func(c *throttle.Config) { c.Rate = throttle.PerSecond(math.MinInt64) }, []string{"Rate is -9223372036854775808/s", "want 1 or more"}},
		{"period 0", func(c *throttle.Config) { c.Rate = throttle.Per(10, 0) }, []string{"Rate is 10/0s", "Period is 0s", wantPeriod}},
		{"period negative", func(c *throttle.Config) { c.Rate = throttle.Every(-time.Second) }, []string{"Rate is 1/-1s", "Period is -1s", wantPeriod}},
		{"rate too high", func(c *throttle.Config) { c.Rate = throttle.PerSecond(1e9 + 1) }, []string{"Rate is 1000000001/s", wantRate}},
		{"rate far too high", func(c *throttle.Config) { c.Rate = throttle.Per(math.MaxInt64, 1) }, []string{"Rate is 9223372036854775807/1ns", wantRate}},
		{"burst 0", func(c *throttle.Config) { c.Burst = 0 }, []string{"Burst is 0", wantBurst}},
		{"burst negative", func(c *throttle.Config) { c.Burst = -1 }, []string{"Burst is -1", wantBurst}},
		{"burst above 2^62", func(c *throttle.Config) { c.Burst = throttle.MaxBurst + 1 }, []string{"Burst is 4611686018427387905", wantBurst}},
		{"burst greatest", func(c *throttle.Config) { c.Burst = math.MaxInt64 }, []string{"Burst is 9223372036854775807", wantBurst}},
		{"burst without rate", func(c *throttle.Config) { c.Rate = throttle.Rate{} }, []string{"Burst is 5", "Rate is not set", "want both or neither"}},
		{"cap negative", func(c *throttle.Config) { c.MaxInFlight = -3 }, []string{"MaxInFlight is -3", "want 1 to " + most, "or 0 for no cap"}},
		{"cap above 2^62", func(c *throttle.Config) { c.MaxInFlight = throttle.MaxCap + 1 }, []string{"MaxInFlight is 4611686018427387905", "want 1 to " + most}},
		{"two caps", func(c *throttle.Config) { c.MaxInFlight, c.Semaphore = 3, newSemaphore(t, 3) }, []string{"MaxInFlight is 3", "Semaphore is set", "want one of them"}},
		{"zero Semaphore", func(c *throttle.Config) { c.Semaphore = new(throttle.Semaphore) }, []string{"Semaphore", "NewSemaphore"}},
		{"MaxQueue", func(c *throttle.Config) { c.MaxQueue = -1 }, []string{"MaxQueue is -1", "want 1 or more, or 0 for no bound"}},
		{"MaxWait", func(c *throttle.Config) { c.MaxWait = -time.Second }, []string{"MaxWait is -1s", "want above 0, or 0 for no bound"}},
		{"Slack too low", func(c *throttle.Config) { c.Slack = -2 }, []string{"Slack is -2ns", "up to 1s", "10ms", "NoSlack"}},
		{"Slack too high", func(c *throttle.Config) { c.Slack = time.Second + 1 }, []string{"Slack is 1.000000001s", "up to 1s"}},
		{"Clock", func(c *throttle.Config) { c.Clock = sliceClock{1} }, []string{"Clock", "sliceClock", "cannot be compared", "want a pointer"}},
	} {
		l, err := throttle.New(good(c.change))
		if l != nil {
			t.Errorf("%s: a limiter came", c.name)
		}
		mustSay(t, err, throttle.ErrInvalid, append(c.words, `"api": Config: `)...)
	}
}

func TestNew_TakesTheEndsOfEveryRange(t *testing.T) {
	for _, c := range []throttle.Config{
		{Rate: throttle.PerSecond(1e9), Burst: 1},
		{Rate: throttle.Per(math.MaxInt64, math.MaxInt64), Burst: throttle.MaxBurst, MaxInFlight: throttle.MaxCap},
		{Rate: throttle.Every(math.MaxInt64), Burst: 1, Slack: throttle.NoSlack},
		{MaxInFlight: 1, MaxQueue: 1, MaxWait: 1, Slack: throttle.MaxSlack},
		{MaxInFlight: 1, MaxQueue: math.MaxInt, MaxWait: math.MaxInt64, Slack: 1, Clock: fake.NewClock(time.Time{})},
	} {
		mustPass(t, newLimiter(t, c), 1, 1)
	}
}

func TestNewBucket_RefusesAWrongFieldByNameAndValue(t *testing.T) {
	for want, q := range map[string]throttle.Quota{
		"Rate is 0/0s":                 {Burst: 1},
		"Rate is -1/s":                 {Rate: throttle.PerSecond(-1), Burst: 1},
		"Rate is 1/0s":                 {Rate: throttle.Every(0), Burst: 1},
		"Rate is 2/1ns":                {Rate: throttle.Per(2, 1), Burst: 1},
		"Burst is 0":                   {Rate: throttle.PerSecond(1)},
		"Burst is -7":                  {Rate: throttle.PerSecond(1), Burst: -7},
		"Burst is 4611686018427387905": {Rate: throttle.PerSecond(1), Burst: throttle.MaxBurst + 1},
	} {
		q.Name = "daily"
		b, err := throttle.NewBucket(q)
		if b != nil {
			t.Errorf("%+v: a bucket came", q)
		}
		mustSay(t, err, throttle.ErrInvalid, `"daily"`, want)
	}
}

func TestSemaphore_RefusesAWrongSizeAndKeepsTheOld(t *testing.T) {
	for _, size := range []int64{-1, math.MinInt64, throttle.MaxCap + 1, math.MaxInt64} {
		words := []string{"Semaphore", fmt.Sprintf("size is %d;", size), "want 0 to 4611686018427387904 (2^62)"}
		s, err := throttle.NewSemaphore(size)
		if s != nil {
			t.Errorf("size %d: a Semaphore came", size)
		}
		mustSay(t, err, throttle.ErrInvalid, words...)
		s = newSemaphore(t, 3)
		mustSay(t, s.Resize(size), throttle.ErrInvalid, words...)
		if s.Size() != 3 || s.InFlight() != 0 {
			t.Errorf("after a refused size %d it has size %d and %d in flight", size, s.Size(), s.InFlight())
		}
	}
	for _, size := range []int64{0, throttle.MaxCap} {
		if s := newSemaphore(t, size); s.Size() != size {
			t.Errorf("a Semaphore of %d has size %d", size, s.Size())
		}
	}
}

func TestNew_RefusesASemaphoreThatRunsOnAnotherClock(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	for _, clocks := range [][2]throttle.Clock{{nil, clock}, {clock, nil}, {clock, fake.NewClock(time.Time{})}} {
		sem := newSemaphore(t, 1)
		first := newLimiter(t, throttle.Config{Name: "a", Semaphore: sem, Clock: clocks[0]})
		l, err := throttle.New(throttle.Config{Name: "b", Semaphore: sem, Clock: clocks[1]})
		if l != nil {
			t.Error("a limiter came")
		}
		mustSay(t, err, throttle.ErrInvalid, `"b"`, "Clock", "Semaphore")
		second := newLimiter(t, throttle.Config{Name: "b", Semaphore: sem, Clock: clocks[0]})
		mustPass(t, first, 2, 1)
		mustPass(t, second, 1, 0)
	}
}

// A Clock may be of a type that can be compared and yet hold what cannot.
func TestNew_RefusesAClockThatHoldsWhatCannotBeCompared(t *testing.T) {
	sem := newSemaphore(t, 1)
	clock := anyClock{fake.NewClock(time.Time{}), []int{1}}
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("New panicked: %v", r)
		}
	}()
	var err error
	for range 2 { // the second is compared with the first
		_, err = throttle.New(throttle.Config{Name: "b", Semaphore: sem, Clock: clock})
	}
	mustSay(t, err, throttle.ErrInvalid, "Clock")
}

// A cost is what one call asks for, and how it is told that it may not.
type wrongCost struct {
	cost  throttle.Cost
	is    error
	words []string
}

func TestCosts_OutOfRangeAreRefusedAtOnceAndTakeNothing(t *testing.T) {
	both := throttle.Config{Name: "api", Rate: throttle.Per(1, 100*year), Burst: 5, MaxInFlight: 3}
	cases := map[*throttle.Config][]wrongCost{&both: {
		{throttle.Cost{Tokens: 0, Weight: 1}, throttle.ErrInvalid, []string{"cost is 0 tokens", "want 1 to 5"}},
		{throttle.Cost{Tokens: -1, Weight: 1}, throttle.ErrInvalid, []string{"cost is -1 tokens", "want 1 to 5"}},
		{throttle.Cost{Tokens: math.MinInt64, Weight: 1}, throttle.ErrInvalid, []string{"cost is -9223372036854775808", "want 1 to 5"}},
		{throttle.Cost{Tokens: 1, Weight: 0}, throttle.ErrInvalid, []string{"weight is 0", "want 1 to 3"}},
		{throttle.Cost{Tokens: 1, Weight: -1}, throttle.ErrInvalid, []string{"weight is -1", "want 1 to 3"}},
		{throttle.Cost{}, throttle.ErrInvalid, []string{"is 0"}},
		{throttle.Cost{Tokens: 6, Weight: 1}, throttle.ErrTooLarge, []string{"cost 6", "burst 5"}},
		{throttle.Cost{Tokens: math.MaxInt64, Weight: 1}, throttle.ErrTooLarge, []string{"cost 9223372036854775807", "burst 5"}},
		{throttle.Cost{Tokens: 1, Weight: 4}, throttle.ErrTooLarge, []string{"weight 4", "cap 3"}},
		{throttle.Cost{Tokens: 1, Weight: math.MaxInt64}, throttle.ErrTooLarge, []string{"weight 9223372036854775807", "cap 3"}},
	}}
	rate, capped := both, both
	rate.MaxInFlight = 0
	capped.Rate, capped.Burst = throttle.Rate{}, 0
	cases[&rate] = []wrongCost{{throttle.Cost{Tokens: 1, Weight: -1}, throttle.ErrInvalid, []string{"weight is -1"}}}
	cases[&capped] = []wrongCost{{throttle.Cost{Tokens: -1, Weight: 1}, throttle.ErrInvalid, []string{"cost is -1 tokens"}}}
	for config, wrong := range cases {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, *config)
			for _, c := range wrong {
				_, try := l.TryAcquireCost(c.cost)
				_, acquire := l.AcquireCost(t.Context(), c.cost)
				for _, err := range []error{try, acquire} {
					mustSay(t, err, c.is, append(c.words, `"api"`)...)
				}
				if c.cost.Weight == 1 {
					_, try = l.TryAcquireN(c.cost.Tokens)
					_, acquire = l.AcquireN(t.Context(), c.cost.Tokens)
					mustSay(t, try, c.is, c.words...)
					mustSay(t, acquire, c.is, c.words...)
				}
			}
			s := l.Stats()
			if s.Tokens != config.Burst || s.InFlight != 0 || s.Waiting != 0 || s.Started != 0 {
				t.Fatalf("got %+v; want nothing taken", s)
			}
		})
	}
}

// Where there is no such limit, 0 and more is right.
func TestCosts_WithoutSuchALimitAreToldTheRightRange(t *testing.T) {
	rate := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 5})
	capped := newLimiter(t, throttle.Config{MaxInFlight: 3})
	_, err := rate.TryAcquireCost(throttle.Cost{Tokens: 1, Weight: -1})
	mustSay(t, err, throttle.ErrInvalid, "weight is -1", "want 0 or more")
	_, err = capped.TryAcquireCost(throttle.Cost{Tokens: -1, Weight: 1})
	mustSay(t, err, throttle.ErrInvalid, "cost is -1 tokens", "want 0 or more")
}
