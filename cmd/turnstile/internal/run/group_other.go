//go:build !unix

package run

import (
	"os"
	"os/exec"
)

// ownGroup does nothing where there are no process groups: cancelling kills the command alone.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}

func exitCode(p *os.ProcessState) int { return p.ExitCode() }
