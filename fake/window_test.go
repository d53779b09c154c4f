package fake

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// slowWorst is the oracle: every pair of starts, every change looked at anew, in rational numbers.
func slowWorst(starts []spending, changes []limits, slack time.Duration) *big.Rat {
	end := func(k int) time.Time {
		if k+1 < len(changes) {
			return changes[k+1].from
		}
		return time.Unix(1<<40, 0)
	}
	begin := func(k int) time.Time {
		if k == 0 {
			return time.Unix(-1<<40, 0)
		}
		return changes[k].from
	}
	var worst *big.Rat
	for i := range starts {
		for j := i; j < len(starts); j++ {
			from, a, b := starts[i].at.Add(-slack), starts[i].at, starts[j].at
			excess := new(big.Rat)
			for _, s := range starts[i : j+1] {
				excess.Add(excess, new(big.Rat).SetInt64(s.cost))
			}
			var burst int64
			for k, c := range changes {
				if !begin(k).After(a) && !end(k).Before(from) {
					burst = max(burst, c.burst)
				}
				lo, hi := from, b
				if begin(k).After(lo) {
					lo = begin(k)
				}
				if end(k).Before(hi) {
					hi = end(k)
				}
				if c.n > 0 && hi.After(lo) {
					gain := new(big.Rat).Mul(big.NewRat(c.n, int64(c.period)), new(big.Rat).SetInt64(int64(hi.Sub(lo))))
					excess.Sub(excess, gain)
				}
			}
			excess.Sub(excess, new(big.Rat).SetInt64(burst))
			if worst == nil || excess.Cmp(worst) > 0 {
				worst = excess
			}
		}
	}
	return worst
}

func TestTheWorstWindowIsTheOneThatAllPairsGive(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 7))
		at := Epoch
		var starts []spending
		changes := []limits{{n: 1 + r.Int64N(5), period: time.Duration(1 + r.Int64N(9)), burst: 1 + r.Int64N(6)}}
		if r.IntN(5) == 0 {
			changes[0] = limits{}
		}
		if r.IntN(4) == 0 { // a change long before the first start
			changes = append(changes, limits{at.Add(-100), 1 + r.Int64N(5), 7, 3})
		}
		for range 1 + r.IntN(14) {
			at = at.Add(time.Duration(r.Int64N(8)))
			if r.IntN(3) == 0 {
				changes = append(changes, limits{at, 1 + r.Int64N(5), time.Duration(1 + r.Int64N(9)), 1 + r.Int64N(6)})
			} else {
				starts = append(starts, spending{at, r.Int64N(4)})
			}
		}
		slack := time.Duration(r.Int64N(3) * r.Int64N(10))
		got, want := worstWindow(starts, changes, slack), slowWorst(starts, changes, slack)
		if want == nil {
			if got.Excess != nil {
				t.Fatalf("seed %d: a window without starts: %v", seed, got)
			}
			continue
		}
		if got.Excess.Cmp(want) != 0 {
			t.Fatalf("seed %d: excess %v, the oracle says %v\nstarts %v\nchanges %v slack %v", seed, got.Excess, want, starts, changes, slack)
		}
		// The window named has that excess by itself.
		var inside []spending
		skip := 0
		for ; !starts[skip].at.Equal(got.From); skip++ {
		}
		found := false
		for ; skip < len(starts) && starts[skip].at.Equal(got.From) && !found; skip++ {
			inside = starts[skip:min(skip+got.Starts, len(starts))]
			alone := new(big.Rat).SetInt64(got.Cost)
			alone.Sub(alone, got.Allowed)
			found = inside[len(inside)-1].at.Equal(got.To) && alone.Cmp(want) == 0 && slowWorst(inside, changes, slack).Cmp(want) == 0
		}
		if !found {
			t.Fatalf("seed %d: the window %v does not have its own excess", seed, got)
		}
	}
}

