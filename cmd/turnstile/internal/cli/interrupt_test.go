//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// endless reads as the same line for ever.
type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

func TestRun_TheFirstInterruptStartsNothingMoreAndLetsWhatRunsFinish(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		s := &session{Interrupts: make(chan os.Signal, 1)}
		var stderr output
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			s.Interrupts <- signal
			for !strings.Contains(stderr.String(), "interrupted: nothing more is started") {
				runtime.Gosched()
			}
			io.WriteString(w, "whole answer")
		})
		file := filepath.Join(t.TempDir(), "urls")
		if err := os.WriteFile(file, []byte(strings.Repeat(url+"\n", 500)), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout output
		code := Main([]string{"run", "-n", "1", file}, Streams{Out: &stdout, Err: &stderr, Interrupts: s.Interrupts})
		if code != 130 || strings.Count(stdout.String(), "\n") != 1 || !strings.Contains(stdout.String(), `"bytes":12}`) {
			t.Errorf("%v: exit code %d, results %s", signal, code, stdout.String())
		}
		for _, want := range []string{"waiting for the 1 that run", "1 of 500 lines done", "unstarted 499 lines\n"} {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%v: standard error lacks %q:\n%s", signal, want, stderr.String())
			}
		}
	}
}

func TestRun_TheSecondInterruptCancelsRequests(t *testing.T) {
	s := &session{In: endless("http://localhost/\n"), Interrupts: make(chan os.Signal, 2)}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s.Interrupts <- os.Interrupt
		s.Interrupts <- os.Interrupt
		<-r.Context().Done()
	})
	s.In = io.MultiReader(strings.NewReader(url+"\n"), s.In)
	s.run(t, "run", "-n", "1")
	s.expect(t, 130, "aborting", "1 failed", "unstarted", "and what input was left unread")
	if len(s.results) != 1 || s.results[0].Error != "aborted by the second interrupt" {
		t.Errorf("results: %+v", s.results)
	}
}

func TestRun_TheSecondInterruptKillsCommandsWithTheirChildren(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "ready")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &session{In: strings.NewReader(fifo), Interrupts: make(chan os.Signal, 2)}
	var wg sync.WaitGroup
	wg.Go(func() {
		held, err := os.Open(fifo)
		if err != nil {
			t.Error(err)
			return
		}
		defer held.Close()
		ready := make([]byte, 3)
		if _, err := io.ReadFull(held, ready); err != nil || string(ready) != "go\n" {
			t.Errorf("the command did not begin: %q, %v", ready, err)
		}
		s.Interrupts <- os.Interrupt
		s.Interrupts <- os.Interrupt
		// The end of the file comes when the last process that has it open is gone.
		if _, err := io.Copy(io.Discard, held); err != nil {
			t.Error(err)
		}
	})
	s.run(t, "run", "-n", "1", "--", "sh", "-c", `(echo go; trap "" TERM; sleep 1000; sleep 1000) > "$0" & wait`)
	wg.Wait()
	s.expect(t, 130)
	if len(s.results) != 1 || s.results[0].Error != "aborted by the second interrupt" || *s.results[0].ExitCode != 143 {
		t.Errorf("results: %+v", s.results)
	}
}

func TestRun_AbortingAsksTheCommandsChildrenToEndToo(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &session{In: strings.NewReader(fifo), Interrupts: make(chan os.Signal, 2)}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := os.ReadFile(fifo); err != nil {
			t.Error(err)
		}
		s.Interrupts <- os.Interrupt
		s.Interrupts <- os.Interrupt
	})
	s.run(t, "run", "-n", "1", "--", "sh", "-c", `(trap "echo asked; exit" TERM; sleep 1000 & echo go > "$0"; wait) & wait`)
	wg.Wait()
	s.expect(t, 130)
	if len(s.results) != 1 || s.results[0].Stdout != "asked\n" {
		t.Errorf("results: %+v", s.results)
	}
}

func TestRun_AnInterruptEndsTheWaitForInput(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	s := &session{In: in, Interrupts: make(chan os.Signal, 1)}
	s.Interrupts <- os.Interrupt
	s.run(t, "run", "-n", "1", "--", "true")
	s.expect(t, 130, "0 of 0 lines done", "what input was left unread")
}

func TestRun_CommandsRunInAGroupOfTheirOwn(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc to see process groups")
	}
	s := turnstile(t, "x", "run", "-n", "1", "--", "sh", "-c", `read -r line < /proc/$$/stat; echo "$$ $line"`)
	s.expect(t, 0)
	fields := strings.Fields(s.results[0].Stdout)
	if len(fields) < 6 || fields[0] != fields[5] {
		t.Errorf("the command's group is not its own: %q", s.results[0].Stdout)
	}
}

func TestRun_AClosedStandardOutputStopsAnEndlessRun(t *testing.T) {
	for _, order := range []bool{false, true} {
		broken := errors.New("broken pipe")
		written := 0
		s := &session{In: endless("x\n"), Out: writerFunc(func(p []byte) (int, error) {
			if written++; written > 1 {
				return 0, broken
			}
			return len(p), nil
		})}
		args := []string{"run", "-n", "4", "--", "true"}
		if order {
			args = append([]string{"run", "-k"}, args[1:]...)
		}
		s.run(t, args...)
		s.expect(t, 1, "results cannot be written any more (broken pipe)", "lost", "results could not be written")
		if written != 2 {
			t.Errorf("written %d times, want once well and once in vain", written)
		}
	}
}

func TestRun_InputThatBreaksOffIsToldAndNothingBeforeIsLost(t *testing.T) {
	s := &session{In: io.MultiReader(strings.NewReader("1\n2\n"), failing{})}
	s.run(t, "run", "-n", "1", "--", "true")
	s.expect(t, 1, "standard input: reading stopped: the disk is gone", "2 of 2 lines done", "1 could not be read to the end")
	if len(s.results) != 2 {
		t.Errorf("%d results, want 2", len(s.results))
	}
	s = &session{In: failing{}}
	s.run(t, "run", "-n", "1", "--", "true")
	s.expect(t, 2, "the disk is gone")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("the disk is gone") }
