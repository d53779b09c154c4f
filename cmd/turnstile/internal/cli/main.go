// Package cli is turnstile's command line: flags and arguments in, exit code out.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/run"
)

// Streams is what the command reads, writes and is interrupted by.
type Streams struct {
	In         io.Reader
	Out, Err   io.Writer
	Interrupts <-chan os.Signal // nil: none
}

// An exit is an error with an exit code. One without text was already told.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage is the exit for what was typed wrongly.
func usage(format string, args ...any) error {
	return &exit{run.ExitUsage, fmt.Errorf(format, args...)}
}

// Main runs the command with these arguments, the program's name left out, and returns its exit code. Every error
// is told on Err, in a line that begins with "turnstile: ".
func Main(args []string, s Streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	command, err := root.ExecuteC()
	if err == nil {
		return run.ExitOK
	}
	var e *exit
	if !errors.As(err, &e) { // cobra's own: an unknown command, a flag that cannot be read
		e = &exit{run.ExitUsage, err}
	}
	if e.err != nil {
		fmt.Fprintf(s.Err, "turnstile: %v\n", e.err)
		if e.code == run.ExitUsage {
			fmt.Fprintf(s.Err, "See %s --help.\n", command.CommandPath())
		}
	}
	return e.code
}

func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "turnstile",
		Short: "Run commands or fetch URLs under a rate limit and an in-flight limit",
		Long: `Turnstile runs commands or fetches URLs at most so often (--rate, --burst) and at
most so many at once (--in-flight). Both limits hold together, at the start of
each call, however slow or stalled what is called may be.`,
		Example: `  turnstile demo                                          what hand-made limits do when a server stalls
  turnstile run --rate 20/s --in-flight 4 urls.txt        fetch URLs
  turnstile run --rate 10/min hosts.txt -- ping -c 1 {}   run a command for each line`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(s), newDemo(s), newVersion(s))
	return root
}

func newVersion(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, "turnstile", version())
			if err != nil {
				return &exit{run.ExitFailed, fmt.Errorf("standard output cannot be written: %w", err)}
			}
			return nil
		},
	}
}

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version + " " + info.GoVersion
}
