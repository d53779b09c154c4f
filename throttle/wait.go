package throttle

import (
	"context"
	"sync"
	"time"
)

// A Clock tells time and arms timers. The default is the process's monotonic clock, on which a
// suspended machine's time does not pass. Give another to a Config to drive a limiter in a test.
//
// Its methods are called under the limiter's lock: they must be quick and must not call the
// limiter, and AfterFunc must not call f before it returns. f is called once, d or more after the
// call, unless stop, which reports whether it prevented that, comes first. A clock that goes back is held at the latest instant seen.
type Clock interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// A domain is the lock and the time of the limiters that share a cap; mostly of one limiter alone.
// The lock guards arithmetic and list moves, and is never held across a wait or a callback of a
// Trace. The clock is read inside it, so that no instant is older than one already used.
type domain struct {
	mu    sync.Mutex
	bound bool // epoch and clock are set
	effects
	clock Clock // nil: the monotonic clock
	epoch time.Time
	seen  int64
	alarm alarm
}

// bind sets the clock, once. It reports whether the domain has that clock.
func (d *domain) bind(c Clock) bool {
	if d.bound {
		return d.clock == c
	}
	d.bound, d.clock = true, c
	if c == nil {
		d.epoch = time.Now()
	} else {
		d.epoch = c.Now()
	}
	d.alarm = alarm{fire: d.onTime, clock: c, armed: never}
	return true
}

// now returns the instant, in nanoseconds since the epoch. It never goes back.
func (d *domain) now() int64 {
	if d.clock == nil {
		if !d.bound {
			return 0
		}
		return int64(time.Since(d.epoch)) // one clock read where time.Now makes two
	}
	d.seen = max(d.seen, int64(d.clock.Now().Sub(d.epoch)))
	return d.seen
}

// time returns the instant at as a time.
func (d *domain) time(at int64) time.Time { return d.epoch.Add(time.Duration(at)) }

// unlock carries out what the event under the lock left to do: it sets the timer, lets go of the lock, and
// wakes callers. Each is woken once, and does not touch its call before.
func (d *domain) unlock(now int64) {
	due := d.nextDue()
	if due == d.alarm.armed && d.woken == nil && d.dry == nil {
		d.mu.Unlock()
		return
	}
	d.alarm.set(due, now)
	woken := d.woken
	d.woken, d.lastWoken = nil, nil
	if d.dry != nil {
		told := d.dry.told
		d.dry.told = nil
		d.mu.Unlock()
		for _, tell := range told {
			tell()
		}
		return
	}
	d.mu.Unlock()
	for woken != nil {
		c := woken
		woken, c.next = c.next, nil
		c.ready <- struct{}{} // has room: see call
	}
}

// An alarm is the one timer of a domain, set for the first instant at which some front's token is due.
type alarm struct {
	fire  func()
	clock Clock
	timer *time.Timer // of the monotonic clock
	stop  func() bool // of another clock
	armed int64       // never: not armed; unsure: it may have gone off
}

const unsure = -1

// set arms the timer for the instant due, or stops it.
func (a *alarm) set(due, now int64) {
	if a.armed == due {
		return
	}
	a.armed = due
	in := time.Duration(due - now)
	switch {
	case a.clock != nil:
		if a.stop != nil {
			a.stop()
			a.stop = nil
		}
		if due != never {
			a.stop = a.clock.AfterFunc(in, a.fire)
		}
	case due == never:
		if a.timer != nil {
			a.timer.Stop()
		}
	case a.timer == nil:
		a.timer = time.AfterFunc(in, a.fire)
	default:
		a.timer.Reset(in)
	}
}

// onTime judges what has come due when the timer goes off. It may come late, or stale, which only means that
// there is less to do, or early, and then arms the timer again.
func (d *domain) onTime() {
	d.mu.Lock()
	d.alarm.armed = unsure
	now := d.now()
	d.catchUp(now)
	d.unlock(now)
}

// wait puts the caller in line and blocks it until it is started, refused or done. It is called with the lock held and
// returns without it.
func (l *Limiter) wait(ctx context.Context, tokens, weight int64, named map[string]int64, reckoned, now int64) (Permit, error) {
	g := l.entry()
	c := l.newCall(tokens, weight)
	l.bring(ctx, c, named)
	ahead := g.line.n
	g.join(c, now)
	return l.stay(ctx, c, ahead, reckoned, now)
}

// bring notes what the caller of c, who is about to join, brings along.
func (l *Limiter) bring(ctx context.Context, c *call, named map[string]int64) {
	if named != nil {
		l.entry().line.name(c, named)
	}
	if c.ready == nil {
		c.ready = make(chan struct{}, 1)
	}
	c.done = ctx.Done()
	_, c.timed = ctx.Deadline()
}

