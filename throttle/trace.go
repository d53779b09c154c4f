package throttle

import "time"

// A Trace is a set of functions called as things happen to a limiter's callers; any may be nil.
// Each is called outside the limiter's lock, by the goroutine of the caller (or releaser, or
// setter) whose event it is, so that it may call the limiter. Events may thus arrive in another order than
// they happened in; Seq has the true one. A limiter without a Trace pays nothing for it.
type Trace struct {
	Queued       func(Event) // a caller joined the line
	Started      func(Event) // a caller was let through: about to return from Acquire or Try
	Refused      func(Event) // a caller was told never or not yet, on arrival or while it waited
	Left         func(Event) // a caller gave up by its own context
	Released     func(Event) // a permit was given back for the first time
	LimitChanged func(Event) // SetRate, SetBurst, SetQuota, SetMaxInFlight or Semaphore.Resize took effect
}

// An Event is what a function of a Trace is told. Fields that do not concern it are zero.
type Event struct {
	Limiter string        // Config.Name
	Seq     uint64        // the order in which things happened under the lock, rising from 1
	ID      uint64        // the call: the same in its Queued, Started, Left, Refused and Released
	At      time.Time     // the clock, read under the lock
	Nominal time.Time     // Started: the instant as of which it was charged; at most Slack before At
	Wait    time.Duration // Queued, Refused: the wait reckoned; Started, Left: the time in line
	Tokens  int64         // the call's cost (0 in Released)
	Weight  int64         // the call's weight
	Err     error         // Refused, Left: what the caller is told

	// LimitChanged: what holds from this instant on. MaxInFlight is -1 where there is no cap.
	Rate        Rate
	Burst       int64
	MaxInFlight int64
}

// call calls f, if there is such a function, outside the lock.
func (l *Limiter) call(f func(Event), e Event) {
	if f != nil {
		e.Limiter = l.name
		f(e)
	}
}
