package fake

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Stall is a time, counted from NewDownstream, in which a downstream finishes nothing. What would end at From or later
// gets its remaining service time from To on. 0 <= From < To.
type Stall struct{ From, To time.Duration }

// mergeStalls sorts the stalls and joins those that touch.
func mergeStalls(stalls []Stall) []Stall {
	stalls = slices.Clone(stalls)
	slices.SortFunc(stalls, func(a, b Stall) int { return cmp.Compare(a.From, b.From) })
	merged := stalls[:0]
	for _, s := range stalls {
		if last := len(merged) - 1; last >= 0 && s.From <= merged[last].To {
			merged[last].To = max(merged[last].To, s.To)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// endOfService returns when a call that starts at start and needs that much service ends, given merged stalls: service stands still
// during a stall, and nothing ends at its first instant, or before its last. Beyond the longest Duration it is that.
func endOfService(stalls []Stall, start, service time.Duration) time.Duration {
	for _, s := range stalls {
		if start >= s.To {
			continue
		}
		if start < s.From {
			if service < s.From-start {
				break
			}
			service -= s.From - start
		}
		start = s.To
	}
	if sum := start + service; sum >= start {
		return sum
	}
	return math.MaxInt64
}
