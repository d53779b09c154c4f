package throttleredis

import "time"

// A breaker keeps callers from trying a Redis that has just failed. The owner's lock guards it.
type breaker struct {
	open  bool
	until time.Time // while open: nobody tries before that
}

// lets reports whether a caller may try now. While the breaker is open that is one caller each probe.
func (b *breaker) lets(now time.Time, probe time.Duration) bool {
	if !b.open {
		return true
	}
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(probe)
	return true
}

// failed opens the breaker, and reports whether that is new.
func (b *breaker) failed(now time.Time, probe time.Duration) bool {
	was := b.open
	b.open, b.until = true, now.Add(probe)
	return !was
}

// worked closes the breaker, and reports whether that is new.
func (b *breaker) worked() bool {
	was := b.open
	b.open = false
	return was
}
