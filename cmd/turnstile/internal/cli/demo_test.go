package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// short are flags for a demo of about a second.
func short(args ...string) []string {
	return append([]string{"demo", "--duration", "500ms", "--stall-at", "100ms", "--stall", "100ms", "--service", "5ms"}, args...)
}

func TestDemo_ShowsATableAndWritesOnePage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	if err := os.WriteFile(page, []byte("an old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &session{}
	s.run(t, short("--html", page, "--ascii")...)
	s.expect(t, 0, "playing 3 scenarios", "The same with charts: "+page)
	for _, want := range []string{"THE SERVER STALLS", "SHARE ONE CAP", "CALLERS GIVE UP", "Turnstile", "seed 1"} {
		if !strings.Contains(s.stdout, want) {
			t.Errorf("standard output lacks %q", want)
		}
	}
	if strings.Contains(s.stdout, "\x1b") {
		t.Error("colours, though this is no terminal")
	}
	text, err := os.ReadFile(page)
	if err != nil || !bytes.HasPrefix(text, []byte("<!DOCTYPE html>")) || !bytes.HasSuffix(text, []byte("</html>\n")) {
		t.Errorf("the page: %.40q, %v", text, err)
	}
	onlyFiles(t, dir, "page.html")
}

// onlyFiles fails the test unless the directory holds these and no others.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}

func TestDemo_PlaysOneScenarioWithoutAPage(t *testing.T) {
	t.Chdir(t.TempDir())
	s := &session{}
	s.run(t, short("--html", "-", "--scenario", "stall")...)
	s.expect(t, 0)
	if strings.Contains(s.stdout, "GIVE UP") || !strings.Contains(s.stdout, "STALLS") || strings.Contains(s.stderr, "charts") {
		t.Errorf("stdout %s, stderr %s", s.stdout, s.stderr)
	}
	onlyFiles(t, ".")
}

func TestDemo_BadUsageIsToldBeforeAnythingIsPlayed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		args []string
		told string
	}{
		{[]string{"--rate", "fast"}, `--rate: throttle: rate "fast"`},
		{[]string{"--arrivals", "10"}, `--arrivals: throttle: rate "10"`},
		{[]string{"--burst", "0"}, "--burst 0: want 1 to 10000"},
		{[]string{"--in-flight", "-3"}, "--in-flight -3: want 1 to 500"},
		{[]string{"--scenario", "flood"}, `--scenario "flood": want stall, shared, giveup or all`},
		{[]string{"--scenario", ""}, `--scenario ""`},
		{[]string{"--seed", "-1"}, "--seed"},
		{[]string{"--duration", "1s"}, "--stall 2.5s from --stall-at 3s on"},
		{[]string{"--html", dir}, "not a regular file"},
		{[]string{"--html", filepath.Join(dir, "absent", "x.html")}, "no such file or directory"},
		{[]string{"an argument"}, "an argument"},
	} {
		s := &session{}
		s.run(t, append([]string{"demo"}, c.args...)...)
		s.expect(t, 2, c.told)
		if s.stdout != "" {
			t.Errorf("%v: wrote %q", c.args, s.stdout)
		}
	}
	onlyFiles(t, dir)
}

func TestDemo_AnInterruptEndsItAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := &session{Interrupts: make(chan os.Signal, 1)}
	s.Interrupts <- os.Interrupt
	s.run(t, "demo", "--html", filepath.Join(dir, "x.html"))
	s.expect(t, 130, "interrupted")
	onlyFiles(t, dir)
}

func TestDemo_AClosedStandardOutputIsTold(t *testing.T) {
	s := &session{Out: writerFunc(func([]byte) (int, error) { return 0, errors.New("broken pipe") })}
	s.run(t, short("--html", "", "--scenario", "stall")...)
	s.expect(t, 1, "standard output cannot be written: broken pipe")
}
