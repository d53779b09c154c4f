package run

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"
)

// killGrace is how long a command has to end after it was asked to (SIGTERM), and how long output
// held open by a child it left behind is waited for, before it is killed (SIGKILL) or cut off.
const killGrace = 2 * time.Second

// placeholder in a command's arguments stands for the line.
const placeholder = "{}"

// Command is the job that executes a program for each line. The program reads no input, runs in a
// process group of its own, so that Ctrl-C on the terminal does not reach it, and its outputs are kept up to a bound each.
type Command struct {
	argv     []string
	hole     bool // argv has the placeholder
	maxBytes int
}

// NewCommand returns the job. argv must name a program, which must exist unless its name depends on the line. Of
// each output the first maxBytes bytes are kept.
func NewCommand(argv []string, maxBytes int) (*Command, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New(`no command after "--"`)
	}
	if !strings.Contains(argv[0], placeholder) {
		if _, err := exec.LookPath(argv[0]); err != nil {
			var e *exec.Error
			if errors.As(err, &e) {
				err = e.Err
			}
			return nil, fmt.Errorf("command %q cannot be run: %w", argv[0], err)
		}
	}
	return &Command{argv, strings.Contains(strings.Join(argv, "\n"), placeholder), maxBytes}, nil
}

// Check refuses what no argument can hold.
func (c *Command) Check(input string) error {
	if strings.ContainsRune(input, 0) {
		return errors.New("the line holds a NUL byte, which no argument of a command can")
	}
	return nil
}

// arguments puts the line into the command's arguments, or behind them.
func (c *Command) arguments(input string) []string {
	if !c.hole {
		return append(c.argv[:len(c.argv):len(c.argv)], input)
	}
	argv := make([]string, len(c.argv))
	for i, a := range c.argv {
		argv[i] = strings.ReplaceAll(a, placeholder, input)
	}
	return argv
}

// Do runs the command to its end.
func (c *Command) Do(ctx context.Context, input string, r *Result) {
	argv := c.arguments(input)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	stdout, stderr := capture{limit: c.maxBytes}, capture{limit: c.maxBytes}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = killGrace
	ownGroup(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		killGroup(cmd)
	}
	r.Bytes = stdout.total
	r.Stdout, r.StdoutTruncated = stdout.text()
	r.Stderr, r.StderrTruncated = stderr.text()
	if cmd.ProcessState != nil {
		code := exitCode(cmd.ProcessState)
		r.ExitCode = &code
		r.failed = code != 0
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		r.Error = context.Cause(ctx).Error()
	case errors.Is(err, exec.ErrWaitDelay):
		r.Error = fmt.Sprintf("the command ended, but a process it left behind still held its output open %v later; what came until then is kept", killGrace)
	case errors.As(err, &exit):
		if exit.Exited() {
			return // the exit code says it all
		}
		r.Error = "the command did not exit: " + exit.Error()
	default:
		r.Error = "the command could not be run: " + err.Error()
	}
	r.failed = true
}

// Close has nothing to let go of.
func (c *Command) Close() {}

// A capture keeps the first bytes written to it, and counts all.
type capture struct {
	limit int
	kept  []byte
	total int64
}

func (c *capture) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	c.kept = append(c.kept, p[:min(len(p), c.limit-len(c.kept))]...)
	return len(p), nil
}

// text returns what was kept, without the end of a character that was cut in two, and whether anything is missing.
func (c *capture) text() (string, bool) {
	kept := c.kept
	truncated := int64(len(kept)) < c.total
	if truncated {
		for back := 1; back < utf8.UTFMax && back <= len(kept); back++ {
			if tail := kept[len(kept)-back:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					kept = kept[:len(kept)-back]
				}
				break
			}
		}
	}
	return string(kept), truncated
}
