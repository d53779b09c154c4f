package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
	"github.com/turnstile-go/turnstile/throttle"
)

// A played is the record of one scenario, played one way.
type played struct {
	scenario scenario
	way      way
	flows    []playedFlow
	server   []measure.Span // requests at the server, in order of receipt
}

// A playedFlow is the record of one flow. All instants are since the beginning.
type playedFlow struct {
	starts []int64
	calls  []callRecord
}

// A callRecord is what became of one call.
type callRecord struct {
	arrived int64
	held    int64 // took its permit; -1: never
	started int64 // both limits had let it through; -1: never
	ended   int64 // gave its permit back, or gave up
	failed  bool  // started, and got no good answer
	cut     bool  // still waiting when the drain time ended
}

// play plays the scenario one way, from the instant began on, against a server of its own. It ends early
// with ctx's error.
func play(ctx context.Context, s scenario, w way, began time.Time) (*played, error) {
	server, err := listen(began, s.stall)
	if err != nil {
		return nil, fmt.Errorf("no server on loopback: %w", err)
	}
	var quotas []throttle.Quota
	for _, f := range s.flows {
		quotas = append(quotas, f.quota)
	}
	gates, err := w.build(began, s.inFlight, quotas)
	if err != nil {
		server.close()
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: int(2 * s.inFlight), DisableCompression: true}
	p := &player{
		scenario: s, server: server, began: began,
		client: http.Client{Transport: transport},
		user:   ctx,
	}
	// Waits end by a cancel, not by a deadline, on which x/time/rate would turn callers away early.
	var cancel context.CancelCauseFunc
	p.ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	record := &played{scenario: s, way: w, flows: make([]playedFlow, len(s.flows))}
	var wg, came sync.WaitGroup
	came.Add(len(s.flows))
	for i, f := range s.flows {
		wg.Go(func() {
			record.flows[i].calls = p.flow(f, gates[i], came.Done)
		})
	}
	came.Wait()
	drain := time.AfterFunc(s.drain, func() { cancel(errDrained) })
	wg.Wait()
	drain.Stop()
	for i, g := range gates {
		record.flows[i].starts = g.starts()
	}
	transport.CloseIdleConnections()
	record.server = server.close()
	return record, ctx.Err()
}

// errDrained ends the wait of those who still wait long after the last arrival.
var errDrained = errors.New("the run is over")

// A player plays one scenario one way.
type player struct {
	scenario scenario
	server   *server
	client   http.Client
	began    time.Time
	user     context.Context // done: interrupted; nothing goes on
	ctx      context.Context // done: nobody waits any longer
}

func (p *player) now() int64 { return int64(time.Since(p.began)) }

// flow plays one flow to its end. It calls came when nobody arrives any more.
func (p *player) flow(f flow, g gate, came func()) []callRecord {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		calls []callRecord
	)
	call := func(service time.Duration) {
		c := p.call(g, service, f.patience)
		mu.Lock()
		calls = append(calls, c)
		mu.Unlock()
	}
	for range f.loopers {
		wg.Go(func() {
			for p.ctx.Err() == nil && p.now() < int64(p.scenario.duration) {
				call(f.service)
			}
		})
	}
	for _, a := range f.arrivals {
		if !p.sleepUntil(a.at) {
			break
		}
		wg.Go(func() { call(a.service) })
	}
	p.sleepUntil(p.scenario.duration)
	came()
	wg.Wait()
	return calls
}

// sleepUntil reports false if ctx was done first.
func (p *player) sleepUntil(at time.Duration) bool {
	timer := time.NewTimer(time.Until(p.began.Add(at)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// call arrives, waits until the gate lets it through, and calls the server.
func (p *player) call(g gate, service, patience time.Duration) callRecord {
	c := callRecord{arrived: p.now(), started: -1}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if patience > 0 {
		// A cancel and not a deadline, as when a user closes the page: x/time/rate turns away at
		// once who cannot start before a deadline, but cannot foresee a cancel.
		defer time.AfterFunc(patience, cancel).Stop()
	}
	held, started, done, err := g.pass(ctx)
	c.held = held
	if err != nil {
		c.ended = p.now()
		c.cut = context.Cause(p.ctx) == errDrained
		return c
	}
	c.started = started
	c.failed = p.request(p.user, service) != nil
	c.ended = p.now()
	done()
	return c
}

// request sends one request and reads the answer.
func (p *player) request(ctx context.Context, service time.Duration) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server.target(service), nil)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", answer.Status)
	}
	return nil
}
