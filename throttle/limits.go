package throttle

import "fmt"

// SetRate puts another rate in force at once, for those who wait too; the burst stays. Whoever
// was due under the old rate starts first. It fails where the limiter has no rate.
func (l *Limiter) SetRate(r Rate) error {
	return l.changeQuota("SetRate", func(q *Quota) { q.Rate = r })
}

// SetBurst puts another burst in force at once; the rate stays. A higher burst adds no tokens; a lower
// one cuts those saved up, and a waiting caller that costs more is told ErrTooLarge. It fails where
// the limiter has no rate.
func (l *Limiter) SetBurst(n int64) error {
	return l.changeQuota("SetBurst", func(q *Quota) { q.Burst = n })
}

// SetQuota puts another rate and burst in force in one step, as SetRate and SetBurst do. The name of
// q, if it has one, is the limiter's.
func (l *Limiter) SetQuota(q Quota) error {
	if l != nil && l.dom != nil && q.Name != "" && q.Name != l.name {
		return invalid(l.name, "SetQuota: Name is %q; want %q or none", q.Name, l.name)
	}
	return l.changeQuota("SetQuota", func(old *Quota) { *old = q })
}

func (l *Limiter) changeQuota(setter string, change func(*Quota)) error {
	if l == nil || l.dom == nil {
		return errNotMade
	}
	d := l.dom
	d.mu.Lock()
	if l.bucket.burst == 0 {
		d.mu.Unlock()
		return invalid(l.name, "%s: the limiter has no rate; want one made with Config.Rate", setter)
	}
	q := Quota{Rate: l.rate, Burst: l.bucket.burst}
	change(&q)
	if what := q.wrong(); what != "" {
		d.mu.Unlock()
		return invalid(l.name, "%s: %s", setter, what)
	}
	now := d.now()
	seq := l.change(q.Rate, q.Burst, now)
	l.setQuota(l.bucket, q.Rate)
	l.finishChange(seq, now)
	return nil
}

// SetMaxInFlight puts another cap in force at once: 0 to MaxCap. A growth starts callers that wait. A
// shrink revokes nothing: no permit is given out until enough have come back; a waiting caller whose weight is
// above it is told ErrTooLarge. 0 pauses and refuses nobody. It fails with ErrUncapped where the limiter has
// no cap, and where it shares one: resize the Semaphore.
func (l *Limiter) SetMaxInFlight(n int64) error {
	switch {
	case l == nil || l.dom == nil:
		return errNotMade
	case l.cap == nil:
		return fmt.Errorf("throttle: %q: SetMaxInFlight: want a limiter made with Config.MaxInFlight: %w", l.name, ErrUncapped)
	case l.shared:
		return fmt.Errorf("throttle: %q: SetMaxInFlight: the cap is shared; resize its Semaphore: %w", l.name, ErrUncapped)
	case n < 0 || n > MaxCap:
		return invalid(l.name, "SetMaxInFlight: MaxInFlight is %d; want 0 to %d (2^62)", n, int64(MaxCap))
	}
	l.dom.mu.Lock()
	now := l.dom.now()
	l.finishChange(l.cap.resize(n, now), now)
	return nil
}

// setQuota puts b, of rate r, in its place. The caller holds the lock.
func (l *Limiter) setQuota(b bucket, r Rate) {
	l.bucket, l.rate = b, r
	l.rateText = fmt.Sprintf("rate %v (burst %d)", r, b.burst)
}

// finishChange lets go of the lock and traces what holds now.
func (l *Limiter) finishChange(seq uint64, now int64) {
	e := l.changed(seq, now)
	l.dom.unlock(now)
	if l.trace != nil {
		l.call(l.trace.LimitChanged, e)
	}
}

// changed is the event of a changed limit. The caller holds the lock.
func (l *Limiter) changed(seq uint64, now int64) Event {
	e := Event{Seq: seq, At: l.dom.time(now), Rate: l.rate, Burst: l.bucket.burst, MaxInFlight: -1}
	if l.cap != nil {
		e.MaxInFlight = l.cap.size
	}
	return e
}

// Stats are a limiter's numbers at one instant. Every caller that asked with a valid cost is in
// exactly one of Started, Left, the four Refused and Waiting.
type Stats struct {
	Waiting     int   // callers in line
	InFlight    int64 // weight held through this limiter; 0 without a cap
	MaxInFlight int64 // the cap in force, the Semaphore's where shared; 0 without a cap
	Tokens      int64 // whole tokens in the bucket; 0 without a rate

	Started          uint64 // let through
	Left             uint64 // gave up by their own context, or came with one already done
	RefusedNever     uint64 // told ErrTooLarge
	RefusedNotYet    uint64 // tries, MaxWait and deadlines
	RefusedQueueFull uint64 // MaxQueue
	RefusedClosed    uint64 // told ErrClosed
	DoubleReleases   uint64 // releases beyond the first of a permit
}

// Stats returns the numbers, all of one instant. The zero Limiter's are zero.
func (l *Limiter) Stats() Stats {
	if l == nil || l.dom == nil {
		return Stats{}
	}
	d := l.dom
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{
		Waiting: l.line.n, InFlight: l.held,
		Started: l.counts.started, Left: l.counts.left,
		RefusedNever: l.counts.never, RefusedNotYet: l.counts.notYet,
		RefusedQueueFull: l.counts.queueFull, RefusedClosed: l.counts.closed,
		DoubleReleases: l.counts.doubles,
	}
	if l.cap != nil {
		s.MaxInFlight = l.cap.size
	}
	if l.bucket.burst != 0 {
		s.Tokens = l.bucket.level(d.now())
	}
	return s
}
