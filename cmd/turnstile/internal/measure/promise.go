// Package measure judges what was observed: starts against the promise, exactly, in integers;
// the most events in a sliding window; percentiles; peaks of things that overlap.
//
// Instants are nanoseconds since an origin of the caller's choice.
package measure

import (
	"fmt"
	"strconv"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// A Promise is what a rate limit says of its starts: in every window of length t, at most
// Burst + Rate x (t + Slack) of them.
type Promise struct {
	Rate  throttle.Rate
	Burst int64
	Slack time.Duration
}

// String returns the promise as a formula: "5 + 20/s x (t + 10ms)".
func (p Promise) String() string {
	return fmt.Sprintf("%d + %v x (t + %v)", p.Burst, p.Rate, p.Slack)
}

// Within returns how many starts are promised at most in a window of length t, for showing. Judge does not use it.
func (p Promise) Within(t time.Duration) float64 {
	return float64(p.Burst) + p.PerSecond()*(t+p.Slack).Seconds()
}

// PerSecond returns the rate in starts a second, for showing.
func (p Promise) PerSecond() float64 {
	return float64(p.Rate.N) / p.Rate.Period.Seconds()
}

// A Worst is the window in which starts came closest to the promise, or exceeded it most.
type Worst struct {
	Starts  int64
	From    int64         // instant of the first start in the window
	Length  time.Duration // from the first start to the last; both count
	Allowed float64       // what was promised for this length, for showing
	Kept    bool          // exact: Starts <= Burst + Rate x (Length + Slack), here and so in every window
}

// String says what was found: "12 starts in 105ms, where 7.3 are promised: kept".
func (w Worst) String() string {
	verdict := "kept"
	if !w.Kept {
		verdict = "BROKEN"
	}
	return fmt.Sprintf("%d %s in %v, where %s are promised: %s",
		w.Starts, plural(w.Starts, "start"), Round(w.Length), decimals(w.Allowed), verdict)
}

// Judge finds the worst window among the starts, whose order does not matter. No starts: the zero
// window, kept. The arithmetic is fake.WorstWindow's, exact. It costs O(n log n) and, for a moment, about 64 bytes a start.
func (p Promise) Judge(starts []int64) (Worst, error) {
	origin := time.Unix(0, 0)
	list := make([]fake.Start, len(starts))
	for i, at := range starts {
		list[i].At = origin.Add(time.Duration(at))
	}
	w, err := fake.WorstWindow(list, p.Burst, p.Rate.N, p.Rate.Period, p.Slack)
	if err != nil {
		return Worst{}, err
	}
	if w.Starts == 0 {
		return Worst{Allowed: p.Within(0), Kept: true}, nil
	}
	allowed, _ := w.Allowed.Float64()
	return Worst{
		Starts:  int64(w.Starts),
		From:    int64(w.From.Sub(origin)),
		Length:  w.To.Sub(w.From),
		Allowed: allowed,
		Kept:    w.OK(),
	}, nil
}

// Round shortens a duration for showing, to three or four digits.
func Round(d time.Duration) time.Duration {
	for unit := time.Duration(1); unit < 100*time.Second; unit *= 10 {
		if d.Abs() < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}

// plural returns noun, with an s unless n is 1.
func plural(n int64, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// decimals shows a number with one decimal where that says something.
func decimals(x float64) string {
	if x == float64(int64(x)) {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}
