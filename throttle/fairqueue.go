package throttle

// A call is one caller of a limiter: first in its line, then holding its permit. It is reused,
// with its channel, once its caller is done with it. Under the limiter's lock:
//
//	from     event                                 to        moved by
//	(new)    join                                  waiting   the caller
//	(new)    start at once                         started   the caller
//	waiting  its turn, its token, its permit       started   whoever moves the line on; it wakes the caller
//	waiting  its context found done at its turn    left      whoever moves the line on
//	waiting  its context done                      left      the caller
//	waiting  close, or a limit it no longer fits   refused   the closer or setter; it wakes the caller
//	waiting  a newcomer, where the oldest goes     refused   the newcomer; it wakes the caller
//	started  release (or, without a cap, return)   (free)    the first releaser
//	started  AcquireAgain                          waiting   the caller
//	left, refused                                  (free)    the caller
//
// In a dry run calls in line are of shadows, which nobody wakes: see shadow.
//
// Truths: it is in exactly one line while waiting, and in none otherwise; it is woken exactly
// once, by whoever moved it to started or refused while it waited, or by a nudge that is still in ready then, and its
// caller takes that one signal from ready before it goes on; only its caller frees it. So ready is empty whenever it is free.
type call struct {
	next, prev *call         // in the line while waiting; next also in a woken or a free list
	ready      chan struct{} // one slot; made at the first wait
	done       <-chan struct{}
	tokens     int64
	weight     int64
	at         int64  // the instant at which it joined; once started, refused or left, the instant of that
	id         uint64 // names the call; 0 when free, so that an old Permit finds out
	seq        uint64 // of its latest move
	late       uint32 // started: at - late is the nominal start, in nanoseconds
	state      callState
	why        refusal
	timed      bool // its context has a deadline
	nudged     bool // ready holds a signal to look at its deadline; it stands for a wake-up too
}

type callState uint8

const (
	callFree callState = iota
	callWaiting
	callStarted
	callRefused
	callLeft
	callThrough // let through by a dry run, without a start: see shadow
)

// refusal says why a waiting call was refused.
type refusal uint8

const (
	byClose refusal = iota + 1
	aboveBurst
	aboveCap
	byNewcomer
)

// gone reports whether the caller's context is done.
func (c *call) gone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// A line is the FIFO queue of waiting calls: pure state, with no clock and no lock.
//
// Truths: n is the number of calls from front to back; tokens is the sum of their costs; they
// stand in the order in which they first joined, which is that of their ids.
type line struct {
	front, back *call
	n           int
	tokens      u128
	named       map[*call]map[string]int64 // costs by quota, of the calls that have such
	sums        map[string]namedSum        // of these
}

// A namedSum is over the calls in line that name a quota: what they cost there, and what they would have by their tokens.
type namedSum struct{ named, tokens u128 }

// name notes the costs by quota of c, which is about to join.
func (q *line) name(c *call, costs map[string]int64) {
	if q.named == nil {
		q.named, q.sums = make(map[*call]map[string]int64), make(map[string]namedSum)
	}
	q.named[c] = costs
	for name, k := range costs {
		s := q.sums[name]
		q.sums[name] = namedSum{s.named.add(u128{lo: uint64(k)}), s.tokens.add(u128{lo: uint64(c.tokens)})}
	}
}

// forget undoes name.
func (q *line) forget(c *call) {
	for name, k := range q.named[c] {
		s := q.sums[name]
		s = namedSum{s.named.sub(u128{lo: uint64(k)}), s.tokens.sub(u128{lo: uint64(c.tokens)})}
		if s == (namedSum{}) {
			delete(q.sums, name)
		} else {
			q.sums[name] = s
		}
	}
	delete(q.named, c)
}

// cost returns what c, in this line, costs in the quota of that name.
func (q *line) cost(c *call, name string) int64 {
	return costIn(name, c.tokens, q.named[c])
}

// ahead returns what all in line cost in the quota of that name.
func (q *line) ahead(name string) u128 {
	s := q.sums[name]
	return q.tokens.sub(s.tokens).add(s.named)
}

// costIn returns the cost in the quota of that name: its own, if it is named, or else tokens.
func costIn(name string, tokens int64, named map[string]int64) int64 {
	if k, ok := named[name]; ok && name != "" {
		return k
	}
	return tokens
}

// join puts c at the back.
func (q *line) join(c *call) { q.insert(c, nil) }

// rejoin puts c, which has stood in this line before, where it would stand had it not left. It passes only over those that
// have come back like this before.
func (q *line) rejoin(c *call) {
	next := q.front
	for next != nil && next.id < c.id {
		next = next.next
	}
	q.insert(c, next)
}

// insert puts c before next, or at the back if that is nil.
func (q *line) insert(c, next *call) {
	c.state = callWaiting
	c.next, c.prev = next, q.back
	if next == nil {
		q.back = c
	} else {
		c.prev, next.prev = next.prev, c
	}
	if c.prev == nil {
		q.front = c
	} else {
		c.prev.next = c
	}
	q.n++
	q.tokens = q.tokens.add(u128{lo: uint64(c.tokens)})
}

// before returns what stands ahead of the call named id: a line to reckon by, that holds no calls.
func (q *line) before(id uint64) line {
	var ahead line
	for c := q.front; c != nil && c.id < id; c = c.next {
		if costs, ok := q.named[c]; ok {
			ahead.name(c, costs)
		}
		ahead.n++
		ahead.tokens = ahead.tokens.add(u128{lo: uint64(c.tokens)})
	}
	return ahead
}

// remove takes c out, from wherever it stands: the front when it passes, anywhere when it leaves.
func (q *line) remove(c *call) {
	if c.prev == nil {
		q.front = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.back = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
	q.n--
	if q.named != nil {
		q.forget(c)
	}
	q.tokens = q.tokens.sub(u128{lo: uint64(c.tokens)})
}
