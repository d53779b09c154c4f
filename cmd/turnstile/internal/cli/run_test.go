package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// serve starts a server on loopback that lives as long as the test.
func serve(t *testing.T, f http.HandlerFunc) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func TestRun_FetchesEachLine(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-Key"), r.Header.Get("User-Agent"))
		}
	})
	s := turnstile(t, url+"/a\n"+url+"/missing\n"+url+"/moved\n", "run", "--in-flight", "2", "-k", "-H", "X-Key: secret")
	s.expect(t, 1, "3 of 3 lines done", "2 ok, 1 failed", "at most 2, where 2 are allowed")
	if len(s.results) != 3 {
		t.Fatalf("%d results, want 3", len(s.results))
	}
	a, missing, moved := s.results[0], s.results[1], s.results[2]
	if a.Status != 200 || a.Bytes != int64(len("GET secret turnstile")) || a.Error != "" || a.Line != 1 || a.Input != url+"/a" {
		t.Errorf("fetched: %+v", a)
	}
	if a.Start == nil || a.Wait == nil || a.Duration == nil || *a.Duration <= 0 || a.ExitCode != nil {
		t.Errorf("times: %+v", a)
	}
	if missing.Status != 404 || missing.Error != "" || missing.Bytes == 0 {
		t.Errorf("missing: %+v", missing)
	}
	if moved.Status != 302 || moved.Location != "/elsewhere" {
		t.Errorf("moved: %+v", moved)
	}
	s = turnstile(t, url+"/moved", "run", "--in-flight", "1", "--follow", "-X", "HEAD", "-q")
	s.expect(t, 0)
	if s.stderr != "" || s.results[0].Status != 200 || s.results[0].Bytes != 0 {
		t.Errorf("followed: %+v, stderr %q", s.results, s.stderr)
	}
}

func TestRun_BadInputIsToldAndNothingIsRun(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, "ran")
	command := []string{"--", "touch", marker}
	for _, c := range []struct {
		args []string
		told []string
	}{
		{nil, []string{"no limit is given", "--rate", "--in-flight"}},
		{[]string{"--rate", "10"}, []string{"--rate", `"10"`, "unit"}},
		{[]string{"--rate", ""}, []string{"--rate", `""`}},
		{[]string{"--rate", "0/s"}, []string{"--rate", `"0/s"`}},
		{[]string{"--rate", "-1/s"}, []string{"--rate", `"-1/s"`}},
		{[]string{"--rate", "NaN/s"}, []string{"--rate", `"NaN/s"`}},
		{[]string{"--rate", "10/0s"}, []string{"--rate", `"10/0s"`}},
		{[]string{"--rate", "1/s", "--burst", "0"}, []string{"--burst 0", "1 to 4611686018427387904"}},
		{[]string{"--rate", "1/s", "--burst", "4611686018427387905"}, []string{"--burst 4611686018427387905"}},
		{[]string{"--rate", "1/s", "--burst", "x"}, []string{"--burst", `"x"`}},
		{[]string{"--in-flight", "1", "--burst", "2"}, []string{"--burst 2", "--rate"}},
		{[]string{"--in-flight", "-1"}, []string{"--in-flight -1", "1 or more"}},
		{[]string{"--in-flight", "0"}, []string{"--in-flight 0", "1 or more"}},
		{[]string{"--in-flight", "9223372036854775807"}, []string{"--in-flight 9223372036854775807"}},
		{[]string{"--in-flight", "99999999999999999999"}, []string{"--in-flight"}},
		{[]string{"--in-flight", "1", "--timeout", "0s"}, []string{"--timeout 0s"}},
		{[]string{"--in-flight", "1", "--timeout", "soon"}, []string{"--timeout", `"soon"`}},
		{[]string{"--in-flight", "1", "--max-output", "-5"}, []string{"--max-output -5"}},
		{[]string{"--in-flight", "1", "--method", "GET"}, []string{"--method", "a command"}},
		{[]string{"--in-flight", "1", "--nosuch"}, []string{"--nosuch"}},
		{[]string{"--in-flight", "1", filepath.Join(dir, "absent")}, []string{"absent", "no such file"}},
		{[]string{"--in-flight", "1", good, dir}, []string{dir, "directory"}},
		{[]string{"--in-flight", "1", "http://localhost/"}, []string{"files of lines", "echo http://localhost/"}},
	} {
		s := turnstile(t, "line\n", append(append([]string{"run"}, c.args...), command...)...)
		s.expect(t, 2, c.told...)
		if s.stdout != "" {
			t.Errorf("%v: wrote %q", c.args, s.stdout)
		}
		if _, err := os.Stat(marker); err == nil {
			t.Fatalf("%v: the command was run", c.args)
		}
	}
	for _, c := range []struct {
		args []string
		told string
	}{
		{[]string{"--method", "G E T"}, `--method "G E T"`},
		{[]string{"--header", "nonsense"}, `--header "nonsense"`},
		{[]string{"--header", "A B: c"}, `--header "A B: c"`},
		{[]string{"--header", "A: c\nd"}, "--header"},
		{[]string{"--max-output", "5"}, "--max-output has no meaning for URLs"},
		{[]string{"--"}, "no command"},
		{[]string{"--", ""}, "no command"},
		{[]string{"--", "no-such-program-anywhere", "{}"}, `"no-such-program-anywhere" cannot be run`},
		{[]string{"--", "./no/such/program"}, `"./no/such/program" cannot be run`},
	} {
		turnstile(t, "x\n", append([]string{"run", "-n", "1"}, c.args...)...).expect(t, 2, c.told)
	}
	turnstile(t, "", "nosuch").expect(t, 2, `"nosuch"`)
}

