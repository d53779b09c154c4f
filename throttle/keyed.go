package throttle

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrTooManyKeys: a key is new, MaxKeys are there, and none may be forgotten.
var ErrTooManyKeys = errors.New("too many keys")

var errKeyedNotMade = fmt.Errorf("throttle: the Keyed was not made by NewKeyed or NewKeyedFrom: %w", ErrInvalid)

// A Keyed is a limiter for each key: for each user, address, tenant. They are made as keys are used, each with a full bucket, and
// forgotten when that changes nothing. Which constructor do I want?
//
//   - NewKeyed gives every key the same limits. Begin here.
//   - NewKeyedFrom takes a KeyedConfig besides: a bound on the number of keys, and limits that depend on the key.
//
// A key may be any comparable value: a string, a netip.Prefix, or a struct of several parts, which is better than joining
// them in a string. A key is kept as it is: cut or hash those that users choose the length of.
//
// Forgetting. A key may be forgotten while its quotas are full, it is not paused, nobody waits for it, nothing of it is in flight, and it
// has no limits of its own: then a new one in its place answers in the same way. Nothing else is ever forgotten, however long a key
// is idle and however many others come. Each call that brings a new key looks at four others of its shard, in turn, and forgets those that may
// be and have not been used for a round: so, while new keys come, about twice as many are there as may not be forgotten, at most. There is no
// background goroutine, no timer for a key, and no sweep that stops the others. Counts in Stats, and what a turn at a Parent was overdrawn by, begin anew.
//
// Memory. Where the Config has only Rate, Burst, Name, MaxQueue, QueueFull, MaxWait, Slack and Clock, a key is held as its bucket's two numbers:
// 70 to 90 bytes all told for a string of 16 bytes, its bytes included. It has a Limiter only while somebody waits for it, or it is paused, or has limits
// of its own. Under any other Config each key has a Limiter, of about 1.3 KiB. An empty Keyed takes about 70 KiB for each processor.
//
// All methods may be called from many goroutines. A call on a known key that need not wait costs one lock, shared by few keys, and
// allocates nothing. A Keyed must not be copied.
type Keyed[K comparable] struct {
	name    string
	limits  func(K) Config
	maxKeys int64
	full    WhenFull
	compact bool // keys are held as their buckets' numbers
	dry     bool
	trace   *Trace
	unequal bool // a key may be unequal to itself, or not comparable after all

	shards []shard[K]
	seed   maphash.Seed
	n      atomic.Int64 // keys there, or whose place is taken
	room   room
	change sync.Mutex // held while the limits of all keys are changed
}

// shardsPerProcessor keeps collisions at a lock rare: one costs its loser as much time as thirty calls.
const shardsPerProcessor = 128

// A WhenFull says what happens to a new key when MaxKeys are there.
type WhenFull uint8

const (
	// ForgetIdle forgets, of those keys that may be forgotten, the least recently used, and refuses the new one with
	// ErrTooManyKeys if there is none. With more than 32 such keys, it is the least recently used of 32. The search costs O(1) where it is known that no key can be
	// full yet, and otherwise looks at 16,384 keys at the most; where there are more, and none of these may be forgotten, the new key is refused,
	// and the next search goes on from there.
	ForgetIdle WhenFull = iota
	// RefuseNew refuses the new key with ErrTooManyKeys, unless one of four others that it looks at may be forgotten.
	RefuseNew
)

// A KeyedConfig says what a Keyed promises.
type KeyedConfig[K comparable] struct {
	// Config is what each key promises. Its Name is in every error; the key is in none.
	Config Config
	// Limits, if set, returns the promise for a key, instead of Config. It is called when a key is new, outside of locks, by the
	// goroutine of the caller, and should give the same key the same answer. Where that equals Config a key costs no more than it does without.
	Limits func(K) Config
	// MaxKeys is how many keys may be there: 1 or more, or 0 for no bound.
	MaxKeys int
	// WhenFull says what happens to a new key then. It must not be set without MaxKeys.
	WhenFull WhenFull
}

