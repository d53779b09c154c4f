package throttle

import (
	"context"
	"fmt"
	"time"
)

// errNotMade is what a zero Limiter answers.
var errNotMade = fmt.Errorf("throttle: the Limiter was not made by New: %w", ErrInvalid)

// The functions below answer a caller that is not let through. Each is called with the lock held,
// counts, and lets go of the lock before it builds the error.

// A place is who is answered: the name of its call, 0 for a newcomer, who has none, and how many stand ahead.
type place struct {
	id    uint64
	ahead int
}

// behindAll is a newcomer's place.
func (l *Limiter) behindAll() place { return place{0, l.entry().line.n} }

// event is the one of an answer with that sequence number, which names a newcomer.
func (p place) event(seq uint64, e Event) Event {
	e.Seq, e.ID = seq, p.id
	if e.ID == 0 {
		e.ID = seq
	}
	return e
}

// refuseYet tells the caller that it could start after wait, and which limit binds.
func (l *Limiter) refuseYet(who place, why Reason, tokens, weight int64, limit string, wait, allowed, now int64) (Permit, error) {
	d := l.dom
	if why == LineFull {
		l.counts.queueFull++
	} else {
		l.counts.notYet++
	}
	seq := d.next()
	d.unlock(now)
	err := &NotYetError{Limiter: l.name, Limit: limit, RetryAfter: time.Duration(wait), Allowed: time.Duration(allowed), Reason: why, Ahead: who.ahead}
	e := who.event(seq, Event{At: d.time(now), Wait: err.RetryAfter, Tokens: tokens, Weight: weight, Err: err})
	if l.trace != nil {
		l.call(l.trace.Refused, e)
	}
	return l.answer(e.ID, weight, err)
}

// limitThat names the limit that binds where gate.reckon answered so. The caller holds the lock.
func (l *Limiter) limitThat(wait int64, at *gate, meter int, weight int64) string {
	if wait > 0 {
		return l.limitText(at, meter)
	}
	return l.capText(l.entry(), weight)
}

// limitText names a limit that binds, for errors: a meter's of the gate, or ofBucket or ofPause.
func (l *Limiter) limitText(at *gate, meter int) string {
	text := at.owner.rateText
	switch {
	case meter == ofPause:
		text = "a pause"
	case meter >= 0:
		text = at.more[meter].quota.String()
	}
	return at.owner.above(l, text)
}

// above says whose limit that is, if it is not that of below itself.
func (l *Limiter) above(below *Limiter, text string) string {
	if l == below {
		return text
	}
	return fmt.Sprintf("%q above: %s", l.name, text)
}

// capText names what binds where no token lacks: the first cap on the way up that has not weight free, or else the
// first line that others stand in.
func (l *Limiter) capText(g *gate, weight int64) string {
	for x := g; x != nil; x = x.tree.parent {
		if x.cap != nil && !x.cap.could(weight) {
			return x.owner.above(l, x.cap.text)
		}
	}
	for x := g; x != nil; x = x.tree.parent {
		if x.line.front != nil || x.tree.turns.first() != nil {
			return x.owner.above(l, "the line")
		}
	}
	return l.rateText
}

// refuseMisfit tells the caller never, or that its cost is no cost.
func (l *Limiter) refuseMisfit(who place, tokens, weight int64, named map[string]int64, now int64) (Permit, error) {
	d := l.dom
	seq := d.next()
	count, err := l.misfit(tokens, weight, named)
	if count != nil {
		*count++
	}
	d.unlock(now)
	e := who.event(seq, Event{At: d.time(now), Tokens: tokens, Weight: weight, Err: err})
	if l.trace != nil && (count != nil || l.dry) { // in a dry run, nobody else is told of a cost that is no cost
		l.call(l.trace.Refused, e)
	}
	return l.answer(e.ID, weight, err)
}

// misfit returns the error of a cost that never starts here, or nil if it may, and the count that it
// belongs to, if it is a cost at all. The caller holds the lock.
func (l *Limiter) misfit(tokens, weight int64, named map[string]int64) (*uint64, error) {
	for x := &l.gate; x != nil; x = x.tree.parent {
		if x.isClosed {
			return &l.counts.closed, l.closedError(x.owner)
		}
	}
	for x := &l.gate; x != nil; x = x.tree.parent {
		o := x.owner
		if tokens < 0 || tokens == 0 && x.bucket.burst != 0 {
			return nil, invalid(l.name, "cost is %d tokens; want %s", tokens, l.costs())
		}
		if weight < 0 || weight == 0 && x.cap != nil {
			return nil, invalid(l.name, "weight is %d; want %s", weight, l.weights())
		}
		if x.bucket.burst != 0 && tokens > x.bucket.burst && !(x.debt && tokens <= MaxBurst) {
			return &l.counts.never, tooLarge(l.name, "cost", tokens, o.above(l, fmt.Sprintf("the burst %d", x.bucket.burst)))
		}
		for i := range x.more {
			m := &x.more[i]
			if k := costIn(m.name, tokens, named); k > m.most() && !(x.debt && k <= MaxBurst) {
				return &l.counts.never, tooLarge(l.name, "cost", k, o.above(l, m.quota.String()))
			}
		}
		if x.cap != nil && weight > x.cap.size && x.cap.size != 0 {
			return &l.counts.never, tooLarge(l.name, "weight", weight, o.above(l, fmt.Sprintf("the in-flight cap %d", x.cap.size)))
		}
	}
	for name, k := range named {
		if k < 0 {
			return nil, invalid(l.name, "Cost.Quotas[%q] is %d; want 0 or more", name, k)
		}
		if !l.hasQuota(name) {
			return nil, invalid(l.name, "Cost.Quotas[%q]: no quota here or above has that name", name)
		}
	}
	return nil, nil
}

