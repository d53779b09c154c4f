package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/demo"
	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/run"
	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/screen"
	"github.com/turnstile-go/turnstile/throttle"
)

const demoLong = `Start real HTTP servers on the loopback interface and call them three ways at the
same limits: rate.Wait then sem.Acquire and sem.Acquire then rate.Wait, as people
compose golang.org/x/time/rate and golang.org/x/sync/semaphore by hand, and
Turnstile. Show side by side what each did: as a table and plots here, and as one
self-contained HTML page.

Scenarios:
  stall    the server answers nobody for a while. What was paid for meanwhile then
           bursts upon it, if tokens are taken before the permit
  shared   a slow and a fast rate limit share one cap. Callers of the slow one sit on
           the permits, if permits are taken before the token
  giveup   three times as many callers come as may start, and each cancels after 1s.
           Their tokens are lost, if they are taken when the wait begins
All scenarios and ways run at the same time, each against a server of its own. It
takes about 12s. --rate, --burst, --in-flight and --service hold for stall and
giveup; shared always has 5/s and 500/s on 20 permits.

Every number shown is measured in this run. Starts are judged exactly, in every
window of length t, against what was promised: burst + rate x (t + 10ms).

Exit codes: 0 Turnstile kept its promise; 1 it did not, or something failed; 2 bad
usage; 130 interrupted.`

const demoExample = `  turnstile demo
  turnstile demo --scenario stall --stall 5s --duration 20s
  turnstile demo --ascii --html - | less`

// demoFlags is what turnstile demo is told.
type demoFlags struct {
	scenario       string
	rate, arrivals string
	burst          int64
	inFlight       int64
	service        time.Duration
	stall, stallAt time.Duration
	duration       time.Duration
	html           string
	seed           uint64
	ascii          bool
}

func newDemo(s Streams) *cobra.Command {
	var f demoFlags
	command := &cobra.Command{
		Use:     "demo [flags]",
		Short:   "See what hand-made limits do when a server stalls, and what Turnstile does",
		Long:    demoLong,
		Example: demoExample,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return f.run(s) },
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.scenario, "scenario", "all", "stall, shared, giveup or all; several with commas")
	flags.StringVar(&f.rate, "rate", "100/s", "rate limit")
	flags.Int64Var(&f.burst, "burst", 10, "burst")
	flags.Int64Var(&f.inFlight, "in-flight", 20, "in-flight limit")
	flags.StringVar(&f.arrivals, "arrivals", "90/s", "stall: how many callers arrive, on average")
	flags.DurationVar(&f.service, "service", 50*time.Millisecond, "how long the server takes for a call, on average")
	flags.DurationVar(&f.stallAt, "stall-at", 3*time.Second, "stall: when the server stalls")
	flags.DurationVar(&f.stall, "stall", 2500*time.Millisecond, "stall: for how long")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "how long callers arrive; those who wait then are served still")
	flags.StringVar(&f.html, "html", "turnstile-demo.html", `file to write the page to; "-" or "" for none`)
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the arrivals and service times")
	flags.BoolVar(&f.ascii, "ascii", false, "plots in ASCII")
	return command
}

// run plays the demo and shows it.
func (f *demoFlags) run(s Streams) error {
	c, err := f.config()
	if err != nil {
		return err
	}
	page, err := openPage(f.html)
	if err != nil {
		return usage("--html: %w", err)
	}
	defer page.discard()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(stopped)
		watchDemo(s, c, done, cancel)
	}()
	report, err := demo.Run(ctx, c)
	close(done)
	<-stopped
	if err != nil {
		if ctx.Err() != nil {
			return &exit{run.ExitInterrupted, errors.New("interrupted; nothing is shown")}
		}
		return &exit{run.ExitFailed, err}
	}
	look := demo.Look{Width: screen.Width(s.Out), ASCII: f.ascii, Colours: screen.Colours(s.Out)}
	if _, err := io.WriteString(s.Out, report.Terminal(look)); err != nil {
		return &exit{run.ExitFailed, fmt.Errorf("standard output cannot be written: %w", err)}
	}
	if err := page.write(report.WriteHTML); err != nil {
		return &exit{run.ExitFailed, fmt.Errorf("the page cannot be written: %w", err)}
	}
	if page != nil {
		fmt.Fprintf(s.Err, "The same with charts: %s\n", f.html)
	}
	if !report.Kept() {
		return &exit{run.ExitFailed, errors.New("the promise was not kept by Turnstile: a bug; please report it, with the page")}
	}
	return nil
}

