package fake

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// APICounts counts requests. Each request is counted once among Refused, Gone, and Admitted; each admitted one, once it has ended, once among
// Answered, Failed, Dropped and Abandoned, until then in InFlight.
type APICounts struct {
	Admitted  int64            // passed all limits
	Refused   int64            // by a limit
	RefusedBy map[string]int64 // of these, by the limit's name: the one with the longest wait, where several refused; nil: none
	Gone      int64            // ended by their context before the limits judged them

	Answered  int64
	Failed    int64 // by FailEvery
	Dropped   int64 // by DropEvery
	Abandoned int64 // their context ended, or Answer panicked

	InFlight     int64 // now
	PeakInFlight int64
}

func (c *APICounts) refuse(limit string) {
	c.Refused++
	if c.RefusedBy == nil {
		c.RefusedBy = make(map[string]int64)
	}
	c.RefusedBy[limit]++
}

// Requests is how many reached the limits.
func (c APICounts) Requests() int64 { return c.Admitted + c.Refused }

// LimitReport is how near the callers of one key came to one limit.
type LimitReport struct {
	Limit string // its name
	Kind  LimitKind
	Key   string // whose account
	N     int64  // the limit; a TokenBucket's burst

	Refused int64 // requests that this account had no room for, whether or not another had neither

	// Peak is the highest cost admitted in any half-open span [t, t+Period), or in flight at once for Concurrency. A FixedWindow
	// allows up to 2*N of it, a TokenBucket up to Burst+N; the other kinds N.
	Peak int64
	// PeakAsked is the same with what was refused, by whichever limit: what the callers tried. For Concurrency it is the cost in flight
	// and the one asked for besides.
	PeakAsked int64
	// PeakAt is where the span of Peak begins, or when that much was in flight; zero: nothing was admitted.
	PeakAt time.Time
	// Left is the least that a request left of this limit, charged or refused: 0 is the brink.
	Left int64
}

// APIReport is an API's account of its callers.
type APIReport struct {
	APICounts                      // of all
	Keys      map[string]APICounts // by what APIConfig.Key said
	Paths     map[string]APICounts // by URL path
	Limits    []LimitReport        // in the order of APIConfig.Limits, then by key; those with requests
}

// account is what one key has asked of one limit.
type account struct {
	counter counter
	log     []asked
	refused int64
	left    int64
}

// asked is one request as a limit saw it.
type asked struct {
	at       time.Time
	cost     int64
	held     int64 // in flight before it
	admitted bool
}

// Report returns the account so far, all of one moment. It is the caller's own. It costs O(n) for n requests.
func (a *API) Report() APIReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := APIReport{APICounts: a.report.copy(), Keys: make(map[string]APICounts), Paths: make(map[string]APICounts)}
	for k, c := range a.report.Keys {
		r.Keys[k] = c.copy()
	}
	for p, c := range a.report.Paths {
		r.Paths[p] = c.copy()
	}
	for i, l := range a.config.Limits {
		for _, key := range slices.Sorted(maps.Keys(a.limits[i])) {
			acct := a.limits[i][key]
			lr := LimitReport{Limit: l.Name, Kind: l.Kind, Key: key, N: l.size(), Refused: acct.refused, Left: acct.left}
			if l.Kind == Concurrency {
				lr.Peak, lr.PeakAt = peakHeld(acct.log, false)
				lr.PeakAsked, _ = peakHeld(acct.log, true)
			} else {
				lr.Peak, lr.PeakAt = peakIn(acct.log, l.Period, false)
				lr.PeakAsked, _ = peakIn(acct.log, l.Period, true)
			}
			r.Limits = append(r.Limits, lr)
		}
	}
	return r
}

func (c APICounts) copy() APICounts {
	c.RefusedBy = maps.Clone(c.RefusedBy)
	return c
}

// peakIn finds the half-open span of that length with the highest cost, the first of several. One that begins at a request is among the worst.
func peakIn(log []asked, period time.Duration, refusedToo bool) (peak int64, at time.Time) {
	var sum int64
	first := 0
	for _, e := range log {
		if !e.admitted && !refusedToo {
			continue
		}
		sum += e.cost
		for ; !e.at.Before(log[first].at.Add(period)); first++ {
			if log[first].admitted || refusedToo {
				sum -= log[first].cost
			}
		}
		if sum > peak {
			for !log[first].admitted && !refusedToo {
				first++
			}
			peak, at = sum, log[first].at
		}
	}
	return peak, at
}

func peakHeld(log []asked, refusedToo bool) (peak int64, at time.Time) {
	for _, e := range log {
		if with := e.held + e.cost; (e.admitted || refusedToo) && with > peak {
			peak, at = with, e.at
		}
	}
	return peak, at
}

// Err returns nil if no request was refused, else an error that says how many, by which limits.
func (r APIReport) Err() error {
	if r.Refused == 0 {
		return nil
	}
	var by []string
	for _, name := range slices.Sorted(maps.Keys(r.RefusedBy)) {
		by = append(by, fmt.Sprintf("%d by %q", r.RefusedBy[name], name))
	}
	return errors.New("fake: the API refused " + fmt.Sprintf("%d of %d requests: ", r.Refused, r.Requests()) + strings.Join(by, ", "))
}

// String is a summary of a few lines: the counts, then each limit.
func (r APIReport) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d requests: %d admitted, %d refused; %d answered, %d failed, %d dropped, %d abandoned, %d in flight, at most %d\n",
		r.Requests(), r.Admitted, r.Refused, r.Answered, r.Failed, r.Dropped, r.Abandoned, r.InFlight, r.PeakInFlight)
	for _, l := range r.Limits {
		fmt.Fprintf(&s, "%v %q of %d, key %q: peak %d, asked %d, refused %d, least left %d\n",
			l.Kind, l.Limit, l.N, l.Key, l.Peak, l.PeakAsked, l.Refused, l.Left)
	}
	return s.String()
}
