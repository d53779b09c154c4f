package throttle

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A shard has the keys of a part of all hashes. A key is, under the shard's lock:
//
//	from       event                                            to         moved by
//	(unknown)  a call for it                                    compact    the caller; resident, unless the config is rate-only
//	compact    a call that lacks something; a setter; a pause   resident   the caller
//	resident   its last user leaves; a look after a pause       compact    the user, the looker; if the config is rate-only
//	either     a look at it, by a newcomer or EvictIdle         (unknown)  the looker; if that changes nothing
//
// A limiter made for a compact key shares the shard's lock and clock, so that its bucket's numbers go over from the one to the other and
// back on one scale of time. Its floor need not: nobody is in line, and no caller is counted from before it joined.
//
// Truths: a key is in its shard once, and has one account; a resident that has users, or whose fate is not its users' alone (see
// resident.idle), keeps its key from being forgotten and from becoming compact; whoever uses a resident without the lock is one
// of its users, and became one under it. So nobody ever asks a limiter that has been forgotten.
type shard[K comparable] struct {
	dom domain
	table[K]
	keyed     *Keyed[K]
	config    *Config     // of every key that has no other; not to be changed in place
	proto     bucket      // of compact keys: the rate and the burst; the level is scratch
	rateText  string      // the rate and burst, for errors
	residents []*resident // nil: free
	free      []int       // positions in residents
	spare     []*resident // idle ones, to be used again by compact keys
	cursor    int         // where the newcomers' next look goes
	round     int64       // the instant at which the cursor last began anew
	before    int64       // and the time before that
	hand      int         // where the next search for room begins
	closed    bool
	_         [64]byte // its lock shares no cache line with a neighbour's
}

// looksPerKey is how many other keys a new one looks at.
const looksPerKey = 4

// maxSpareResidents bounds the limiters that a shard keeps for reuse.
const maxSpareResidents = 2

// A resident is the limiter of a key that has one.
type resident struct {
	*Limiter
	users atomic.Int32 // calls under way; rises under the shard's lock only
	own   bool         // the key has limits of its own
	apart bool         // its limits are not those of compact keys
	slot  int
	used  int64 // the instant of the latest call
}

// refit puts down what compact keys share.
func (s *shard[K]) refit() {
	if s.config.Burst != 0 {
		s.proto = newBucket(s.config.Rate, s.config.Burst, 0)
		s.rateText = Quota{Rate: s.config.Rate, Burst: s.config.Burst}.String()
	}
}

// maySpend reports whether a caller with that context may start at the instant now.
func (s *shard[K]) maySpend(ctx context.Context, now int64) bool {
	done := ctx.Done()
	if done == nil {
		return true
	}
	select {
	case <-done:
		return false
	default:
	}
	deadline, ok := ctx.Deadline()
	return !ok || deadline.After(s.dom.time(now))
}

// refuse answers a try of a compact key, whose bucket is b, and lets go of the lock.
func (s *shard[K]) refuse(b *bucket, tokens, now int64) (Permit, error) {
	wait := b.wait(now, u128{lo: uint64(tokens)})
	limit, name := s.rateText, s.config.Name
	s.dom.mu.Unlock()
	return Permit{}, &NotYetError{Limiter: name, Limit: limit, RetryAfter: time.Duration(wait)}
}

// refuseClosed answers a caller of a closed Keyed, and lets go of the lock.
func (s *shard[K]) refuseClosed() (Permit, error) {
	s.dom.mu.Unlock()
	return Permit{}, fmt.Errorf("throttle: %q: %w", s.keyed.name, ErrClosed)
}

