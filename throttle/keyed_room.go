package throttle

import (
	"math"
	"sync/atomic"
)

// room is what is known about where a new key's place could come from when MaxKeys are there.
//
// A search that has looked at every key and found none that may be forgotten notes the instant at which the first of them can be full:
// use only puts that off, so that no search is worth its while before, unless an event says otherwise. Without this a flood of
// fresh keys would cost a search each.
type room struct {
	events atomic.Uint64 // of those that may let a key be forgotten sooner
	before atomic.Int64  // no key can be forgotten before this instant; 0: unknown
	from   atomic.Uint64 // the shard with which the next search begins
}

// stir notes that a key can be forgotten from the instant at on. The caller has let it be seen before: so a search that does not see
// it sees the event.
func (r *room) stir(at int64) {
	r.events.Add(1)
	for old := r.before.Load(); at < old && !r.before.CompareAndSwap(old, at); old = r.before.Load() {
	}
}

// A search for a key to be forgotten sees so many that may be, and looks at so many in all.
const (
	candidates = 32
	searchMost = 16384
)

// takePlace gives the places of forgotten keys back, and takes that of a new one, if there is one.
func (k *Keyed[K]) takePlace(forgotten int64) bool {
	switch {
	case forgotten == 1:
		return true
	case forgotten > 1 || k.maxKeys == 0:
		k.n.Add(1 - forgotten)
		return true
	}
	for {
		n := k.n.Load()
		if n >= k.maxKeys {
			return false
		}
		if k.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// makeRoom takes the place of a key that it forgets, if one may be. The caller holds no shard's lock.
func (k *Keyed[K]) makeRoom(now int64) bool {
	if k.full == RefuseNew {
		return k.takePlace(0)
	}
	for looks := searchMost; looks > 0; {
		if now < k.room.before.Load() {
			return false
		}
		if k.takePlace(0) {
			return true
		}
		events := k.room.events.Load()
		f := k.search(&looks)
		switch {
		case f.shard != nil && f.shard.forgetIfIdle(f.hash, f.key):
			return true // its place stays taken
		case f.shard == nil && f.all:
			k.room.before.Store(f.soonest)
			if k.room.events.Load() != events {
				k.room.before.Store(0)
			}
			return false
		case f.shard == nil:
			return false
		}
	}
	return false
}

// A found is what a search has found: the least recently used of those keys seen that may be forgotten. If there was none, all says
// whether every key was looked at, and soonest when the first can be full.
type found[K comparable] struct {
	shard   *shard[K]
	hash    uint64
	key     K
	used    int64
	seen    int
	all     bool
	soonest int64
}

// search looks for a key to be forgotten, through all shards in turn, from where the last one ended.
func (k *Keyed[K]) search(looks *int) (f found[K]) {
	f.soonest, f.all = never, true
	first := int(k.room.from.Add(1))
	for i := range k.shards {
		s := &k.shards[(first+i)&(len(k.shards)-1)]
		s.dom.mu.Lock()
		s.search(&f, looks)
		s.dom.mu.Unlock()
		if f.seen >= candidates || *looks <= 0 {
			k.room.from.Add(uint64(i) - 1) // the next one begins with this shard
			f.all = f.all && i == len(k.shards)-1
			break
		}
	}
	return f
}

func (s *shard[K]) search(f *found[K], looks *int) {
	now := s.dom.now()
	for range len(s.entries) {
		if f.seen >= candidates {
			return
		}
		if *looks <= 0 {
			f.all = false
			return
		}
		*looks--
		if s.hand >= len(s.entries) {
			s.hand = 0
		}
		pos := s.hand
		s.hand++
		if !s.idle(pos, now) {
			f.soonest = min(f.soonest, s.fullAt(pos))
			continue
		}
		f.seen++
		if used := s.usedAt(pos); f.shard == nil || used < f.used {
			key := s.entries[pos].key
			f.shard, f.key, f.hash, f.used = s, key, s.hash(key), used
		}
	}
}

// usedAt returns the instant of the latest use of the key at pos: its last start, or the latest call of its limiter.
func (s *shard[K]) usedAt(pos int) int64 {
	if e := &s.entries[pos]; e.last != resides {
		return e.last
	} else {
		return s.residents[e.missing.lo].used
	}
}

// fullAt returns an instant before which the key at pos cannot be forgotten, unless an event says so by room.stir. Nobody
// tells of a permit's return: 0.
func (s *shard[K]) fullAt(pos int) int64 {
	e := &s.entries[pos]
	if e.last != resides {
		b := &s.proto
		b.missing, b.last = e.missing, e.last
		return b.due(b.burst)
	}
	r := s.residents[e.missing.lo]
	switch {
	case r.dom != &s.dom:
		return 0
	case r.users.Load() > 0 || r.own || r.isClosed:
		return math.MaxInt64
	}
	return max(r.paused, r.bucket.due(r.bucket.burst))
}

// forgetIfIdle forgets key if it is still there and that changes nothing, and reports whether it did. Its place stays taken.
func (s *shard[K]) forgetIfIdle(hash uint64, key K) bool {
	s.dom.mu.Lock()
	defer s.dom.mu.Unlock()
	pos := s.find(hash, key)
	if pos < 0 || !s.idle(pos, s.dom.now()) {
		return false
	}
	s.forget(pos)
	return true
}
