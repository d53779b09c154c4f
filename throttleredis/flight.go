package throttleredis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// Moves of a call:
//
//	from     event                                 to        who moves it
//	-        Acquire                               pending   the caller
//	pending  its batch is sent                     waiting   the flight
//	waiting  Redis answers Q                       in line   the flight
//	in line  a push, or a poll that answers G, M   answered  the listener, the flight
//	in line  a poll that answers L                 pending   the flight: its place was lost
//	waiting  Redis answers G, N, F or X            answered  the flight
//	any      the call to Redis fails               answered  the flight: by the policy
//	any      its context ends                      gone      the caller
//
// Truths: (1) one call to Redis is on its way at a time, so batches arrive in order or not at all; (2) an id of which this process
// does not know that it is gone is in pending, waiting, held or gone; (3) pending and line are in order of arrival.

// kick sees to it that what is to be said is said. The caller holds the lock.
func (l *Limiter) kick() {
	if !l.flying {
		l.flying = true
		go l.fly()
	}
}

// fly sends batches until there is nothing to say.
func (l *Limiter) fly() {
	for {
		l.mu.Lock()
		now := time.Now()
		lost := l.expire(now)
		r := l.compose(now)
		if r.empty() {
			l.flying = false
			l.settleIdle()
			l.arm(now)
			l.mu.Unlock()
			l.tellLost(lost)
			return
		}
		args := l.args(r)
		if len(r.arrivals) > 0 && len(l.line) > 0 {
			l.listen()
		}
		l.mu.Unlock()
		l.tellLost(lost)

		text, err := run(l.client, l.config.Timeout, l.keys.all, args)
		var p response
		switch schema, newer := strings.CutPrefix(text, "SCHEMA "); {
		case err != nil:
		case newer:
			err = schemaError(l.config.Name, schema)
		case text == "STALE":
			err = errStale
		default:
			p, err = parse(text, r)
		}
		var events []Event
		l.mu.Lock()
		if err != nil {
			events = l.failed(r, err)
		} else {
			events = l.apply(r, &p, now)
		}
		l.mu.Unlock()
		for _, e := range events {
			l.event(e.What, e.Err)
		}
	}
}

// compose takes what is to be said now. The caller holds the lock.
func (l *Limiter) compose(now time.Time) *request {
	l.batch++
	r := &request{batch: l.batch}
	down := l.breaker.open
	if down && len(l.pending) == 0 && now.Before(l.renewAt) {
		return r // the next renewal or caller tries again
	}
	n := min(len(l.gone), 500)
	for _, d := range l.gone[:n] {
		if now.Before(d.until) {
			r.releases = append(r.releases, d.id)
		}
	}
	if len(l.held) > 0 && !l.closed && !now.Before(l.renewAt) {
		for _, h := range l.held {
			r.renewals = append(r.renewals, h)
		}
		slices.SortFunc(r.renewals, func(a, b *lease) int { return a.until.Compare(b.until) })
		r.renewals = r.renewals[:min(len(r.renewals), 1000)]
	}
	if len(l.line) > 0 && !now.Before(l.pollAt) {
		r.polls = slices.Clone(l.line)
	}
	for len(l.pending) > 0 && len(l.line)+len(r.arrivals) < l.config.Batch {
		k := l.pending[0]
		l.pending = l.pending[1:]
		if k.id == "" {
			k.id = l.newID(k.cost)
		}
		l.waiting[k.id] = k
		r.arrivals = append(r.arrivals, k)
	}
	if len(r.releases) == 0 {
		l.gone = l.gone[n:] // they have ended by themselves
	}
	return r
}

