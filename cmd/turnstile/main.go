// Command turnstile runs commands or fetches URLs under a rate limit and an in-flight limit, and
// shows what hand-made limits do to a server that stalls. See turnstile --help.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/cli"
)

func main() {
	interrupts := make(chan os.Signal, 4)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	// A reader that goes away (turnstile run ... | head -1) shall be seen as a failed write and
	// reported, not end the process. Ignoring SIGPIPE would be inherited by the commands run.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	os.Exit(cli.Main(os.Args[1:], cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Interrupts: interrupts,
	}))
}
