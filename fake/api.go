package fake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// APIConfig describes a rate-limited API. A zero field means that there is no such thing.
type APIConfig struct {
	// Clock is what limits and service times run on. Nil: package time, which is virtual within a testing/synctest bubble.
	Clock TimeSource
	// Limits are enforced together: a request that one of them refuses is charged to none.
	Limits []APILimit
	// Dialect writes headers and refusals as a known API does. Nil: Generic.
	Dialect Dialect
	// Key says whose limits a request counts against. Nil: the Authorization header. It is called once for each request, before any
	// lock is taken. The body can be read by it, and by each Cost: each finds it from the beginning.
	Key func(*http.Request) string
	// Answer serves the requests that are let through. Nil: 200, with the dialect's body or {}.
	Answer http.Handler

	// Latency passes between the sending of a request and its judgement by the limits. Zero: none.
	Latency Dist
	// Service passes between admission and the answer; the request is in flight meanwhile. Zero: none.
	Service Dist
	// Seed makes draws of both reproducible: the k-th arrival, and the k-th admission, always get the same ones.
	Seed uint64
	// Stalls are times, counted from NewAPI, in which nothing is answered. They may overlap.
	Stalls []Stall
	// FailEvery k answers the k-th, 2k-th, ... admitted request with FailStatus, after its service time. 0 or more.
	FailEvery int64
	// FailStatus is 500 to 599. Zero: 500.
	FailStatus int
	// DropEvery k cuts the connection of the k-th, 2k-th, ... admitted request in place of an answer, after its service time, so that
	// its caller cannot know that it was counted. Where a request would fail as well, it is dropped. 0 or more.
	DropEvery int64
}

// maxBody is the largest request body that an API reads, in bytes.
const maxBody = 32 << 20

// API plays a service with rate limits: it counts and refuses requests as real ones do, answers in their dialects, and
// keeps account of its callers for a test to assert on (Report).
//
//	you want                                                 take
//	a server on the loopback, for any client                 Start
//	no network: virtual time, testing/synctest, fake.Clock   Transport
//	it behind a server or mux of your own                    the API itself: it is an http.Handler
//
//	from      event                        to         who moves it
//	-         request arrives              arriving   its caller
//	arriving  latency over, within limits  serving    the caller
//	arriving  latency over, beyond one     refused    the caller
//	arriving  context done                 gone       the caller
//	serving   service over, not stalled    answered, failed or dropped
//	serving   context done                 abandoned  the caller
//
// Truths: 1. A request that is refused is charged to no limit. 2. Each admitted request ends once. 3. Concurrency counts exactly those serving,
// the time in Answer included. 4. Instants, read under one lock, never go back: earlier ones count as the latest seen.
//
// Use NewAPI; the zero API is unusable. All methods may be called from many goroutines. It keeps some 50 bytes for each request and limit.
type API struct {
	config  APIConfig
	clock   TimeSource
	born    time.Time
	stalls  []Stall
	mu      sync.Mutex
	latest  time.Time
	network *rand.Rand
	service *rand.Rand
	limits  []map[string]*account // by limit, then by key
	arrived int64
	report  APIReport // its counts; the rest is reckoned when asked for
}

