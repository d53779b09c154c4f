package throttle

import (
	"math"
	"math/bits"
	"time"
)

// A Budget is one quota of a limiter, as it is at one instant: what is promised, and what of it is left.
type Budget struct {
	Quota  Quota         // that of Config.Rate has no Name
	Tokens int64         // whole tokens there; below 0 where costs beyond the burst, or settled afterwards, are owed
	FullIn time.Duration // until Quota.Burst tokens are there, if nobody spends any; the largest Duration where that is too short
}

// Window is how long the quota takes from empty to full, rounded up to 1 ns: the window of AtMost, the period of FixedWindow, and
// Burst tokens' time at the Rate of a bucket. It is the largest Duration where that is too short.
func (b Budget) Window() time.Duration {
	if b.Quota.Rate.N < 1 || b.Quota.Rate.Period < 1 || b.Quota.Burst < 1 {
		return 0
	}
	n := uint64(b.Quota.Rate.N)
	hi, lo := bits.Mul64(uint64(b.Quota.Burst), uint64(b.Quota.Rate.Period))
	if hi >= n {
		return math.MaxInt64
	}
	whole, rest := bits.Div64(hi, lo, n)
	if rest > 0 {
		whole++
	}
	return time.Duration(min(whole, math.MaxInt64))
}

// Budgets returns the limiter's own quotas, not those of limiters above, all of one instant: that of Config.Rate first, then
// Config.Quotas in their order. It costs a lock, and allocates the slice.
func (l *Limiter) Budgets() []Budget {
	if l == nil || l.dom == nil {
		return nil
	}
	l.dom.mu.Lock()
	defer l.dom.mu.Unlock()
	all := make([]Budget, 0, 1+len(l.more))
	now := l.dom.now()
	if l.bucket.burst != 0 {
		all = append(all, l.bucket.budget(l.rate, now))
	}
	for i := range l.more {
		m := &l.more[i]
		full := m.wait(now, u128{lo: uint64(m.most())})
		all = append(all, Budget{m.quota, m.level(now), time.Duration(full)})
	}
	return all
}

// Budgets are Limiter.Budgets for key, and none if key is unknown. It makes no key.
func (k *Keyed[K]) Budgets(key K) []Budget {
	s, hash, err := k.shardOf(key)
	if err != nil {
		return nil
	}
	s.dom.mu.Lock()
	pos, now := s.find(hash, key), s.dom.now()
	if pos < 0 {
		s.dom.mu.Unlock()
		return nil
	}
	if e := &s.entries[pos]; e.last != resides {
		b := s.proto
		b.missing, b.last = e.missing, e.last
		all := []Budget{b.budget(s.config.Rate, now)}
		s.dom.mu.Unlock()
		return all
	}
	r := s.residents[s.entries[pos].missing.lo]
	r.users.Add(1)
	s.dom.mu.Unlock()
	defer s.leave(hash, key, r)
	return r.Limiter.Budgets()
}

func (k keyOf[K]) Budgets() []Budget { return k.keyed.Budgets(k.key) }

// budget returns b's numbers. The caller holds the lock.
func (b *bucket) budget(r Rate, now int64) Budget {
	full := b.wait(now, u128{lo: uint64(b.burst)})
	return Budget{Quota{Rate: r, Burst: b.burst}, b.level(now), time.Duration(full)}
}
