package fake_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

func TestTheReportCountsByKeyPathAndLimit(t *testing.T) {
	clock := fake.NewClock(fake.Epoch)
	api := newAPI(t, fake.APIConfig{Clock: clock, Limits: []fake.APILimit{
		{Name: "each", Kind: fake.SlidingWindow, N: 2, Period: time.Second},
		{Name: "all", Kind: fake.FixedWindow, N: 3, Period: time.Minute, Key: func(*http.Request) string { return "everyone" }},
	}})
	for _, c := range []struct {
		pause time.Duration
		key   string
		path  string
	}{{0, "a", "/x"}, {0, "a", "/x"}, {0, "a", "/y"}, {time.Second, "a", "/y"}, {0, "b", "/x"}, {0, "b", "/x"}} {
		clock.Advance(c.pause)
		get(t, api.Transport(), "http://api"+c.path, c.key)
	}
	r := api.Report()
	for name, c := range map[string]struct{ got, want fake.APICounts }{
		"total": {r.APICounts, fake.APICounts{Admitted: 3, Answered: 3, Refused: 3, RefusedBy: map[string]int64{"each": 1, "all": 2}, PeakInFlight: 1}},
		"a":     {r.Keys["a"], fake.APICounts{Admitted: 3, Answered: 3, Refused: 1, RefusedBy: map[string]int64{"each": 1}, PeakInFlight: 1}},
		"b":     {r.Keys["b"], fake.APICounts{Refused: 2, RefusedBy: map[string]int64{"all": 2}}},
		"/x":    {r.Paths["/x"], fake.APICounts{Admitted: 2, Answered: 2, Refused: 2, RefusedBy: map[string]int64{"all": 2}, PeakInFlight: 1}},
		"/y":    {r.Paths["/y"], fake.APICounts{Admitted: 1, Answered: 1, Refused: 1, RefusedBy: map[string]int64{"each": 1}, PeakInFlight: 1}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
	want := []fake.LimitReport{
		{Limit: "each", Kind: fake.SlidingWindow, Key: "a", N: 2, Refused: 1, Peak: 2, PeakAsked: 3, PeakAt: fake.Epoch, Left: 0},
		{Limit: "each", Kind: fake.SlidingWindow, Key: "b", N: 2, Refused: 0, Peak: 0, PeakAsked: 2, Left: 2},
		{Limit: "all", Kind: fake.FixedWindow, Key: "everyone", N: 3, Refused: 2, Peak: 3, PeakAsked: 6, PeakAt: fake.Epoch, Left: 0},
	}
	if !reflect.DeepEqual(r.Limits, want) {
		t.Errorf("limits %+v\nwant %+v", r.Limits, want)
	}
	if err := r.Err(); err == nil || err.Error() != `fake: the API refused 3 of 6 requests: 2 by "all", 1 by "each"` {
		t.Errorf("Err: %v", err)
	}
	r.Keys["a"].RefusedBy["each"] = 99
	if api.Report().Keys["a"].RefusedBy["each"] != 1 {
		t.Error("a report shares memory with the API")
	}
}

func TestAFixedWindowLetsTwiceAsManyPassAcrossItsEdge(t *testing.T) {
	clock := fake.NewClock(fake.Epoch)
	api := newAPI(t, fake.APIConfig{Clock: clock, Limits: []fake.APILimit{
		{Name: "w", Kind: fake.FixedWindow, N: 5, Period: time.Minute, Aligned: true}}})
	clock.Advance(59 * time.Second)
	for range 5 {
		get(t, api.Transport(), "http://api/", "k")
	}
	clock.Advance(time.Second)
	for range 5 {
		get(t, api.Transport(), "http://api/", "k")
	}
	r := api.Report()
	if l := r.Limits[0]; r.Err() != nil || l.Peak != 10 || !l.PeakAt.Equal(fake.Epoch.Add(59*time.Second)) {
		t.Errorf("%v; peak at %v", r, l.PeakAt)
	}
}

// The peak in flight, and which requests were dropped, failed or left by their callers.
func TestEveryAdmittedRequestEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t, fake.APIConfig{
			Limits:  []fake.APILimit{{Name: "c", Kind: fake.Concurrency, N: 9}},
			Service: fake.Constant(time.Second), Latency: fake.Constant(time.Second),
			FailEvery: 3, DropEvery: 4, FailStatus: 502,
			Stalls: []fake.Stall{{From: 1500 * time.Millisecond, To: 5 * time.Second}},
		})
		var group sync.WaitGroup
		results := map[string]int{}
		var mu sync.Mutex
		call := func(patience time.Duration) {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://api/", strings.NewReader("x"))
				response, err := api.Transport().RoundTrip(r)
				result := "other"
				switch {
				case errors.Is(err, io.ErrUnexpectedEOF):
					result = "dropped"
				case errors.Is(err, context.DeadlineExceeded):
					result = "left"
				case err == nil && response.StatusCode == 502:
					result = "failed"
				case err == nil && response.StatusCode == 200:
					result = "answered"
				}
				mu.Lock()
				results[result]++
				mu.Unlock()
			})
		}
		begin := time.Now()
		for range 8 {
			call(time.Hour)
		}
		call(1500 * time.Millisecond) // while it is served
		call(500 * time.Millisecond)  // on its way
		group.Wait()
		// 500 ms of service, the stall to 5 s, the other 500 ms.
		if took := time.Since(begin); took != 5500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		r := api.Report()
		if r.Admitted != 9 || r.Gone != 1 || r.InFlight != 0 || r.PeakInFlight != 9 || r.Limits[0].Peak != 9 || r.Limits[0].Left != 0 {
			t.Errorf("report %v", r)
		}
		if r.Answered+r.Failed+r.Dropped+r.Abandoned != 9 || r.Abandoned != 1 || r.Dropped+r.Failed < 4 {
			t.Errorf("report %v", r)
		}
		want := map[string]int{"answered": int(r.Answered), "failed": int(r.Failed), "dropped": int(r.Dropped), "left": 2}
		if !reflect.DeepEqual(results, want) {
			t.Errorf("callers saw %v, the report says %v", results, want)
		}
	})
}