// NewAPI returns an API that begins now on its clock. A value out of its range is an error that names it.
func NewAPI(c APIConfig) (*API, error) {
	errs := []error{c.Latency.err, c.Service.err}
	names := make(map[string]bool)
	for i, l := range c.Limits {
		if err := l.check(); err != nil {
			errs = append(errs, fmt.Errorf("Limits[%d]: %w", i, err))
		}
		if names[l.Name] {
			errs = append(errs, fmt.Errorf("Limits[%d]: Name is %q: must be used once", i, l.Name))
		}
		names[l.Name] = true
	}
	for i, s := range c.Stalls {
		if s.From < 0 || s.To <= s.From {
			errs = append(errs, fmt.Errorf("Stalls[%d] is %v to %v: must be 0 <= From < To", i, s.From, s.To))
		}
	}
	if c.FailEvery < 0 {
		errs = append(errs, fmt.Errorf("FailEvery is %d: must be 0 or more", c.FailEvery))
	}
	if c.DropEvery < 0 {
		errs = append(errs, fmt.Errorf("DropEvery is %d: must be 0 or more", c.DropEvery))
	}
	if c.FailStatus != 0 && (c.FailStatus < 500 || c.FailStatus > 599) {
		errs = append(errs, fmt.Errorf("FailStatus is %d: must be 500 to 599, or 0 for 500", c.FailStatus))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("fake: APIConfig: %w", err)
	}
	a := &API{config: c, clock: c.Clock, stalls: mergeStalls(c.Stalls),
		network: rand.New(rand.NewPCG(c.Seed, 3)), service: rand.New(rand.NewPCG(c.Seed, 4))}
	if a.clock == nil {
		a.clock = processClock{}
	}
	if c.Key == nil {
		a.config.Key = func(r *http.Request) string { return r.Header.Get("Authorization") }
	}
	if c.Dialect == nil {
		a.config.Dialect = Generic
	}
	a.config.FailStatus = cmp.Or(c.FailStatus, http.StatusInternalServerError)
	a.config.Limits = append([]APILimit(nil), c.Limits...)
	for range c.Limits {
		a.limits = append(a.limits, make(map[string]*account))
	}
	a.report.Keys, a.report.Paths = make(map[string]APICounts), make(map[string]APICounts)
	a.born = a.clock.Now()
	a.latest = a.born
	return a, nil
}

// visit is one request on its way through an API.
type visit struct {
	key    string
	path   string
	keys   []string // by limit
	costs  []int64  // by limit
	number int64    // of the admission: 0, 1, ...
	due    time.Time
	state  APIState
	drop   bool
	fail   bool
}

// ServeHTTP judges the request, waits for its service time, and answers. A request that is dropped, or whose context ends, panics with
// http.ErrAbortHandler, which net/http and Transport take for a cut connection. A body above 32 MiB is answered 413, uncounted.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := a.visitOf(r)
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	if !a.sleep(r.Context(), a.travel()) {
		a.count(v, func(c *APICounts) { c.Gone++ })
		panic(http.ErrAbortHandler)
	}
	admitted := a.admit(v)
	v.state.Request = r
	status, body := a.config.Dialect(w.Header(), v.state)
	if !admitted {
		write(w, cmp.Or(status, http.StatusTooManyRequests), body)
		return
	}
	outcome := func(c *APICounts) { c.Abandoned++ } // also where Answer panics
	defer func() { a.leave(v, outcome) }()
	if !a.sleep(r.Context(), v.due.Sub(a.clock.Now())) {
		panic(http.ErrAbortHandler) // to return would be to answer 200
	}
	switch {
	case v.drop:
		outcome = func(c *APICounts) { c.Dropped++ }
		panic(http.ErrAbortHandler)
	case v.fail:
		write(w, a.config.FailStatus, []byte(`{"error":"the fake API failed as configured"}`))
		outcome = func(c *APICounts) { c.Failed++ }
	case a.config.Answer != nil:
		a.config.Answer.ServeHTTP(w, r)
		outcome = func(c *APICounts) { c.Answered++ }
	default:
		if body == nil {
			body = []byte("{}")
		}
		write(w, cmp.Or(status, http.StatusOK), body)
		outcome = func(c *APICounts) { c.Answered++ }
	}
}

// write writes the whole answer. net/http sends so small a one only once the handler has returned, when the visit has left: a client
// that has seen an answer finds its place in flight free.
func write(w http.ResponseWriter, status int, body []byte) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone is its own affair
}

// visitOf reads the body, the keys and the costs of a request, and leaves its body as if unread.
func (a *API) visitOf(r *http.Request) (*visit, error) {
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		if body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody)); err != nil {
			return nil, fmt.Errorf("fake: the API could not read the request: %w", err)
		}
	}
	rewind := func() {
		if body != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	rewind()
	v := &visit{key: a.config.Key(r), path: r.URL.Path}
	rewind()
	for _, l := range a.config.Limits {
		key, cost := v.key, int64(1)
		if l.Key != nil {
			key = l.Key(r)
			rewind()
		}
		if l.Cost != nil {
			cost = min(max(l.Cost(r), 0), 2*maxSize)
			rewind()
		}
		v.keys, v.costs = append(v.keys, key), append(v.costs, cost)
	}
	return v, nil
}

