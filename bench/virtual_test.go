package main

import (
	"testing"
	"time"
)

func TestTurnstileAloneKeepsItsPromiseOnVirtualTime(t *testing.T) {
	for _, c := range compositions() {
		v := onVirtualTime(t, c)
		ours := v.Name == "Turnstile"
		kept := v.InSecond <= 1 && v.InTenth <= 1 && v.GiveUp == 1 && v.Fast >= 1
		if kept != ours {
			t.Errorf("%+v: kept all promises: %v; want %v", v, kept, ours)
		}
	}
}

func TestStalledRivalsStartWhatTheyWereAskedFor(t *testing.T) {
	// The rows compare only because everybody starts every call, sooner or later. mostWithin an hour counts them.
	for _, c := range compositions() {
		t.Run(named(c.name), func(t *testing.T) {
			inBubble(t, func() {
				if n := mostWithin(stalled(c.make(stallCap)(stallRate, stallBurst)), time.Hour); n != 5400 {
					t.Errorf("%v calls were started; want all 5400", n)
				}
			})
		})
	}
}

func TestMostWithinCountsBothEnds(t *testing.T) {
	var epoch time.Time
	at := []time.Time{epoch.Add(3), epoch, epoch.Add(2), epoch.Add(7)}
	for long, want := range map[time.Duration]float64{0: 1, 1: 2, 2: 2, 3: 3, 5: 3, 7: 4} {
		if got := mostWithin(at, long); got != want {
			t.Errorf("%v within %d ns; want %v", got, long, want)
		}
	}
}
