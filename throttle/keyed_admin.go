package throttle

import (
	"iter"
	"math"
	"time"
)

// evictBatch is how many keys EvictIdle looks at under a lock at one time.
const evictBatch = 1024

// Len returns how many keys are there. It is never above MaxKeys, if that is set. It takes no lock.
func (k *Keyed[K]) Len() int {
	if k == nil {
		return 0
	}
	return int(k.n.Load())
}

// EvictIdle forgets all keys that may be forgotten now, and returns how many these were. It looks at every key, holding no lock
// for longer than it takes to look at 1,024. There is no need to call it: see Keyed.
func (k *Keyed[K]) EvictIdle() int {
	if k == nil {
		return 0
	}
	forgotten := 0
	for i := range k.shards {
		s := &k.shards[i]
		// From the last to the first: the one that takes a forgotten key's place has been looked at.
		for next := math.MaxInt; next >= 0; {
			s.dom.mu.Lock()
			now, before := s.dom.now(), len(s.entries)
			pos := min(next, len(s.entries)-1)
			for next = pos - evictBatch; pos > max(next, -1); pos-- {
				s.look(pos, now)
			}
			gone := before - len(s.entries)
			k.n.Add(-int64(gone))
			s.dom.mu.Unlock()
			forgotten += gone
		}
	}
	return forgotten
}

// Delete forgets key, with limits of its own, if no debt or spent token, pause, waiting caller or permit is lost by that. It
// reports whether key is unknown now; it is if it was before.
func (k *Keyed[K]) Delete(key K) bool {
	s, hash, err := k.shardOf(key)
	if err != nil {
		return true
	}
	s.dom.mu.Lock()
	defer s.dom.mu.Unlock()
	pos, now := s.find(hash, key), s.dom.now()
	if pos < 0 {
		return true
	}
	idle := s.idle(pos, now)
	if e := &s.entries[pos]; e.last == resides {
		idle = s.unburdened(s.residents[e.missing.lo], now)
	}
	if idle {
		s.forget(pos)
		k.n.Add(-1)
	}
	return idle
}

// KeyStats are a key's numbers at one instant. The counts of callers are those of its limiter alone: they begin anew when
// a key comes to have one, and a key that is held as its bucket's numbers has none.
type KeyStats struct {
	Stats
	Own bool // it has limits of its own: it is not forgotten
}

// Stats returns the numbers of key, and whether it is known. It makes no key.
func (k *Keyed[K]) Stats(key K) (KeyStats, bool) {
	s, hash, err := k.shardOf(key)
	if err != nil {
		return KeyStats{}, false
	}
	s.dom.mu.Lock()
	pos, now := s.find(hash, key), s.dom.now()
	if pos < 0 {
		s.dom.mu.Unlock()
		return KeyStats{}, false
	}
	if e := &s.entries[pos]; e.last != resides {
		defer s.dom.mu.Unlock()
		s.proto.missing, s.proto.last = e.missing, e.last
		return KeyStats{Stats: Stats{Tokens: s.proto.level(now)}}, true
	}
	r := s.residents[s.entries[pos].missing.lo]
	own := r.own
	r.users.Add(1)
	s.dom.mu.Unlock()
	defer s.leave(hash, key, r)
	return KeyStats{r.Limiter.Stats(), own}, true
}

// All returns the known keys with their numbers, in no order. A key that comes or goes meanwhile may be among them or not; every other
// is there once. No lock is held while the loop's body runs. The keys of one shard are copied at a time: there are 128 or more for each processor.
func (k *Keyed[K]) All() iter.Seq2[K, KeyStats] {
	return func(yield func(K, KeyStats) bool) {
		if k == nil {
			return
		}
		var keys []K
		for i := range k.shards {
			s := &k.shards[i]
			keys = keys[:0]
			s.dom.mu.Lock()
			for j := range s.entries {
				keys = append(keys, s.entries[j].key)
			}
			s.dom.mu.Unlock()
			for _, key := range keys {
				if stats, ok := k.Stats(key); ok && !yield(key, stats) {
					return
				}
			}
		}
	}
}

// PauseFor lets nobody start for key for d from now on, as Limiter.PauseFor does. It makes the key if it is new.
// To pause all keys at once, give them a Parent and pause that.
func (k *Keyed[K]) PauseFor(key K, d time.Duration) error {
	return k.with(key, func(r *resident) error { return r.PauseFor(d) })
}

// PauseUntil is PauseFor until the instant t.
func (k *Keyed[K]) PauseUntil(key K, t time.Time) error {
	return k.with(key, func(r *resident) error { return r.PauseUntil(t) })
}

// with calls f with key's limiter, which it makes if there is none, without a lock.
func (k *Keyed[K]) with(key K, f func(*resident) error) error {
	s, hash, err := k.shardOf(key)
	if err != nil {
		return err
	}
	s.dom.mu.Lock()
	now := s.dom.now()
	pos := s.find(hash, key)
	if pos < 0 {
		if pos, now, err = s.admit(hash, key, now); err != nil {
			return err
		}
	}
	r := s.reside(pos, now)
	r.users.Add(1)
	s.dom.unlock(now)
	defer s.leave(hash, key, r)
	return f(r)
}

// Close turns everybody away: those who wait and those who come later are told ErrClosed. What is in flight goes on, and its
// permits are released as ever. Close returns at once, and may be called again.
func (k *Keyed[K]) Close() {
	if k == nil {
		return
	}
	for i := range k.shards {
		s := &k.shards[i]
		s.dom.mu.Lock()
		s.closed = true
		s.eachResident(func(r *resident) { r.Limiter.Close() })
	}
}

// eachResident lets go of the lock and calls f for each resident.
func (s *shard[K]) eachResident(f func(*resident)) {
	var all []*resident
	for _, r := range s.residents {
		if r != nil {
			r.users.Add(1)
			all = append(all, r)
		}
	}
	s.dom.mu.Unlock()
	for _, r := range all {
		f(r)
		r.users.Add(-1)
	}
}