// admit puts in a new key. It may let go of the lock meanwhile, and does if it returns an error.
func (s *shard[K]) admit(hash uint64, key K, now int64) (pos int, at int64, err error) {
	k := s.keyed
	if s.closed {
		_, err := s.refuseClosed()
		return 0, 0, err
	}
	config := s.config
	if k.limits != nil {
		s.dom.mu.Unlock()
		own := k.limits(key)
		if what := keyedWrong(own); what != "" {
			return 0, 0, invalid(own.Name, "Limits: Config: %s", what)
		}
		s.dom.mu.Lock()
		now, config = s.dom.now(), &own
	}
	forgotten := int64(0)
	if k.full != ForgetIdle || k.maxKeys == 0 || k.n.Load() < k.maxKeys {
		forgotten = s.sweep(now)
	}
	taken := k.takePlace(forgotten)
	if !taken {
		s.dom.mu.Unlock()
		taken = k.makeRoom(now)
		s.dom.mu.Lock()
		now = s.dom.now()
		if k.limits == nil {
			config = s.config // may have been changed
		}
	}
	// Where the lock was let go, another caller may have been here, or Close.
	pos = s.find(hash, key)
	if taken && (pos >= 0 || s.closed) {
		k.n.Add(-1)
	}
	switch {
	case pos >= 0:
		return pos, now, nil
	case s.closed:
		_, err := s.refuseClosed()
		return 0, 0, err
	case !taken:
		s.dom.mu.Unlock()
		return 0, 0, fmt.Errorf("throttle: %q: MaxKeys %d keys are there, and none may be forgotten: %w", k.name, k.maxKeys, ErrTooManyKeys)
	}
	if k.isCompact(config, s.config) {
		pos = s.add(hash, entry[K]{key: key, last: now})
	} else {
		l, err := New(*config)
		if err != nil {
			k.n.Add(-1)
			s.dom.mu.Unlock()
			return 0, 0, err
		}
		pos = s.add(hash, entry[K]{key: key})
		s.settleIn(pos, &resident{Limiter: l})
	}
	if k.maxKeys != 0 {
		k.room.stir(0)
	}
	return pos, now, nil
}

// isCompact reports whether a key with the limits c, where others have those of all, is held as a bucket's numbers.
func (k *Keyed[K]) isCompact(c, all *Config) bool {
	if !k.compact || c == all {
		return k.compact
	}
	return rateOnly(*c) && c.Name == all.Name && c.Rate == all.Rate && c.Burst == all.Burst && c.MaxQueue == all.MaxQueue && c.QueueFull == all.QueueFull &&
		c.MaxWait == all.MaxWait && c.Slack == all.Slack && c.Clock == all.Clock
}

// reside returns the limiter of the key at pos, and makes it one if it has none. It may start callers of other keys, who were due: let
// go of the lock by unlock.
func (s *shard[K]) reside(pos int, now int64) *resident {
	e := &s.entries[pos]
	if e.last == resides {
		r := s.residents[e.missing.lo]
		r.used = now
		return r
	}
	var r *resident
	if n := len(s.spare); n > 0 {
		r = s.spare[n-1]
		s.spare = s.spare[:n-1]
		if r.rate != s.config.Rate || r.bucket.burst != s.config.Burst {
			r.setQuota(newBucket(s.config.Rate, s.config.Burst, now), s.config.Rate)
		}
	} else {
		r = &resident{Limiter: newLimiter(*s.config, &s.dom)}
		_, _ = r.build(*s.config) // cannot fail: the clock is the domain's
	}
	r.bucket.missing, r.bucket.last = e.missing, e.last
	r.floor, r.paused, r.counts, r.used = now, 0, counts{}, now
	r.own, r.apart = false, false
	s.settleIn(pos, r)
	return r
}

// settleIn makes r the limiter of the key at pos.
func (s *shard[K]) settleIn(pos int, r *resident) {
	if n := len(s.free); n > 0 {
		r.slot = s.free[n-1]
		s.free = s.free[:n-1]
		s.residents[r.slot] = r
	} else {
		r.slot = len(s.residents)
		s.residents = append(s.residents, r)
	}
	e := &s.entries[pos]
	e.last, e.missing = resides, u128{lo: uint64(r.slot)}
}

// moveOut undoes settleIn, but for the entry.
func (s *shard[K]) moveOut(r *resident) {
	s.residents[r.slot] = nil
	s.free = append(s.free, r.slot)
	if len(s.free) == len(s.residents) {
		s.residents, s.free = nil, nil
	}
	if r.dom == &s.dom && len(s.spare) < maxSpareResidents {
		s.spare = append(s.spare, r)
	}
}

// leave ends a use of r, the limiter of key.
func (s *shard[K]) leave(hash uint64, key K, r *resident) {
	if r.dom != &s.dom {
		r.users.Add(-1)
		return
	}
	s.dom.mu.Lock()
	r.users.Add(-1)
	if r.users.Load() > 0 || r.own {
		s.dom.mu.Unlock()
		return
	}
	pos := s.find(hash, key)
	s.becomeCompact(pos, r, s.dom.now())
	full := int64(0)
	if s.keyed.maxKeys != 0 {
		full = s.fullAt(pos)
	}
	s.dom.mu.Unlock()
	if s.keyed.maxKeys != 0 {
		s.keyed.room.stir(full)
	}
}
