package throttle

import "hash/maphash"

// A table is a hash table of keys whose entries lie dense in a slice, in no order: so they can be looked at one after another from
// any position on, and the memory follows their number both ways. Beside its entry a key costs 8 bytes of index for each slot, of
// which 1/4 to 3/4 are in use.
//
// It is open addressing with linear probing and deletion by shifting back (Knuth, volume 3, 6.4, algorithm R). Growing and
// shrinking copy the table; they cost O(1) a key on average.
//
// Truths: each entry has exactly one slot of the index, reached from its home with no empty slot between; a slot holds the
// upper half of its key's hash and, below, the entry's position + 1; an empty one is 0.
type table[K comparable] struct {
	entries []entry[K]
	index   []uint64 // a power of two
	seed    maphash.Seed
}

// An entry is a key and its account: a bucket's own two numbers, whose rate and burst its shard has once for all; or, where last is
// resides, the position in shard.residents of the key's limiter, in missing.lo.
type entry[K comparable] struct {
	key     K
	missing u128
	last    int64
}

const resides = -1 << 63

const leastIndex = 8

func (t *table[K]) hash(key K) uint64 { return maphash.Comparable(t.seed, key) }

const positionBits = 1<<32 - 1

// find returns the position of key, whose hash is given, or -1.
func (t *table[K]) find(hash uint64, key K) int {
	if len(t.index) == 0 {
		return -1
	}
	mask := uint64(len(t.index) - 1)
	for i := hash >> 32 & mask; ; i = (i + 1) & mask {
		slot := t.index[i]
		if slot == 0 {
			return -1
		}
		if (slot^hash)>>32 == 0 {
			if pos := int(slot&positionBits) - 1; t.entries[pos].key == key {
				return pos
			}
		}
	}
}

// add puts in an entry for a key that is not there, and returns its position.
func (t *table[K]) add(hash uint64, e entry[K]) int {
	if 4*(len(t.entries)+1) > 3*len(t.index) {
		t.rebuild(max(leastIndex, 2*len(t.index)))
	}
	t.entries = append(t.entries, e)
	t.put(hash&^positionBits | uint64(len(t.entries)))
	return len(t.entries) - 1
}

// put puts a slot into the index.
func (t *table[K]) put(slot uint64) {
	mask := uint64(len(t.index) - 1)
	i := slot >> 32 & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = slot
}

// remove takes out the entry at that position; the last entry takes its place.
func (t *table[K]) remove(pos int) {
	t.clear(t.slotOf(pos))
	last := len(t.entries) - 1
	if pos != last {
		i := t.slotOf(last)
		t.index[i] = t.index[i]&^positionBits | uint64(pos+1)
		t.entries[pos] = t.entries[last]
	}
	t.entries[last] = entry[K]{}
	t.entries = t.entries[:last]
	if len(t.index) > leastIndex && 4*last < len(t.index) {
		t.rebuild(len(t.index) / 2)
		t.entries = append(make([]entry[K], 0, last+last/2), t.entries...)
	}
}

// slotOf returns the place in the index of the entry at that position.
func (t *table[K]) slotOf(pos int) uint64 {
	mask := uint64(len(t.index) - 1)
	i := t.hash(t.entries[pos].key) >> 32 & mask
	for t.index[i]&positionBits != uint64(pos+1) {
		i = (i + 1) & mask
	}
	return i
}

// clear empties a slot of the index, and moves those behind it that could not be found any more.
func (t *table[K]) clear(hole uint64) {
	mask := uint64(len(t.index) - 1)
	for i := (hole + 1) & mask; t.index[i] != 0; i = (i + 1) & mask {
		home := t.index[i] >> 32 & mask
		if (i-home)&mask >= (i-hole)&mask {
			t.index[hole] = t.index[i]
			hole = i
		}
	}
	t.index[hole] = 0
}

// rebuild gives the index that size.
func (t *table[K]) rebuild(size int) {
	old := t.index
	t.index = make([]uint64, max(size, leastIndex))
	for _, slot := range old {
		if slot != 0 {
			t.put(slot)
		}
	}
}
