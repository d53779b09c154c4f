package fake

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

//go:noinline
func acquireFirst(l *Leaks) { l.Took(7) }

//go:noinline
func acquireSecond(l *Leaks) { func() { l.Took(3) }() }

// tee is a testing.T that keeps what it is told.
type tee struct {
	helped bool
	text   string
}

func (t *tee) Helper() { t.helped = true }

func (t *tee) Errorf(format string, args ...any) { t.text += fmt.Sprintf(format, args...) }

func TestC8_APermitDroppedUnreleasedIsFoundWhereItWasAcquired(t *testing.T) {
	var l Leaks
	l.Took(1)
	acquireFirst(&l)
	acquireSecond(&l)
	l.Gave(1)
	out := l.Outstanding()
	if len(out) != 2 || out[0].ID != 7 || out[1].ID != 3 {
		t.Fatalf("got %v, want 7 and 3, in order of taking", out)
	}
	if !strings.HasSuffix(out[0].Func, "fake.acquireFirst") || !strings.HasSuffix(out[0].File, "leaks_test.go") || out[0].Line != 13 {
		t.Errorf("got %v", out[0])
	}
	if !strings.Contains(out[1].Stack, "fake.acquireSecond\n\t") || !strings.Contains(out[1].Stack, "leaks_test.go:16\n") {
		t.Errorf("got %s", out[1].Stack)
	}
	if strings.Contains(out[1].Stack, "Took") || strings.Contains(out[1].Stack, "runtime.Callers") {
		t.Errorf("the finder's own frames are shown:\n%s", out[1].Stack)
	}
	var seen tee
	l.Check(&seen)
	if !seen.helped || !strings.Contains(seen.text, "fake: leaks: 2 reports:\npermit 7 not released; acquired by\n") {
		t.Errorf("Check said %q", seen.text)
	}
	l.Gave(7)
	l.Gave(3)
	seen = tee{}
	if l.Check(&seen); seen.text != "" || l.Err() != nil || len(l.Outstanding()) != 0 {
		t.Errorf("all given back, but %q", seen.text)
	}
}

func TestC8_ADoubleReleaseIsReported(t *testing.T) {
	var l Leaks
	l.Took(1)
	l.Gave(1)
	l.Gave(1)
	err := l.Err()
	if err == nil || !strings.Contains(err.Error(), "permit 1 released without being out (twice?), by\n") ||
		!strings.Contains(err.Error(), "TestC8_ADoubleReleaseIsReported\n") {
		t.Errorf("got %v", err)
	}
	l.Took(2)
	l.Took(2)
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "permit 2 acquired a second time while it is out") {
		t.Errorf("got %v", err)
	}
	for range 100 {
		l.Gave(9)
	}
	if err := l.Err(); !strings.Contains(err.Error(), "and 38 more acquired or released twice") { // 102 less the 64 kept
		t.Errorf("got %v", err)
	}
}

func TestTheFramesOfTraceAndLimiterAreLeftOut(t *testing.T) {
	const ours = "github.com/turnstile-go/turnstile/"
	callback := runtime.Frame{Function: "example.com/app.TestPool.func1", File: "pool_test.go"}
	limiter := runtime.Frame{Function: ours + "throttle.(*Limiter).Acquire", File: "compose.go"}
	client := runtime.Frame{Function: ours + "throttlehttp.(*Transport).RoundTrip", File: "transport.go"}
	user := runtime.Frame{Function: "example.com/app.fetch", File: "pool.go"}
	ourTest := runtime.Frame{Function: ours + "throttle.TestAcquire", File: "compose_test.go"}
	for name, c := range map[string]struct{ frames, want []runtime.Frame }{
		"through a limiter":         {[]runtime.Frame{callback, limiter, client, user}, []runtime.Frame{user}},
		"from a limiter's own test": {[]runtime.Frame{ourTest, limiter, ourTest}, []runtime.Frame{ourTest}},
		"without a limiter":         {[]runtime.Frame{callback, user}, []runtime.Frame{callback, user}},
		"cut off within a limiter":  {[]runtime.Frame{callback, limiter}, []runtime.Frame{callback, limiter}},
	} {
		if got := fromUser(c.frames); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestLeaksIsSafeForManyGoroutines(t *testing.T) {
	var l Leaks
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			for i := range uint64(100) {
				l.Took(g*100 + i)
				l.Outstanding()
				l.Gave(g*100 + i)
			}
		})
	}
	wg.Wait()
	l.Check(t)
}

func BenchmarkLeaks(b *testing.B) {
	var l Leaks
	b.ReportAllocs()
	for b.Loop() {
		l.Took(1)
		l.Gave(1)
	}
}