func TestARequestThatOneLimitRefusesIsChargedToNone(t *testing.T) {
	clock := fake.NewClock(fake.Epoch)
	api := newAPI(t, fake.APIConfig{Clock: clock, Dialect: fake.OpenAI, Limits: []fake.APILimit{
		{Name: "requests", Kind: fake.TokenBucket, N: 10, Period: time.Minute},
		{Name: "tokens", Kind: fake.TokenBucket, N: 100, Period: time.Minute, Cost: costOf},
		{Name: "c", Kind: fake.Concurrency, N: 1},
	}})
	get(t, api.Transport(), "http://api/?cost=60", "k")
	for range 5 {
		r, _ := get(t, api.Transport(), "http://api/?cost=60", "k")
		if r.StatusCode != 429 || r.Header.Get("X-Ratelimit-Remaining-Requests") != "9" || r.Header.Get("X-Ratelimit-Remaining-Tokens") != "40" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
	}
	if r, _ := get(t, api.Transport(), "http://api/?cost=40", "k"); r.StatusCode != 200 {
		t.Errorf("what is left: %d", r.StatusCode)
	}
}

func TestKeyCostAndAnswerAllReadTheBody(t *testing.T) {
	bodyLength := func(r *http.Request) int64 { b, _ := io.ReadAll(r.Body); return int64(len(b)) }
	api := newAPI(t, fake.APIConfig{Clock: fake.NewClock(fake.Epoch),
		Key:    func(r *http.Request) string { b, _ := io.ReadAll(r.Body); return string(b[:2]) },
		Limits: []fake.APILimit{{Name: "bytes", Kind: fake.SlidingWindow, N: 10, Period: time.Second, Cost: bodyLength}},
		Answer: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })})
	closed := false
	body := struct {
		io.Reader
		io.Closer
	}{strings.NewReader("1234567"), closerFunc(func() error { closed = true; return nil })}
	r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://api/", body)
	response, err := api.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	echo, _ := io.ReadAll(response.Body)
	if string(echo) != "1234567" || response.Header.Get("RateLimit") != `"bytes";r=3;t=1` || !closed || api.Report().Keys["12"].Answered != 1 {
		t.Errorf("%q, %q, closed %v", echo, response.Header.Get("RateLimit"), closed)
	}
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

func TestCloseEndsWhatIsStillServed(t *testing.T) {
	api := newAPI(t, fake.APIConfig{Service: fake.Constant(time.Hour)})
	server, err := api.Start()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	failed := make(chan error)
	go func() {
		response, err := client.Post(server.URL, "text/plain", strings.NewReader("x"))
		if err == nil {
			err = response.Body.Close()
		}
		failed <- err
	}()
	if err := fake.Until(t.Context(), func() bool { return api.Report().InFlight == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("the caller got an answer")
	}
	if r := api.Report(); r.Abandoned != 1 || r.InFlight != 0 {
		t.Errorf("%v", r)
	}
	if err := server.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestADroppedRequestIsACutConnection(t *testing.T) {
	server, err := newAPI(t, fake.APIConfig{DropEvery: 1}).Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response, err := client.Post(server.URL, "text/plain", strings.NewReader("x"))
	if err == nil {
		response.Body.Close()
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestAPIConfigErrorsNameFieldAndValue(t *testing.T) {
	good := fake.APILimit{Name: "a", Kind: fake.FixedWindow, N: 1, Period: 1}
	limit := func(change func(*fake.APILimit)) fake.APIConfig {
		l := good
		change(&l)
		return fake.APIConfig{Limits: []fake.APILimit{l}}
	}
	for want, c := range map[string]fake.APIConfig{
		`Limits[0]: Name is "a b"`:            limit(func(l *fake.APILimit) { l.Name = "a b" }),
		`Limits[1]: Name is "a"`:              {Limits: []fake.APILimit{good, good}},
		"Kind is LimitKind(0)":                limit(func(l *fake.APILimit) { l.Kind = 0 }),
		"N is 0":                              limit(func(l *fake.APILimit) { l.N = 0 }),
		"N is 1099511627777":                  limit(func(l *fake.APILimit) { l.N = 1<<40 + 1 }),
		"Period is 0s: must be above":         limit(func(l *fake.APILimit) { l.Period = 0 }),
		"Period is 1ns: must be 0":            limit(func(l *fake.APILimit) { l.Kind = fake.Concurrency }),
		"Burst is 2":                          limit(func(l *fake.APILimit) { l.Burst = 2 }),
		"Aligned is true":                     limit(func(l *fake.APILimit) { l.Kind, l.Aligned = fake.SlidingWindow, true }),
		"Status is 200":                       limit(func(l *fake.APILimit) { l.Status = 200 }),
		"Stalls[0] is 2ns to 1ns":             {Stalls: []fake.Stall{{From: 2, To: 1}}},
		"FailEvery is -1":                     {FailEvery: -1},
		"DropEvery is -1":                     {DropEvery: -1},
		"FailStatus is 404":                   {FailStatus: 404},
		"Constant: d is -1ns: must be 0 or m": {Latency: fake.Constant(-1)},
	} {
		if _, err := fake.NewAPI(c); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "fake: APIConfig: ") {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}
