package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// APIServer is an API that listens on the loopback.
type APIServer struct {
	URL    string // http://127.0.0.1:port, without a slash at its end
	server *http.Server
	served chan struct{}
	busy   sync.WaitGroup // handlers
	mu     sync.Mutex     // busy.Add not after Close
	closed bool
}

// Start listens on a free port of the loopback and serves until Close. The clock should be the process's: a real client's timeouts
// run on it, and network I/O is no durable block for testing/synctest (there, take Transport).
func (a *API) Start() (*APIServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fake: API.Start: %w", err)
	}
	s := &APIServer{URL: "http://" + listener.Addr().String(), served: make(chan struct{})}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.enter() {
				panic(http.ErrAbortHandler)
			}
			defer s.busy.Done()
			a.ServeHTTP(w, r)
		}),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(listener) // ends by Close alone
	}()
	return s, nil
}

func (s *APIServer) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.busy.Add(1)
	}
	return !s.closed
}

// Close cuts all connections, ends the requests still served (they count as abandoned), and returns once the last has left. Calling
// it again does nothing. Keep-alive connections on the client's side are for the client to close.
func (s *APIServer) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.server.Close() // ends the contexts of those served: their bodies have been read, so that net/http watches the connections
	<-s.served
	s.busy.Wait()
	return err
}

// Transport returns a RoundTripper that hands requests to the API in memory, on the caller's goroutine: any URL reaches it, no network
// and no goroutine is used, and waits are on the API's clock alone. So it works within a testing/synctest bubble. It returns when the
// whole answer is there: streaming, trailers and protocol upgrades need Start. A dropped request is an error that is io.ErrUnexpectedEOF.
func (a *API) Transport() http.RoundTripper { return memory{a} }

type memory struct{ api *API }

// RoundTrip follows the contract of http.RoundTripper: the request is not changed, and its body always closed.
func (m memory) RoundTrip(r *http.Request) (response *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if r.URL == nil {
		return nil, errors.New("fake: API.Transport: the request has no URL")
	}
	ctx := r.Context()
	served := r.Clone(ctx)
	served.RequestURI, served.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	served.Proto, served.ProtoMajor, served.ProtoMinor = "HTTP/1.1", 1, 1
	if served.Host == "" {
		served.Host = r.URL.Host
	}
	if served.Method == "" {
		served.Method = http.MethodGet
	}
	if served.Header == nil {
		served.Header = make(http.Header)
	}
	if served.Body == nil {
		served.Body = http.NoBody
	}
	w := &answer{header: make(http.Header)}
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler && ctx.Err() != nil:
			response, err = nil, context.Cause(ctx)
		case p == http.ErrAbortHandler:
			response, err = nil, fmt.Errorf("fake: the API dropped the connection: %w", io.ErrUnexpectedEOF)
		default:
			panic(p)
		}
	}()
	m.api.ServeHTTP(w, served)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w.WriteHeader(http.StatusOK) // where the handler left it at that
	body := w.body.Bytes()
	response = &http.Response{Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Request: r, ContentLength: int64(len(body)), Body: http.NoBody}
	if r.Method != http.MethodHead && len(body) > 0 {
		response.Body = io.NopCloser(bytes.NewReader(body))
	}
	return response, nil
}

// answer keeps what a handler writes.
type answer struct {
	header http.Header
	sent   http.Header // as they were when the status was written
	status int         // 0: not yet
	body   bytes.Buffer
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *answer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush sends the headers, for handlers that look for an http.Flusher; the body waits for its end.
func (w *answer) Flush() { w.WriteHeader(http.StatusOK) }
