package throttle

import (
	"slices"
	"testing"
)

// A listedLine is a line and a slice that says what it should hold.
type listedLine struct {
	line
	want []*call
	seq  uint64
}

func (q *listedLine) join(tokens int64) {
	q.seq++
	c := &call{tokens: tokens, seq: q.seq}
	q.line.join(c)
	q.want = append(q.want, c)
}

func (q *listedLine) remove(i int) {
	c := q.want[i]
	q.line.remove(c)
	c.state = callLeft
	q.want = slices.Delete(q.want, i, i+1)
}

func (q *listedLine) check(t testing.TB) {
	t.Helper()
	must(t, q.line.check())
	c := q.front
	for i, want := range q.want {
		if c != want {
			t.Fatalf("another call stands at place %d of %d", i, len(q.want))
		}
		c = c.next
	}
	if c != nil {
		t.Fatalf("more than %d stand in line", len(q.want))
	}
}

func TestLine_WhoeverIsTakenOutTheOthersKeepTheirOrder(t *testing.T) {
	// Every order in which four can be taken out, with one who joins in between.
	var orders int
	var takeOut func(done []int, left int)
	takeOut = func(done []int, left int) {
		var q listedLine
		for i := range 4 {
			q.join(int64(i + 1))
			q.check(t)
		}
		for step, i := range done {
			q.remove(i)
			q.check(t)
			if step == 1 {
				q.join(9)
				q.check(t)
			}
		}
		if left == 0 {
			orders++
			return
		}
		for i := range left {
			next := left - 1
			if len(done) == 1 {
				next++ // the one who joins
			}
			takeOut(append(slices.Clone(done), i), next)
		}
	}
	takeOut(nil, 4)
	if orders != 4*3*3*2*1 {
		t.Errorf("%d orders; want %d", orders, 4*3*3*2*1)
	}
}

func TestLine_CostsSumBeyond64Bits(t *testing.T) {
	var q listedLine
	for range 9 {
		q.join(MaxBurst)
	}
	if want := (u128{2, 1 << 62}); q.tokens != want {
		t.Errorf("the costs sum to %v; want %v", q.tokens, want)
	}
	for len(q.want) > 0 {
		q.remove(len(q.want) / 2)
		q.check(t)
	}
	if q.tokens != (u128{}) {
		t.Errorf("the costs of nobody sum to %v", q.tokens)
	}
}

func TestCall_WithoutAContextIsNeverGone(t *testing.T) {
	if (&call{}).gone() {
		t.Error("a call without a Done channel is gone")
	}
	open := make(chan struct{})
	if (&call{done: open}).gone() {
		t.Error("a call whose context is not done is gone")
	}
	if !(&call{done: alwaysDone}).gone() {
		t.Error("a call whose context is done is not gone")
	}
}

func TestRing_JoiningTwiceKeepsThePlace(t *testing.T) {
	gates := []*gate{{}, {}, {}}
	r := ring{at: inFIFO}
	all := func(in ...int) {
		t.Helper()
		must(t, r.check(gates, func(g *gate) bool { return slices.Contains(in, slices.Index(gates, g)) }))
		g := r.front
		for _, i := range in {
			if g != gates[i] {
				t.Fatalf("the ring's order is not %v", in)
			}
			g = g.ringed[inFIFO].next
		}
	}
	all()
	r.remove(gates[1])
	all()
	for _, g := range gates {
		r.join(g)
	}
	all(0, 1, 2)
	r.join(gates[0])
	all(0, 1, 2)
	r.remove(gates[1])
	all(0, 2)
	r.join(gates[1])
	all(0, 2, 1)
	r.remove(gates[0])
	r.remove(gates[1])
	r.remove(gates[1])
	all(2)
	r.remove(gates[2])
	all()
}

// FuzzLine has bytes join and leave a line: an even one joins, with that cost, an odd one takes somebody out.
func FuzzLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, steps []byte) {
		var q listedLine
		for _, s := range steps {
			switch {
			case s%2 == 0:
				q.join(1 + int64(s)<<54)
			case len(q.want) > 0:
				q.remove(int(s/2) % len(q.want))
			}
			q.check(t)
		}
	})
}
