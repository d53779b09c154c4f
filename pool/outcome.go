package pool

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// An Outcome is what became of one task.
type Outcome struct {
	// Task is the number of the task in its Group: 0, 1, ... in the order in which they were added.
	Task int
	// Started says whether its function was called.
	Started bool
	// Err is nil, or what the function returned, or why the limiter refused the task, or a *PanicError, or an error that is ErrGoexit.
	Err error
}

// ErrGoexit: the function of a task ended its goroutine by runtime.Goexit.
var ErrGoexit = errors.New("runtime.Goexit was called")

// A PanicError is a panic that was carried to another goroutine.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked, at that moment
}

// Error returns the value's text and the stack, so that a crash shows where it began.
func (e *PanicError) Error() string {
	return fmt.Sprintf("pool: a task panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// An ending is how a function ended: it returned err; or it did not return, and err says why.
type ending struct {
	err    error
	broken bool
}

// attempt calls f and, however f ends, calls last. A Goexit cannot be held up: it ends the goroutine after last.
func attempt(f func() error, last func(ending)) {
	end := ending{broken: true}
	defer func() {
		if end.broken {
			if v := recover(); v != nil {
				end.err = &PanicError{v, debug.Stack()}
			} else {
				end.err = fmt.Errorf("pool: %w\n\n%s", ErrGoexit, debug.Stack())
			}
		}
		last(end)
	}()
	end = ending{err: f()}
}

// carry ends the calling goroutine as a task was ended that did not return, if there was one.
func carry(broken error) {
	if broken == nil {
		return
	}
	if _, panicked := broken.(*PanicError); !panicked {
		runtime.Goexit()
	}
	panic(broken)
}
