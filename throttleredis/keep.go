package throttleredis

import "time"

// arm sets the one timer to the next instant at which something is due. The caller holds the lock.
func (l *Limiter) arm(now time.Time) {
	var at time.Time
	due := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if l.closed && len(l.held) == 0 {
		l.timer.Stop()
		return
	}
	for _, h := range l.held {
		due(h.until)
	}
	if len(l.held) > 0 && !l.closed || len(l.gone) > 0 {
		due(l.renewAt)
	}
	if len(l.line) > 0 {
		due(l.pollAt)
	}
	if at.IsZero() {
		l.timer.Stop()
		if l.listener != nil {
			l.listener.unneeded(now)
		}
		return
	}
	l.timer.Reset(max(at.Sub(now), 0))
}

// tick is the timer's.
func (l *Limiter) tick() {
	l.mu.Lock()
	l.kick()
	l.mu.Unlock()
}

// expire gives up the leases that can no longer be counted on, and returns them. The caller holds the lock.
func (l *Limiter) expire(now time.Time) (lost []*lease) {
	for _, h := range l.held {
		if !now.Before(h.until) {
			l.lose(h)
			lost = append(lost, h)
		}
	}
	return lost
}

// lose ends a permit whose lease cannot be counted on. The caller holds the lock.
func (l *Limiter) lose(h *lease) {
	delete(l.held, h.id)
	h.lost = true
	if h.cancel != nil {
		go h.cancel(ErrLeaseLost) // what hangs on the context may call back
	}
	l.gone = append(l.gone, departure{h.id, time.Now().Add(l.config.Lease)})
}

func (l *Limiter) tellLost(lost []*lease) {
	for range lost {
		l.event("lease lost", ErrLeaseLost)
	}
}