// travel draws the latency of the next arrival.
func (a *API) travel() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arrived++
	if a.config.Latency.draw == nil {
		return 0
	}
	return a.config.Latency.draw(a.arrived-1, a.network)
}

// sleep waits for d on the API's clock; false: ctx ended first.
func (a *API) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	done := make(chan struct{})
	stop := a.clock.AfterFunc(d, func() { close(done) })
	select {
	case <-done:
		return true
	case <-ctx.Done():
		stop()
		return false
	}
}

// admit judges a visit by all limits, charges them if none refuses, and notes the state to be told.
func (a *API) admit(v *visit) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.clock.Now(); now.After(a.latest) {
		a.latest = now
	}
	now := a.latest
	v.state = APIState{Now: now, Key: v.key, Limits: make([]LimitState, len(a.config.Limits)), refusing: -1}
	accounts := make([]*account, len(a.config.Limits))
	for i, l := range a.config.Limits {
		acct := a.limits[i][v.keys[i]]
		if acct == nil {
			acct = &account{counter: l.newCounter()}
			a.limits[i][v.keys[i]] = acct
		}
		accounts[i] = acct
		ok, wait := acct.counter.fits(now, v.costs[i])
		s := &v.state.Limits[i]
		s.Limit, s.Cost, s.RetryAfter, s.Refused = l, v.costs[i], wait, !ok
		// The longest wait is the one to tell: a client that comes back earlier is refused again.
		if worst := v.state.refusing; !ok && (worst < 0 || wait > v.state.Limits[worst].RetryAfter) {
			v.state.refusing = i
		}
	}
	admitted := v.state.refusing < 0
	for i, acct := range accounts {
		s := &v.state.Limits[i]
		first := len(acct.log) == 0
		acct.log = append(acct.log, asked{now, v.costs[i], acct.counter.held(), admitted})
		if admitted {
			acct.counter.take(now, v.costs[i])
		}
		if s.Refused {
			acct.refused++
		}
		s.Remaining, s.Reset = acct.counter.state(now)
		if first || s.Remaining < acct.left {
			acct.left = s.Remaining
		}
	}
	if !admitted {
		a.countLocked(v, func(c *APICounts) { c.refuse(a.config.Limits[v.state.refusing].Name) })
		return false
	}
	v.number = a.report.Admitted
	a.countLocked(v, func(c *APICounts) {
		c.Admitted++
		c.InFlight++
		c.PeakInFlight = max(c.PeakInFlight, c.InFlight)
	})
	var service time.Duration
	if a.config.Service.draw != nil {
		service = max(a.config.Service.draw(v.number, a.service), 0)
	}
	v.due = a.born.Add(endOfService(a.stalls, now.Sub(a.born), service))
	every := func(k int64) bool { return k > 0 && (v.number+1)%k == 0 }
	v.drop, v.fail = every(a.config.DropEvery), every(a.config.FailEvery)
	return true
}

// leave ends an admitted visit.
func (a *API) leave(v *visit, outcome func(*APICounts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.config.Limits {
		a.limits[i][v.keys[i]].counter.release(v.costs[i])
	}
	a.countLocked(v, func(c *APICounts) {
		c.InFlight--
		outcome(c)
	})
}

func (a *API) count(v *visit, f func(*APICounts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.countLocked(v, f)
}

// countLocked counts for the whole, for the key and for the path.
func (a *API) countLocked(v *visit, f func(*APICounts)) {
	f(&a.report.APICounts)
	key, path := a.report.Keys[v.key], a.report.Paths[v.path]
	f(&key)
	f(&path)
	a.report.Keys[v.key], a.report.Paths[v.path] = key, path
}
