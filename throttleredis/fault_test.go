package throttleredis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/turnstile-go/turnstile/throttle"
)

// process starts this test binary as a process that takes the one permit, and waits until it holds it.
func process(t *testing.T, s *server, lease string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "THROTTLEREDIS_CHILD="+s.addr, "THROTTLEREDIS_LEASE="+lease)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "holds") {
		t.Fatalf("the process says %q; want that it holds a permit", lines.Text())
	}
	return cmd, lines
}

func TestRED08_AKilledHoldersPermitComesBackAfterItsLeaseAndNotBefore(t *testing.T) {
	s := newServer(t)
	cmd, _ := process(t, s, "1s")
	l := s.limiter(t, Config{MaxInFlight: 1, Lease: time.Second})
	probe := s.client()
	defer probe.Close()
	began := time.Now()
	cmd.Process.Kill()
	lease := must[[]redis.Z](t)(probe.ZRangeWithScores(within(t), l.keys.all[1], 0, 0).Result())
	ends := time.UnixMicro(int64(lease[0].Score))
	p := must[*Permit](t)(l.Acquire(within(t)))
	if now := time.Now(); now.Before(ends) {
		t.Errorf("granted %v before the lease ended", ends.Sub(now))
	}
	t.Logf("granted after %v", time.Since(began))
	p.Release()
}

func TestAPausedHolderIsToldThatItsLeaseIsLost(t *testing.T) {
	s := newServer(t)
	cmd, lines := process(t, s, "500ms")
	cmd.Process.Signal(syscall.SIGSTOP)
	l := s.limiter(t, Config{MaxInFlight: 1, Lease: 500 * time.Millisecond})
	p := must[*Permit](t)(l.Acquire(within(t)))
	defer p.Release()
	cmd.Process.Signal(syscall.SIGCONT)
	if !lines.Scan() || lines.Text() != "lost "+ErrLeaseLost.Error() {
		t.Errorf("the paused holder says %q; want that its lease is lost", lines.Text())
	}
}

func TestALeaseIsRenewedWhileItIsHeld(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Config{MaxInFlight: 1, Lease: 300 * time.Millisecond})
	p := must[*Permit](t)(l.Acquire(within(t)))
	defer p.Release()
	select {
	case <-p.Context().Done():
		t.Errorf("the lease ended: %v", context.Cause(p.Context()))
	case <-time.After(1500 * time.Millisecond): // five leases
	}
}

func TestRED01_AFlushedScriptIsSentAgainAndCountsOnce(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Config{Rate: throttle.PerHour(1), Burst: 2})
	probe := s.client()
	defer probe.Close()
	must[*Permit](t)(l.TryAcquire(within(t)))
	if err := probe.ScriptFlush(within(t)).Err(); err != nil {
		t.Fatal(err)
	}
	must[*Permit](t)(l.TryAcquire(within(t)))
	if _, err := l.TryAcquire(within(t)); !errors.As(err, new(*throttle.NotYetError)) {
		t.Errorf("a third = %v; want a *NotYetError", err)
	}
}

// The batch is sent twice, as after a lost reply; then an older one arrives late.
func TestRED02_ALostReplyCostsNothing(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Config{Rate: throttle.PerHour(1), Burst: 10})
	ask := func(batch int64, id string) string {
		r := &request{batch: batch, arrivals: []*call{{id: l.process + id, allowed: 0}}}
		return must[string](t)(run(l.client, l.config.Timeout, l.keys.all, l.args(r)))
	}
	first := ask(1, ":1:1:1:0")
	if again := ask(1, ":1:1:1:0"); again != first {
		t.Errorf("sent again it is answered %q; want %q", again, first)
	}
	ask(2, ":2:1:1:0")
	if late := ask(1, ":1:1:1:0"); late != "STALE" {
		t.Errorf("a batch after its successor is answered %q; want STALE", late)
	}
	answer := ask(3, ":3:1:1:0")
	if !strings.HasPrefix(answer, "OK ") || strings.Fields(answer)[8] != "7" {
		t.Errorf("after three different batches the answer is %q; want 7 tokens left of 10", answer)
	}
}

func TestRED04_EveryKeyEndsByItself(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Config{MaxInFlight: 1, Rate: throttle.Every(15 * time.Second), Burst: 3})
	p := must[*Permit](t)(l.Acquire(within(t)))
	defer p.Release()
	names := must[[]string](t)(l.client.Keys(within(t), "*").Result())
	for _, name := range names {
		if ttl := l.client.PTTL(within(t), name).Val(); ttl <= 0 {
			t.Errorf("%s has no end", name)
		}
	}
	if ttl := l.client.PTTL(within(t), l.keys.state).Val(); ttl < 15*time.Second {
		t.Errorf("the state ends in %v; want no earlier than its bucket is full", ttl)
	}
}

// hanging accepts connections and never answers.
func hanging(t *testing.T) string {
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestRED07_RED12_RED16_WithoutRedisEachPolicyAnswersInTime(t *testing.T) {
	for name, addr := range map[string]string{"refused": "127.0.0.1:1", "hanging": hanging(t)} {
		for policy, want := range map[Policy]int{Closed: 0, Open: 100, Local: 10} {
			t.Run(name+" "+policy.String(), func(t *testing.T) {
				client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
				defer client.Close()
				c := Config{Client: client, Name: "api", Rate: throttle.PerHour(1), Burst: 40, Unreachable: policy, Timeout: 100 * time.Millisecond, Probe: time.Minute}
				if policy == Local {
					c.Processes = 4
				}
				var events []string
				c.OnEvent = func(e Event) { events = append(events, e.What) }
				l := must[*Limiter](t)(New(c))
				began, passed := time.Now(), 0
				for range 100 {
					if _, err := l.TryAcquire(within(t)); err == nil {
						passed++
					} else if policy == Closed && !errors.Is(err, ErrUnavailable) {
						t.Fatalf("got %v; want ErrUnavailable", err)
					}
				}
				took := time.Since(began)
				l.Close()
				if passed != want {
					t.Errorf("%d passed; want %d", passed, want)
				}
				if took > 2*time.Second {
					t.Errorf("100 calls took %v; want about one Timeout of 100ms", took)
				}
				if len(events) != 1 || events[0] != "unreachable" {
					t.Errorf("events %q; want one, that it is unreachable", events)
				}
			})
		}
	}
}

func TestConfigIsRefusedByFieldAndValue(t *testing.T) {
	client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer client.Close()
	deaf := redis.NewClient(&redis.Options{})
	defer deaf.Close()
	good := Config{Client: client, Name: "api", MaxInFlight: 1, Unreachable: Closed}
	for want, change := range map[string]func(*Config){
		"Client is nil":               func(c *Config) { c.Client = nil },
		"ContextTimeoutEnabled false": func(c *Config) { c.Client = deaf },
		"Unreachable is 0":            func(c *Config) { c.Unreachable = 0 },
		"no limit is set":             func(c *Config) { c.MaxInFlight = 0 },
		"Lease is 1ms":                func(c *Config) { c.Lease = time.Millisecond },
		"above 4503599627370496":      func(c *Config) { c.Rate, c.Burst = throttle.PerSecond(1), 1<<40*4 },
	} {
		c := good
		change(&c)
		if _, err := New(c); !errors.Is(err, throttle.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}