// apply takes over what Redis answered to a call that was sent at sent. The caller holds the lock.
func (l *Limiter) apply(r *request, p *response, sent time.Time) (events []Event) {
	now := time.Now()
	l.gone = l.gone[min(len(l.gone), len(r.releases)):]
	if l.breaker.worked() {
		events = append(events, Event{What: "reachable"})
		l.renewAt = now
	}
	if l.epoch != p.epoch && l.epoch != "" {
		events = append(events, Event{What: "state lost"})
		l.renewAt = now
	}
	if a := p.settings; a != l.seen.settings && a != l.asked {
		events = append(events, Event{What: "settings differ"})
	}
	l.epoch, l.seen, l.sentAt = p.epoch, *p, sent

	for id, fence := range p.mine {
		l.grant(id, fence, sent, l.config.Lease)
	}
	again := now.Add(heartbeat)
	later := func(us int64) {
		if at := now.Add(time.Duration(us) * time.Microsecond); at.Before(again) {
			again = at
		}
	}
	for i, v := range p.renewed {
		h := r.renewals[i]
		switch {
		case h.over || h.lost:
		case v.what == 'H':
			h.until, h.epoch = sent.Add(trust(l.config.Lease)), p.epoch
		default:
			l.lose(h)
		}
	}
	if len(p.renewed) > 0 {
		l.renewAt = sent.Add(l.config.Lease / 3)
	}
	var back []*call
	for i, v := range p.polled {
		k := r.polls[i]
		switch {
		case l.waiting[k.id] != k: // answered, or left, meanwhile
		case v.what == 'G':
			l.grant(k.id, v.value, sent, l.config.Lease)
		case v.what == 'Q':
			later(v.value)
		case v.what == 'L':
			l.unwait(k)
			k.id = ""
			back = append(back, k)
		}
	}
	l.pending = append(back, l.pending...)
	for i, v := range p.added {
		k := r.arrivals[i]
		if l.waiting[k.id] != k {
			continue
		}
		switch v.what {
		case 'G':
			l.grant(k.id, v.value, sent, l.config.Lease)
		case 'Q':
			l.line = append(l.line, k)
			later(v.value)
		default:
			l.unwait(k)
			k.answer(nil, l.refusal(k, v, now))
		}
	}
	if len(l.line) > 0 {
		l.listen()
		if len(p.polled) > 0 || again.Before(l.pollAt) || l.pollAt.Before(sent) {
			l.pollAt = again
		}
	}
	return events
}

// failed applies the policy to everybody who waits: what Redis did, nobody knows. The caller holds the lock.
func (l *Limiter) failed(r *request, err error) (events []Event) {
	now := time.Now()
	if l.breaker.failed(now, l.config.Probe) {
		events = append(events, Event{What: "unreachable", Err: err})
	}
	down := error(&unreached{err})
	if errors.Is(err, ErrSchema) {
		down = err
	}
	for id, k := range l.waiting {
		l.unwait(k)
		l.depart(id)
		k.answer(nil, down)
	}
	for _, k := range l.pending {
		k.answer(nil, down)
	}
	l.pending = nil
	l.renewAt = now.Add(min(l.config.Lease/10, l.config.Probe))
	return events
}

// grant starts a caller, counting its lease from an instant at which it was not yet given. The caller holds the lock.
func (l *Limiter) grant(id string, fence int64, from time.Time, length time.Duration) {
	k := l.waiting[id]
	if k == nil {
		return
	}
	l.unwait(k)
	h := &lease{id: id, fence: fence, epoch: l.epoch, until: from.Add(trust(length))}
	if l.asked.limit > 0 {
		if renew := from.Add(length / 3); len(l.held) == 0 || renew.Before(l.renewAt) {
			l.renewAt = renew
		}
		l.held[id] = h
	}
	k.answer(h, nil)
}

// trust is how much of a lease its holder counts on.
func trust(length time.Duration) time.Duration { return length - length/10 }

// unwait takes a call out of the books of those that wait. The caller holds the lock.
func (l *Limiter) unwait(k *call) {
	delete(l.waiting, k.id)
	if i := slices.Index(l.line, k); i >= 0 {
		l.line = slices.Delete(l.line, i, i+1)
	}
}

// depart has Redis told that an id is gone, for as long as it could be there. The caller holds the lock, and kicks.
func (l *Limiter) depart(id string) {
	l.gone = append(l.gone, departure{id, time.Now().Add(max(l.config.Lease, patience) + l.config.Timeout)})
	l.kick()
}

func (k *call) answer(h *lease, err error) {
	k.permit, k.err = h, err
	close(k.done)
}

// refusal is the error that v stands for.
func (l *Limiter) refusal(k *call, v verdict, now time.Time) error {
	s := l.seen.settings
	wait := time.Duration(v.value) * time.Microsecond
	if v.what == 'X' {
		return fmt.Errorf("throttleredis: %q: a cost of %d tokens and weight %d is above burst %d or MaxInFlight %d: %w",
			l.config.Name, k.cost.Tokens, k.cost.Weight, s.burst, s.limit, throttle.ErrTooLarge)
	}
	e := &throttle.NotYetError{Limiter: l.config.Name, RetryAfter: wait, Ahead: int(l.seen.inLine)}
	switch {
	case v.what == 'F':
		e.Reason, e.Limit = throttle.LineFull, fmt.Sprintf("MaxQueue %d", l.config.MaxQueue)
		return e
	case wait > 0:
		e.Limit = throttle.Quota{Rate: l.config.Rate, Burst: l.config.Burst}.String()
	default:
		e.Limit = fmt.Sprintf("MaxInFlight %d", s.limit)
	}
	if k.allowed > 0 {
		e.Reason, e.Allowed = throttle.PastDeadline, time.Duration(k.allowed)*time.Microsecond
		if l.config.MaxWait > 0 && k.allowed == l.config.MaxWait.Microseconds()+1 {
			e.Reason, e.Allowed = throttle.PastMaxWait, l.config.MaxWait
		}
	}
	return e
}
