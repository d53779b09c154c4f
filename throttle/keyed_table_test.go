package throttle

import (
	"hash/maphash"
	"math/rand/v2"
	"testing"
)

// check asserts the truths of a table.
func (t *table[K]) check(tb testing.TB) {
	tb.Helper()
	slots := 0
	for _, slot := range t.index {
		if slot == 0 {
			continue
		}
		slots++
		pos := int(slot&positionBits) - 1
		if pos < 0 || pos >= len(t.entries) {
			tb.Fatalf("a slot holds position %d of %d entries", pos, len(t.entries))
		}
		if hash := t.hash(t.entries[pos].key); (slot^hash)>>32 != 0 {
			tb.Fatalf("the slot of position %d holds another hash than its key's", pos)
		}
	}
	if slots != len(t.entries) {
		tb.Fatalf("%d slots for %d entries", slots, len(t.entries))
	}
	for pos := range t.entries {
		if key := t.entries[pos].key; t.find(t.hash(key), key) != pos {
			tb.Fatalf("the key at position %d is found at %d", pos, t.find(t.hash(key), key))
		}
	}
	if n := len(t.index); n&(n-1) != 0 || n > leastIndex && 4*len(t.entries) < n-4 || 4*len(t.entries) > 3*n {
		tb.Fatalf("an index of %d for %d entries", n, len(t.entries))
	}
}

func TestTable_IsAMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tab := table[int]{seed: maphash.MakeSeed()}
		want := make(map[int]int64)
		for step := range 2000 {
			key, grow := rng.IntN(400), step/500%2 == 0
			pos := tab.find(tab.hash(key), key)
			if _, there := want[key]; there != (pos >= 0) {
				t.Fatalf("seed %d, step %d: key %d found %v; want %v", seed, step, key, pos >= 0, there)
			}
			switch {
			case pos < 0 && (grow || rng.IntN(4) == 0):
				tab.add(tab.hash(key), entry[int]{key: key, last: int64(step)})
				want[key] = int64(step)
			case pos >= 0 && tab.entries[pos].last != want[key]:
				t.Fatalf("seed %d, step %d: key %d has the entry of another", seed, step, key)
			case pos >= 0 && (!grow || rng.IntN(4) == 0):
				tab.remove(pos)
				delete(want, key)
			}
			if step%10 == 0 {
				tab.check(t)
			}
		}
	}
}

// Keys of one hash, and of homes at the end of the index, are told apart and stay findable.
func TestTable_HashesThatCollide(t *testing.T) {
	tab := table[int]{seed: maphash.MakeSeed()}
	const hash = 7 << 32
	for key := range 5 {
		tab.add(hash, entry[int]{key: key})
	}
	for key := range 5 {
		if pos := tab.find(hash, key); pos != key {
			t.Errorf("key %d is at %d; want %d", key, pos, key)
		}
	}
	if pos := tab.find(hash, 5); pos != -1 {
		t.Errorf("an unknown key is at %d; want -1", pos)
	}
}
