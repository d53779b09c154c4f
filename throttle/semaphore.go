package throttle

import (
	"fmt"

	"golang.org/x/sync/semaphore"
)

// MaxCap is the largest in-flight cap: 2^62.
const MaxCap = 1 << 62

// A Semaphore is an in-flight cap: the weight held under it never grows above its size. Give one
// to several limiters (Config.Semaphore) and they share it: the front callers that lack a permit
// are served in the order in which they came to lack it, one caller of each limiter at a time. Limiters
// that share a Semaphore share its lock too, and must have one Clock.
//
// The zero Semaphore is not usable; use NewSemaphore.
type Semaphore struct {
	dom    *domain
	cap    inflight
	traced []*Limiter // those whose Trace wants to know of a resize
}

// NewSemaphore returns a cap of size permits: 0 (paused) to MaxCap.
func NewSemaphore(size int64) (*Semaphore, error) {
	if size < 0 || size > MaxCap {
		return nil, fmt.Errorf("throttle: Semaphore: size is %d; want 0 to %d (2^62): %w", size, int64(MaxCap), ErrInvalid)
	}
	s := &Semaphore{dom: new(domain)}
	s.cap.init(&s.dom.effects, size)
	return s, nil
}

// Resize puts another size in force at once: 0 (paused) to MaxCap. Growing starts callers that
// wait; shrinking revokes nothing, and no permit is given out until enough have come back. A waiting
// caller whose weight is above a new size that is not 0 is told ErrTooLarge. 0 refuses nobody. The Trace of each
// limiter that shares s is told, all with one Seq.
func (s *Semaphore) Resize(size int64) error {
	if s == nil || s.dom == nil {
		return fmt.Errorf("throttle: Semaphore was not made by NewSemaphore: %w", ErrInvalid)
	}
	if size < 0 || size > MaxCap {
		return fmt.Errorf("throttle: Semaphore: size is %d; want 0 to %d (2^62): %w", size, int64(MaxCap), ErrInvalid)
	}
	s.dom.mu.Lock()
	now := s.dom.now()
	seq := s.cap.resize(size, now)
	traced := s.traced
	events := make([]Event, len(traced))
	for i, l := range traced {
		events[i] = l.changed(seq, now)
	}
	s.dom.unlock(now)
	for i, l := range traced {
		l.call(l.trace.LimitChanged, events[i])
	}
	return nil
}

// Size returns the size in force.
func (s *Semaphore) Size() int64 {
	if s == nil || s.dom == nil {
		return 0
	}
	s.dom.mu.Lock()
	defer s.dom.mu.Unlock()
	return s.cap.size
}

// InFlight returns the weight held, over all limiters that share s.
func (s *Semaphore) InFlight() int64 {
	if s == nil || s.dom == nil {
		return 0
	}
	s.dom.mu.Lock()
	defer s.dom.mu.Unlock()
	return s.cap.held
}

// An inflight is the state machine of an in-flight cap, on explicit instants, under the lock of its
// limiters. The permits are a semaphore.Weighted of MaxCap, of which MaxCap - size are ballast. A
// shrink takes ballast as permits come back, a growth gives it out; what is spare is kept by the cap
// between two uncontended calls, so that they need not visit the Weighted's own lock.
//
// Truths: size and held are at least 0; the permits that a start can have, spare included, are
// max(0, size - held); a front in fifo lacks its permits, and all fronts that do are in fifo, once
// each; fifo is served from its front alone.
type inflight struct {
	permits *semaphore.Weighted
	size    int64
	held    int64
	spare   int64 // taken from permits, held by nobody

	fifo    ring // of gates whose front is due and lacks a permit
	waiting ring // of gates with a caller in line

	fx *effects
}

func (s *inflight) init(fx *effects, size int64) {
	s.permits = semaphore.NewWeighted(MaxCap)
	s.permits.TryAcquire(MaxCap - size)
	s.size, s.fx = size, fx
	s.fifo.at, s.waiting.at = inFIFO, inWaiting
}

// take takes weight permits if they are free and nobody stands before the asker.
func (s *inflight) take(weight int64) bool {
	return s.fifo.front == nil && s.grab(weight)
}