func TestRun_LinesThatCannotBeRunGetAResultAndTheOthersRun(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	input := strings.Join([]string{"http://[::1", "ftp://host/x", "just text", "http://", "http://host:port/", url}, "\n")
	s := turnstile(t, input, "run", "--rate", "1000/s", "-k")
	s.expect(t, 1, "6 of 6 lines done", "1 ok, 5 failed")
	for i, a := range s.results {
		if i == 5 {
			if a.Status != 200 {
				t.Errorf("the good line: %+v", a)
			}
		} else if !strings.HasPrefix(a.Error, "not a URL") || a.Start != nil || a.Line != int64(i+1) {
			t.Errorf("line %d: %+v", i+1, a)
		}
	}
	s = turnstile(t, "a\nb\x00c\n", "run", "-n", "1", "-k", "--", "no-such-{}")
	s.expect(t, 1, "2 of 2 lines done")
	if a := s.results[0]; !strings.Contains(a.Error, "could not be run") || !strings.Contains(a.Error, "no-such-a") {
		t.Errorf("a program that is not there: %+v", a)
	}
	if a := s.results[1]; !strings.Contains(a.Error, "NUL") || a.Start != nil {
		t.Errorf("a line with a NUL byte: %+v", a)
	}
}

func TestRun_AServerThatIsNotThereIsAResult(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	s := turnstile(t, url, "run", "-n", "1")
	s.expect(t, 1)
	if a := s.results[0]; !strings.Contains(a.Error, "connection refused") || a.Status != 0 || a.Start == nil {
		t.Errorf("got %+v", a)
	}
}

func TestRun_AnAnswerThatBreaksOffIsAFailure(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.Write([]byte("half"))
	})
	s := turnstile(t, url, "run", "-n", "1")
	s.expect(t, 1)
	if a := s.results[0]; a.Status != 200 || a.Bytes != 4 || !strings.Contains(a.Error, "broke off after 4 bytes") {
		t.Errorf("got %+v", a)
	}
}

func TestRun_ATimeoutEndsTheLineAndSaysSo(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := turnstile(t, url, "run", "-n", "1", "-t", "30ms")
	s.expect(t, 1)
	if a := s.results[0]; a.Error != "timeout: not finished 30ms after its start" {
		t.Errorf("URL: %+v", a)
	}
	s = turnstile(t, "1000", "run", "-n", "1", "-t", "30ms", "--", "sleep")
	s.expect(t, 1)
	if a := s.results[0]; a.Error != "timeout: not finished 30ms after its start" || *a.ExitCode != 128+15 {
		t.Errorf("command: %+v", a)
	}
}