// stay blocks the caller of c, which has joined at the instant now, until it is started, refused or done: the one blocking
// select of the package. It is called with the lock held and returns without it. Where the grant
// and the caller's cancel meet, the lock decides: a grant made first stands.
func (l *Limiter) stay(ctx context.Context, c *call, ahead int, reckoned, now int64) (Permit, error) {
	d := l.dom
	id, joined, tokens, weight := c.id, c.seq, c.tokens, c.weight
	queued := l.trace != nil && c.state == callWaiting
	d.unlock(now)
	if l.lists {
		l.keep(ctx, c)
	}
	if queued {
		l.call(l.trace.Queued, Event{Seq: joined, ID: id, At: d.time(now), Wait: time.Duration(reckoned), Tokens: tokens, Weight: weight})
	}

	for waiting := true; waiting; {
		if c.done == nil {
			<-c.ready
		} else {
			select {
			case <-c.ready:
			case <-c.done:
				if err := l.abandon(ctx, c, tokens, now, ahead); err != nil {
					return Permit{}, err
				}
			}
		}
		waiting = c.nudged
		if waiting {
			var err error
			if waiting, err = l.lookAtDeadline(ctx, c, ahead); err != nil {
				return Permit{}, err
			}
		}
	}
	if c.state == callRefused {
		return Permit{}, l.turnedAway(c, now, ahead)
	}
	p := Permit{l: l, c: c, id: id}
	at, late, seq := c.at, int64(c.late), c.seq
	if !l.tracked {
		p.c = nil
		d.mu.Lock()
		l.freeCall(c)
		d.mu.Unlock()
	}
	if l.trace != nil {
		l.announce(p, Event{Seq: seq, ID: id, At: d.time(at), Nominal: d.time(at - late),
			Wait: time.Duration(at - now), Tokens: tokens, Weight: weight})
	}
	return p, nil
}

// abandon takes the caller, whose context is done, out of the line, unless it was started or refused
// before: then it returns nil, and that stands.
func (l *Limiter) abandon(ctx context.Context, c *call, tokens, joined int64, ahead int) error {
	d := l.dom
	d.mu.Lock()
	now := d.now()
	d.catchUp(now)
	if c.state == callStarted || c.state == callRefused {
		c.nudged = false
		d.unlock(now)
		<-c.ready // sent, or about to be
		return nil
	}
	if c.nudged {
		c.nudged = false
		<-c.ready
	}
	if c.state == callWaiting {
		l.entry().leave(c, now)
	}
	e := Event{Seq: c.seq, ID: c.id, At: d.time(c.at), Wait: time.Duration(c.at - joined), Tokens: tokens, Weight: c.weight}
	l.freeCall(c)
	d.unlock(now)
	return l.leftError(ctx, e, ahead)
}

// lookAtDeadline answers a nudge: it refuses the caller if its deadline lies within a pause, and reports whether it goes on waiting.
func (l *Limiter) lookAtDeadline(ctx context.Context, c *call, ahead int) (waiting bool, err error) {
	d := l.dom
	deadline, _ := ctx.Deadline()
	d.mu.Lock()
	now, g := d.now(), l.entry()
	d.catchUp(now)
	c.nudged = false
	if c.state == callStarted || c.state == callRefused {
		d.unlock(now)
		return false, nil
	}
	allowed := int64(deadline.Sub(d.time(now)))
	pause, at := g.pauseLeft(now)
	if c.state == callLeft || pause <= 0 || allowed > pause {
		d.unlock(now)
		return true, nil // one that left will find its context done
	}
	g.dismiss(c, now)
	e := l.pausedOut(*c, pause, allowed, at, ahead)
	l.freeCall(c)
	d.run(now)
	d.unlock(now)
	if l.trace != nil {
		l.call(l.trace.Refused, e)
	}
	return false, e.Err
}

// pausedOut is the event of a call in line that was refused because it is allowed to wait no longer than the pause at that gate lasts.
func (l *Limiter) pausedOut(c call, pause, allowed int64, at *gate, ahead int) Event {
	e := Event{Seq: c.seq, ID: c.id, At: l.dom.time(c.at), Wait: time.Duration(pause), Tokens: c.tokens, Weight: c.weight}
	limit := l.limitText(at, ofPause)
	e.Err = &NotYetError{Limiter: l.name, Limit: limit, RetryAfter: e.Wait, Allowed: time.Duration(allowed), Reason: PastDeadline, Ahead: ahead}
	return e
}
