package fake

import (
	"container/heap"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Epoch is the instant at which a Clock begins when none is given: noon UTC on 1 January 2030.
var Epoch = time.Date(2030, time.January, 1, 12, 0, 0, 0, time.UTC)

// callbacksAtOneInstant is how many callbacks one Advance runs without time moving on. Beyond it a callback is
// taken to arm itself again with no delay, which would never end.
const callbacksAtOneInstant = 1 << 20

// TimeSource is what this package needs of a clock. *Clock has these methods, and so has any throttle.Clock.
//
// AfterFunc calls f once, d from now, and never from inside AfterFunc; stop reports whether it kept f from being called.
type TimeSource interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Clock is a clock that moves only when told to. Give it to whatever takes a clock, let the code under test arm its
// timers (WaitTimers says when it has), then Advance.
//
//	from      event                          to        who moves it
//	-         AfterFunc                      armed     any goroutine
//	armed     stop (true)                    gone      any goroutine
//	armed     Advance reaches its instant    called    the goroutine of Advance
//	called    stop (false)                   called    -
//
// Truths:
//  1. Callbacks run one at a time, in order of instant and, at one instant, of arming, in the goroutine of Advance.
//  2. No lock is held while a callback runs: it may call every method, Advance too.
//  3. When a callback begins, Now is the instant of its own timer.
//  4. A timer that a callback arms within the advanced span is called in the same Advance.
//  5. Nothing is ever called from inside AfterFunc: with d <= 0 the call comes with the next Advance, Advance(0) too.
//  6. Now moves by Advance, AdvanceToNext and Step alone.
//
// All methods may be called from many goroutines. A second Advance waits for the first to end; one made by a callback
// does not: it moves the clock there and then, and the Advance around it goes on from where that left the clock. Arming and
// stopping cost O(log n) for n armed timers; Now costs one uncontended lock.
//
// The zero Clock is ready to use and stands at the zero Time.
type Clock struct {
	mu     sync.Mutex
	turn   *sync.Cond              // an Advance ended; made by the first that waits
	line   time.Time               // the instants of timers lie on this line, which no Step moves
	wall   time.Time               // what Now says
	timers timerHeap               // armed
	armed  uint64                  // timers ever armed
	waits  map[*timerWait]struct{} // WaitTimers under way
	late   func() time.Duration    // nil: timers are exact
	driver uint64                  // the goroutine whose Advance is under way; 0: none
}

// NewClock returns a clock that stands at start, or at Epoch if start is the zero Time. A monotonic reading in start is
// dropped.
func NewClock(start time.Time) *Clock {
	if start.IsZero() {
		start = Epoch
	}
	start = start.Round(0)
	return &Clock{line: start, wall: start}
}

// Now returns the clock's instant.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// AfterFunc arms a timer that calls f once, when the clock has been advanced by d from here; see the truths of Clock.
// A d of 0 or less means the next Advance. stop disarms the timer and reports whether it was armed.
// A nil f is a bug of the caller and panics.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	if f == nil {
		panic("fake: Clock.AfterFunc: f is nil: must be a function")
	}
	late := c.lateness()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armLocked(d, late, f)
}

// Advance moves the clock on by d and calls the timers that this reaches. A panic in a callback passes through, and
// leaves the clock usable at that instant. A negative d is a bug of the caller and panics: Step sets a clock back.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("fake: Clock.Advance: d is %v: must be 0 or more (Step sets a clock back)", d))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.takeTurnLocked() {
		defer c.endTurnLocked()
	}
	c.runLocked(c.line.Add(d))
}

// AdvanceToNext moves the clock on to the next timer and calls all that are due at that instant. It returns how far it
// went, or 0 and false, at once, when no timer is armed.
func (c *Clock) AdvanceToNext() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.takeTurnLocked() {
		defer c.endTurnLocked()
	}
	if len(c.timers) == 0 {
		return 0, false
	}
	d := max(c.timers[0].at.Sub(c.line), 0)
	c.runLocked(c.line.Add(d))
	return d, true
}

// Step sets the clock by d, forwards or back, as an administrator or a time server does. No timer is called, and every
// timer keeps the duration that it still had to go.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// SetLateness makes every timer armed from now on late by what late returns then: timers of an idle process fire up
// to 1 ms late. Negative means 0. A nil late makes timers exact again. late is called once for each timer, by the goroutine
// that arms it, without a lock.
func (c *Clock) SetLateness(late func() time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = late
}

// Timers returns how many timers are armed. A context made by WithDeadline counts as one until it ends.
func (c *Clock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// lateness asks SetLateness's function, without the lock, for the next timer.
func (c *Clock) lateness() time.Duration {
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	if late == nil {
		return 0
	}
	return max(late(), 0)
}

func (c *Clock) armLocked(d, late time.Duration, f func()) (stop func() bool) {
	d = max(d, 0)
	if late > math.MaxInt64-d {
		late = math.MaxInt64 - d
	}
	c.armed++
	t := &timer{at: c.line.Add(d + late), order: c.armed, f: f}
	heap.Push(&c.timers, t)
	for w := range c.waits {
		if len(c.timers) >= w.n {
			delete(c.waits, w)
			close(w.ready)
		}
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.index < 0 {
			return false
		}
		heap.Remove(&c.timers, t.index)
		return true
	}
}

// takeTurnLocked waits for an Advance of another goroutine to end. It reports false where the one under way is this
// goroutine's own: a callback of it is running.
func (c *Clock) takeTurnLocked() bool {
	me := goroutineID()
	if c.driver == me {
		return false
	}
	for c.driver != 0 {
		if c.turn == nil {
			c.turn = sync.NewCond(&c.mu)
		}
		c.turn.Wait()
	}
	c.driver = me
	return true
}

func (c *Clock) endTurnLocked() {
	c.driver = 0
	if c.turn != nil {
		c.turn.Signal()
	}
}

// runLocked calls every timer up to the instant end on the line, then leaves the clock there.
func (c *Clock) runLocked(end time.Time) {
	called := 0
	for len(c.timers) > 0 && !c.timers[0].at.After(end) {
		t := heap.Pop(&c.timers).(*timer)
		if t.at.After(c.line) {
			c.moveLocked(t.at)
			called = 0
		}
		if called++; called > callbacksAtOneInstant {
			panic(fmt.Sprintf("fake: Clock: more than %d callbacks at one instant: does one arm itself again with no delay?",
				callbacksAtOneInstant))
		}
		c.callUnlocked(t.f)
	}
	if end.After(c.line) {
		c.moveLocked(end)
	}
}

func (c *Clock) moveLocked(to time.Time) {
	c.wall = c.wall.Add(to.Sub(c.line))
	c.line = to
}

// callUnlocked calls f without the lock, and has it again afterwards, come a panic or a Goexit.
func (c *Clock) callUnlocked(f func()) {
	c.mu.Unlock()
	defer c.mu.Lock()
	f()
}

// goroutineID reads this goroutine's number off the first line of its stack, "goroutine 7 [running]:". Nothing else can
// tell an Advance made by a callback, which must not wait for the one around it, from another goroutine's, which must.
func goroutineID() uint64 {
	var buf [40]byte
	head := string(buf[:runtime.Stack(buf[:], false)])
	number, _, _ := strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		panic("fake: no goroutine number in " + strconv.Quote(head))
	}
	return id
}
