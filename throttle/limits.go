package throttle

import (
	"fmt"
	"time"
)

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

// SetQuota puts another rate and burst in force in one step, as SetRate and SetBurst do. With the name of one of
// Config.Quotas it puts q in the place of that one, which must be of the same kind: what that one has spent
// stays spent, as far as it remembers it (a window made longer has forgotten what it no longer needed).
func (l *Limiter) SetQuota(q Quota) error {
	if l == nil || l.dom == nil {
		return errNotMade
	}
	if q.Name == "" || q.Name == l.name && !l.hasOwnQuota(q.Name) {
		if q.kind != bucketKind {
			return invalid(l.name, "SetQuota: it is %v and has not the Name of one of Config.Quotas; want a Rate and a Burst", q)
		}
		return l.changeQuota("SetQuota", func(old *Quota) { *old = q })
	}
	l.dom.mu.Lock()
	what := fmt.Sprintf("Name is %q; want %q or none for Config.Rate, or that of one of Config.Quotas", q.Name, l.name)
	for i := range l.more {
		old := l.more[i].quota
		if old.Name != q.Name {
			continue
		}
		if !q.aligned {
			q.aligned, q.align = old.aligned, old.align
		}
		if what = q.wrong(); what == "" && q.kind != old.kind {
			what = fmt.Sprintf("it is %v, in the place of %v; want one of the same kind", q, old)
		}
		if what == "" {
			now := l.dom.now()
			l.finishChange(l.refit(i, q, now), now)
			return nil
		}
	}
	l.dom.mu.Unlock()
	return invalid(l.name, "SetQuota: %s", what)
}

// hasOwnQuota reports whether one of Config.Quotas has that name. They do not change, so that no lock is needed.
func (l *Limiter) hasOwnQuota(name string) bool {
	for i := range l.more {
		if l.more[i].name == name {
			return true
		}
	}
	return false
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

// PauseFor lets nobody start for d from now on, here and in limiters below; the line is kept. Of several pauses
// the one that ends last counts. A caller whose deadline lies within the pause is told so at once, if it comes or if
// it waits already. The quotas fill up meanwhile as ever, to their bursts and no further. A d of 0 or less does nothing.
func (l *Limiter) PauseFor(d time.Duration) error {
	return l.pauseUntil(func(now int64) int64 { return later(now, int64(max(d, 0))) })
}

// PauseUntil is PauseFor until the instant t.
func (l *Limiter) PauseUntil(t time.Time) error {
	return l.pauseUntil(func(int64) int64 { return int64(t.Sub(l.dom.epoch)) })
}

func (l *Limiter) pauseUntil(end func(now int64) int64) error {
	if l == nil || l.dom == nil {
		return errNotMade
	}
	d := l.dom
	d.mu.Lock()
	now := d.now()
	l.pause(end(now), now)
	if l.dry {
		l.refusePaused(now)
	}
	d.unlock(now)
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

// Stats are a limiter's numbers at one instant. Every caller that asked it with a valid cost is in
// exactly one of Started, Left, the four Refused and Waiting; Started and InFlight have those of limiters below as well.
type Stats struct {
	Waiting     int           // callers in line
	InFlight    int64         // weight held through this limiter; 0 without a cap
	MaxInFlight int64         // the cap in force, the Semaphore's where shared; 0 without a cap
	Tokens      int64         // whole tokens in the bucket of Config.Rate; 0 without a rate
	Paused      time.Duration // how much longer nobody starts, because of PauseFor or PauseUntil

	Started          uint64 // let through
	Left             uint64 // gave up by their own context, or came with one already done
	RefusedNever     uint64 // told ErrTooLarge
	RefusedNotYet    uint64 // tries, MaxWait and deadlines
	RefusedQueueFull uint64 // MaxQueue: newcomers, or the oldest in line
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
		Waiting: l.entry().line.n, InFlight: l.held,
		Started: l.counts.started, Left: l.counts.left,
		RefusedNever: l.counts.never, RefusedNotYet: l.counts.notYet,
		RefusedQueueFull: l.counts.queueFull, RefusedClosed: l.counts.closed,
		DoubleReleases: l.counts.doubles,
	}
	if l.direct != nil { // its own callers are told their answers there
		s.Left += l.direct.counts.left
		s.RefusedNever += l.direct.counts.never
		s.RefusedNotYet += l.direct.counts.notYet
		s.RefusedClosed += l.direct.counts.closed
		s.RefusedQueueFull += l.direct.counts.queueFull
	}
	if l.cap != nil {
		s.MaxInFlight = l.cap.size
	}
	if l.bucket.burst != 0 || l.paused != 0 {
		now := d.now()
		if l.bucket.burst != 0 {
			s.Tokens = l.bucket.level(now)
		}
		s.Paused = time.Duration(max(0, l.paused-now))
	}
	return s
}

// QuotaStats are the numbers of one of Config.Quotas.
type QuotaStats struct {
	Quota  Quota
	Tokens int64 // whole tokens there
}

// Quotas returns the numbers of Config.Quotas, in their order, all of one instant.
func (l *Limiter) Quotas() []QuotaStats {
	if l == nil || l.dom == nil {
		return nil
	}
	l.dom.mu.Lock()
	defer l.dom.mu.Unlock()
	now := l.dom.now()
	var all []QuotaStats
	for i := range l.more {
		all = append(all, QuotaStats{l.more[i].quota, l.more[i].level(now)})
	}
	return all
}
