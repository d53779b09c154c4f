package throttle

// becomeCompact makes the key at pos compact if nothing but its bucket's numbers would be lost by that.
func (s *shard[K]) becomeCompact(pos int, r *resident, now int64) {
	if r.dom != &s.dom || r.users.Load() > 0 || r.own || r.apart || r.paused > now || r.isClosed {
		return
	}
	e := &s.entries[pos]
	e.missing, e.last = r.bucket.missing, r.bucket.last
	s.moveOut(r)
}

// sweep looks at a few keys for a new one, and forgets those of them that may be and have not been used since the round before this
// one began: so a key in use is not made anew each time, though it may be full each time.
//
// It returns how many these were; their places are the caller's to give back.
func (s *shard[K]) sweep(now int64) (forgotten int64) {
	begun := false
	for range looksPerKey {
		if s.cursor >= len(s.entries) {
			if begun || len(s.entries) == 0 {
				break // a round has one new key at the least
			}
			s.cursor, s.round, s.before, begun = 0, now, s.round, true
		}
		if s.usedAt(s.cursor) <= s.before && s.look(s.cursor, now) {
			forgotten++
		} else {
			s.cursor++
		}
	}
	return forgotten
}

// look forgets the key at pos if that changes nothing, and reports whether it did. Its place is the caller's to give back.
func (s *shard[K]) look(pos int, now int64) bool {
	if !s.idle(pos, now) {
		if e := &s.entries[pos]; e.last == resides {
			s.becomeCompact(pos, s.residents[e.missing.lo], now)
		}
		return false
	}
	s.forget(pos)
	return true
}

// forget takes out the key at pos; its place is the caller's to give back.
func (s *shard[K]) forget(pos int) {
	if e := &s.entries[pos]; e.last == resides {
		s.moveOut(s.residents[e.missing.lo])
	}
	s.remove(pos)
	if n := len(s.residents); !s.keyed.compact && n > 64 && 4*len(s.free) > 3*n {
		s.pack()
	}
}

// pack closes up the residents; all keys have one.
func (s *shard[K]) pack() {
	packed := make([]*resident, 0, 2*(len(s.residents)-len(s.free)))
	for pos := range s.entries {
		e := &s.entries[pos]
		r := s.residents[e.missing.lo]
		e.missing.lo, r.slot = uint64(len(packed)), len(packed)
		packed = append(packed, r)
	}
	s.residents, s.free = packed, nil
}

// idle reports whether forgetting the key at pos would change nothing.
func (s *shard[K]) idle(pos int, now int64) bool {
	e := &s.entries[pos]
	if e.last == resides {
		r := s.residents[e.missing.lo]
		return !r.own && s.unburdened(r, now)
	}
	b := &s.proto
	b.missing, b.last = e.missing, e.last
	return b.missingAt(now) == u128{}
}

// unburdened reports whether r is as a new limiter is, but for limits of its own.
func (s *shard[K]) unburdened(r *resident, now int64) bool {
	if r.users.Load() > 0 {
		return false
	}
	if r.dom != &s.dom {
		r.dom.mu.Lock()
		defer r.dom.mu.Unlock()
		now = r.dom.now()
	}
	return r.asNew(now)
}

// asNew reports whether l answers every call as a limiter would that was made at the instant now. The caller holds the lock.
func (l *Limiter) asNew(now int64) bool {
	if l.entry().line.front != nil || l.held != 0 || len(l.bills) != 0 || l.paused > now || l.isClosed {
		return false
	}
	if l.bucket.burst != 0 && l.bucket.missingAt(now) != (u128{}) {
		return false
	}
	for i := range l.more {
		m := &l.more[i]
		if v, ok := m.account.(*interval); ok && v.begun && !v.aligned && now < later(v.opened, v.period) {
			return false // its window is open, also if all was given back
		}
		if m.level(now) < m.quota.Burst {
			return false
		}
	}
	return true
}
