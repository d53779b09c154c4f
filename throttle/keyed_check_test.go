package throttle

import "testing"

// CheckKeyed asserts the truths of a Keyed that nobody uses at the moment.
func CheckKeyed[K comparable](tb testing.TB, k *Keyed[K]) {
	tb.Helper()
	keys := 0
	for i := range k.shards {
		s := &k.shards[i]
		s.dom.mu.Lock()
		s.table.check(tb)
		keys += len(s.entries)
		residents := 0
		for pos := range s.entries {
			e := &s.entries[pos]
			if of, hash, err := k.shardOf(e.key); err != nil || of != s || s.find(hash, e.key) != pos {
				tb.Fatalf("key %v is not found where it is", e.key)
			}
			if e.last != resides {
				continue
			}
			residents++
			switch r := s.residents[e.missing.lo]; {
			case r == nil || r.slot != int(e.missing.lo):
				tb.Fatalf("key %v has no limiter of its own", e.key)
			case r.users.Load() != 0:
				tb.Fatalf("key %v has %d users left", e.key, r.users.Load())
			case k.limits == nil && k.compact != (r.dom == &s.dom):
				tb.Fatalf("key %v has the lock of another", e.key)
			case k.compact && !r.own && !r.apart && r.paused <= s.dom.now()-1e9:
				tb.Fatalf("key %v has a limiter, and needs none", e.key)
			}
		}
		if used := len(s.residents) - len(s.free); used != residents {
			tb.Fatalf("%d limiters for %d keys that have one", used, residents)
		}
		if len(s.dom.dues.gates) != 0 || s.dom.woken != nil || s.dom.work != nil {
			tb.Fatal("something is left to be done")
		}
		s.dom.mu.Unlock()
	}
	if keys != k.Len() {
		tb.Fatalf("%d keys; Len is %d", keys, k.Len())
	}
}

func TestKeyed_KeysSpreadOverAllShards(t *testing.T) {
	k, err := NewKeyed[int](Config{Rate: PerHour(1), Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10000 {
		_, _ = k.TryAcquire(i)
	}
	CheckKeyed(t, k)
	for i := range k.shards {
		if n := len(k.shards[i].entries); n < 10000/len(k.shards)/3 || n > 3*10000/len(k.shards) {
			t.Errorf("shard %d has %d keys of 10000", i, n)
		}
	}
}
