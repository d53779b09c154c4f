package throttleredis

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Tests run against real redis-server processes of their own. Without that program they are skipped, unless THROTTLEREDIS_MUST_TEST is set.
func TestMain(m *testing.M) {
	if os.Getenv("THROTTLEREDIS_CHILD") != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// A server is a redis-server process.
type server struct {
	t    testing.TB
	addr string
	args []string
	cmd  *exec.Cmd
}

// guard bounds what should take far less.
const guard = 20 * time.Second

func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("THROTTLEREDIS_MUST_TEST") != "" {
			t.Fatal("redis-server is not installed, and THROTTLEREDIS_MUST_TEST is set: apt-get install redis-server")
		}
		t.Skip("SKIPPED: redis-server is not installed: apt-get install redis-server")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	s := &server{t: t, addr: "127.0.0.1:" + port}
	s.args = append([]string{program, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--daemonize", "no"}, args...)
	t.Cleanup(s.kill)
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := s.client()
	defer client.Close()
	for end := time.Now().Add(guard); client.Ping(context.Background()).Err() != nil; {
		if time.Now().After(end) {
			s.t.Fatal("redis-server does not answer")
		}
		time.Sleep(time.Millisecond)
	}
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, ContextTimeoutEnabled: true, DisableIdentity: true})
}

// limiter returns a limiter on s with a client of its own, so that it is as one of another process.
func (s *server) limiter(t testing.TB, c Config) *Limiter {
	t.Helper()
	client := s.client()
	c.Client = client
	if c.Name == "" {
		c.Name = "api"
	}
	if c.Unreachable == 0 {
		c.Unreachable = Closed
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second // the machine may be busy
	}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); client.Close() })
	return l
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// child is what this binary does when a test has started it as a process of its own: it takes permits until it is killed.
func child() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("THROTTLEREDIS_CHILD"), ContextTimeoutEnabled: true})
	lease, _ := time.ParseDuration(os.Getenv("THROTTLEREDIS_LEASE"))
	l, err := New(Config{Client: client, Name: "api", MaxInFlight: 1, Lease: lease, Unreachable: Closed, Timeout: 5 * time.Second})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	p, err := l.Acquire(context.Background())
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	fmt.Println("holds", p.Fence())
	<-p.Context().Done()
	fmt.Println("lost", context.Cause(p.Context()))
	select {}
}
