package throttle

// A ring is a FIFO of gates, linked through the gates themselves.
type ring struct {
	front, back *gate
	at          int // which of a gate's links it uses
}

const (
	inFIFO    = iota // of a cap: the gates whose front lacks its permit
	inWaiting        // of a cap: the gates with a caller in line
	inBusy           // of a parent: the children with a caller in line
	nRings
)

// ringLink is a gate's place in a ring.
type ringLink struct {
	next, prev *gate
	in         bool
}

// join puts g at the back, unless it is in already.
func (r *ring) join(g *gate) {
	l := &g.ringed[r.at]
	if l.in {
		return
	}
	*l = ringLink{prev: r.back, in: true}
	if r.back == nil {
		r.front = g
	} else {
		r.back.ringed[r.at].next = g
	}
	r.back = g
}

// remove takes g out, if it is in.
func (r *ring) remove(g *gate) {
	l := &g.ringed[r.at]
	if !l.in {
		return
	}
	if l.prev == nil {
		r.front = l.next
	} else {
		l.prev.ringed[r.at].next = l.next
	}
	if l.next == nil {
		r.back = l.prev
	} else {
		l.next.ringed[r.at].prev = l.prev
	}
	*l = ringLink{}
}