// NewKeyed returns a Keyed that gives every key the limits c, and has no bound on their number, or an error that names the field of c
// that is wrong. It holds no keys yet.
func NewKeyed[K comparable](c Config) (*Keyed[K], error) {
	return NewKeyedFrom(KeyedConfig[K]{Config: c})
}

// NewKeyedFrom is NewKeyed with a bound on the number of keys, or limits that depend on the key. Config must be valid also where there is
// a Limits. A Semaphore cannot go with a Trace that has LimitChanged.
func NewKeyedFrom[K comparable](c KeyedConfig[K]) (*Keyed[K], error) {
	if what := c.wrong(); what != "" {
		return nil, fmt.Errorf("throttle: %q: KeyedConfig: %s: %w", c.Config.Name, what, ErrInvalid)
	}
	k := &Keyed[K]{
		name: c.Config.Name, limits: c.Limits, maxKeys: int64(c.MaxKeys), full: c.WhenFull, dry: c.Config.DryRun, trace: c.Config.Trace,
		compact: rateOnly(c.Config), unequal: mayBeUnequal(reflect.TypeFor[K]()),
		seed: maphash.MakeSeed(),
	}
	n := 1
	for n < shardsPerProcessor*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	k.shards = make([]shard[K], n)
	epoch := time.Now()
	if c.Config.Clock != nil {
		epoch = c.Config.Clock.Now()
	}
	for i := range k.shards {
		s := &k.shards[i]
		s.keyed, s.seed, s.config = k, k.seed, &c.Config
		s.dom.bind(c.Config.Clock)
		s.dom.epoch = epoch // one scale of time for all
		s.refit()
	}
	return k, nil
}

// wrong says which field is wrong, and what would be right, or nothing.
func (c *KeyedConfig[K]) wrong() string {
	if what := keyedWrong(c.Config); what != "" {
		return "Config: " + what
	}
	switch {
	case c.MaxKeys < 0:
		return fmt.Sprintf("MaxKeys is %d; want 1 or more, or 0 for no bound", c.MaxKeys)
	case c.WhenFull > RefuseNew:
		return fmt.Sprintf("WhenFull is %d; want ForgetIdle or RefuseNew", c.WhenFull)
	case c.WhenFull != ForgetIdle && c.MaxKeys == 0:
		return fmt.Sprintf("WhenFull is %d, but MaxKeys is not set; want both or neither", c.WhenFull)
	}
	return ""
}

// keyedWrong says which field of a key's limits is wrong, or nothing.
func keyedWrong(c Config) string {
	if what := c.wrong(); what != "" {
		return what
	}
	if c.Semaphore != nil && c.Trace != nil && c.Trace.LimitChanged != nil {
		return "Semaphore is set and Trace has LimitChanged, so that no key could be forgotten; want one of them"
	}
	return ""
}

// rateOnly reports whether a bucket's numbers are all that limiters of that config differ by.
func rateOnly(c Config) bool {
	rest := c
	rest.Name, rest.Rate, rest.Burst, rest.MaxQueue, rest.QueueFull, rest.MaxWait, rest.Slack, rest.Clock = "", Rate{}, 0, 0, 0, 0, 0, nil
	return c.Burst != 0 && reflect.ValueOf(rest).IsZero()
}

