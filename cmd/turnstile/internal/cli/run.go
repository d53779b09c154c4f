package cli

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/run"
	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/screen"
	"github.com/turnstile-go/turnstile/throttle"
)

const (
	// defaultInFlight is the cap where only a rate is given, so that a server that stalls does not
	// make every line of the input run at once.
	defaultInFlight = 256
	defaultTimeout  = 30 * time.Second // of a URL
	defaultOutput   = 64 << 10
)

const runLong = `Read lines, from files or standard input, and run each under the limits: fetch it
as a URL or, with a command after "--", execute that command for it. {} in the
command stands for the line; without {} the line becomes the last argument. No
shell is involved, unless the command is one.

Limits. At least one of --rate and --in-flight must be given. Lines start in the
order of the input: the next one waits for its token, then for its permit. With
a rate alone, at most 256 lines run at once; with --in-flight alone, there is no
rate limit.

Results are JSON lines on standard output, as lines finish or, with --keep-order,
in the order of the input:
  line, input         which line (and file, if several are read)
  start               when it was let through; absent if it never was
  wait, duration      seconds in the limiter's line; seconds from start to end
  status, location    of a URL
  exit_code           of a command; 128 + n if signal n ended it
  bytes               read: the body; written: standard output
  stdout, stderr      of a command, the first 64 KiB of each (--max-output); then
                      stdout_truncated, stderr_truncated
  error               why it failed, where status or exit_code do not say it all
What is not UTF-8 is shown as U+FFFD. Progress and messages go to standard error,
and so does a summary at the end. It judges the starts, by the instants at which
the limiter let them through, exactly against what was promised: in every window
of length t at most burst + rate x (t + 10ms).

Input. Lines end in LF or CRLF; blank ones are skipped; one above 1 MiB fails. It
is streamed: besides the lines that run, and those about to start (at most 256),
17 are in memory. For the summary, 24 bytes a line are kept, and at the end, to
judge a rate, some 200 more. With --keep-order, up to 1024 results (or 32 MiB) wait
for an earlier line; then no more is started until it has ended.

Interrupts. The first Ctrl-C (or SIGTERM) starts nothing more and lets what runs
finish; the second aborts it: requests are cancelled, commands get SIGTERM and,
2s later, SIGKILL. Commands run in process groups of their own and read nothing.

Exit codes: 0 all well; 1 some failed (an error, a status of 400 or more, an exit
code other than 0), or not all was run or written; 2 nothing was run: bad usage
or input; 130 interrupted.`

const runExample = `  turnstile run --rate 20/s --burst 5 --in-flight 4 urls.txt
  turnstile run --rate 100/min --method HEAD -H 'Authorization: Bearer x' < urls.txt
  turnstile run --in-flight 2 *.list -- convert {} {}.png
  seq 100 | turnstile run --rate 5/s --keep-order -- sh -c 'echo "$1"' sh | jq -r .stdout`

// runFlags is what turnstile run is told.
type runFlags struct {
	rate      string
	burst     int64
	inFlight  int64
	timeout   time.Duration
	keepOrder bool
	method    string
	header    []string
	follow    bool
	maxOutput int
	quiet     bool
}

func newRun(s Streams) *cobra.Command {
	var f runFlags
	command := &cobra.Command{
		Use:     "run [flags] [FILE...] [-- COMMAND [ARG...]]",
		Short:   "Fetch each line of the input as a URL, or run a command for it",
		Long:    runLong,
		Example: runExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, s)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.rate, "rate", "r", "", "start at most so many lines in a time: 20/s, 5/15s, 100/min, 0.5/s")
	flags.Int64VarP(&f.burst, "burst", "b", 1, "with --rate: how many may start at once after a quiet time")
	flags.Int64VarP(&f.inFlight, "in-flight", "n", 0, "run at most so many lines at once")
	flags.DurationVarP(&f.timeout, "timeout", "t", 0, "end a line so long after its start (default 30s for a URL, none for a command)")
	flags.BoolVarP(&f.keepOrder, "keep-order", "k", false, "write results in the order of the input")
	flags.StringVarP(&f.method, "method", "X", http.MethodGet, "method of the requests")
	flags.StringArrayVarP(&f.header, "header", "H", nil, "header field of the requests, 'Name: value'; may be repeated")
	flags.BoolVarP(&f.follow, "follow", "L", false, "follow redirects, up to 10; each is a request that the limits do not count")
	flags.IntVar(&f.maxOutput, "max-output", defaultOutput, "bytes of each output of a command to keep")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no summary")
	return command
}

