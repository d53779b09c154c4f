package demo

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
)

// A server is a real HTTP server on loopback that takes as long for each request as the request
// says, stalls for a while, and keeps a ledger. While it stalls it answers nobody, and
// what it was working on takes as much longer.
type server struct {
	began time.Time
	stall measure.Span // since began
	http  http.Server
	url   string
	ended chan error // Serve's

	mu    sync.Mutex
	spans []measure.Span // of requests, from receipt to answer, since began
}

// listen starts a server. It must be closed.
func listen(began time.Time, stall measure.Span) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{began: began, stall: stall, url: "http://" + l.Addr().String() + "/", ended: make(chan error, 1)}
	s.http.Handler = s
	go func() { s.ended <- s.http.Serve(l) }()
	return s, nil
}

// target is the URL of a request that takes so long.
func (s *server) target(service time.Duration) string {
	return s.url + "?ns=" + strconv.FormatInt(int64(service), 10)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	received := int64(time.Since(s.began))
	service, err := strconv.ParseInt(r.URL.Query().Get("ns"), 10, 64)
	if err != nil || service < 0 {
		http.Error(w, "want ?ns=, the service time in nanoseconds", http.StatusBadRequest)
		return
	}
	timer := time.NewTimer(time.Duration(s.end(received, service) - received))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	s.mu.Lock()
	s.spans = append(s.spans, measure.Span{From: received, To: int64(time.Since(s.began))})
	s.mu.Unlock()
	w.Write([]byte("ok\n"))
}

// end returns when a request received at that instant is answered.
func (s *server) end(received, service int64) int64 {
	switch end := received + service; {
	case received >= s.stall.To || end <= s.stall.From:
		return end
	case received >= s.stall.From:
		return s.stall.To + service
	default:
		return end + s.stall.To - s.stall.From
	}
}

// close ends the server and returns its ledger, in order of receipt.
func (s *server) close() []measure.Span {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.spans, func(a, b measure.Span) int { return int(a.From - b.From) })
	return s.spans
}
