package fake

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEachValueOutOfRangeIsNamed(t *testing.T) {
	for want, c := range map[string]DownstreamConfig{
		"Constant: d is -1ns: must be 0 or more":                                    {Service: Constant(-1)},
		"Uniform: least is 2ns, most is 1ns: must be 0 <= least <= most":            {Service: Uniform(2, 1)},
		"Exponential: mean is -1ns: must be 0 or more":                              {Service: Exponential(-1)},
		"LogNormal: median is -1ns: must be 0 or more":                              {Service: LogNormal(-1, 1)},
		"LogNormal: sigma is NaN: must be a number, 0 or more":                      {Service: LogNormal(1, math.NaN())},
		"List: no times: must be at least one":                                      {Service: List()},
		"List: time 1 is -2ns: must be 0 or more":                                   {Service: List(1, -2)},
		"Draw: f is nil: must be a function":                                        {Service: Draw(nil)},
		"Stalls[1] is 5ns to 5ns: must be 0 <= From < To":                           {Stalls: []Stall{{1, 2}, {5, 5}}},
		"FailEvery is -1: must be 0 or more":                                        {FailEvery: -1},
		"FailProbability is NaN: must be 0 to 1":                                    {FailProbability: math.NaN()},
		"FailProbability is 1.5: must be 0 to 1":                                    {FailProbability: 1.5},
		"N is -3: must be 1 or more, or 0 for no rate":                              {Limits: Limits{N: -3}},
		"Burst is 0: must be 1 or more":                                             {Limits: Limits{N: 1, Period: 1}},
		"N is 0 while Period is 0s and Burst is 4: must be 1 or more, or all three": {Limits: Limits{Burst: 4}},
		"MaxInFlight is -1: must be 0 or more":                                      {Limits: Limits{MaxInFlight: -1}},
	} {
		if _, err := NewDownstream(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestDistributionsHaveTheirShape(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 20_000
	draw := func(d Dist) (times []time.Duration, mean time.Duration) {
		for i := range int64(n) {
			x := d.draw(i, r)
			times = append(times, x)
			mean += x / n
		}
		slices.Sort(times)
		return times, mean
	}
	near := func(name string, got, want time.Duration) {
		t.Helper()
		if got < want*95/100 || got > want*105/100 {
			t.Errorf("%s: %v, want about %v", name, got, want)
		}
	}
	u, mean := draw(Uniform(time.Second, 3*time.Second))
	near("uniform mean", mean, 2*time.Second)
	if u[0] < time.Second || u[n-1] > 3*time.Second {
		t.Errorf("uniform from %v to %v", u[0], u[n-1])
	}
	_, mean = draw(Exponential(time.Second))
	near("exponential mean", mean, time.Second)
	l, _ := draw(LogNormal(time.Second, 1))
	near("log-normal median", l[n/2], time.Second)
	near("log-normal 84th percentile", l[n*8413/10000], 2718281828*time.Nanosecond)
	if both, _ := draw(Uniform(0, 1)); both[0] != 0 || both[n-1] != 1 {
		t.Error("uniform leaves out a bound")
	}
	e, _ := draw(Uniform(0, math.MaxInt64))
	if e[0] < 0 {
		t.Error("uniform over everything overflows")
	}
	if x := LogNormal(math.MaxInt64, 50).draw(0, rand.New(rand.NewPCG(1, 1))); x < 0 {
		t.Errorf("log-normal overflows to %v", x)
	}
	d := newDownstream(t, DownstreamConfig{Service: Draw(func(call int64, _ *rand.Rand) time.Duration { return -time.Duration(call) })})
	if err := d.Call(t.Context()); err != nil {
		t.Error(err)
	}
}
