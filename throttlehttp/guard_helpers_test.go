package throttlehttp_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

func newGuard(t testing.TB, c throttlehttp.GuardConfig) *throttlehttp.Guard {
	t.Helper()
	g, err := throttlehttp.NewGuard(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// guardOf returns the Guard of one rule.
func guardOf(t testing.TB, r throttlehttp.Rule) *throttlehttp.Guard {
	t.Helper()
	if r.Name == "" {
		r.Name = "api"
	}
	return newGuard(t, throttlehttp.GuardConfig{Rules: []throttlehttp.Rule{r}})
}

func newLimiter(t testing.TB, c throttle.Config) *throttle.Limiter {
	t.Helper()
	l, err := throttle.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newKeyed(t testing.TB, c throttle.Config) *throttle.Keyed[string] {
	t.Helper()
	k, err := throttle.NewKeyed[string](c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// rate is N per period, burst.
func rate(n int64, period time.Duration, burst int64) throttle.Config {
	return throttle.Config{Name: "test", Rate: throttle.Per(n, period), Burst: burst}
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) })

// request is one from addr, with header fields as name, value, name, value.
func request(addr string, fields ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = addr
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// passed counts the requests of n that h answers with 200.
func passed(h http.Handler, n int, r func(i int) *http.Request) int {
	count := 0
	for i := range n {
		if serve(h, r(i)).StatusCode == http.StatusOK {
			count++
		}
	}
	return count
}

// retryAfter is the field's number, or -1 where it is not there.
func retryAfter(t testing.TB, res *http.Response) int {
	t.Helper()
	text := res.Header.Get("Retry-After")
	if text == "" {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("Retry-After is %q; want whole seconds", text)
	}
	return n
}

// left is what RateLimit tells of its only member.
func left(t testing.TB, res *http.Response) throttlehttp.Limit {
	t.Helper()
	limits, err := throttlehttp.ParseLimits(res.Header.Values("RateLimit"))
	if err != nil || len(limits) != 1 {
		t.Fatalf("RateLimit is %q: %d members, %v; want 1", res.Header.Values("RateLimit"), len(limits), err)
	}
	return limits[0]
}

// A pipeServer serves connections that are pipes, so that all of it runs on virtual time.
type pipeServer struct {
	conns  chan net.Conn
	closed chan struct{}
	server *http.Server
}

func newPipeServer(h http.Handler) *pipeServer {
	s := &pipeServer{conns: make(chan net.Conn), closed: make(chan struct{}), server: &http.Server{Handler: h}}
	go s.server.Serve(s)
	return s
}

func (s *pipeServer) dial() net.Conn {
	here, there := net.Pipe()
	s.conns <- there
	return here
}

// client returns one that opens a connection for each request.
func (s *pipeServer) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return s.dial(), nil },
	}}
}

func (s *pipeServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *pipeServer) Close() error {
	close(s.closed)
	return nil
}

func (s *pipeServer) Addr() net.Addr { return &net.TCPAddr{} }
