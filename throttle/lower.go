package throttle

// LowerTo takes from a quota what it has above tokens, now: what a server says remains, where others spend from it too. It never
// adds any. The quota is that of Config.Rate, for "" or the limiter's own name, or one of Config.Quotas by its name; tokens is 0 or more. What is
// taken so comes back as the quota refills, as if it had been spent by a start at this instant.
//
// It costs a lock and O(1), and allocates nothing. It fails with ErrInvalid, and changes nothing, if no quota has that name, or tokens is below 0.
func (l *Limiter) LowerTo(quota string, tokens int64) error {
	if l == nil || l.dom == nil {
		return errNotMade
	}
	if tokens < 0 {
		return invalid(l.name, "LowerTo: tokens is %d; want 0 or more", tokens)
	}
	d := l.dom
	d.mu.Lock()
	var a account
	var b *bucket
	if (quota == "" || quota == l.name && !l.hasOwnQuota(quota)) && l.bucket.burst != 0 {
		b = &l.bucket
	}
	for i := range l.more {
		if l.more[i].name == quota && quota != "" {
			a = l.more[i].account
		}
	}
	if quota == "" && l.bucket.burst == 0 && len(l.more) == 1 {
		a = l.more[0].account
	}
	if a == nil && b == nil {
		d.mu.Unlock()
		return invalid(l.name, "LowerTo: quota is %q; want \"\" for Config.Rate or the Name of one of Config.Quotas", quota)
	}
	now := d.now()
	d.catchUp(now)
	l.look(now)
	switch {
	case b != nil:
		if over := b.level(now) - tokens; over > 0 {
			b.charge(now, over)
		}
	default:
		if over := a.level(now) - tokens; over > 0 {
			a.charge(now, now, over)
		}
	}
	d.mark(&l.gate)
	d.run(now)
	d.unlock(now)
	return nil
}

// LowerTo is Limiter.LowerTo for key. It makes the key if it is new.
func (k *Keyed[K]) LowerTo(key K, quota string, tokens int64) error {
	return k.with(key, func(r *resident) error { return r.Limiter.LowerTo(quota, tokens) })
}