func TestABurstTwiceInOneSecondIsFoundWithItsBounds(t *testing.T) {
	var starts []Start
	for i := range 200 { // 10/s, burst 5, kept; then ten at once in the middle
		starts = append(starts, Start{At: Epoch.Add(time.Duration(i) * 100 * time.Millisecond)})
		if i == 100 {
			for range 10 {
				starts = append(starts, Start{At: Epoch.Add(10 * time.Second)})
			}
		}
	}
	w, err := WorstWindow(starts, 5, 10, time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Every window that holds the eleven and starts on a step has excess 11-5 = 6; the first is reported.
	if w.OK() || w.Excess.Cmp(big.NewRat(6, 1)) != 0 {
		t.Errorf("got %v, want an excess of 6", w)
	}
	slow, err := WorstWindow(starts, 5, 10, time.Second, 600*time.Millisecond)
	if err != nil || !slow.OK() || slow.Excess.Sign() != 0 {
		t.Errorf("with slack: %v %v, want an excess of exactly 0", slow, err)
	}
	rev := make([]Start, 0, len(starts))
	for i := range starts {
		rev = append(rev, starts[len(starts)-1-i])
	}
	first := rev[0]
	if again, err := WorstWindow(rev, 5, 10, time.Second, 0); err != nil || again.Excess.Cmp(w.Excess) != 0 || rev[0] != first {
		t.Errorf("in another order: %v %v; the caller's list must stay as it is", again, err)
	}
}

func TestOneNanosecondTooEarlyIsFound(t *testing.T) {
	starts := []Start{{At: Epoch}, {At: Epoch.Add(time.Second/3 + 1)}} // a third of a second, rounded up
	if w, err := WorstWindow(starts, 1, 3, time.Second, 0); err != nil || !w.OK() {
		t.Errorf("%v %v", w, err)
	}
	starts[1].At = starts[1].At.Add(-1)
	if w, err := WorstWindow(starts, 1, 3, time.Second, 0); err != nil || w.OK() {
		t.Errorf("%v %v: want an excess", w, err)
	}
}

func TestWorstWindowNamesWhatIsOutOfRange(t *testing.T) {
	for want, call := range map[string]func() (Window, error){
		"N is 0: must be 1 or more":        func() (Window, error) { return WorstWindow(nil, 1, 0, time.Second, 0) },
		"N is -1:":                         func() (Window, error) { return WorstWindow(nil, 1, -1, time.Second, 0) },
		"Period is 0s: must be above 0":    func() (Window, error) { return WorstWindow(nil, 1, 1, 0, 0) },
		"Burst is 0: must be 1 or more":    func() (Window, error) { return WorstWindow(nil, 0, 1, 1, 0) },
		"slack is -1ns: must be 0 or more": func() (Window, error) { return WorstWindow(nil, 1, 1, 1, -1) },
		"costs -2: must be 0 or more":      func() (Window, error) { return WorstWindow([]Start{{Epoch, -2}}, 1, 1, 1, 0) },
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if w, err := WorstWindow(nil, 1, 1, 1, 0); err != nil || !w.OK() || w.String() != "no starts" {
		t.Errorf("no starts: %v %v", w, err)
	}
}

func TestHugeCostsDoNotOverflow(t *testing.T) {
	starts := []Start{{Epoch, 1 << 62}, {Epoch, 1 << 62}, {Epoch, 1 << 62}}
	w, err := WorstWindow(starts, 1<<62, 1, 365*24*time.Hour, 0)
	if err != nil || w.Excess.Cmp(new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 63))) != 0 || w.Cost != 1<<63-1 {
		t.Errorf("%v %v", w, err)
	}
}

func BenchmarkWorstWindow(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		starts := make([]Start, n)
		for i := range starts {
			starts[i].At = Epoch.Add(time.Duration(i) * time.Millisecond)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := WorstWindow(starts, 5, 1000, time.Second, 10*time.Millisecond); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/start")
		})
	}
}
