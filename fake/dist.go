package fake

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Dist is a distribution of service times, for DownstreamConfig.Service.
//
//	you want                                      take
//	every call takes the same                     Constant
//	anything between two bounds                   Uniform
//	memoryless, as in queueing theory             Exponential
//	a typical time and a long tail                LogNormal
//	exactly these, one after the other            List
//	your own                                      Draw
//
// A Dist holds no state and may be shared. A parameter out of its range is reported by NewDownstream. The zero Dist is
// Constant(0): the answer comes at once.
type Dist struct {
	draw func(call int64, r *rand.Rand) time.Duration
	err  error
}

// Draw makes a distribution of a function that is given the number of the call (0, 1, ... in order of starts) and the
// downstream's seeded source. What it returns below 0 counts as 0. It is called under the downstream's lock: it must
// not call the downstream.
func Draw(f func(call int64, r *rand.Rand) time.Duration) Dist {
	if f == nil {
		return Dist{err: fmt.Errorf("fake: Draw: f is nil: must be a function")}
	}
	return Dist{draw: f}
}

// Constant gives d each time; d must be 0 or more.
func Constant(d time.Duration) Dist {
	if d < 0 {
		return Dist{err: fmt.Errorf("fake: Constant: d is %v: must be 0 or more", d)}
	}
	return Dist{draw: func(int64, *rand.Rand) time.Duration { return d }}
}

// Uniform gives each whole nanosecond from least to most, both included, with the same probability; 0 <= least <= most.
func Uniform(least, most time.Duration) Dist {
	if least < 0 || most < least {
		return Dist{err: fmt.Errorf("fake: Uniform: least is %v, most is %v: must be 0 <= least <= most", least, most)}
	}
	return Dist{draw: func(_ int64, r *rand.Rand) time.Duration {
		return least + time.Duration(r.Uint64N(uint64(most-least)+1))
	}}
}

// Exponential gives exponentially distributed times with that mean, which must be 0 or more.
func Exponential(mean time.Duration) Dist {
	if mean < 0 {
		return Dist{err: fmt.Errorf("fake: Exponential: mean is %v: must be 0 or more", mean)}
	}
	return Dist{draw: func(_ int64, r *rand.Rand) time.Duration {
		return duration(float64(mean) * r.ExpFloat64())
	}}
}

// LogNormal gives times whose logarithm is normally distributed: half are below median, 16 % are above median*e^sigma.
// median must be 0 or more; sigma must be a number, 0 or more (1 is a long tail).
func LogNormal(median time.Duration, sigma float64) Dist {
	if median < 0 {
		return Dist{err: fmt.Errorf("fake: LogNormal: median is %v: must be 0 or more", median)}
	}
	if !(sigma >= 0) || math.IsInf(sigma, 1) {
		return Dist{err: fmt.Errorf("fake: LogNormal: sigma is %v: must be a number, 0 or more", sigma)}
	}
	return Dist{draw: func(_ int64, r *rand.Rand) time.Duration {
		return duration(float64(median) * math.Exp(sigma*r.NormFloat64()))
	}}
}

// List gives these times one after the other, and then from the beginning again. There must be at least one, each 0 or
// more.
func List(times ...time.Duration) Dist {
	if len(times) == 0 {
		return Dist{err: fmt.Errorf("fake: List: no times: must be at least one")}
	}
	for i, d := range times {
		if d < 0 {
			return Dist{err: fmt.Errorf("fake: List: time %d is %v: must be 0 or more", i, d)}
		}
	}
	times = slices.Clone(times)
	return Dist{draw: func(call int64, _ *rand.Rand) time.Duration { return times[call%int64(len(times))] }}
}

// duration turns a float of nanoseconds, 0 or more, into a Duration, the longest where it is beyond.
func duration(ns float64) time.Duration {
	if !(ns < math.MaxInt64) { // +Inf, and 0 times +Inf, come here as well
		return math.MaxInt64
	}
	return time.Duration(ns)
}
