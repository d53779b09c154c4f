package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

func TestETA_IsTheLargerOfRateAndCap(t *testing.T) {
	for _, c := range []struct {
		s        Snapshot
		rate     float64
		inFlight int64
		want     string
	}{
		{Snapshot{Total: 1000, Started: 200, Latency: time.Second}, 20, 40, "40s"},                     // 800/20
		{Snapshot{Total: 1000, Started: 200, Latency: time.Second}, 20, 4, "3m20s"},                    // 800 x 1 s / 4
		{Snapshot{Total: 1000, Started: 200, Latency: time.Second}, 0, 4, "3m20s"},                     // no rate
		{Snapshot{Total: 1000, Started: 200, NeverRun: 400, Latency: time.Second}, 20, 40, "20s"},      // 400/20
		{Snapshot{Total: 10, Started: 10, Running: 4, Done: 6, Latency: 2 * time.Second}, 20, 4, "1s"}, // half of those that run
		{Snapshot{Total: 1000, Started: 200}, 20, 4, "40s"},                                            // nothing ended yet
		{Snapshot{Total: 1000, Started: 200}, 0, 4, ""},                                                // nothing is known
		{Snapshot{Total: 1e9, Started: 1, Latency: time.Hour}, 1e-9, 4, ""},                            // beyond what is worth telling
	} {
		got := ""
		if d, ok := eta(c.s, c.rate, c.inFlight); ok {
			got = d.String()
		}
		if got != c.want {
			t.Errorf("%+v, %v/s, %d in flight: %q, want %q", c.s, c.rate, c.inFlight, got, c.want)
		}
	}
}

func TestProgressLine_SaysHowFarItIs(t *testing.T) {
	past := []Snapshot{
		{Started: 10, Elapsed: time.Second},
		{Read: 100, Started: 50, Running: 4, Done: 46, Failed: 2, Elapsed: 3 * time.Second, Latency: 100 * time.Millisecond},
	}
	if got, want := progressLine(past, 20, 4, false), "46 done (2 failed), 4 in flight, 50 waiting, 20.0/s now, input goes on"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	past[1].Total = 100
	if got, want := progressLine(past, 20, 4, false), "46/100 done (2 failed), 4 in flight, 50 waiting, 20.0/s now, ETA 2.5s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := progressLine(past, 20, 4, true); !strings.HasSuffix(got, ", stopping") {
		t.Errorf("got %q", got)
	}
}

func TestProgress_IsDrawnOnATerminalAndGoneAtTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(strings.Repeat("x\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := FileSource(file)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		// No start and no end falls on an instant at which the line is drawn: which of the two came first would be left to chance.
		every99ms := throttle.Rate{N: 1, Period: 99 * time.Millisecond}
		c, results, notes := config(0, throttle.Config{Rate: every99ms, Burst: 1, MaxInFlight: 2}, func(context.Context, string, *Result) {
			time.Sleep(50 * time.Millisecond)
		})
		c.Notes = NewNotes(notes, 60)
		c.Sources = []Source{source}
		c.Results = c.Notes.Results(results)
		mustRun(t, c)
		shown := notes.String()
		if !strings.Contains(shown, "/20 done") || !strings.Contains(shown, "10.0/s now") || !strings.Contains(shown, "ETA") {
			t.Errorf("progress: %q", shown)
		}
		if !strings.HasSuffix(shown, "\r\x1b[K") {
			t.Errorf("the line is left on the terminal: %q", shown[max(0, len(shown)-80):])
		}
		for _, line := range strings.Split(shown, "\r\x1b[K") {
			if len(line) > 59 {
				t.Errorf("a line of %d columns on a terminal of 60: %q", len(line), line)
			}
		}
	})
}

func TestNotes_MessagesAndResultsStandAboveTheLine(t *testing.T) {
	var screen bytes.Buffer
	n := NewNotes(&screen, 40)
	n.draw("progress")
	n.Say("a %s", "message")
	n.Results(&screen).Write([]byte("a result\n"))
	n.draw("")
	want := "progress\r\x1b[Kturnstile: a message\nprogress\r\x1b[Ka result\nprogress\r\x1b[K"
	if screen.String() != want {
		t.Errorf("got %q, want %q", screen.String(), want)
	}
}

func TestSummary_ExitCodes(t *testing.T) {
	for _, c := range []struct {
		s    Summary
		want int
	}{
		{Summary{}, 0},
		{Summary{Snapshot: Snapshot{Done: 3}}, 0},
		{Summary{Snapshot: Snapshot{Done: 3, Failed: 1}}, 1},
		{Summary{Snapshot: Snapshot{Done: 3}, Lost: 1}, 1},
		{Summary{Snapshot: Snapshot{Done: 3}, NeverBegun: 1}, 1},
		{Summary{Snapshot: Snapshot{Done: 3}, BadInputs: 1}, 1},
		{Summary{BadInputs: 1}, 2},
		{Summary{Snapshot: Snapshot{Done: 3, Failed: 3}, Interrupted: true}, 130},
	} {
		if got := c.s.ExitCode(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
}

func TestSeconds_AreExactInJSON(t *testing.T) {
	for d, want := range map[Seconds]string{
		0: "0", 1: "0.000000001", 50_000_001: "0.050000001", 1_500_000_000: "1.5",
		100_000_000_000: "100", -1_500_000_000: "-1.5",
	} {
		if got, err := d.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%d: %s, %v, want %s", d, got, err, want)
		}
	}
}
