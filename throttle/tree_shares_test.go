package throttle_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Shares are exact, whatever their size: within one turn over any run of starts, since roundings must not add up.
func TestTurns_SharesAreExactWhateverTheirSize(t *testing.T) {
	for _, test := range []struct{ a, b, starts int64 }{
		{2, 1, 300}, {700_000, 350_000, 300}, {1 << 20, 699_051, 500}, {1000, 700, 3400}, {7, 3, 2000},
	} {
		t.Run(fmt.Sprintf("%d to %d", test.a, test.b), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				top := slowParent(t, &rec, 1)
				a, b := child(t, &rec, top, "a", test.a), child(t, &rec, top, "b", test.b)
				joinMany(t.Context(), a, int(test.starts), 1)
				joinMany(t.Context(), b, int(test.starts), 1)
				time.Sleep(time.Duration(test.starts)*time.Second + time.Second/2)
				gotA := int64(0)
				for i, e := range rec.starts() {
					if e.Limiter == "a" {
						gotA++
					}
					n := int64(i + 1) // a has n x share of all, to one start of each
					if off := gotA*(test.a+test.b) - n*test.a; off > test.a+test.b || off < -test.a-test.b {
						t.Fatalf("after %d starts a has %d of them; want %v within one", n, gotA, float64(n)*float64(test.a)/float64(test.a+test.b))
					}
				}
				time.Sleep(time.Duration(2*test.starts) * time.Second)
			})
		})
	}
}

// A heavy cost that started while nobody else was there is no debt to those who come an hour later: they have one turn each.
func TestTurns_AHeavyStartOfAnIdleHourIsNotOwedToThoseWhoComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1000)
		a, b := child(t, &rec, top, "a", 1), child(t, &rec, top, "b", 1)
		join(t.Context(), a, 1000, 1)
		time.Sleep(time.Hour) // it starts after 1000 s, and nobody asks for the rest
		mustTry(t, top, 1000, 1)
		joinMany(t.Context(), a, 20, 1)
		joinMany(t.Context(), b, 20, 1)
		time.Sleep(10*time.Second + time.Second/2)
		starts := rec.starts()
		got := map[string]int{}
		for _, e := range starts[len(starts)-10:] {
			got[e.Limiter]++
		}
		if got["a"] < 4 || got["b"] < 4 {
			t.Errorf("of ten starts a has %d and b %d; want 5 each within one", got["a"], got["b"])
		}
		time.Sleep(time.Hour)
	})
}
