package measure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestJudge_IsExactAtTheEdgeOfThePromise(t *testing.T) {
	// 3/s, burst 2, slack 10 ms: the third start is allowed once 3/s x (t + 10 ms) reaches 1, which
	// is at t = 1/3 s - 10 ms, between two nanoseconds.
	p := Promise{Rate: throttle.PerSecond(3), Burst: 2, Slack: 10 * time.Millisecond}
	edge := int64(time.Second)/3 - int64(10*time.Millisecond)
	for _, c := range []struct {
		third int64
		kept  bool
	}{{edge, false}, {edge + 1, true}} {
		w, err := p.Judge([]int64{c.third, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		if w.Kept != c.kept || w.Starts != 3 || w.Length != time.Duration(c.third) || w.From != 0 {
			t.Errorf("third start at %d: %+v, want kept %v, 3 starts", c.third, w, c.kept)
		}
	}
}

func TestJudge_FindsTheBurstInTheMiddle(t *testing.T) {
	p := Promise{Rate: throttle.PerSecond(10), Burst: 1}
	var starts []int64
	for i := range int64(50) {
		starts = append(starts, i*int64(100*time.Millisecond))
	}
	middle := int64(2510 * time.Millisecond)
	starts = append(starts, middle, middle+1, middle+2)
	w, err := p.Judge(starts)
	if err != nil {
		t.Fatal(err)
	}
	if w.Kept || w.Starts < 3 || w.From > middle || w.From+int64(w.Length) < middle+2 {
		t.Errorf("got %+v, want a broken window around %d", w, middle)
	}
	if w, err := p.Judge(nil); err != nil || !w.Kept || w.Starts != 0 {
		t.Errorf("no starts: %+v, %v", w, err)
	}
}

func TestMostInAndTrailing_EqualCountingEveryWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var at []int64
		for range random.IntN(40) {
			at = append(at, random.Int64N(100))
		}
		slices.Sort(at)
		length, span, n := 1+random.Int64N(30), int64(100), 1+random.IntN(20)
		slow := 0
		for _, a := range at {
			in := 0
			for _, b := range at {
				if b >= a && b < a+length {
					in++
				}
			}
			slow = max(slow, in)
		}
		if most, _ := MostIn(at, length); most != slow {
			t.Fatalf("MostIn(%v, %d) = %d, want %d", at, length, most, slow)
		}
		columns := Trailing(at, length, span, n)
		if len(at) > 0 && slices.Max(columns) != slow {
			t.Fatalf("Trailing(%v, %d, %d, %d) = %v, want %d at most", at, length, span, n, columns, slow)
		}
		for c, got := range columns {
			want := 0
			for end := span * int64(c) / int64(n); end < span*int64(c+1)/int64(n); end++ {
				in := 0
				for _, b := range at {
					if b > end-length && b <= end {
						in++
					}
				}
				want = max(want, in)
			}
			if got != want {
				t.Fatalf("Trailing(%v, %d, %d, %d)[%d] = %d, want %d", at, length, span, n, c, got, want)
			}
		}
	}
}

func TestOverlap_EqualsCountingAtEveryInstant(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var spans []Span
		for range random.IntN(20) {
			from := random.Int64N(60)
			spans = append(spans, Span{from, from + random.Int64N(30)})
		}
		open := func(at int64) (n int) {
			for _, s := range spans {
				if s.From <= at && at < s.To {
					n++
				}
			}
			return n
		}
		length, n := int64(80), 8
		peak, columns := Overlap(spans, length, n)
		slow := 0
		for c := range columns {
			most := 0
			for at := length * int64(c) / int64(n); at < length*int64(c+1)/int64(n); at++ {
				most = max(most, open(at))
			}
			if columns[c] < most || columns[c] > max(most, open(length*int64(c)/int64(n)-1)) {
				t.Fatalf("column %d of %v: %d, want %d", c, spans, columns[c], most)
			}
		}
		for at := range int64(100) {
			slow = max(slow, open(at))
		}
		if peak != slow {
			t.Fatalf("Overlap(%v): peak %d, want %d", spans, peak, slow)
		}
	}
}

func TestPercentiles_AreObservedValues(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i))
	}
	if p, want := PercentilesOf(d), (Percentiles{200, 100, 180, 198, 200}); p != want {
		t.Errorf("1 to 200: %+v, want %+v", p, want)
	}
	if p, want := PercentilesOf([]time.Duration{7}), (Percentiles{1, 7, 7, 7, 7}); p != want {
		t.Errorf("one: %+v, want %+v", p, want)
	}
	if s := PercentilesOf(nil).String(); s != "none" {
		t.Errorf("none: %q", s)
	}
}

func TestRound_KeepsThreeOrFourDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                             "0s",
		999:                           "999ns",
		1234567:                       "1.23ms",
		98765432:                      "98.8ms",
		12*time.Second + 345678901:    "12.3s",
		3*time.Hour + 5*time.Second/3: "3h0m2s",
		-1234567:                      "-1.23ms",
	} {
		if got := Round(d).String(); got != want {
			t.Errorf("Round(%d) = %s, want %s", d, got, want)
		}
	}
}
