package throttle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// restoredKeys returns a Keyed of config c that has what k's keys had spent, saved as s.
func restoredKeys[K comparable](t testing.TB, c throttle.KeyedConfig[K], s throttle.KeyedSnapshot[K]) *throttle.Keyed[K] {
	t.Helper()
	text, err := json.Marshal(s)
	mustDo(t, err)
	var read throttle.KeyedSnapshot[K]
	mustDo(t, json.Unmarshal(text, &read))
	next := newKeyedFrom(t, c)
	mustDo(t, next.Restore(read))
	again, err := json.Marshal(read)
	mustDo(t, err)
	if string(again) != string(text) {
		t.Fatalf("written twice:\n%s\n%s", text, again)
	}
	return next
}

// Keys that are stopped and started again at random instants answer as those do that were there all the time.
func TestKeyedSnapshot_RestartsAnswerAsOneRunWould(t *testing.T) {
	second := throttle.Quota{Name: "second", Rate: throttle.PerSecond(3), Burst: 2}
	for name, c := range map[string]throttle.KeyedConfig[string]{
		"compact": {Config: throttle.Config{Rate: throttle.Per(7, 3*time.Second), Burst: 4}},
		"capped":  {Config: throttle.Config{Rate: throttle.Per(7, 3*time.Second), Burst: 4, MaxInFlight: 1 << 40}},
		"quotas":  {Config: throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(3, time.Second), throttle.FixedWindow(5, 2*time.Second)}}},
		"by key": {Config: throttle.Config{Rate: throttle.Per(7, 3*time.Second), Burst: 4}, Limits: func(key string) throttle.Config {
			c := throttle.Config{Rate: throttle.Per(7, 3*time.Second), Burst: 4}
			if key > "4" {
				c = throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(3, time.Second), second}}
			}
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			clock := fake.NewClock(time.Time{})
			c.Config.Clock = clock
			if of := c.Limits; of != nil {
				c.Limits = func(key string) throttle.Config {
					own := of(key)
					own.Clock = clock
					return own
				}
			}
			a, b := newKeyedFrom(t, c), newKeyedFrom(t, c)
			for i := range 4000 {
				key := fmt.Sprint(rng.IntN(8))
				switch rng.IntN(40) {
				case 0:
					s := b.Snapshot()
					clock.Advance(time.Duration(rng.Int64N(5e8)))
					b = restoredKeys(t, c, s)
				case 1, 2, 3:
					clock.Advance(time.Duration(rng.Int64N(5e8)))
				case 4:
					d := time.Duration(rng.Int64N(2e8))
					mustDo(t, a.PauseFor(key, d))
					mustDo(t, b.PauseFor(key, d))
				default:
					_, errA := a.TryAcquire(key)
					_, errB := b.TryAcquire(key)
					sameAnswer(t, fmt.Sprintf("step %d, key %s", i, key), errA, errB)
				}
			}
		})
	}
}

// Of many keys, those alone are saved that are not full; and those that are full by the time they are restored are not made.
func TestKeyedSnapshot_HasTheKeysThatAreNotFull(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 3, Clock: clock}}
	k := newKeyedFrom(t, c)
	for key := range 30000 {
		passKey(t, k, key, 1, 1)
		if key%3 == 0 {
			passKey(t, k, key, 1, 1)
		}
	}
	clock.Advance(time.Second)
	s := k.Snapshot()
	if s.Len() != 10000 {
		t.Fatalf("%d keys are saved; want 10000", s.Len())
	}
	next := restoredKeys(t, c, s)
	haveKeys(t, next, 10000)
	before, err := json.Marshal(s)
	mustDo(t, err)
	after, err := json.Marshal(next.Snapshot())
	mustDo(t, err)
	if string(before) != string(after) { // at one instant, though in other shards
		t.Fatal("the restored keys are written otherwise than those saved")
	}
	passKey(t, next, 3, 3, 2)
	passKey(t, next, 4, 4, 3)
	clock.Advance(time.Second - 1)
	haveKeys(t, restoredKeys(t, c, s), 10000)
	clock.Advance(1)
	haveKeys(t, restoredKeys(t, c, s), 0)
}

