package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// virtualTime is the argument with which the command runs itself: testing/synctest must be called by a test, and a
// program that is a test exits when the test has ended.
const virtualTime = "virtual-time"

// beVirtual runs the cases on virtual time as a test, prints what came out as a line of JSON, and exits.
func beVirtual() {
	os.Args = os.Args[:1]
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "VirtualTime",
		F: func(t *testing.T) {
			var all []Virtual
			for _, c := range compositions() {
				all = append(all, onVirtualTime(t, c))
			}
			if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
				t.Error(err)
			}
		},
	}}, nil, nil)
}

// virtual runs this program once more, for the cases on virtual time.
func virtual() ([]Virtual, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: find this program, to run the cases on virtual time: %w", err)
	}
	out, err := exec.Command(self, virtualTime).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s%s", err, out, exit.Stderr)
		}
		return nil, fmt.Errorf("bench: the cases on virtual time: %w", err)
	}
	var all []Virtual
	line, _, _ := bytes.Cut(out, []byte("\n"))
	if err := json.Unmarshal(line, &all); err != nil {
		return nil, fmt.Errorf("bench: the cases on virtual time printed %q: %w", line, err)
	}
	return all, nil
}