// grab takes weight permits if they are free.
func (s *inflight) grab(weight int64) bool {
	switch {
	case s.spare >= weight:
		s.spare -= weight
	case s.permits.TryAcquire(weight - s.spare):
		s.spare = 0
	default:
		return false
	}
	s.held += weight
	return true
}

// maxSpare bounds the permits that a cap keeps from its Weighted. They serve every asker alike.
const maxSpare = 64

// free returns how many permits a start can have.
func (s *inflight) free() int64 { return max(0, s.size-s.held) }

// release gives weight permits back and serves the fronts that wait for them. Whoever was due before, though its
// timer is late, is judged first, by the permits that were free. It needs the instant only if someone is in line.
func (s *inflight) release(weight, now int64) {
	s.hearTimers(now)
	before := s.free()
	s.held -= weight
	s.give(before, now)
}

// resize puts another size in force, as Semaphore.Resize says. Whoever was due under the old one starts first.
// It returns the sequence number of the change, which lies before those of the starts that it allows.
func (s *inflight) resize(size, now int64) (seq uint64) {
	s.hearTimers(now)
	s.serve(now)
	seq = s.fx.next()
	before := s.free()
	s.size = size
	if after := s.free(); after < before {
		s.permits.Release(s.spare)
		s.spare = 0
		s.permits.TryAcquire(before - after) // cannot fail: they are free
	}
	if size > 0 {
		for g := s.waiting.front; g != nil; {
			next := g.ringed[inWaiting].next
			g.turnAway(aboveCap, func(c *call) bool { return c.weight > size }, now)
			g = next
		}
	}
	s.give(before, now)
	return seq
}

// hearTimers moves on the lines whose timers are late. It is called before the free permits change, so that waiting
// for a permit earns no credit, and a late timer loses none.
func (s *inflight) hearTimers(now int64) {
	for g := s.waiting.front; g != nil; {
		next := g.ringed[inWaiting].next
		if g.due <= now {
			g.advance(now)
		}
		g = next
	}
}

// give hands out what has become free beyond before, then serves the fronts that wait for it.
func (s *inflight) give(before, now int64) {
	if more := s.free() - before; more > 0 {
		if s.spare += more; s.spare > maxSpare {
			s.permits.Release(s.spare - maxSpare)
			s.spare = maxSpare
		}
	}
	s.serve(now)
}

// serve starts the fronts in fifo, in order, for as long as the permits last.
func (s *inflight) serve(now int64) {
	for g := s.fifo.front; g != nil; g = s.fifo.front {
		c := g.line.front
		switch {
		case c.gone():
			g.drop(c, now)
		case g.nominal(c, now) > now: // a changed limit has moved its due
			s.fifo.remove(g)
		case !s.grab(c.weight):
			return
		default:
			s.fifo.remove(g)
			g.floor = now // it waited for the permit, and that earns nothing
			g.start(c, now, now)
		}
		g.advance(now)
	}
}

// A ring is a FIFO of gates, linked through the gates themselves.
type ring struct {
	front, back *gate
	at          int // which of a gate's links it uses
}

const (
	inFIFO    = 0
	inWaiting = 1
)

// ringLink is a gate's place in a ring.
type ringLink struct {
	next, prev *gate
	in         bool
}

// join puts g at the back, unless it is in already.
func (r *ring) join(g *gate) {
	l := &g.ringed[r.at]
	if l.in {
		return
	}
	*l = ringLink{prev: r.back, in: true}
	if r.back == nil {
		r.front = g
	} else {
		r.back.ringed[r.at].next = g
	}
	r.back = g
}

// remove takes g out, if it is in.
func (r *ring) remove(g *gate) {
	l := &g.ringed[r.at]
	if !l.in {
		return
	}
	if l.prev == nil {
		r.front = l.next
	} else {
		l.prev.ringed[r.at].next = l.next
	}
	if l.next == nil {
		r.back = l.prev
	} else {
		l.next.ringed[r.at].prev = l.prev
	}
	*l = ringLink{}
}
