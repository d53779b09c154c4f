package throttle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A setup says which limits a twin has.
type setup struct {
	lines []lineSetup
	caps  []int64 // sizes
}

type lineSetup struct {
	rate  Rate // zero: none
	burst int64
	slack int64
	cap   int // which of the caps; -1: none
}

// A twin is the state machine and its model, side by side. Each operation is done to both, as the Limiter
// does it under its lock; then all truths are checked, and whatever can be seen is compared.
type twin struct {
	setup
	now     int64
	fx      effects
	gates   []*gate
	caps    []*inflight
	callers []*twinCaller
	log     []event  // what became of the callers of gates
	seqs    []uint64 // the number of each, in the order of the moves
	model   *model
	slow    []*modelCap

	ops   []op
	upTo  []int          // of each operation: the length of log after it
	late  bool           // time has passed a due, with the timer unheard
	moved map[*gate]bool // which this operation moves
	dues  []int64        // before this operation
}

// A twinCaller is one caller on both sides.
type twinCaller struct {
	call   *call
	line   int
	gone   bool // its context is done
	starts bool // at some time
	over   bool // its permit is back, or it is gone, or was refused
}

func (c *twinCaller) waits() bool { return !c.starts && !c.over }

func newTwin(s setup) *twin {
	t := &twin{setup: s, model: &model{}}
	for _, size := range s.caps {
		c := new(inflight)
		c.init(&t.fx, size)
		t.caps = append(t.caps, c)
		t.slow = append(t.slow, &modelCap{size: size})
	}
	for _, l := range s.lines {
		g, m := new(gate), &modelLine{slack: l.slack}
		var c *inflight
		if l.cap >= 0 {
			c, m.cap = t.caps[l.cap], t.slow[l.cap]
		}
		g.init(&t.fx, c, l.slack)
		if l.burst != 0 {
			g.bucket = newBucket(l.rate, l.burst, 0)
			m.rate, m.burst, m.level = rational(l.rate), l.burst, whole(l.burst)
		}
		t.gates = append(t.gates, g)
		t.model.lines = append(t.model.lines, m)
	}
	return t
}

// fits reports whether a newcomer of such a cost is let in at all.
func (t *twin) fits(line int, tokens, weight int64) bool {
	g := t.gates[line]
	return (g.bucket.burst == 0 || tokens <= g.bucket.burst) && (g.cap == nil || g.cap.size == 0 || weight <= g.cap.size)
}

// whose returns the gates of a cap.
func (t *twin) whose(c *inflight) []*gate {
	return slices.DeleteFunc(slices.Clone(t.gates), func(g *gate) bool { return g.cap != c })
}

// alwaysDone is the Done channel of a context that is done.
var alwaysDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// do does one operation to both sides, checks and compares.
func (t *twin) do(o op) error {
	t.ops = append(t.ops, o)
	t.moved = map[*gate]bool{}
	lasts := make([]int64, len(t.gates))
	t.dues = make([]int64, len(t.gates))
	for i, g := range t.gates {
		lasts[i], t.dues[i] = g.bucket.last, g.due
	}
	t.apply(o)
	if err := errors.Join(t.collect(), t.check(), t.compare()); err != nil {
		return fmt.Errorf("%w\nafter: %v", err, t)
	}
	t.upTo = append(t.upTo, len(t.log))
	for i, g := range t.gates {
		if g.bucket.last < lasts[i] {
			return fmt.Errorf("the bucket of line %d went back from %d to %d\nafter: %v", i, lasts[i], g.bucket.last, t)
		}
	}
	return nil
}

// String tells the twin's history.
func (t *twin) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "caps %v", t.setup.caps)
	for i, l := range t.lines {
		fmt.Fprintf(&b, "; line %d: %v burst %d slack %d cap %d", i, l.rate, l.burst, l.slack, l.cap)
	}
	for _, o := range t.ops {
		fmt.Fprintf(&b, "\n  %v", o)
	}
	return b.String()
}

// collect carries out the effects, as domain.carryOut does, and writes down what became of whom, in order.
func (t *twin) collect() error {
	set := map[*gate]bool{} // whose timers are set anew
	for g := t.fx.dirtyGates; g != nil; {
		if set[g] {
			return errors.New("a gate has its timer set twice")
		}
		next := g.nextDirty
		set[g], g.dirty, g.nextDirty = true, false, nil
		g = next
	}
	t.fx.dirtyGates = nil
	for i, g := range t.gates {
		if g.due != t.dues[i] && !set[g] {
			return fmt.Errorf("due of line %d went from %d to %d, and its timer is not set", i, t.dues[i], g.due)
		}
	}
	var moved []*call
	for c := t.fx.woken; c != nil; {
		next := c.next
		c.next = nil
		moved = append(moved, c)
		c = next
	}
	t.fx.woken, t.fx.lastWoken = nil, nil
	woken := len(moved)
	if !slices.IsSortedFunc(moved, bySeq) {
		return errors.New("callers are not woken in the order of their moves")
	}
	for _, c := range t.callers {
		if c.call != nil && c.waits() && c.call.state == callLeft {
			moved = append(moved, c.call)
		}
	}
	for i, c := range moved {
		who := t.callers[c.id]
		switch {
		case !who.waits():
			return fmt.Errorf("caller %d is moved twice", c.id)
		case i < woken && c.state != callStarted && c.state != callRefused:
			return fmt.Errorf("caller %d is woken in state %d", c.id, c.state)
		}
		who.starts, who.over = c.state == callStarted, c.state != callStarted
	}
	for _, c := range t.callers {
		if c.waits() && c.call.state != callWaiting {
			return fmt.Errorf("caller %d is in state %d, and was not woken", c.call.id, c.call.state)
		}
	}
	slices.SortFunc(moved, bySeq)
	for _, c := range moved {
		e := event{who: int(c.id), at: c.at}
		switch c.state {
		case callStarted:
			e.what, e.nominal = starts, c.at-int64(c.late)
		case callRefused:
			e.what, e.why = refused, c.why
		case callLeft:
			e.what = leaves
		}
		t.tell(e, c.seq)
	}
	return nil
}

func bySeq(a, b *call) int { return int(int64(a.seq) - int64(b.seq)) }

// tell writes down an event of this operation, before those that have a later number.
func (t *twin) tell(e event, seq uint64) {
	at := len(t.log)
	for at > 0 && t.seqs[at-1] > seq {
		at--
	}
	t.log = slices.Insert(t.log, at, e)
	t.seqs = slices.Insert(t.seqs, at, seq)
}

// check asserts all truths.
func (t *twin) check() error {
	for i, g := range t.gates {
		if err := g.check(t.now, !t.moved[g] && g.due == t.dues[i]); err != nil {
			return fmt.Errorf("line %d: %w", i, err)
		}
	}
	for i, c := range t.caps {
		if err := c.check(t.whose(c), t.now); err != nil {
			return fmt.Errorf("cap %d: %w", i, err)
		}
	}
	for i, c := range t.callers {
		if err := c.call.check(); err != nil {
			return fmt.Errorf("caller %d: %w", i, err)
		}
	}
	return nil
}
