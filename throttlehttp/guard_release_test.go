package throttlehttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

// However a handler ends, its permit comes back once, and is held until then.
func TestThePermitIsHeldUntilTheHandlerReturns(t *testing.T) {
	for name, end := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic("a fault") },
		"abort":  func() { panic(http.ErrAbortHandler) },
		"exit":   func() { runtime.Goexit() },
	} {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l)}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("x"))
			if got := l.Stats().InFlight; got != 1 {
				t.Errorf("%s: %d in flight in the handler; want 1", name, got)
			}
			end()
		}))
		gone := make(chan any)
		go func() {
			defer func() { gone <- recover() }()
			serve(h, request("192.0.2.1:1"))
		}()
		if p := <-gone; (p != nil) != (name == "panic" || name == "abort") {
			t.Errorf("%s: the server sees the panic %v", name, p)
		}
		if s := l.Stats(); s.InFlight != 0 || s.DoubleReleases != 0 {
			t.Errorf("%s: %d in flight, %d released twice; want none", name, s.InFlight, s.DoubleReleases)
		}
	}
}

// Streams count until they end: by the handler, or since the client has left.
func TestCLI02_StreamsAreInFlightToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 64})
		var active, peak atomic.Int64
		end := make(chan struct{})
		s := newPipeServer(guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l)}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			peak.Store(max(peak.Load(), active.Add(1)))
			defer active.Add(-1)
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				fmt.Fprint(w, "data: x\n\n")
				http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return
				case <-end:
					return
				}
			}
		})))
		defer s.server.Close()
		count := map[int]int{}
		var streams []*http.Response
		for range 200 {
			res, err := s.client().Get("http://server/")
			if err != nil {
				t.Fatal(err)
			}
			count[res.StatusCode]++
			if res.StatusCode != http.StatusOK {
				res.Body.Close()
				continue
			}
			streams = append(streams, res)
			go io.Copy(io.Discard, res.Body)
		}
		time.Sleep(time.Minute)
		if count[200] != 64 || count[503] != 136 || active.Load() != 64 || l.Stats().InFlight != 64 {
			t.Errorf("200 clients are told %v, %d streams are active, %d in flight; want 64, 136 refused", count, active.Load(), l.Stats().InFlight)
		}
		streams[0].Body.Close() // this client leaves
		time.Sleep(2 * time.Second)
		if active.Load() != 63 || l.Stats().InFlight != 63 {
			t.Errorf("a client has left: %d active, %d in flight; want 63", active.Load(), l.Stats().InFlight)
		}
		close(end)
		time.Sleep(2 * time.Second)
		if l.Stats().InFlight != 0 || peak.Load() != 64 {
			t.Errorf("all streams have ended: %d in flight, peak %d; want 0, 64", l.Stats().InFlight, peak.Load())
		}
		for _, res := range streams {
			res.Body.Close()
		}
	})
}

// A hijacked connection, as that of a WebSocket, counts as long as its handler stays.
func TestAHijackedConnectionIsInFlightUntilTheHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		s := newPipeServer(guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l)}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			io.Copy(conn, rw)
		})))
		defer s.server.Close()
		conn := s.dial()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 101 {
			t.Fatalf("the upgrade: %v, %v", res, err)
		}
		time.Sleep(time.Hour)
		if got := l.Stats().InFlight; got != 1 {
			t.Errorf("%d in flight while the connection is used; want 1", got)
		}
		conn.Close()
		synctest.Wait()
		if got := l.Stats().InFlight; got != 0 {
			t.Errorf("%d in flight once it is closed; want 0", got)
		}
	})
}

// A leased is an Admitter whose permit comes with a context of its own, as that of a shared limiter with leases.
type leased struct {
	throttle.Admitter
	lose func(error)
}

func (l *leased) with(ctx context.Context, h throttle.Held, err error) (context.Context, throttle.Held, error) {
	if err != nil {
		return nil, nil, err
	}
	callCtx, lose := context.WithCancelCause(ctx)
	l.lose = lose
	return callCtx, h, nil
}
func (l *leased) Admit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	_, h, err := l.Admitter.Admit(ctx, c)
	return l.with(ctx, h, err)
}
func (l *leased) TryAdmit(ctx context.Context, c throttle.Cost) (context.Context, throttle.Held, error) {
	_, h, err := l.Admitter.TryAdmit(ctx, c)
	return l.with(ctx, h, err)
}

// The handler is called with the Admitter's context, at once or after a wait; and what bounds the wait does not bound the handler.
func TestTheHandlerHasTheAdmittersContext(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, rate(1, time.Second, 1))
			if waits {
				l.TryAcquire()
			}
			a := &leased{Admitter: l}
			lost := fmt.Errorf("the lease is lost")
			h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(a), MaxWait: 2 * time.Second, MaxWaiting: 1}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				if err := r.Context().Err(); err != nil {
					t.Errorf("waits %v: the handler's context ended: %v", waits, context.Cause(r.Context()))
				}
				a.lose(lost)
				if got := context.Cause(r.Context()); got != lost {
					t.Errorf("waits %v: the cause is %v; want %v", waits, got, lost)
				}
			}))
			if res := serve(h, request("192.0.2.1:1")); res.StatusCode != 200 {
				t.Errorf("waits %v: answered %d", waits, res.StatusCode)
			}
		})
	}
}

func TestARequestThatNoRuleMatchesIsNotLimited(t *testing.T) {
	l := newLimiter(t, rate(1, time.Hour, 1))
	h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), Match: func(r *http.Request) bool { return r.Method != "OPTIONS" }}).Wrap(ok)
	for range 5 {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("OPTIONS", "/", nil)); w.Code != 200 || w.Header().Get("RateLimit") != "" {
			t.Errorf("OPTIONS is told %d, RateLimit %q; want 200, none", w.Code, w.Header().Get("RateLimit"))
		}
	}
	if got := l.Stats().Tokens; got != 1 {
		t.Errorf("%d tokens are left; want 1", got)
	}
}
