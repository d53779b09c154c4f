package throttleredis

import (
	"errors"
	"fmt"
)

// Beside the errors of package throttle (*throttle.NotYetError, *throttle.LeftError, throttle.ErrTooLarge, throttle.ErrClosed,
// throttle.ErrInvalid) there are these.
var (
	// ErrUnavailable: Redis could not be reached, or did not answer in time, and the policy is Closed. The error is an *UnavailableError.
	// It says nothing about the caller's rate: an HTTP server answers it with 503, not 429.
	ErrUnavailable = errors.New("redis is unavailable")
	// ErrLeaseLost is the cause with which a permit's context is cancelled when its lease can no longer be counted on.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrSchema: the keys in Redis were written by a later version of this package.
	ErrSchema = errors.New("the state in redis is of a later version")
)

// An UnavailableError tells a caller that Redis could not be reached. Nothing is held. A token may have been spent.
type UnavailableError struct {
	Limiter string // Config.Name
	Err     error  // of the last call to Redis
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("throttleredis: %q: redis is unavailable: %v", e.Limiter, e.Err)
}

// Unwrap returns ErrUnavailable and the error of the call.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }
