package throttle

import "slices"

// SetQuota gives key a rate and burst of its own, or another quota in the place of one of Config.Quotas, as Limiter.SetQuota
// does. The key is made if it is new, and is not forgotten any more: see Reset and Delete. SetQuotaAll does not reach it.
func (k *Keyed[K]) SetQuota(key K, q Quota) error {
	return k.own(key, func(r *resident) error { return r.Limiter.SetQuota(q) })
}

// SetMaxInFlight gives key an in-flight cap of its own, as Limiter.SetMaxInFlight does, and as SetQuota does.
func (k *Keyed[K]) SetMaxInFlight(key K, n int64) error {
	return k.own(key, func(r *resident) error { return r.Limiter.SetMaxInFlight(n) })
}

func (k *Keyed[K]) own(key K, set func(*resident) error) error {
	return k.with(key, func(r *resident) error {
		err := set(r)
		if err == nil {
			k.mark(key, r, true, r.apart)
		}
		return err
	})
}

// mark notes whose limits r, the limiter of key, has.
func (k *Keyed[K]) mark(key K, r *resident, own, apart bool) {
	s, _, _ := k.shardOf(key)
	s.dom.mu.Lock()
	r.own, r.apart = own, apart
	s.dom.mu.Unlock()
}

// Reset puts the limits that key would have if it were new, those of Config or of Limits, in force for it at once, so that it may be
// forgotten again. What it has spent stays spent. Only what can be changed live is: the rate and burst, the quotas that have a
// name, and the cap; what else Limits returns holds once the key has been forgotten. An unknown key is left unknown.
func (k *Keyed[K]) Reset(key K) error {
	if _, known := k.Stats(key); !known {
		_, _, err := k.shardOf(key)
		return err
	}
	var of *Config
	if k.limits != nil {
		c := k.limits(key)
		if what := keyedWrong(c); what != "" {
			return invalid(c.Name, "Limits: Config: %s", what)
		}
		of = &c
	}
	return k.with(key, func(r *resident) error {
		k.change.Lock()
		defer k.change.Unlock()
		config := k.shards[0].config // is changed with k.change held
		c := config
		if of != nil {
			c = of
		}
		if err := r.adapt(c); err != nil {
			return err
		}
		k.mark(key, r, false, k.compact && !k.isCompact(c, config))
		return nil
	})
}

// adapt changes to the limits of c what differs and can be changed.
func (l *Limiter) adapt(c *Config) error {
	l.dom.mu.Lock()
	rated := l.rate != c.Rate || l.bucket.burst != c.Burst
	capped := l.cap != nil && !l.shared && l.cap.size != c.MaxInFlight
	var quotas []Quota
	for _, m := range l.more {
		for _, q := range c.Quotas {
			if q.Name != "" && q.Name == m.name && q != m.quota {
				quotas = append(quotas, q)
			}
		}
	}
	l.dom.mu.Unlock()
	if rated {
		if err := l.SetQuota(Quota{Rate: c.Rate, Burst: c.Burst}); err != nil {
			return err
		}
	}
	for _, q := range quotas {
		if err := l.SetQuota(q); err != nil {
			return err
		}
	}
	if capped {
		return l.SetMaxInFlight(c.MaxInFlight)
	}
	return nil
}

// SetQuotaAll puts another rate and burst, or another quota in the place of the one of that name in Config.Quotas, in force for all keys
// that have no limits of their own, those that are there and those to come, as Limiter.SetQuota does. It costs O(keys), holding one
// shard's lock at a time. A higher burst adds no tokens to a key that is there; one that is not, because it was full, begins with the whole
// of it, as every new key does. Where limits depend on the key it fails: see Reset.
func (k *Keyed[K]) SetQuotaAll(q Quota) error {
	return k.changeAll("SetQuotaAll", func(c *Config) string {
		i := -1
		if q.Name != "" {
			i = slices.IndexFunc(c.Quotas, func(old Quota) bool { return old.Name == q.Name })
		}
		switch {
		case i >= 0:
			q.align = c.Quotas[i].align
			if q.kind != c.Quotas[i].kind {
				return "it is " + q.String() + ", in the place of " + c.Quotas[i].String() + "; want one of the same kind"
			}
			c.Quotas = slices.Clone(c.Quotas)
			c.Quotas[i] = q
		case q.Name != "" && q.Name != c.Name:
			return "Name is " + q.Name + "; want that of one of Config.Quotas, or none for Config.Rate"
		case c.Burst == 0 || q.kind != bucketKind:
			return "want Config.Rate and a Rate and a Burst in its place, or the Name of one of Config.Quotas"
		default:
			if what := q.wrong(); what != "" {
				return what
			}
			c.Rate, c.Burst = q.Rate, q.Burst
		}
		return ""
	}, func(l *Limiter) error { return l.SetQuota(q) })
}

// SetMaxInFlightAll puts another cap, 1 to MaxCap, in force for all keys that have no limits of their own, as SetQuotaAll does. It fails
// where Config has no MaxInFlight.
func (k *Keyed[K]) SetMaxInFlightAll(n int64) error {
	return k.changeAll("SetMaxInFlightAll", func(c *Config) string {
		switch {
		case c.MaxInFlight == 0:
			return "want a Keyed made with Config.MaxInFlight"
		case n < 1:
			return "MaxInFlight is below 1; want 1 to MaxCap (2^62)"
		}
		c.MaxInFlight = n
		return ""
	}, func(l *Limiter) error { return l.SetMaxInFlight(n) })
}

// changeAll changes the config of all keys, and the limiters that are there.
func (k *Keyed[K]) changeAll(setter string, change func(*Config) string, set func(*Limiter) error) error {
	if k == nil || k.shards == nil {
		return errKeyedNotMade
	}
	if k.limits != nil {
		return invalid(k.name, "%s: limits depend on the key; want Reset, or SetQuota of a key", setter)
	}
	k.change.Lock()
	defer k.change.Unlock()
	c := *k.shards[0].config
	what := change(&c)
	if what == "" {
		what = c.wrong()
	}
	if what != "" {
		return invalid(k.name, "%s: %s", setter, what)
	}
	var failed error
	for i := range k.shards {
		s := &k.shards[i]
		s.dom.mu.Lock()
		if k.compact {
			s.changeCompact(&c)
			continue
		}
		s.config = &c
		s.refit()
		s.eachResident(func(r *resident) {
			if k.hasOwn(s, r) {
				return
			}
			if err := set(r.Limiter); err != nil {
				failed = err
			}
		})
	}
	if k.maxKeys != 0 {
		k.room.stir(0)
	}
	return failed
}

func (k *Keyed[K]) hasOwn(s *shard[K], r *resident) bool {
	s.dom.mu.Lock()
	defer s.dom.mu.Unlock()
	return r.own
}

// changeCompact puts the config c in force for compact keys, and for those that have a limiter in the meantime. It lets go of the lock.
func (s *shard[K]) changeCompact(c *Config) {
	now := s.dom.now()
	for pos := range s.entries {
		e := &s.entries[pos]
		if e.last != resides {
			b := s.proto
			b.missing, b.last = e.missing, e.last
			b.change(c.Rate, c.Burst, max(now, e.last))
			e.missing, e.last = b.missing, b.last
			continue
		}
		if r := s.residents[e.missing.lo]; !r.own {
			r.Limiter.change(c.Rate, c.Burst, now)
			r.setQuota(r.bucket, c.Rate)
		}
	}
	s.config = c
	s.refit()
	s.dom.unlock(now)
}
