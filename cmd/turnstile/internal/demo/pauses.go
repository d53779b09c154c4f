package demo

import (
	"fmt"
	"time"
)

// A machine that is busy with other things delays everything that is measured here, so the report says
// by how much: something that should happen every beat is watched for how late it comes.
const (
	beat       = 10 * time.Millisecond
	worthATell = 50 * time.Millisecond
)

// watchPauses returns, when done is closed, by how much the latest beat came late.
func watchPauses(done <-chan struct{}) (longest time.Duration) {
	timer := time.NewTimer(beat)
	defer timer.Stop()
	last := time.Now()
	for {
		select {
		case <-done:
			return longest
		case <-timer.C:
			now := time.Now()
			longest = max(longest, now.Sub(last)-beat)
			last = now
			timer.Reset(beat)
		}
	}
}

// pauseNote says how long this machine paused, if that was long enough to show in the numbers.
func pauseNote(longest time.Duration) string {
	if longest < worthATell {
		return ""
	}
	return fmt.Sprintf(" This machine was busy: the process stood still for up to %s, which delays and bunches the calls of every way.", seconds(longest))
}
