package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A jobFunc is a job made of a function.
type jobFunc func(ctx context.Context, input string, r *Result)

func (f jobFunc) Check(string) error                              { return nil }
func (f jobFunc) Do(ctx context.Context, input string, r *Result) { f(ctx, input, r) }
func (f jobFunc) Close()                                          {}

// config is a run of n numbered lines, whose results and messages go to the buffers.
func config(n int, limits throttle.Config, job jobFunc) (c Config, results, notes *bytes.Buffer) {
	var input strings.Builder
	for i := range n {
		fmt.Fprintf(&input, "%d\n", i)
	}
	results, notes = new(bytes.Buffer), new(bytes.Buffer)
	return Config{
		Limits: limits, Job: job, Sources: []Source{StreamSource("-", strings.NewReader(input.String()))},
		Results: results, Notes: NewNotes(notes, 0),
	}, results, notes
}

func mustRun(t *testing.T, c Config) *Summary {
	t.Helper()
	s, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRun_ReachesTheRateAndNotMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := throttle.Config{Rate: throttle.PerSecond(50), Burst: 3, MaxInFlight: 10}
		c, _, _ := config(203, limits, func(context.Context, string, *Result) { time.Sleep(100 * time.Millisecond) })
		s := mustRun(t, c)
		// 3 at once, then 200 more at 50/s take 4 s; the last one takes 100 ms.
		if s.Elapsed != 4100*time.Millisecond || !s.Worst.Kept || s.Peak > 10 || s.ExitCode() != ExitOK {
			t.Errorf("took %v, worst %v, peak %d, exit code %d", s.Elapsed, s.Worst, s.Peak, s.ExitCode())
		}
	})
}

func TestRun_IsHeldBackByTheCapWhereThatBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := config(100, throttle.Config{MaxInFlight: 4}, func(context.Context, string, *Result) { time.Sleep(time.Second) })
		s := mustRun(t, c)
		if s.Elapsed != 25*time.Second || s.Peak != 4 || s.Services.P50 != time.Second {
			t.Errorf("took %v, peak %d, services %v", s.Elapsed, s.Peak, s.Services)
		}
		if strings.Contains(s.String(), "promise") {
			t.Errorf("a promise where there is no rate:\n%s", s)
		}
	})
}

func TestRun_KeepOrderStartsNoMoreThanItCanHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		var started atomic.Int64
		c, results, _ := config(3*orderLines, throttle.Config{MaxInFlight: 2}, func(_ context.Context, input string, _ *Result) {
			started.Add(1)
			if input == "0" {
				<-first
			}
		})
		c.KeepOrder = true
		done := make(chan *Summary)
		go func() { done <- mustRun(t, c) }()
		synctest.Wait()
		if n := started.Load(); n != orderLines || results.Len() != 0 {
			t.Errorf("%d started, want %d; %d bytes written, want none", n, orderLines, results.Len())
		}
		close(first)
		if s := <-done; s.Done != 3*orderLines {
			t.Errorf("%d done in the end", s.Done)
		}
	})
}

func TestRun_KeepOrderBoundsBytesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		var started atomic.Int64
		c, _, _ := config(20, throttle.Config{MaxInFlight: 2}, func(_ context.Context, input string, r *Result) {
			started.Add(1)
			r.Stdout = strings.Repeat("x", orderBytes/8)
			if input == "0" {
				<-first
			}
		})
		c.KeepOrder, c.Results = true, io.Discard
		done := make(chan *Summary)
		go func() { done <- mustRun(t, c) }()
		synctest.Wait()
		if n := started.Load(); n < 8 || n > 11 {
			t.Errorf("%d started, want about 8 beside the first", n)
		}
		close(first)
		<-done
	})
}

func TestRun_ReadsNoFurtherThanItMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := &counting{}
		c, _, _ := config(0, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 2}, func(ctx context.Context, _ string, _ *Result) {
			<-ctx.Done()
		})
		c.Sources = []Source{StreamSource("-", endless)}
		interrupts := make(chan os.Signal)
		c.Interrupts = interrupts
		before := runtime.NumGoroutine()
		done := make(chan *Summary)
		go func() { done <- mustRun(t, c) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("%d goroutines for 2 in flight and 1 waiting", n)
		}
		if endless.lines > 64<<10 { // one buffer of the reader, of lines of 2 bytes
			t.Errorf("%d lines were read", endless.lines)
		}
		interrupts <- os.Interrupt
		interrupts <- os.Interrupt
		s := <-done
		if s.Started != 2 || s.Failed != 0 || s.ExitCode() != ExitInterrupted || !s.More {
			t.Errorf("summary: %+v", s)
		}
	})
}

// counting is an endless input of lines "x".
type counting struct{ lines int }

func (c *counting) Read(p []byte) (int, error) {
	n := 0
	for ; n+2 <= len(p); n += 2 {
		copy(p[n:], "x\n")
		c.lines++
	}
	return n, nil
}

func TestRun_ResultsThatNobodyTakesDoNotOutliveTheSecondInterrupt(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			// One line: a second would wait for a mutex, in which synctest sees no end of the wait.
			c, _, notes := config(1, throttle.Config{MaxInFlight: 2}, func(context.Context, string, *Result) {})
			taken := make(chan struct{})
			c.KeepOrder, c.Results = keep, blocked(taken)
			interrupts := make(chan os.Signal, 2)
			c.Interrupts = interrupts
			done := make(chan *Summary)
			go func() { done <- mustRun(t, c) }()
			synctest.Wait() // until the first result is being written
			interrupts <- os.Interrupt
			interrupts <- os.Interrupt
			s := <-done
			if s.ExitCode() != ExitInterrupted || !strings.Contains(notes.String(), "gave up waiting for results") {
				t.Errorf("exit code %d, notes %s", s.ExitCode(), notes)
			}
			close(taken)
		})
	}
}

// blocked is a writer that takes nothing until it is closed.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

func TestRun_ASourceThatFailsLaterLosesNothing(t *testing.T) {
	c, results, notes := config(2, throttle.Config{MaxInFlight: 1}, func(context.Context, string, *Result) {})
	bad := Source{Name: "bad", Open: func() (io.ReadCloser, error) { return nil, errors.New("open bad: it is gone") }}
	c.Sources = []Source{c.Sources[0], bad, StreamSource("last", strings.NewReader("z\n"))}
	s := mustRun(t, c)
	if s.Done != 3 || s.BadInputs != 1 || s.ExitCode() != ExitFailed || strings.Count(results.String(), "\n") != 3 {
		t.Errorf("summary %+v, results %s", s, results)
	}
	if !strings.Contains(notes.String(), "open bad: it is gone") {
		t.Errorf("notes: %s", notes)
	}
}

func TestRun_RefusesLimitsThatCannotBe(t *testing.T) {
	c, _, _ := config(1, throttle.Config{Rate: throttle.PerSecond(1), Burst: -1, MaxInFlight: 1}, nil)
	if _, err := Run(c); !errors.Is(err, throttle.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

func TestRun_ALongInputNeedsFewGoroutines(t *testing.T) {
	var most atomic.Int64
	before := runtime.NumGoroutine()
	c, _, _ := config(20_000, throttle.Config{Rate: throttle.Per(1, time.Nanosecond), Burst: 1, MaxInFlight: 3}, func(context.Context, string, *Result) {
		most.Store(max(most.Load(), int64(runtime.NumGoroutine()-before)))
	})
	c.Results = io.Discard
	if s := mustRun(t, c); s.Done != 20_000 {
		t.Errorf("%d done", s.Done)
	}
	if n := most.Load(); n > 3+256+16 {
		t.Errorf("%d goroutines", n)
	}
}
