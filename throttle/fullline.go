package throttle

import "maps"

// A QueueFull says what happens to a caller that would have to wait when MaxQueue others do.
type QueueFull uint8

const (
	// RefuseNewcomer tells the newcomer ErrQueueFull: who has waited goes on waiting.
	RefuseNewcomer QueueFull = iota
	// DropOldest turns away whoever has stood in line the longest, and the newcomer joins at the back: for work that is worth less
	// the longer it has waited. The one turned away is told a *NotYetError with Reason Dropped, for which errors.Is(err, ErrQueueFull)
	// holds. Each newcomer turns away one at most, and none if it starts at once, or would be refused anyway: by its cost, MaxWait, or its deadline.
	// A try turns nobody away. A caller that came again by AcquireAgain is as old as its first arrival, and so the first to go.
	DropOldest
)

// behindFront returns what would stand in line without the front: a line to reckon by, that holds no calls.
func (q *line) behindFront() line {
	c := q.front
	rest := line{n: q.n - 1, tokens: q.tokens.sub(u128{lo: uint64(c.tokens)})}
	if q.named != nil {
		rest.named, rest.sums = map[*call]map[string]int64{c: q.named[c]}, maps.Clone(q.sums)
		rest.forget(c)
	}
	return rest
}

// makeRoom takes the oldest caller out of a full line, for a newcomer that joins in the same move. One whose context is done leaves as ever.
func (l *Limiter) makeRoom(g *gate, now int64) {
	c := g.line.front
	if c.gone() {
		g.drop(c, now)
		return
	}
	wait, _, _ := g.reckon(new(line), c.tokens, g.line.named[c], now)
	l.sayLater(c.id, saying{wait: wait})
	g.displace(now)
}

// displace turns away the front of the line; the newcomer for which that is done is to join in the same move.
//
// Whoever follows is judged from now on, as if the front had never joined: it may lack less. But it takes over the line's place in the fifos
// of caps, here and above. If it had to stand behind the other lines there, as it does when a front gives up, a line whose newcomers come faster
// than permits do would never be served.
func (g *gate) displace(now int64) {
	c := g.line.front
	for x, turn := g, true; turn; x = x.tree.parent {
		x.floor = now
		x.fx.mark(x) // the lower first: it may ask again
		if turn = x.asking(); turn {
			turns := &x.tree.parent.tree.turns
			turn = turns.first() == x
			turns.remove(x)
		}
	}
	g.remove(c)
	g.counts.queueFull++
	c.state, c.why, c.at, c.seq = callRefused, byNewcomer, now, g.fx.next()
	g.fx.wake(c)
}
