package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects what several goroutines write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// A session is one call of the command.
type session struct {
	In         io.Reader
	Out        io.Writer // nil: collected
	Interrupts chan os.Signal

	code    int
	stdout  string
	stderr  string
	results []answer
}

// An answer is a result line as its reader sees it.
type answer struct {
	File            string
	Line            int64
	Input           string
	Start           *time.Time
	Wait, Duration  *float64
	Status          int
	Location        string
	ExitCode        *int `json:"exit_code"`
	Bytes           int64
	Stdout, Stderr  string
	StdoutTruncated bool `json:"stdout_truncated"`
	Error           string
}

// turnstile runs the command with these arguments and standard input.
func turnstile(t *testing.T, stdin string, args ...string) *session {
	t.Helper()
	s := &session{In: strings.NewReader(stdin)}
	s.run(t, args...)
	return s
}

func (s *session) run(t *testing.T, args ...string) {
	t.Helper()
	var stdout, stderr output
	out := s.Out
	if out == nil {
		out = &stdout
	}
	s.code = Main(args, Streams{In: s.In, Out: out, Err: &stderr, Interrupts: s.Interrupts})
	s.stdout, s.stderr = stdout.String(), stderr.String()
	if len(args) == 0 || args[0] != "run" || strings.HasPrefix(s.stdout, "Read lines") {
		return
	}
	for line := range strings.Lines(s.stdout) {
		var a answer
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil && !strings.Contains(err.Error(), "truncated") {
			t.Fatalf("result %q: %v", line, err)
		}
		s.results = append(s.results, a)
	}
}

// expect fails the test unless the exit code is this and standard error holds all of these.
func (s *session) expect(t *testing.T, code int, told ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", s.code, code, s.stdout, s.stderr)
	}
	for _, want := range told {
		if !strings.Contains(s.stderr, want) {
			t.Errorf("standard error does not say %q:\n%s", want, s.stderr)
		}
	}
}

func TestHelp_ShowsCommandsFlagsAndExamples(t *testing.T) {
	for _, c := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"--help"}, []string{"run", "demo", "version", "Examples:"}},
		{[]string{"run", "--help"}, []string{"--rate", "--burst", "--in-flight", "--timeout", "--keep-order", "Examples:", "130"}},
		{[]string{"demo", "--help"}, []string{"--scenario", "--html", "--seed", "--ascii", "Examples:"}},
		{[]string{"version"}, []string{"turnstile "}},
	} {
		s := &session{In: strings.NewReader("")}
		var stdout, stderr output
		code := Main(c.args, Streams{In: s.In, Out: &stdout, Err: &stderr})
		if code != 0 || stderr.String() != "" {
			t.Errorf("%v: exit code %d, stderr %q", c.args, code, stderr.String())
		}
		for _, want := range c.wants {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%v does not show %q", c.args, want)
			}
		}
		for line := range strings.Lines(stdout.String()) {
			if n := len(strings.TrimRight(line, "\n")); n > 110 {
				t.Errorf("%v: a line of %d characters: %s", c.args, n, line)
			}
		}
	}
}