// run checks everything that can be checked before anything is started, and runs.
func (f *runFlags) run(cmd *cobra.Command, args []string, s Streams) error {
	files, argv := args, []string(nil)
	dash := cmd.ArgsLenAtDash()
	if dash >= 0 {
		files, argv = args[:dash], args[dash:]
	}
	limits, err := f.limits(cmd)
	if err != nil {
		return err
	}
	config := run.Config{
		Limits: limits, Timeout: f.timeout, KeepOrder: f.keepOrder, Interrupts: s.Interrupts,
	}
	if cmd.Flags().Changed("timeout") && f.timeout <= 0 {
		return usage("--timeout %v: want a time above 0, such as 30s", f.timeout)
	}
	if config.Job, err = f.job(cmd, dash >= 0, argv, limits.MaxInFlight); err != nil {
		return err
	}
	if config.Timeout == 0 && dash < 0 {
		config.Timeout = defaultTimeout
	}
	if config.Sources, err = sources(files, s.In); err != nil {
		return err
	}
	typed := len(files) == 0 && screen.IsTerminal(s.In)
	width := screen.Width(s.Err)
	if f.quiet || typed { // progress would be drawn over what is being typed
		width = 0
	}
	config.Notes = run.NewNotes(s.Err, width)
	config.Results = s.Out
	if width > 0 && screen.Width(s.Out) > 0 {
		config.Results = config.Notes.Results(s.Out)
	}
	if typed {
		config.Notes.Say("reading lines from the terminal; Ctrl-D ends them")
	}
	summary, err := run.Run(config)
	if err != nil {
		return usage("%w", err)
	}
	if !f.quiet {
		io.WriteString(s.Err, summary.String())
	}
	if code := summary.ExitCode(); code != run.ExitOK {
		return &exit{code: code}
	}
	return nil
}

// limits reads --rate, --burst and --in-flight.
func (f *runFlags) limits(cmd *cobra.Command) (throttle.Config, error) {
	var c throttle.Config
	given := cmd.Flags().Changed
	if !given("rate") && !given("in-flight") {
		return c, usage("no limit is given: want --rate (as in --rate 20/s), --in-flight (as in --in-flight 4), or both")
	}
	if given("rate") {
		r, err := throttle.ParseRate(f.rate)
		if err != nil {
			return c, usage("--rate: %w", err)
		}
		if f.burst < 1 || f.burst > throttle.MaxBurst {
			return c, usage("--burst %d: want 1 to %d", f.burst, int64(throttle.MaxBurst))
		}
		c.Rate, c.Burst = r, f.burst
	} else if given("burst") {
		return c, usage("--burst %d: there is no --rate that it could belong to", f.burst)
	}
	c.MaxInFlight = defaultInFlight
	if given("in-flight") {
		if f.inFlight < 1 || f.inFlight > throttle.MaxCap-1024 {
			return c, usage("--in-flight %d: want 1 or more", f.inFlight)
		}
		c.MaxInFlight = f.inFlight
	}
	return c, nil
}

// job returns what to do with each line.
func (f *runFlags) job(cmd *cobra.Command, isCommand bool, argv []string, inFlight int64) (run.Job, error) {
	alien, kind := []string{"max-output"}, "URLs"
	if isCommand {
		alien, kind = []string{"method", "header", "follow"}, "a command"
	}
	for _, name := range alien {
		if cmd.Flags().Changed(name) {
			return nil, usage("--%s has no meaning for %s", name, kind)
		}
	}
	if isCommand {
		if f.maxOutput < 0 {
			return nil, usage("--max-output %d: want 0 or more", f.maxOutput)
		}
		job, err := run.NewCommand(argv, f.maxOutput)
		if err != nil {
			return nil, usage("%w", err)
		}
		return job, nil
	}
	header := make(http.Header)
	for _, field := range f.header {
		name, value, ok := strings.Cut(field, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !isToken(name) || strings.ContainsFunc(value, isControl) {
			return nil, usage("--header %q: want 'Name: value'", field)
		}
		header.Add(name, value)
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "turnstile")
	}
	job, err := run.NewFetch(f.method, header, f.follow, int(min(inFlight, 4096)))
	if err != nil {
		return nil, usage("%w", err)
	}
	return job, nil
}

// isToken reports whether s may name a header field (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}

// isControl reports whether no field's value may hold c.
func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// sources opens nothing yet, but tells what cannot be read.
func sources(files []string, in io.Reader) ([]run.Source, error) {
	if len(files) == 0 {
		return []run.Source{run.StreamSource("-", in)}, nil
	}
	var list []run.Source
	for _, name := range files {
		if name == "-" {
			list = append(list, run.StreamSource("-", in))
			continue
		}
		source, err := run.FileSource(name)
		if err != nil {
			if strings.Contains(name, "://") {
				return nil, usage("%w (arguments are files of lines; to fetch one URL: echo %s | turnstile run ...)", err, name)
			}
			return nil, usage("%w", err)
		}
		list = append(list, source)
	}
	return list, nil
}
