package throttle

import (
	"flag"
	"slices"
	"testing"
)

var enumerateDepth = flag.Int("enumerate.deeper", 0, "by how many events the enumerated orders are longer")

// A small is a case of which every order of events is tried.
type small struct {
	setup
	name     string
	callers  []op // each arrives once, at any time
	changes  []op // each happens at most once, at any time
	passes   int  // how often time passes, at most
	quits    int  // how many callers give up, at most, in one of the three ways
	events   int  // the length of an order
	atLeast  int  // orders that there must be
	releases bool
}

func arrival(line int, tokens, weight int64) op {
	return op{kind: opArrive, line: line, tokens: tokens, weight: weight}
}

func displacing(line int, tokens, weight int64) op {
	return op{kind: opDisplace, line: line, tokens: tokens, weight: weight}
}

func trial(line int, tokens, weight int64) op {
	return op{kind: opTry, line: line, tokens: tokens, weight: weight}
}

func resizing(size int64) op { return op{kind: opResize, n: size} }

func quota(line int, r Rate, burst int64) op {
	return op{kind: opSetQuota, line: line, rate: r, n: burst}
}

func refitting(line, which int, q Quota) op {
	return op{kind: opRefit, line: line, who: which, quota: q}
}

func pausing(line int, by int64) op { return op{kind: opPause, line: line, n: by} }

func closing(line int) op { return op{kind: opClose, line: line} }

// smalls are the cases. A rate of 2/5ns is due at instants that are no whole nanoseconds; a slack of 4 ns is
// shorter than some latenesses and longer than others.
var smalls = []small{
	{
		name:    "rate",
		setup:   setup{lines: []lineSetup{{rate: Rate{2, 5}, burst: 3, slack: 4, cap: -1}}},
		callers: []op{arrival(0, 3, 1), arrival(0, 1, 1), arrival(0, 2, 1), trial(0, 1, 1)},
		passes:  3, quits: 2, events: 7, atLeast: 11_000,
	},
	{
		name:    "rate, changed",
		setup:   setup{lines: []lineSetup{{rate: Rate{2, 5}, burst: 2, slack: 4, cap: -1}}},
		callers: []op{arrival(0, 2, 1), arrival(0, 2, 1), arrival(0, 1, 1)},
		changes: []op{quota(0, Rate{1, 1}, 2), quota(0, Rate{1, 3}, 1), quota(0, Rate{2, 5}, 4), closing(0)},
		passes:  3, quits: 1, events: 6, atLeast: 48_000,
	},
	{
		name:    "cap",
		setup:   setup{caps: []int64{2}, lines: []lineSetup{{slack: 4, cap: 0}}},
		callers: []op{arrival(0, 1, 2), arrival(0, 1, 1), arrival(0, 1, 2), arrival(0, 1, 1)},
		quits:   3, events: 8, atLeast: 22_000, releases: true,
	},
	{
		name:    "cap, resized",
		setup:   setup{caps: []int64{2}, lines: []lineSetup{{slack: 4, cap: 0}}},
		callers: []op{arrival(0, 1, 1), arrival(0, 1, 2), arrival(0, 1, 1)},
		changes: []op{resizing(3), resizing(1), resizing(0), closing(0)},
		quits:   2, events: 7, atLeast: 99_000, releases: true,
	},
	{
		name:    "rate and cap",
		setup:   setup{caps: []int64{1}, lines: []lineSetup{{rate: Rate{2, 5}, burst: 1, slack: 4, cap: 0}}},
		callers: []op{arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 1, 1), trial(0, 1, 1)},
		passes:  3, quits: 1, events: 7, atLeast: 43_000, releases: true,
	},
	{
		name:    "rate and cap, weights and changes",
		setup:   setup{caps: []int64{3}, lines: []lineSetup{{rate: Rate{2, 5}, burst: 3, slack: 9, cap: 0}}},
		callers: []op{arrival(0, 3, 1), arrival(0, 1, 3), arrival(0, 1, 2)},
		changes: []op{quota(0, Rate{1, 1}, 2), resizing(2), resizing(0)},
		passes:  3, quits: 1, events: 6, atLeast: 37_000, releases: true,
	},
	{
		name:    "rate and cap, paused",
		setup:   setup{caps: []int64{1}, lines: []lineSetup{{rate: Rate{2, 5}, burst: 2, slack: 4, cap: 0}}},
		callers: []op{arrival(0, 2, 1), arrival(0, 1, 1), arrival(0, 1, 1)},
		changes: []op{pausing(0, 2), pausing(0, 7), resizing(2)},
		passes:  3, quits: 1, events: 6, atLeast: 59_000, releases: true,
	},
	{
		name: "two lines, one cap",
		setup: setup{caps: []int64{1}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 1, slack: 4, cap: 0},
			{slack: 4, cap: 0},
		}},
		callers: []op{arrival(0, 1, 1), arrival(0, 1, 1), arrival(1, 1, 1), arrival(1, 1, 1)},
		passes:  2, quits: 1, events: 7, atLeast: 40_000, releases: true,
	},
	{
		name: "two lines, one cap, weights and changes",
		setup: setup{caps: []int64{3}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 2, slack: 100, cap: 0},
			{rate: Rate{1, 1}, burst: 1, slack: 100, cap: 0},
		}},
		callers: []op{arrival(0, 2, 3), arrival(0, 1, 1), arrival(1, 1, 2), arrival(1, 1, 3)},
		changes: []op{resizing(2), closing(0)},
		passes:  2, quits: 1, events: 6, atLeast: 48_000, releases: true,
	},
	{
		name:    "rate and cap, the oldest goes",
		setup:   setup{caps: []int64{2}, lines: []lineSetup{{rate: Rate{2, 5}, burst: 2, slack: 4, cap: 0}}},
		callers: []op{arrival(0, 2, 2), displacing(0, 2, 1), displacing(0, 1, 2), displacing(0, 1, 1)},
		passes:  3, quits: 1, events: 7, atLeast: 40_000, releases: true,
	},
	{
		name: "two lines, one cap, the oldest goes",
		setup: setup{caps: []int64{1}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 1, slack: 4, cap: 0},
			{slack: 4, cap: 0},
		}},
		callers: []op{arrival(0, 1, 1), displacing(0, 1, 1), displacing(0, 1, 1), arrival(1, 1, 1), displacing(1, 1, 1)},
		passes:  2, quits: 1, events: 7, atLeast: 170_000, releases: true,
	},
}

