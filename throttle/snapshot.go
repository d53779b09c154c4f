package throttle

import (
	"fmt"
	"time"
)

// A Snapshot is what has been spent of a limiter's quotas at one instant, to be saved as JSON and restored after a restart, so that
// a deploy does not hand everyone a fresh burst.
//
// It has the level of every quota, debt included, and a pause. It has no callers and no permits: calls in flight stay charged, since they
// have started. It has no limits of its own to give: those come from the new limiter's Config. Take it once calls have ended (Drain), or from time to
// time: what starts after it is not in it, and may be spent once more.
//
// Time is told in terms of the wall clock's instant of the snapshot, so that what passes until Restore is credited.
// The zero Snapshot is empty, and is not restored.
type Snapshot struct {
	saved  time.Time // by the wall clock; zero: empty
	name   string
	pause  int64 // how much longer, in nanoseconds
	limits []limit
	spent  []spending // of each of limits
}

// Saved returns the instant of the snapshot, by the wall clock.
func (s Snapshot) Saved() time.Time { return s.saved }

// Snapshot returns what has been spent of l's own quotas, all of one instant; in a tree, each level has its own. It changes nothing. It costs
// a lock and O(quotas), and O(starts remembered) for an AtMost. The zero Limiter's is empty.
func (l *Limiter) Snapshot() Snapshot {
	if l == nil || l.dom == nil {
		return Snapshot{}
	}
	d := l.dom
	d.mu.Lock()
	now, wall := d.reading()
	d.catchUp(now)
	s := Snapshot{saved: wall, name: l.name, pause: max(0, l.paused-now), limits: l.limitsNow()}
	s.spent = l.spentAt(now)
	d.unlock(now)
	return s
}

// Restore takes from l's quotas what s says was spent. It is for a limiter that has just been made, before it is used, but adds nothing to one
// that has been: of the two levels the lower counts, at this instant and ever after, so that restoring twice is restoring once. It starts nobody.
//
//   - The time since the snapshot, by the wall clock, is credited exactly, as if the limiter had been there: up to 73 years. If the wall clock
//     has gone back behind the snapshot, nothing is.
//   - A quota that has another rate or burst now is translated as SetQuota at this instant would: a higher burst adds no tokens, and a part-token is
//     rounded down.
//   - A quota is found again by its name; one without by its place among those of its kind that have none. One that is new begins full, and
//     one that is gone is dropped. If one is gone and another of its kind is new, it may have been renamed, and s is refused.
//   - A pause goes on until the instant, by the wall clock, at which it would have ended.
//
// It fails with ErrInvalid, and changes nothing, if s is empty, is of a limiter of another Name, has a quota of another kind or one that may
// have been renamed, or if l was not made by New.
func (l *Limiter) Restore(s Snapshot) error {
	if l == nil || l.dom == nil {
		return errNotMade
	}
	if what := misnamed(s.saved, s.name, l.name); what != "" {
		return invalid(l.name, "Restore: %s", what)
	}
	return l.takeOver(s.limits, s.spent, s.pause, s.saved)
}

// takeOver takes from l what was spent of these limits at the instant saved.
func (l *Limiter) takeOver(limits []limit, spent []spending, pause int64, saved time.Time) error {
	d := l.dom
	d.mu.Lock()
	pairs, what := pair(limits, l.limitsNow())
	if what != "" {
		d.mu.Unlock()
		return invalid(l.name, "Restore: %s", what)
	}
	now, wall := d.reading()
	d.catchUp(now)
	l.resume(limits, spent, pairs, pause, now-credit(saved, wall), now)
	d.unlock(now)
	return nil
}

// misnamed says why a snapshot of that instant and name is not of what is called want, or nothing.
func misnamed(saved time.Time, name, want string) string {
	switch {
	case saved.IsZero():
		return "the snapshot is empty; want one that Snapshot gave, or that was read from JSON"
	case name != want:
		return fmt.Sprintf("the snapshot's Name is %q; want %q, that of what it is restored to", name, want)
	}
	return ""
}

// reading returns the instant now and the wall clock's time of it, both of one look at the clock. Where that has gone back, so that the
// instant is held, the time is that of the instant.
func (d *domain) reading() (now int64, wall time.Time) {
	var t time.Time
	if d.clock == nil {
		t = time.Now()
	} else {
		t = d.clock.Now()
	}
	at := int64(t.Sub(d.epoch))
	now = at
	if d.clock != nil {
		d.seen = max(d.seen, at)
		now = d.seen
	}
	return now, t.Add(time.Duration(now - at)).Round(0)
}

