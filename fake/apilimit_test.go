package fake_test

import (
	"math/big"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

// told is a dialect that hands a refusal's exact wait to the test.
func told(h http.Header, s fake.APIState) (int, []byte) {
	if r := s.Refused(); r != nil {
		h.Set("Wait", strconv.FormatInt(int64(r.RetryAfter), 10))
	}
	return 0, nil
}

func costOf(r *http.Request) int64 {
	cost, _ := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
	return cost
}

// passed is a request that was admitted, at an offset from the beginning.
type passed struct {
	at   time.Duration
	cost int64
}

// The models look through everything that ever passed, for each question.
func fixedModel(l fake.APILimit, in []passed, at time.Duration, cost int64) bool {
	var end time.Duration
	var used int64
	for _, p := range append(in[:len(in):len(in)], passed{at, cost}) {
		if p.at >= end {
			used, end = 0, p.at+l.Period
			if l.Aligned {
				end = p.at - p.at%l.Period + l.Period // the clock begins at a multiple of every Period used here
			}
		}
		used += p.cost
	}
	return used <= l.N
}

func slidingModel(l fake.APILimit, in []passed, at time.Duration, cost int64) bool {
	for _, p := range in {
		if p.at+l.Period > at {
			cost += p.cost
		}
	}
	return cost <= l.N
}

// A bucket that began full has enough if and only if no span that ends now costs more than burst + rate*length.
func bucketModel(l fake.APILimit, in []passed, at time.Duration, cost int64) bool {
	if cost > l.Burst {
		return false
	}
	for i := len(in) - 1; i >= 0; i-- {
		cost += in[i].cost
		allowed := big.NewRat(l.N, int64(l.Period))
		allowed.Mul(allowed, big.NewRat(int64(at-in[i].at), 1))
		allowed.Add(allowed, big.NewRat(l.Burst, 1))
		if allowed.Cmp(big.NewRat(cost, 1)) < 0 {
			return false
		}
	}
	return true
}

// Each pair of bytes is a pause and a cost. The limits admit exactly what the models do, and the wait told is exact to the nanosecond.
func FuzzAPILimits(f *testing.F) {
	f.Add([]byte{0, 3, 0, 4, 0, 1, 50, 2, 49, 7, 1, 7, 100, 0, 99, 5, 1, 3})
	f.Add([]byte{10, 7, 90, 1, 100, 1, 5, 9, 5, 6, 94, 1, 1, 1, 255, 8, 0, 0})
	f.Add([]byte{33, 2, 33, 2, 33, 2, 33, 2, 33, 2, 33, 2, 33, 2, 33, 2, 33, 2})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const unit = 10 * time.Millisecond
		kinds := []struct {
			limit fake.APILimit
			fits  func(fake.APILimit, []passed, time.Duration, int64) bool
			never int64 // a higher cost never passes
		}{
			{fake.APILimit{Kind: fake.FixedWindow, N: 7, Period: 100 * unit}, fixedModel, 7},
			{fake.APILimit{Kind: fake.FixedWindow, N: 7, Period: 100 * unit, Aligned: true}, fixedModel, 7},
			{fake.APILimit{Kind: fake.SlidingWindow, N: 7, Period: 100 * unit}, slidingModel, 7},
			{fake.APILimit{Kind: fake.TokenBucket, N: 7, Period: 100 * unit, Burst: 5}, bucketModel, 5},
		}
		for _, k := range kinds {
			k.limit.Name, k.limit.Cost = "l", costOf
			clock := fake.NewClock(fake.Epoch)
			rt := newAPI(t, fake.APIConfig{Clock: clock, Dialect: told, Limits: []fake.APILimit{k.limit}}).Transport()
			var in []passed
			for i := 0; i+1 < len(ops); i += 2 {
				clock.Advance(time.Duration(ops[i]) * unit)
				at, cost := clock.Now().Sub(fake.Epoch), int64(ops[i+1]%10)
				r, _ := get(t, rt, "http://api/?cost="+strconv.FormatInt(cost, 10), "k")
				want := k.fits(k.limit, in, at, cost)
				if got := r.StatusCode == 200; got != want {
					t.Fatalf("%v, request %d at %v of %d: admitted %v, the model says %v", k.limit.Kind, i/2, at, cost, got, want)
				}
				if want {
					in = append(in, passed{at, cost})
					continue
				}
				told, err := strconv.ParseInt(r.Header.Get("Wait"), 10, 64)
				if wait := time.Duration(told); err != nil || wait <= 0 {
					t.Fatalf("%v: the wait told is %v, %v", k.limit.Kind, wait, err)
				} else if cost <= k.never && (!k.fits(k.limit, in, at+wait, cost) || k.fits(k.limit, in, at+wait-1, cost)) {
					t.Fatalf("%v, request %d at %v of %d: the wait told is %v, not the first instant that fits", k.limit.Kind, i/2, at, cost, wait)
				}
			}
		}
	})
}

func TestConcurrencyCountsExactlyThoseBeingServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t, fake.APIConfig{
			Limits:  []fake.APILimit{{Name: "c", Kind: fake.Concurrency, N: 3}},
			Service: fake.Uniform(time.Second, 9*time.Second), Seed: 7,
		})
		rt := api.Transport()
		type call struct{ from, to time.Time } // of those admitted
		done := make(chan call, 100)
		var calls []call
		refused := 0
		for range 100 {
			before := api.Report()
			go func() {
				from := time.Now()
				r, _ := get(t, rt, "http://api/", "k")
				if r.StatusCode == 200 {
					done <- call{from, time.Now()}
					return
				}
				done <- call{}
			}()
			synctest.Wait()
			if after := api.Report(); (after.Refused > before.Refused) != (before.InFlight == 3) {
				t.Fatalf("with %d in flight: %d were refused, then %d", before.InFlight, before.Refused, after.Refused)
			}
			time.Sleep(1300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for range 100 {
			if c := <-done; c.from.IsZero() {
				refused++
			} else {
				calls = append(calls, c)
			}
		}
		r := api.Report()
		if refused == 0 || int(r.RefusedBy["c"]) != refused || int(r.Answered) != len(calls) || r.InFlight != 0 {
			t.Errorf("%d refused, %d answered: report %v", refused, len(calls), r)
		}
		for _, c := range calls { // no instant has more than 3
			n := 0
			for _, o := range calls {
				if !o.from.After(c.from) && o.to.After(c.from) {
					n++
				}
			}
			if n > 3 {
				t.Errorf("%d in flight", n)
			}
		}
	})
}