// A live change of all keys and a restart with the changed config are the same.
func TestKeyedSnapshot_AnotherConfigIsALiveChange(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.KeyedConfig[string]{Config: throttle.Config{Rate: throttle.Per(7, 3*time.Second), Burst: 4, Clock: clock}}
	k := newKeyedFrom(t, c)
	passKey(t, k, "a", 4, 4)
	clock.Advance(time.Second)
	s := k.Snapshot()
	c.Config.Rate, c.Config.Burst = throttle.Per(5, 11*time.Second), 9
	mustDo(t, k.SetQuotaAll(throttle.Quota{Rate: c.Config.Rate, Burst: 9}))
	next := restoredKeys(t, c, s)
	for range 9 {
		_, errA := k.TryAcquire("a")
		_, errB := next.TryAcquire("a")
		sameAnswer(t, "after the change", errA, errB)
		clock.Advance(time.Second)
	}
	// Also where a key has a quota of its own: what it spent goes with it to the limits that it has then.
	mustDo(t, k.SetQuota("a", throttle.Quota{Rate: throttle.PerHour(1), Burst: 2}))
	next = restoredKeys(t, c, k.Snapshot())
	if s, _ := next.Stats("a"); s.Tokens > 2 {
		t.Fatalf("%d tokens; want no more than it had", s.Tokens)
	}
}

// A ticking clock goes on by a millisecond whenever it is looked at.
type ticking struct{ *fake.Clock }

func (c ticking) Now() time.Time {
	c.Advance(time.Millisecond)
	return c.Clock.Now()
}

// Keys are copied one shard after another, and told as of one instant all the same.
func TestKeyedSnapshot_IsOfOneInstant(t *testing.T) {
	clock := ticking{fake.NewClock(time.Time{})}
	k := newKeyed[int](t, throttle.Config{Rate: throttle.Every(300 * time.Millisecond), Burst: 1, Clock: clock})
	var started [200]time.Time
	for key := range started {
		passKey(t, k, key, 1, 1)
		started[key] = clock.Clock.Now()
	}
	text, err := json.Marshal(k.Snapshot())
	mustDo(t, err)
	var s struct {
		Saved time.Time
		Keys  []struct {
			Key   int
			Spent []struct {
				M int64 `json:"missing"`
				P int64 `json:"missing_part"` // of 300 million: the nanoseconds until it is full
			}
		}
	}
	mustDo(t, json.Unmarshal(text, &s))
	got := map[int]time.Duration{}
	for _, x := range s.Keys {
		got[x.Key] = time.Duration(x.Spent[0].M*300e6 + x.Spent[0].P)
	}
	for key, at := range started {
		want := max(0, 300*time.Millisecond-s.Saved.Sub(at))
		if is, there := got[key]; is != want || there != (want > 0) {
			t.Fatalf("key %d is saved as full in %v (saved at all: %v); want %v", key, is, there, want)
		}
	}
}

func TestKeyedSnapshot_PausesAndLevelsOfKeysInUse(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.KeyedConfig[string]{Config: throttle.Config{Rate: throttle.PerSecond(1), Burst: 3, Clock: clock}}
	k := newKeyedFrom(t, c)
	mustDo(t, k.PauseFor("paused", time.Minute)) // and full
	passKey(t, k, "busy", 1, 1)
	next := newKeyedFrom(t, c)
	passKey(t, next, "busy", 3, 3)
	mustDo(t, next.Restore(k.Snapshot()))
	passKey(t, next, "busy", 1, 0)
	passKey(t, next, "paused", 1, 0)
	clock.Advance(time.Minute)
	passKey(t, next, "paused", 4, 3)
	// What has just left a window is nothing.
	w := newKeyed[int](t, throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(3, time.Second)}, Clock: clock})
	passKey(t, w, 1, 1, 1)
	clock.Advance(time.Second)
	if n := w.Snapshot().Len(); n != 0 {
		t.Fatalf("%d keys are saved; want none", n)
	}
}

