package measure

import (
	"fmt"
	"slices"
	"time"
)

// Percentiles are of observed durations, each one that was observed (nearest rank, no interpolation).
type Percentiles struct {
	Count              int
	P50, P90, P99, Max time.Duration
}

// PercentilesOf sorts the durations in place and reads the percentiles off. None: all zero.
func PercentilesOf(d []time.Duration) Percentiles {
	if len(d) == 0 {
		return Percentiles{}
	}
	slices.Sort(d)
	rank := func(percent int) time.Duration { return d[(len(d)*percent+99)/100-1] }
	return Percentiles{len(d), rank(50), rank(90), rank(99), d[len(d)-1]}
}

// String returns "p50 12ms  p90 31ms  p99 40ms  max 41ms".
func (p Percentiles) String() string {
	if p.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %v  p90 %v  p99 %v  max %v", Round(p.P50), Round(p.P90), Round(p.P99), Round(p.Max))
}
