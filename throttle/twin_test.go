package throttle

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// A setup says which limits a twin has.
type setup struct {
	lines []lineSetup
	caps  []int64 // sizes
}

type lineSetup struct {
	rate   Rate // zero: none
	burst  int64
	slack  int64
	cap    int     // which of the caps; -1: none
	quotas []Quota // besides; an aligned one has its grid in nanoseconds after the zero time
	above  int     // which of the lines, counted from 1; 0: none
	share  int64   // of that one
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

	ops  []op
	upTo []int // of each operation: the length of log after it
	late bool  // time has passed a due, with the timer unheard

	behind bool // nothing has happened since time has passed
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
		c.init(&t.fx, "", size)
		t.caps = append(t.caps, c)
		t.model.caps = append(t.model.caps, &modelCap{size: size})
	}
	for _, l := range s.lines {
		g, m := new(gate), &modelLine{slack: l.slack, modelPlace: modelPlace{pass: new(big.Int), served: new(big.Int)}}
		var c *inflight
		if l.cap >= 0 {
			c, m.cap = t.caps[l.cap], t.model.caps[l.cap]
			shared := slices.ContainsFunc(t.gates, func(g *gate) bool { return g.cap == c })
			c.shared, m.cap.shared = c.shared || shared, m.cap.shared || shared
		}
		g.init(&t.fx, c, l.slack)
		if l.burst != 0 {
			g.bucket = newBucket(l.rate, l.burst, 0)
			m.modelBucket = modelBucket{rate: rational(l.rate), burst: l.burst, level: whole(l.burst)}
		}
		for _, q := range l.quotas {
			g.more = append(g.more, meter{q.account(new(domain), 0), q.Name, q})
			m.quotas = append(m.quotas, newModelQuota(q, int64(q.align.Sub(time.Time{}))))
		}
		if l.above > 0 {
			g.adopt(t.gates[l.above-1], l.share)
			m.up, m.share = t.model.lines[l.above-1], l.share
			m.up.below = append(m.up.below, m)
		}
		t.gates = append(t.gates, g)
		t.model.lines = append(t.model.lines, m)
	}
	return t
}

// fits reports whether a newcomer of such a cost is let in at all.
func (t *twin) fits(line int, tokens, weight int64) bool {
	if t.gates[line].tree.inner {
		return false
	}
	for g := t.gates[line]; g != nil; g = g.tree.parent {
		if g.bucket.burst != 0 && tokens > g.bucket.burst || g.cap != nil && g.cap.size != 0 && weight > g.cap.size {
			return false
		}
		for i := range g.more {
			if tokens > g.more[i].most() {
				return false
			}
		}
	}
	return true
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

// do does one operation to both sides, checks and compares. Where several lines came due at one instant, it finds out which
// order the state machine has taken.
func (t *twin) do(o op) error {
	t.ops = append(t.ops, o)
	lasts := make([]int64, len(t.gates))
	for i, g := range t.gates {
		lasts[i] = g.bucket.last
	}
	before := t.model
	if before.behind() > 1 {
		t.model = before.clone()
	}
	t.apply(o)
	o.tell(t.model, t)
	err := errors.Join(t.collect(), t.check())
	if err == nil {
		err = t.compare()
		for first := err; err != nil; err = t.compare() {
			picks := nextPicks(t.model.ties, t.model.picks)
			if picks == nil {
				err = errors.Join(first, err)
				break
			}
			t.model = before.clone()
			t.model.picks = picks
			o.tell(t.model, t)
		}
	}
	if err != nil {
		return fmt.Errorf("%w\nafter: %v", err, t)
	}
	t.model.ties, t.model.picks = nil, nil
	t.upTo = append(t.upTo, len(t.log))
	for i, g := range t.gates {
		if g.bucket.last < lasts[i] {
			return fmt.Errorf("the bucket of line %d went back from %d to %d\nafter: %v", i, lasts[i], g.bucket.last, t)
		}
	}
	return nil
}

// nextPicks returns the choices to be tried after picks, of which there were ties; nil if there are no more.
func nextPicks(ties, picks []int) []int {
	next := make([]int, len(ties))
	copy(next, picks)
	for i := len(ties) - 1; i >= 0; i-- {
		if next[i]+1 < ties[i] {
			next[i]++
			return next[:i+1]
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
		if l.quotas != nil {
			fmt.Fprintf(&b, " quotas %v", l.quotas)
		}
		if l.above > 0 {
			fmt.Fprintf(&b, " below line %d with share %d", l.above-1, l.share)
		}
	}
	for _, o := range t.ops {
		fmt.Fprintf(&b, "\n  %v", o)
	}
	return b.String()
}

// collect carries out the effects, as domain.unlock does, and writes down what became of whom, in order.
func (t *twin) collect() error {
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
		who := t.callers[t.who(c)]
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
		e := event{who: t.who(c), at: c.at}
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

// who returns the number of the caller c.
func (t *twin) who(c *call) int {
	return slices.IndexFunc(t.callers, func(x *twinCaller) bool { return x.call == c })
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
	if err := t.fx.check(t.gates, t.now, !t.behind); err != nil {
		return err
	}
	for i, g := range t.gates {
		if err := errors.Join(g.check(t.now), g.checkTree(t.gates)); err != nil {
			return fmt.Errorf("line %d: %w", i, err)
		}
	}
	for i, c := range t.caps {
		if err := c.check(t.whose(c)); err != nil {
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
