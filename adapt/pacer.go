package adapt

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Pacer has the shape of uber-go/ratelimit's Limiter: Take blocks until the caller may start.
//
// That shape has no way to say no. So make the limiter without MaxQueue and MaxWait, and close it only when nobody takes any more. Where it
// says no all the same Take panics with its error, as a send on a closed channel does: to return would be to let the caller through.
//
// Take may be called from many goroutines. The zero Pacer is unusable.
type Pacer struct{ lim *throttle.Limiter }

// NewPacer returns a Pacer of lim, or an error that is throttle.ErrCapped if permits of lim must be released.
func NewPacer(lim *throttle.Limiter) (*Pacer, error) {
	if err := uncapped("NewPacer", lim); err != nil {
		return nil, err
	}
	return &Pacer{lim}, nil
}

// Take waits for its turn and a token, and returns the time, as package time has it.
func (p *Pacer) Take() time.Time {
	accept("Pacer.Take", p.lim)
	return time.Now()
}

// accept waits for a start, and panics if lim says no.
func accept(what string, lim *throttle.Limiter) {
	if err := lim.Wait(context.Background()); err != nil {
		panic(fmt.Errorf("adapt: %s cannot say no, and must not let the caller through: %w", what, err))
	}
}
