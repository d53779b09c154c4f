package throttle

import (
	"fmt"
	"slices"
	"time"
)

// A KeyedSnapshot is what has been spent of a Keyed's keys, as a Snapshot is of a Limiter: of those keys alone that are not as a new one is.
//
// Written as JSON, a key is what encoding/json makes of it; a string that is not UTF-8 is kept too. Writing fails for a key that would not be
// read as the same: a struct needs exported fields, or to be an encoding.TextMarshaler and TextUnmarshaler.
type KeyedSnapshot[K comparable] struct {
	saved  time.Time
	name   string
	limits [][]limit // that keys have
	keys   []keySpent[K]
}

// A keySpent is what has been spent of one key.
type keySpent[K comparable] struct {
	key    K
	limits int        // their position in KeyedSnapshot.limits
	spent  []spending // of each of these
	pause  int64      // how much longer, in nanoseconds
}

// Saved returns the instant of the snapshot, by the wall clock.
func (s KeyedSnapshot[K]) Saved() time.Time { return s.saved }

// Len returns how many keys are in it.
func (s KeyedSnapshot[K]) Len() int { return len(s.keys) }

// Snapshot returns what has been spent of all keys. It changes nothing. It holds one shard's lock at a time, for as long as it takes to copy its
// keys, and then counts all as of one instant, the last: what a key starts once it has been copied is not in it. Keys do not depend on
// each other, so each is whole. A Parent has a Snapshot of its own. It costs O(keys) in time, and in memory for those that are in it.
// SetQuotaAll and its like wait for it.
func (k *Keyed[K]) Snapshot() KeyedSnapshot[K] {
	if k == nil || k.shards == nil {
		return KeyedSnapshot[K]{}
	}
	k.change.Lock()
	defer k.change.Unlock()
	s := KeyedSnapshot[K]{name: k.name}
	known := knownLimits{all: &s.limits}
	copies := make([][]keySpent[K], len(k.shards))
	copied := make([]int64, len(k.shards)) // and when that was
	n := 0
	for i := range k.shards {
		copies[i], copied[i] = k.shards[i].copy(&known)
		n += len(copies[i])
	}
	d := &k.shards[0].dom
	d.mu.Lock()
	at, wall := d.reading()
	d.mu.Unlock()
	s.saved = wall
	s.keys = make([]keySpent[K], 0, n)
	for i := range copies {
		for j := range copies[i] {
			x := &copies[i][j]
			if x.advance(s.limits[x.limits], max(0, at-copied[i])); !x.nothing() {
				s.keys = append(s.keys, *x)
			}
		}
		copies[i] = nil
	}
	return s
}

// copy returns what has been spent of the shard's keys, as it is at the instant now.
func (s *shard[K]) copy(known *knownLimits) (keys []keySpent[K], now int64) {
	s.dom.mu.Lock()
	now = s.dom.now()
	s.dom.catchUp(now)
	compact := -1
	for pos := range s.entries {
		e := &s.entries[pos]
		x := keySpent[K]{key: e.key}
		if e.last != resides {
			b := s.proto
			b.missing, b.last = e.missing, e.last
			missing := b.missingAt(now)
			if missing == (u128{}) {
				continue
			}
			if compact < 0 {
				compact = known.position(limitsOfConfig(s.config))
			}
			x.limits, x.spent = compact, []spending{{missing: missing}}
		} else if !x.copyFrom(s.residents[e.missing.lo].Limiter, &s.dom, now, known) {
			continue
		}
		keys = append(keys, x)
	}
	s.dom.unlock(now)
	return keys, now
}

// copyFrom notes what has been spent of l, and reports whether anything has been. The caller holds the lock of the domain d.
func (x *keySpent[K]) copyFrom(l *Limiter, d *domain, now int64, known *knownLimits) bool {
	if l.dom != d {
		l.dom.mu.Lock()
		defer l.dom.mu.Unlock()
		now = l.dom.now()
	}
	x.spent, x.pause = l.spentAt(now), max(0, l.paused-now)
	if x.nothing() {
		return false
	}
	x.limits = known.position(l.limitsNow())
	return true
}

// advance has x tell of the instant that is d later.
func (x *keySpent[K]) advance(of []limit, d int64) {
	if d == 0 {
		return
	}
	for i := range x.spent {
		x.spent[i].advance(of[i], d)
	}
	x.pause = max(0, x.pause-d)
}

// nothing reports whether x is what a new key has.
func (x *keySpent[K]) nothing() bool {
	return x.pause == 0 && !slices.ContainsFunc(x.spent, func(s spending) bool { return !s.nothing() })
}

// knownLimits finds limits that many keys share.
type knownLimits struct {
	all  *[][]limit
	at   map[string]int
	last int
}