// config reads the flags.
func (f *demoFlags) config() (demo.Config, error) {
	c := demo.Config{
		Burst: f.burst, InFlight: f.inFlight, Service: f.service,
		StallAt: f.stallAt, Stall: f.stall, Duration: f.duration, Seed: f.seed,
	}
	var err error
	if c.Rate, err = throttle.ParseRate(f.rate); err != nil {
		return c, usage("--rate: %w", err)
	}
	if c.Arrivals, err = throttle.ParseRate(f.arrivals); err != nil {
		return c, usage("--arrivals: %w", err)
	}
	for key := range strings.SplitSeq(f.scenario, ",") {
		switch {
		case key == "all":
			c.Scenarios = demo.Scenarios
		case !slices.Contains(demo.Scenarios, key):
			return c, usage("--scenario %q: want %s or all", key, strings.Join(demo.Scenarios, ", "))
		case !slices.Contains(c.Scenarios, key):
			c.Scenarios = append(slices.Clip(c.Scenarios), key)
		}
	}
	if err := c.Check(); err != nil {
		return c, usage("%w", err)
	}
	return c, nil
}

// watchDemo says how far the demo is, and cancels it when interrupted, until done is closed.
func watchDemo(s Streams, c demo.Config, done <-chan struct{}, cancel context.CancelFunc) {
	began := time.Now()
	say := func() string {
		return fmt.Sprintf("playing %d scenarios, 3 ways each, for %v and a little more",
			len(c.Scenarios), c.Duration)
	}
	live := screen.Width(s.Err) > 0
	var tick <-chan time.Time
	if live {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		tick = ticker.C
		defer io.WriteString(s.Err, "\r\x1b[K")
	} else {
		fmt.Fprintln(s.Err, say())
	}
	for {
		select {
		case <-done:
			return
		case <-s.Interrupts:
			cancel()
		case <-tick:
			text := fmt.Sprintf("%s: %.1f s", say(), time.Since(began).Seconds())
			fmt.Fprintf(s.Err, "\r\x1b[K%.*s", max(1, screen.Width(s.Err)-1), text)
		}
	}
}

// A pageFile is the file that the page goes to: a new one beside it, so that what is there stays as
// it is until the page is whole. A nil one is no file.
type pageFile struct {
	name string
	temp *os.File
}

// openPage makes sure, before anything is played, that the page can be written.
func openPage(name string) (*pageFile, error) {
	if name == "" || name == "-" {
		return nil, nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; want a name for the page, or - for none", name)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".turnstile-demo-*.html")
	if err != nil {
		return nil, fmt.Errorf("%w; want a name for the page in a directory that can be written, or - for none", err)
	}
	return &pageFile{name, temp}, nil
}

// write fills the file and puts it in its place.
func (p *pageFile) write(fill func(io.Writer) error) error {
	if p == nil {
		return nil
	}
	if err := fill(p.temp); err != nil {
		return err
	}
	if err := p.temp.Chmod(0o644); err != nil {
		return err
	}
	if err := p.temp.Close(); err != nil {
		return err
	}
	return os.Rename(p.temp.Name(), p.name)
}

// discard removes what write did not finish.
func (p *pageFile) discard() {
	if p != nil {
		p.temp.Close()
		os.Remove(p.temp.Name()) // gone after a rename
	}
}