// One key whose limits do not fit has all refused.
func TestKeyedSnapshot_IsRestoredWholeOrNotAtAll(t *testing.T) {
	q := throttle.FixedWindow(5, time.Hour)
	q.Name = "q"
	c := throttle.Config{Quotas: []throttle.Quota{q}}
	k := newKeyed[int](t, c)
	for key := range 20 {
		passKey(t, k, key, 1, 1)
	}
	next := newKeyedFrom(t, throttle.KeyedConfig[int]{Config: c, Limits: func(key int) throttle.Config {
		if key != 13 {
			return c
		}
		w := throttle.AtMost(5, time.Hour)
		w.Name = "q"
		return throttle.Config{Quotas: []throttle.Quota{w}}
	}})
	mustSay(t, next.Restore(k.Snapshot()), throttle.ErrInvalid, "want one of the same kind")
	haveKeys(t, next, 0)
}

func TestKeyedSnapshot_RefusesMoreKeysThanThereIsRoomFor(t *testing.T) {
	clock := fake.NewClock(time.Time{})
	c := throttle.KeyedConfig[int]{Config: throttle.Config{Name: "k", Rate: throttle.PerSecond(1), Burst: 3, Clock: clock}}
	k := newKeyedFrom(t, c)
	for key := range 5 {
		passKey(t, k, key, 1, 1)
	}
	c.MaxKeys = 5
	next := restoredKeys(t, c, k.Snapshot())
	mustDo(t, next.Restore(k.Snapshot())) // they are there
	c.MaxKeys = 4
	small := newKeyedFrom(t, c)
	mustSay(t, small.Restore(k.Snapshot()), throttle.ErrTooManyKeys, `"k"`, "5 are to come", "MaxKeys 4")
	haveKeys(t, small, 0)
}

func TestKeyedSnapshot_WhatDoesNotFitIsRefused(t *testing.T) {
	c := throttle.Config{Name: "k", Rate: throttle.PerSecond(1), Burst: 3}
	k := newKeyed[int](t, c)
	passKey(t, k, 1, 1, 1)
	s := k.Snapshot()
	c.Name = "other"
	mustSay(t, newKeyed[int](t, c).Restore(s), throttle.ErrInvalid, `"k"`, `"other"`)
	moved := newKeyed[int](t, throttle.Config{Name: "k", Quotas: []throttle.Quota{{Name: "q", Rate: throttle.PerSecond(1), Burst: 3}}})
	mustSay(t, moved.Restore(s), throttle.ErrInvalid, "renamed")
	haveKeys(t, moved, 0)
	mustSay(t, k.Restore(throttle.KeyedSnapshot[int]{}), throttle.ErrInvalid, "empty")
	c.Name = "k"
	mustSay(t, newKeyedFrom(t, throttle.KeyedConfig[int]{Config: c, Limits: func(int) throttle.Config { return throttle.Config{} }}).Restore(s),
		throttle.ErrInvalid, "Limits", "no limit is set")
	var zero throttle.Keyed[int]
	mustSay(t, zero.Restore(s), throttle.ErrInvalid)
	if zero.Snapshot().Len() != 0 {
		t.Error("the zero Keyed has keys")
	}
}

// Keys are read as they were written, or writing fails.
func TestKeyedSnapshot_KeysSurviveOrWritingFails(t *testing.T) {
	type pair struct{ A, B string }
	type hidden struct{ a int }
	c := throttle.Config{Rate: throttle.PerHour(1), Burst: 3}
	words := newKeyed[string](t, c)
	for _, key := range []string{"", "<a&b>", "\xff\x00", "ÿ", "\u2028"} {
		passKey(t, words, key, 2, 2)
	}
	next := restoredKeys(t, throttle.KeyedConfig[string]{Config: c}, words.Snapshot())
	haveKeys(t, next, 5)
	passKey(t, next, "\xff\x00", 2, 1)
	pairs := newKeyed[pair](t, c)
	passKey(t, pairs, pair{"x", "y"}, 1, 1)
	haveKeys(t, restoredKeys(t, throttle.KeyedConfig[pair]{Config: c}, pairs.Snapshot()), 1)
	passKey(t, pairs, pair{"\xff", "y"}, 1, 1)
	_, err := json.Marshal(pairs.Snapshot())
	if err == nil || !strings.Contains(err.Error(), "read as another") {
		t.Errorf("a key that JSON changes: %v", err)
	}
	secret := newKeyed[hidden](t, c)
	passKey(t, secret, hidden{1}, 1, 1)
	if _, err := json.Marshal(secret.Snapshot()); err == nil {
		t.Error("a key without exported fields was written")
	}
}