// costs and weights are the ranges that fit at every level, in words.
func (l *Limiter) costs() string {
	least := int64(never)
	for x := &l.gate; x != nil; x = x.tree.parent {
		if x.bucket.burst != 0 {
			least = min(least, x.bucket.burst)
		}
	}
	return oneTo(least)
}

func (l *Limiter) weights() string {
	least := int64(never)
	for x := &l.gate; x != nil; x = x.tree.parent {
		if x.cap != nil {
			least = min(least, x.cap.size)
		}
	}
	return oneTo(least)
}

// oneTo is the range of a cost in a limit of that size: 0 is a pause, never no limit.
func oneTo(limit int64) string {
	switch limit {
	case 0:
		return "1 or more"
	case never:
		return "0 or more"
	}
	return fmt.Sprintf("1 to %d", limit)
}

// hasQuota reports whether a quota of that name is in force here or above.
func (l *Limiter) hasQuota(name string) bool {
	for x := &l.gate; x != nil && name != ""; x = x.tree.parent {
		for i := range x.more {
			if x.more[i].name == name {
				return true
			}
		}
	}
	return false
}

// closedError is the error of a caller of l where the limiter at is closed.
func (l *Limiter) closedError(at *Limiter) error {
	if at != l {
		return fmt.Errorf("throttle: %q: %q above: %w", l.name, at.name, ErrClosed)
	}
	return fmt.Errorf("throttle: %q: %w", l.name, ErrClosed)
}

// A saying is what a waiting caller is to be told: what it cost in the quota that was lowered, and its name; or how much longer
// it would have waited.
type saying struct {
	cost  int64
	quota string
	wait  int64
}

func (l *Limiter) sayLater(id uint64, what saying) {
	if l.sayings == nil {
		l.sayings = make(map[uint64]saying)
	}
	l.sayings[id] = what
}

// said takes the saying for the caller, if there is one.
func (l *Limiter) said(id uint64) (saying, bool) {
	l.dom.mu.Lock()
	defer l.dom.mu.Unlock()
	k, ok := l.sayings[id]
	delete(l.sayings, id)
	return k, ok
}

// turnedAway returns the error of a caller that was refused while it waited; the lock is free.
func (l *Limiter) turnedAway(c *call, joined int64, ahead int) error {
	d := l.dom
	k, said := l.said(c.id)
	e := l.refusal(*c, joined, ahead, k, said)
	d.mu.Lock()
	l.freeCall(c)
	d.mu.Unlock()
	if l.trace != nil {
		l.call(l.trace.Refused, e)
	}
	return e.Err
}

// refusal is the event of a call that was refused while it waited, having joined then, for which k was said, if anything was.
func (l *Limiter) refusal(c call, joined int64, ahead int, k saying, said bool) Event {
	e := Event{Seq: c.seq, ID: c.id, At: l.dom.time(c.at), Wait: time.Duration(c.at - joined), Tokens: c.tokens, Weight: c.weight}
	switch c.why {
	case byClose:
		e.Err = fmt.Errorf("throttle: %q: closed while it waited: %w", l.name, ErrClosed)
	case aboveBurst:
		e.Err = tooLarge(l.name, "cost", c.tokens, "the burst, which was lowered while it waited")
		if said {
			e.Err = tooLarge(l.name, "cost", k.cost, fmt.Sprintf("the quota %q, which was lowered while it waited", k.quota))
		}
	case byNewcomer:
		e.Wait = time.Duration(k.wait)
		e.Err = &NotYetError{Limiter: l.name, Limit: l.queueText, RetryAfter: e.Wait, Reason: Dropped, Ahead: ahead}
	case aboveCap:
		e.Err = tooLarge(l.name, "weight", c.weight, "the in-flight cap, which was lowered while it waited")
	}
	return e
}

// leaveAtOnce answers a caller whose context is done on arrival.
func (l *Limiter) leaveAtOnce(ctx context.Context, who place, tokens, weight, now int64) (Permit, error) {
	d := l.dom
	l.counts.left++
	seq := d.next()
	d.unlock(now)
	e := who.event(seq, Event{At: d.time(now), Tokens: tokens, Weight: weight})
	return l.answer(e.ID, weight, l.leftError(ctx, e, who.ahead))
}

// leftError makes the error of a caller whose context is done, and traces that it left.
func (l *Limiter) leftError(ctx context.Context, e Event, ahead int) error {
	e.Err = &LeftError{Limiter: l.name, Waited: e.Wait, Ahead: ahead, Err: ctx.Err(), ctx: ctx}
	if l.trace != nil {
		l.call(l.trace.Left, e)
	}
	return e.Err
}
