package throttle

import (
	"fmt"
	"sync"
	"sync/atomic"

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
	dom    atomic.Pointer[domain] // its own until the first limiter uses it, then that one's
	mu     sync.Mutex             // held while it finds its first limiter
	found  bool
	cap    inflight
	traced []*Limiter // those whose Trace wants to know of a resize
}

// NewSemaphore returns a cap of size permits: 0 (paused) to MaxCap.
func NewSemaphore(size int64) (*Semaphore, error) {
	if size < 0 || size > MaxCap {
		return nil, fmt.Errorf("throttle: Semaphore: size is %d; want 0 to %d (2^62): %w", size, int64(MaxCap), ErrInvalid)
	}
	s, d := new(Semaphore), new(domain)
	s.dom.Store(d)
	s.cap.init(&d.effects, "Semaphore", size)
	return s, nil
}

// Resize puts another size in force at once: 0 (paused) to MaxCap. Growing starts callers that
// wait; shrinking revokes nothing, and no permit is given out until enough have come back. A waiting
// caller whose weight is above a new size that is not 0 is told ErrTooLarge. 0 refuses nobody. The Trace of each
// limiter that shares s is told, all with one Seq.
func (s *Semaphore) Resize(size int64) error {
	if size < 0 || size > MaxCap {
		return fmt.Errorf("throttle: Semaphore: size is %d; want 0 to %d (2^62): %w", size, int64(MaxCap), ErrInvalid)
	}
	d := s.lock()
	if d == nil {
		return fmt.Errorf("throttle: Semaphore was not made by NewSemaphore: %w", ErrInvalid)
	}
	now := d.now()
	seq := s.cap.resize(size, now)
	traced := s.traced
	events := make([]Event, len(traced))
	for i, l := range traced {
		events[i] = l.changed(seq, now)
	}
	d.unlock(now)
	for i, l := range traced {
		l.call(l.trace.LimitChanged, events[i])
	}
	return nil
}

// Size returns the size in force.
func (s *Semaphore) Size() int64 {
	d := s.lock()
	if d == nil {
		return 0
	}
	defer d.mu.Unlock()
	return s.cap.size
}

// InFlight returns the weight held, over all limiters that share s.
func (s *Semaphore) InFlight() int64 {
	d := s.lock()
	if d == nil {
		return 0
	}
	defer d.mu.Unlock()
	return s.cap.held
}

// lock takes the lock of the limiters that share s, and returns their domain; nil if s was not made by NewSemaphore.
func (s *Semaphore) lock() *domain {
	if s == nil {
		return nil
	}
	for {
		d := s.dom.Load()
		if d == nil {
			return nil
		}
		d.mu.Lock()
		if d == s.dom.Load() {
			return d
		}
		d.mu.Unlock() // its first limiter has just come
	}
}

// join has the limiter l, which is being built below parent with the lock of its domain held, share s. It
// returns what is wrong with that, if anything.
func (s *Semaphore) join(l, parent *Limiter) string {
	for p := parent; p != nil; p = p.up() {
		if p.cap == &s.cap {
			return fmt.Sprintf("is that of %q above, where a permit is taken already", p.name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.dom.Load(); own != l.dom {
		if s.found {
			return "is shared by limiters under another Parent, or none; want one Parent above all, with MaxInFlight"
		}
		own.mu.Lock() // nobody who holds it waits for another lock: no limiter has it
		s.cap.fx = &l.dom.effects
		s.dom.Store(l.dom)
		own.mu.Unlock()
	}
	s.found, s.cap.shared = true, true
	if l.trace != nil && l.trace.LimitChanged != nil {
		s.traced = append(s.traced, l)
	}
	return ""
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

	fx     *effects
	shared bool   // by limiters that do not pass each other's gates
	name   string // "MaxInFlight" or "Semaphore"
	text   string // that with the size, for errors
}

func (s *inflight) init(fx *effects, name string, size int64) {
	s.permits = semaphore.NewWeighted(MaxCap)
	s.permits.TryAcquire(MaxCap - size)
	s.size, s.fx, s.name = size, fx, name
	s.label()
	s.fifo.at, s.waiting.at = inFIFO, inWaiting
}

func (s *inflight) label() { s.text = fmt.Sprintf("%s %d", s.name, s.size) }

// take takes weight permits if they are free and nobody stands before the asker.
func (s *inflight) take(weight int64) bool {
	return s.fifo.front == nil && s.grab(weight)
}

// could reports whether take would succeed.
func (s *inflight) could(weight int64) bool {
	return s.fifo.front == nil && s.free() >= weight
}

// lets reports whether the front of g, of that weight, has its permits free. If not, g stands in fifo from then on;
// if so, it does not any more, and takes them when it starts, in the same move or once those above let it through.
func (s *inflight) lets(g *gate, weight int64) bool {
	first := s.fifo.front == nil || s.fifo.front == g
	if !first || s.free() < weight {
		s.fifo.join(g)
		return false
	}
	s.forget(g)
	return true
}

// forget takes g out of fifo, if it stands there, and has the next one judged.
func (s *inflight) forget(g *gate) {
	if g.ringed[inFIFO].in {
		s.fifo.remove(g)
		s.fx.mark(s.fifo.front)
	}
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
	if s.shared {
		s.tell()
	}
	return true
}

// tell has those judged anew who had their permits free, and ask above, in case they have not any more.
func (s *inflight) tell() {
	for g := s.waiting.front; g != nil; g = g.ringed[inWaiting].next {
		if g.asking() {
			s.fx.mark(g)
		}
	}
}

// putBack undoes a grab.
func (s *inflight) putBack(weight int64) {
	s.held -= weight
	s.store(weight)
}

// maxSpare bounds the permits that a cap keeps from its Weighted. They serve every asker alike.
const maxSpare = 64

// store keeps permits as spare, and gives those beyond maxSpare back to the Weighted.
func (s *inflight) store(n int64) {
	if s.spare += n; s.spare > maxSpare {
		s.permits.Release(s.spare - maxSpare)
		s.spare = maxSpare
	}
}

// free returns how many permits a start can have.
func (s *inflight) free() int64 { return max(0, s.size-s.held) }

// release gives weight permits back; the front that waits for them is to be judged then. Whoever has come due before must have
// been judged, by the permits that were free: waiting for a permit earns no credit, and a late timer loses none.
func (s *inflight) release(weight int64) {
	before := s.free()
	s.held -= weight
	s.give(before)
}

// resize puts another size in force, as Semaphore.Resize says. Whoever was due under the old one starts first.
// It returns the sequence number of the change, which lies before those of the starts that it allows.
func (s *inflight) resize(size, now int64) (seq uint64) {
	s.fx.catchUp(now)
	seq = s.fx.next()
	before := s.free()
	s.size = size
	s.label()
	if after := s.free(); after < before {
		s.permits.Release(s.spare)
		s.spare = 0
		s.permits.TryAcquire(before - after) // cannot fail: they are free
		s.tell()
	}
	if size > 0 {
		for g := s.waiting.front; g != nil; {
			next := g.ringed[inWaiting].next
			g.turnAway(aboveCap, "", func(_ *line, c *call) bool { return c.weight > size }, now)
			g = next
		}
	}
	s.give(before)
	s.fx.run(now)
	return seq
}

// give hands out what has become free beyond before, and has the front that waits for it judged.
func (s *inflight) give(before int64) {
	if more := s.free() - before; more > 0 {
		s.store(more)
	}
	s.fx.mark(s.fifo.front)
}