// Snapshots taken while callers come are whole: restored, no key has more than it is promised, nor less than it can have spent.
func TestKeyedSnapshot_UnderLoad(t *testing.T) {
	c := throttle.KeyedConfig[int]{Config: throttle.Config{Rate: throttle.PerHour(1), Burst: 1 << 40}}
	k := newKeyedFrom(t, c)
	one := newLimiter(t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1 << 40,
		Quotas: []throttle.Quota{{Name: "q", Rate: throttle.PerHour(1), Burst: 1 << 40}}})
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for key := i; ; key++ {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = k.TryAcquire(key % 100)
				_, _ = one.TryAcquire()
				runtime.Gosched()
			}
		})
	}
	last := int64(1 << 40)
	for range 50 {
		next := newKeyedFrom(t, c)
		mustDo(t, next.Restore(k.Snapshot()))
		fresh := newLimiter(t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1 << 40,
			Quotas: []throttle.Quota{{Name: "q", Rate: throttle.PerHour(1), Burst: 1 << 40}}})
		mustDo(t, fresh.Restore(one.Snapshot()))
		tokens, other := fresh.Stats().Tokens, fresh.Quotas()[0].Tokens
		if tokens != other { // both are charged at every start: of one instant, they are equal
			t.Errorf("%d and %d tokens: not of one instant", tokens, other)
		}
		if tokens > last {
			t.Errorf("%d tokens after %d: starts were lost", tokens, last)
		}
		last = tokens
	}
	close(stop)
	callers.Wait()
	all := restoredKeys(t, c, k.Snapshot())
	for key := range 100 {
		is, _ := all.Stats(key)
		if want, _ := k.Stats(key); is.Tokens != want.Tokens {
			t.Fatalf("key %d has %d tokens; want %d", key, is.Tokens, want.Tokens)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	b.Run("limiter", func(b *testing.B) {
		l := newLimiter(b, throttle.Config{Rate: throttle.PerHour(1), Burst: 10})
		b.ReportAllocs()
		for b.Loop() {
			_ = l.Snapshot()
		}
	})
	k := newKeyed[string](b, throttle.Config{Rate: throttle.PerHour(1), Burst: 10})
	for i := range 100000 {
		_, _ = k.TryAcquire(fmt.Sprintf("address-%08d", i))
	}
	b.Run("100000 keys", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = k.Snapshot()
		}
	})
	b.Run("100000 keys as JSON", func(b *testing.B) {
		s := k.Snapshot()
		b.ReportAllocs()
		for b.Loop() {
			text, err := json.Marshal(s)
			mustDo(b, err)
			b.ReportMetric(float64(len(text))/100000, "B/key")
		}
	})
	b.Run("100000 keys read and restored", func(b *testing.B) {
		text, err := json.Marshal(k.Snapshot())
		mustDo(b, err)
		b.ReportAllocs()
		for b.Loop() {
			var s throttle.KeyedSnapshot[string]
			mustDo(b, json.Unmarshal(text, &s))
			mustDo(b, newKeyed[string](b, throttle.Config{Rate: throttle.PerHour(1), Burst: 10}).Restore(s))
		}
	})
	// The longest that a call waits for its lock: calls of one goroutine while another takes snapshots without end.
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("a call beside it/%v", busy), func(b *testing.B) {
			stop := make(chan struct{})
			var snapping sync.WaitGroup
			if busy {
				snapping.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							_ = k.Snapshot()
						}
					}
				})
			}
			var longest time.Duration
			i := 0
			for b.Loop() {
				key := fmt.Sprintf("address-%08d", i*7919%100000)
				i++
				from := time.Now()
				_, _ = k.TryAcquire(key)
				longest = max(longest, time.Since(from))
			}
			close(stop)
			snapping.Wait()
			b.ReportMetric(float64(longest.Microseconds()), "max-µs")
		})
	}
}
