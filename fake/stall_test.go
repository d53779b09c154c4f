package fake

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestAStallHoldsWhatIsInServiceAndAddsItsRemainder(t *testing.T) {
	stalls := mergeStalls([]Stall{{40, 50}, {10, 30}, {15, 20}, {30, 31}, {41, 42}})
	if want := []Stall{{10, 31}, {40, 50}}; !slices.Equal(stalls, want) {
		t.Fatalf("merged %v, want %v", stalls, want)
	}
	for _, c := range []struct{ start, service, end time.Duration }{
		{0, 9, 9},   // over before the freeze
		{0, 10, 31}, // would end at its first instant
		{0, 12, 33}, // 10 before, 2 after
		{5, 20, 56}, // through both: 5, 9, and 6 after 50
		{10, 0, 31}, // arrives in it
		{20, 3, 34}, // arrives in it
		{31, 5, 36}, // just after
		{32, 8, 50}, // ends at the second's first instant
		{50, 1, 51}, // after all
		{60, math.MaxInt64, math.MaxInt64},
	} {
		if got := endOfService(stalls, c.start, c.service); got != c.end {
			t.Errorf("start %d, service %d: ends at %d, want %d", c.start, c.service, got, c.end)
		}
	}
}