func TestRun_ExecutesACommandForEachLine(t *testing.T) {
	s := turnstile(t, "a b\r\n\n  \nc", "run", "-n", "2", "-k", "--", "echo", "<{}>", "{}")
	s.expect(t, 0, "2 of 2 lines done", "2 ok, 0 failed")
	if a := s.results[0]; a.Stdout != "<a b> a b\n" || *a.ExitCode != 0 || a.Bytes != 10 || a.Line != 1 || a.Input != "a b" {
		t.Errorf("first: %+v", a)
	}
	if a := s.results[1]; a.Stdout != "<c> c\n" || a.Line != 4 {
		t.Errorf("second: %+v", a)
	}
	s = turnstile(t, "x y", "run", "-n", "1", "--", "echo", "-n")
	if a := s.results[0]; a.Stdout != "x y" {
		t.Errorf("without {}: %+v", a)
	}
	s = turnstile(t, "1\n", "run", "-n", "1", "--", "false")
	s.expect(t, 1, "0 ok, 1 failed")
	if a := s.results[0]; *a.ExitCode != 1 || a.Error != "" {
		t.Errorf("false: %+v", a)
	}
	s = turnstile(t, "7\n", "run", "-n", "1", "--", "sh", "-c", `echo out; echo err >&2; exit $0`)
	s.expect(t, 1)
	if a := s.results[0]; *a.ExitCode != 7 || a.Stdout != "out\n" || a.Stderr != "err\n" {
		t.Errorf("exit 7: %+v", a)
	}
	s = turnstile(t, "9\n", "run", "-n", "1", "--", "sh", "-c", `kill -$0 $$`)
	s.expect(t, 1)
	if a := s.results[0]; *a.ExitCode != 137 || !strings.Contains(a.Error, "killed") {
		t.Errorf("killed: %+v", a)
	}
	s = turnstile(t, "é", "run", "-n", "1", "--max-output", "5", "--", "sh", "-c", `printf '%s%s%s%s' "$0" "$0" "$0" "$0"`)
	s.expect(t, 0)
	if a := s.results[0]; a.Stdout != "éé" || !a.StdoutTruncated || a.Bytes != 8 {
		t.Errorf("truncated: %+v", a)
	}
	s = turnstile(t, "x", "run", "-n", "1", "--", "sh", "-c", "cat; echo $0") // reads nothing, so ends
	s.expect(t, 0)
}

func TestRun_ResultsComeAsLinesFinish(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/1":
			<-first
		case "/2":
			<-second
		}
	})
	var order []string
	s := &session{In: strings.NewReader(url + "/1\n" + url + "/2\n" + url + "/3\n")}
	s.Out = writerFunc(func(p []byte) (int, error) {
		// The third is written first; that lets the second finish, which lets the first.
		switch _, rest, _ := strings.Cut(string(p), url+"/"); rest[0] {
		case '3':
			close(second)
		case '2':
			close(first)
		}
		order = append(order, string(p))
		return len(p), nil
	})
	s.run(t, "run", "-n", "3")
	s.expect(t, 0, "3 ok")
	if len(order) != 3 || !strings.Contains(order[2], url+"/1") {
		t.Errorf("results came as %q", order)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRun_KeepOrderHoldsResultsUntilEarlierOnesCame(t *testing.T) {
	var others sync.WaitGroup
	others.Add(4)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/1" {
			others.Wait() // the first answers last
		} else {
			others.Done()
		}
	})
	var input strings.Builder
	for i := range 5 {
		fmt.Fprintf(&input, "%s/%d\n", url, i+1)
	}
	s := turnstile(t, input.String(), "run", "-n", "2", "-k")
	s.expect(t, 0)
	for i, a := range s.results {
		if a.Line != int64(i+1) {
			t.Errorf("result %d is of line %d", i+1, a.Line)
		}
	}
}

func TestRun_KeepsBothLimitsAndTheOrderOfStarts(t *testing.T) {
	var inside, most atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := inside.Add(1)
		defer inside.Add(-1)
		for {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				return
			}
		}
	})
	input := strings.Repeat(url+"\n", 120)
	s := turnstile(t, input, "run", "--rate", "400/s", "--burst", "7", "--in-flight", "3")
	s.expect(t, 0, "120 ok", "kept", "at most 7 + 400/s x (t + 10ms) starts")
	if most.Load() > 3 {
		t.Errorf("%d at once, where 3 are allowed", most.Load())
	}
	slices.SortFunc(s.results, func(a, b answer) int { return int(a.Line - b.Line) })
	var starts []fake.Start
	for i, a := range s.results {
		if i > 0 && a.Start.Before(*s.results[i-1].Start) {
			t.Errorf("line %d started before line %d", a.Line, s.results[i-1].Line)
		}
		starts = append(starts, fake.Start{At: *a.Start})
	}
	w, err := fake.WorstWindow(starts, 7, 400, time.Second, throttle.DefaultSlack)
	if err != nil || !w.OK() || len(starts) != 120 {
		t.Errorf("%d starts: %v, %v", len(starts), w, err)
	}
}

func TestRun_ReadsSeveralFilesAndNamesThem(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	os.WriteFile(a, []byte("1\n2"), 0o600)
	os.WriteFile(b, []byte("3\n"), 0o600)
	s := turnstile(t, "4\n", "run", "-n", "1", a, b, "-", "--", "echo")
	s.expect(t, 0)
	var got []string
	for _, r := range s.results {
		got = append(got, fmt.Sprintf("%s:%d=%s", filepath.Base(r.File), r.Line, strings.TrimSpace(r.Stdout)))
	}
	if want := "[a:1=1 a:2=2 b:1=3 -:1=4]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
