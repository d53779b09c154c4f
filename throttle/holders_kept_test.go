package throttle

import (
	"context"
	"testing"
)

// Nothing is kept of a caller after its release, whether its record is used again or not; nor of one that was refused in line.
func TestHolders_NothingIsKeptAfterRelease(t *testing.T) {
	for _, dry := range []bool{false, true} {
		l, err := New(Config{MaxInFlight: 3, MaxQueue: 2, Holders: true, DryRun: dry})
		must(t, err)
		var held []Permit
		for range 3 {
			p, err := l.Acquire(context.Background())
			must(t, err)
			held = append(held, p)
		}
		if len(l.holders) != 3 {
			t.Errorf("dry %v: %d are kept; want 3", dry, len(l.holders))
		}
		if dry { // one shadow in line
			p, err := l.Acquire(context.Background())
			must(t, err)
			held = append(held, p)
		}
		l.Close()
		for _, p := range held {
			p.Release()
		}
		if len(l.holders) != 0 {
			t.Errorf("dry %v: %d are kept after all releases; want none", dry, len(l.holders))
		}
	}
}