// credit returns the time from saved to wall, in nanoseconds: 0 if the wall clock has gone back, and longest at the most.
func credit(saved, wall time.Time) int64 {
	return min(max(0, int64(wall.Sub(saved))), longest)
}

// limitsNow returns the quotas in force. The caller holds the lock.
func (l *Limiter) limitsNow() []limit {
	return limitsOf(l.rate, l.bucket.burst, len(l.more), func(i int) Quota { return l.more[i].quota })
}

// limitsOfConfig returns the limits that limiters of that config have at first.
func limitsOfConfig(c *Config) []limit {
	return limitsOf(c.Rate, c.Burst, len(c.Quotas), func(i int) Quota { return c.Quotas[i] })
}

// limitsOf returns the limits of a rate, if there is a burst, and of n further quotas.
func limitsOf(r Rate, burst int64, n int, quota func(int) Quota) []limit {
	var all []limit
	if burst != 0 {
		rate := limitOf(Quota{Rate: r, Burst: burst})
		rate.rate = true
		all = append(all, rate)
	}
	for i := range n {
		all = append(all, limitOf(quota(i)))
	}
	return all
}

// spentAt returns what has been spent of each of limitsNow, as of the instant at. The caller holds the lock.
func (l *Limiter) spentAt(at int64) []spending {
	var all []spending
	if l.bucket.burst != 0 {
		all = append(all, spending{missing: l.bucket.missingAt(at)})
	}
	for i := range l.more {
		all = append(all, spentAt(l.more[i].account, at))
	}
	return all
}

// resume takes from each of limitsNow what was spent, at the instant then, of that of old which pairs puts beside it, and goes on with a pause.
// The caller holds the lock.
func (l *Limiter) resume(old []limit, spent []spending, pairs []int, pause, then, now int64) {
	l.look(now)
	i := 0
	next := func() int { i++; return pairs[i-1] }
	if l.bucket.burst != 0 {
		if from := next(); from >= 0 {
			r := resumeBucket(&spent[from], old[from], &l.bucket, then, now)
			l.bucket.lower(&r, now)
		}
	}
	for m := range l.more {
		if from := next(); from >= 0 {
			a := l.more[m].account
			lower(a, resume(&spent[from], old[from], a, then, now), now)
		}
	}
	if pause > 0 {
		l.pause(later(then, pause), now)
	}
	l.dom.mark(&l.gate)
	l.dom.run(now)
}

// pair returns, for each of now, the position in old of the limit that it was, or -1 if it is new; or it says why that cannot be told.
func pair(old, now []limit) (pairs []int, what string) {
	pairs = make([]int, len(now))
	found := make([]bool, len(old))
	for i, l := range now {
		pairs[i] = -1
		for j, o := range old {
			if found[j] || o.rate != l.rate || o.name != l.name || l.name == "" && o.kind != l.kind {
				continue
			}
			if o.kind != l.kind {
				return nil, fmt.Sprintf("quota %q was %v and is %v; want one of the same kind", l.name, o.quota(), l.quota())
			}
			pairs[i], found[j] = j, true
			break
		}
	}
	for i, l := range now {
		if was, is := nameless(old, l.kind), nameless(now, l.kind); !l.rate && l.name == "" && was != 0 && was != is {
			return nil, fmt.Sprintf("there were %d quotas without a Name like %v, and there are %d now; want a Name for each", was, l.quota(), is)
		}
		for j, o := range old {
			if pairs[i] < 0 && !found[j] && o.kind == l.kind {
				return nil, fmt.Sprintf("%s is gone, and %s is new: if it was renamed, rename it in the snapshot; if not, take it out there", o, l)
			}
		}
	}
	return pairs, ""
}

// nameless returns how many quotas of that kind have no name.
func nameless(all []limit, kind quotaKind) (n int) {
	for _, l := range all {
		if !l.rate && l.name == "" && l.kind == kind {
			n++
		}
	}
	return n
}

// String names the quota.
func (l limit) String() string {
	if l.rate {
		return fmt.Sprintf("Config.Rate (%v)", l.quota())
	}
	return fmt.Sprintf("quota (%v)", l.quota())
}