// A search goes through the orders of one small case, depth first.
type search struct {
	*small
	orders, states int
	seen           [opKinds]int
}

// TestEveryOrderOfEventsKeepsAllTruths tries, in small cases of up to five callers, at one level and at two, every order in which
// they can arrive, time can pass, the timer go off (on time or late), callers be cancelled or have their deadline
// (to be found gone at their turn, or take themselves out, at once or later), permits return, limits change and lines
// close. After each event all truths are checked and all is compared with the model; each order is audited.
func TestEveryOrderOfEventsKeepsAllTruths(t *testing.T) {
	var orders, states int
	var seen [opKinds]int
	for _, c := range slices.Concat(smalls, treeSmalls) {
		s := &search{small: &c}
		t.Run(s.name, func(t *testing.T) {
			events, atLeast := s.events+*enumerateDepth, s.atLeast
			if raced || testing.Short() {
				events, atLeast = events-2, atLeast/100
			}
			if err := s.from(newTwin(s.setup), events, trail{}); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d orders of up to %d events, %d states", s.orders, events, s.states)
			if s.orders < atLeast {
				t.Errorf("%d orders; want %d at least", s.orders, atLeast)
			}
		})
		orders, states = orders+s.orders, states+s.states
		for kind, n := range s.seen {
			seen[kind] += n
		}
	}
	t.Logf("%d orders, %d states; events by kind %v", orders, states, seen)
	for kind, n := range seen {
		if n == 0 {
			t.Errorf("no order has an event of kind %d", kind)
		}
	}
}

// A trail is what of a case has been used up.
type trail struct {
	came, changed uint // bit sets of callers and changes
	passes, quits int
}

// from tries all orders of up to so many events that begin in the state of w.
func (s *search) from(w *twin, events int, used trail) error {
	last := true
	if events > 0 {
		for _, next := range s.possible(w, used) {
			last = false
			n := w.clone()
			if err := n.do(next.op); err != nil {
				return err
			}
			s.states++
			s.seen[next.kind]++
			if err := s.from(n, events-1, next.used); err != nil {
				return err
			}
		}
	}
	if last {
		s.orders++
		return w.audit()
	}
	return nil
}

// A branch is an event, and what is used up after it.
type branch struct {
	op
	used trail
}

// possible returns the events that may come next.
func (s *search) possible(w *twin, used trail) (next []branch) {
	add := func(o op, change func(*trail)) {
		u := used
		change(&u)
		next = append(next, branch{o, u})
	}
	nothing := func(*trail) {}
	for i, o := range s.callers {
		if used.came&(1<<i) == 0 && w.fits(o.line, o.tokens, o.weight) {
			add(o, func(u *trail) { u.came |= 1 << i })
		}
	}
	for i, o := range s.changes {
		if used.changed&(1<<i) == 0 {
			add(o, func(u *trail) { u.changed |= 1 << i })
		}
	}
	due := w.fx.nextDue()
	if due <= w.now {
		add(onTimer, nothing)
		due = never
	}
	if used.passes < s.passes {
		by := int64(3) // nothing will be due: a while, so that instants differ
		if due != never {
			by = due - w.now
		}
		add(op{kind: opPass, n: by}, func(u *trail) { u.passes++ })
	}
	for i, c := range w.callers {
		switch {
		case c.waits() && c.gone:
			add(op{kind: opLeave, who: i}, nothing)
		case c.waits() && used.quits < s.quits:
			add(op{kind: opQuit, who: i}, func(u *trail) { u.quits++ })
			add(op{kind: opLeave, who: i}, func(u *trail) { u.quits++ })
		case c.starts && !c.over && s.releases:
			add(op{kind: opRelease, who: i}, nothing)
		}
	}
	return next
}