// mayBeUnequal reports whether a key of that type may be unequal to itself, as NaN is, or hold what cannot be compared.
func mayBeUnequal(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128, reflect.Interface:
		return true
	case reflect.Array:
		return mayBeUnequal(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if mayBeUnequal(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// Acquire waits for its turn, a token and a permit of key's limiter, as Limiter.Acquire does, with the same errors. If key is
// new, it may be told ErrTooManyKeys.
func (k *Keyed[K]) Acquire(ctx context.Context, key K) (Permit, error) {
	return k.acquire(ctx, key, 1, 1, nil)
}

// AcquireCost is Acquire for a cost of its own.
func (k *Keyed[K]) AcquireCost(ctx context.Context, key K, c Cost) (Permit, error) {
	return k.acquire(ctx, key, c.Tokens, c.Weight, c.Quotas)
}

// TryAcquire is Acquire without waiting, as Limiter.TryAcquire is.
func (k *Keyed[K]) TryAcquire(key K) (Permit, error) { return k.enter(nil, key, 1, 1, nil) }

// TryAcquireCost is TryAcquire for a cost of its own.
func (k *Keyed[K]) TryAcquireCost(key K, c Cost) (Permit, error) {
	return k.enter(nil, key, c.Tokens, c.Weight, c.Quotas)
}

// Do acquires for key, calls f and releases, also if f panics or exits its goroutine. It returns the error of
// Acquire, and then has not called f, or else that of f.
func (k *Keyed[K]) Do(ctx context.Context, key K, f func(context.Context) error) error {
	p, err := k.Acquire(ctx, key)
	if err != nil {
		return err
	}
	defer p.Release()
	return f(ctx)
}

func (k *Keyed[K]) acquire(ctx context.Context, key K, tokens, weight int64, named map[string]int64) (Permit, error) {
	if ctx == nil {
		return Permit{}, fmt.Errorf("throttle: Acquire: the context is nil; want context.Background() or the caller's: %w", ErrInvalid)
	}
	return k.enter(ctx, key, tokens, weight, named)
}

// enter starts the caller for key if it lacks nothing; else the key's limiter answers it, or lets it wait. A nil ctx makes it a try.
func (k *Keyed[K]) enter(ctx context.Context, key K, tokens, weight int64, named map[string]int64) (Permit, error) {
	s, hash, err := k.shardOf(key)
	if err != nil {
		return Permit{}, err
	}
	s.dom.mu.Lock()
	now := s.dom.now()
	pos := s.find(hash, key)
	if pos < 0 {
		if pos, now, err = s.admit(hash, key, now); err != nil {
			return k.answer(err)
		}
	}
	if s.closed {
		return s.refuseClosed()
	}
	e := &s.entries[pos]
	if e.last != resides && named == nil && tokens > 0 && tokens <= s.proto.burst && weight >= 0 {
		b := s.proto // a copy: the shard's own stays unwritten, in the caches of all processors
		b.missing, b.last = e.missing, e.last
		if ctx == nil || s.maySpend(ctx, now) {
			if missing, ok := b.spend(now, tokens); ok {
				e.missing, e.last = missing, now
				id := s.dom.next()
				s.dom.mu.Unlock()
				return Permit{id: id}, nil
			}
			if ctx == nil {
				return s.refuse(&b, tokens, now)
			}
		}
	}
	r := s.reside(pos, now)
	r.users.Add(1)
	s.dom.unlock(now)
	defer s.leave(hash, key, r)
	if ctx == nil {
		return r.try(tokens, weight, named)
	}
	return r.acquire(ctx, tokens, weight, named)
}

// answer is what a caller gets whose key cannot be made: err; or, in a dry run, the zero permit, if that is for want of room.
func (k *Keyed[K]) answer(err error) (Permit, error) {
	if !k.dry || !errors.Is(err, ErrTooManyKeys) {
		return Permit{}, err
	}
	if k.trace != nil && k.trace.Refused != nil {
		k.trace.Refused(Event{Limiter: k.name, Err: err})
	}
	return Permit{}, nil
}

// shardOf returns the shard that key belongs to, and its hash.
func (k *Keyed[K]) shardOf(key K) (*shard[K], uint64, error) {
	if k == nil || k.shards == nil {
		return nil, 0, errKeyedNotMade
	}
	if k.unequal {
		if err := k.checkEqual(key); err != nil {
			return nil, 0, err
		}
	}
	hash := maphash.Comparable(k.seed, key)
	return &k.shards[hash&uint64(len(k.shards)-1)], hash, nil
}

// checkEqual returns what is wrong with key as a key.
func (k *Keyed[K]) checkEqual(key K) error {
	if !reflect.ValueOf(&key).Elem().Comparable() {
		return invalid(k.name, "the key is a %T, which cannot be compared; want one that can", key)
	}
	if key != key {
		return invalid(k.name, "the key is %v, which does not equal itself; want one that does", key)
	}
	return nil
}