// position returns that of these limits in all, where it adds them if they are new.
func (k *knownLimits) position(of []limit) int {
	if k.at != nil && slices.Equal((*k.all)[k.last], of) {
		return k.last
	}
	if k.at == nil {
		k.at = map[string]int{}
	}
	text := fmt.Sprintf("%#v", of)
	i, there := k.at[text]
	if !there {
		i = len(*k.all)
		k.at[text] = i
		*k.all = append(*k.all, of)
	}
	k.last = i
	return i
}

// Restore takes from each key what s says was spent of it, as Limiter.Restore does, and makes those keys; the others are new as ever. Keys that
// are full again by now are left out. So it is for a Keyed that has just been made, and adds nothing to one that has been used. It costs O(keys),
// holding one shard's lock for one key at a time.
//
// It fails with ErrInvalid, and changes nothing, as Limiter.Restore does, and for a key if Limits gives it an invalid Config; and with ErrTooManyKeys, and
// changes nothing, if there are more keys than MaxKeys has places for. Callers that come meanwhile may take a place: then it fails too,
// after some keys were restored; their rest may be restored later.
func (k *Keyed[K]) Restore(s KeyedSnapshot[K]) error {
	if k == nil || k.shards == nil {
		return errKeyedNotMade
	}
	if what := misnamed(s.saved, s.name, k.name); what != "" {
		return invalid(k.name, "Restore: %s", what)
	}
	d := &k.shards[0].dom
	d.mu.Lock()
	now, wall := d.reading()
	d.mu.Unlock()
	down := credit(s.saved, wall)
	keys := slices.DeleteFunc(slices.Clone(s.keys), func(x keySpent[K]) bool { return x.over(s.limits[x.limits], down) })
	pairs, err := k.pairs(&s, keys)
	if err != nil {
		return err
	}
	if k.maxKeys != 0 && int64(k.Len()+len(keys)) > k.maxKeys {
		there := 0
		for i := range keys {
			if _, known := k.Stats(keys[i].key); known {
				there++
			}
		}
		if need := int64(len(keys) - there); int64(k.Len())+need > k.maxKeys {
			return fmt.Errorf("throttle: %q: Restore: %d keys are there and %d are to come; want at most MaxKeys %d: %w",
				k.name, k.Len(), need, k.maxKeys, ErrTooManyKeys)
		}
	}
	for i := range keys {
		x := &keys[i]
		if err := k.restore(x, &s, pairs[x.limits], now-down); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether nothing is left of x once the time d has passed, on whatever grid fixed windows lie.
func (x *keySpent[K]) over(of []limit, d int64) bool {
	for i, s := range x.spent {
		if s.open && d < of[i].period {
			return false
		}
		s.advance(of[i], d)
		if !s.nothing() {
			return false
		}
	}
	return x.pause <= d
}

// pairs returns, for each of the limits in s, how compact keys' limits go with them, or why limits of one of the keys cannot.
func (k *Keyed[K]) pairs(s *KeyedSnapshot[K], keys []keySpent[K]) (pairs [][]int, err error) {
	k.change.Lock()
	config := k.shards[0].config
	k.change.Unlock()
	pairs = make([][]int, len(s.limits))
	wrong := make([]string, len(s.limits))
	for i := range s.limits {
		pairs[i], wrong[i] = pair(s.limits[i], limitsOfConfig(config))
	}
	for i := range keys {
		x := &keys[i]
		what := wrong[x.limits]
		if k.limits != nil {
			c := k.limits(x.key)
			if what = keyedWrong(c); what != "" {
				return nil, invalid(c.Name, "Limits: Config: %s", what)
			}
			_, what = pair(s.limits[x.limits], limitsOfConfig(&c))
		}
		if what != "" {
			return nil, invalid(k.name, "Restore: %s", what)
		}
	}
	return pairs, nil
}

// restore takes from the key of x what was spent of it at the instant then.
func (k *Keyed[K]) restore(x *keySpent[K], of *KeyedSnapshot[K], pairs []int, then int64) error {
	s, hash, err := k.shardOf(x.key)
	if err != nil {
		return err
	}
	s.dom.mu.Lock()
	now := s.dom.now()
	pos := s.find(hash, x.key)
	if pos < 0 {
		if pos, now, err = s.admit(hash, x.key, now); err != nil {
			return err
		}
	}
	if e := &s.entries[pos]; e.last != resides && x.pause == 0 && pairs != nil {
		if from := pairs[0]; from >= 0 { // a compact key has a rate and nothing else
			b := s.proto
			b.missing, b.last = e.missing, e.last
			r := resumeBucket(&x.spent[from], of.limits[x.limits][from], &b, then, now)
			b.lower(&r, now)
			e.missing, e.last = b.missing, b.last
		}
		s.dom.mu.Unlock()
		return nil
	}
	r := s.reside(pos, now)
	r.users.Add(1)
	s.dom.unlock(now)
	defer s.leave(hash, x.key, r)
	return r.takeOver(of.limits[x.limits], x.spent, x.pause, of.saved)
}
