package fake

import (
	"slices"
	"sync"
	"time"
)

// NoCap, as the cap of a limit change, says that there is no in-flight cap. A cap of 0 lets nothing start.
const NoCap = -1

// Ledger records what happened to calls, append-only, for Audit to judge. A Downstream keeps one of its own; a limiter's
// can be kept from its trace callbacks: Join when queued, Start when started, End when released, Leave when it left or was
// refused, Limit when limits changed.
//
// Events may be appended in any order, since trace callbacks run outside the limiter's lock: seq, which the limiter
// hands out under its lock, orders them. Events with the same seq keep the order of appending, so that 0 throughout means
// that order. One ledger takes the events of one source of seq.
//
// The methods on the Ledger itself write for the line named "". Where several lines, each with its own call ids, share
// a seq (limiters on one semaphore, say), write through Line.
//
// The zero Ledger is ready to use. All methods may be called from many goroutines; appending costs one short lock and
// about 150 bytes.
type Ledger struct {
	mu     sync.Mutex
	events []event
}

// Line writes to a ledger under one line's name. Call ids need be unique within a line only.
type Line struct {
	ledger *Ledger
	name   string
}

// Entry is one call, put together from its events. An instant is zero, and a Seq 0, where that event was not recorded.
type Entry struct {
	Line string
	ID   uint64

	Joined  time.Time // joined the line
	Started time.Time // let through: the real start
	Nominal time.Time // the instant charged; zero where the source knows none
	Ended   time.Time // released
	Left    time.Time // gave up before its start

	Cost   int64 // tokens
	Weight int64 // of the permit

	JoinSeq, StartSeq, EndSeq, LeaveSeq uint64
}

// LimitChange says which limits hold from an instant on: N tokens each Period, Burst, and Cap in flight. N 0 says nothing
// about the rate; Cap below 0 is no cap, 0 lets nothing start.
type LimitChange struct {
	Line   string // whose limits; "" and not OfLine: those of the whole ledger
	OfLine bool
	Seq    uint64
	At     time.Time
	N      int64
	Period time.Duration
	Burst  int64
	Cap    int64
}

type eventKind uint8

const (
	joined eventKind = iota
	started
	ended
	left
	limited
)

func (k eventKind) String() string {
	return [...]string{"joined", "started", "ended", "left", "limited"}[k]
}

// event is one thing appended. For a limit, cost is N and weight the cap.
type event struct {
	kind         eventKind
	ofLine       bool // limited: holds for line, not for the whole ledger
	line         string
	id, seq      uint64
	at, nominal  time.Time
	cost, weight int64
	period       time.Duration
	burst        int64
}

// Line returns a writer for the line of that name.
func (l *Ledger) Line(name string) Line { return Line{l, name} }

// Join records that call id joined the line. A call that starts at once need not be recorded as joined.
func (l *Ledger) Join(id, seq uint64, at time.Time) { l.Line("").Join(id, seq, at) }

// Start records that call id was let through at the instant at, charged as of nominal (zero: not known), for so many
// tokens and a permit of that weight.
func (l *Ledger) Start(id, seq uint64, at, nominal time.Time, tokens, weight int64) {
	l.Line("").Start(id, seq, at, nominal, tokens, weight)
}

// End records that call id gave its permit back.
func (l *Ledger) End(id, seq uint64, at time.Time) { l.Line("").End(id, seq, at) }

// Leave records that call id gave up before its start.
func (l *Ledger) Leave(id, seq uint64, at time.Time) { l.Line("").Leave(id, seq, at) }

// Limit records that from at on these limits hold for the whole ledger, all lines together: n tokens each period, burst
// (n 0: the rate is not spoken of), and inFlight (NoCap: none; 0: nothing may start).
func (l *Ledger) Limit(seq uint64, at time.Time, n int64, period time.Duration, burst, inFlight int64) {
	l.append(event{kind: limited, seq: seq, at: at, cost: n, period: period, burst: burst, weight: inFlight})
}

// Join is Ledger.Join for this line.
func (n Line) Join(id, seq uint64, at time.Time) {
	n.ledger.append(event{kind: joined, line: n.name, id: id, seq: seq, at: at})
}

// Start is Ledger.Start for this line.
func (n Line) Start(id, seq uint64, at, nominal time.Time, tokens, weight int64) {
	n.ledger.append(event{kind: started, line: n.name, id: id, seq: seq, at: at, nominal: nominal, cost: tokens, weight: weight})
}

// End is Ledger.End for this line.
func (n Line) End(id, seq uint64, at time.Time) {
	n.ledger.append(event{kind: ended, line: n.name, id: id, seq: seq, at: at})
}

// Leave is Ledger.Leave for this line.
func (n Line) Leave(id, seq uint64, at time.Time) {
	n.ledger.append(event{kind: left, line: n.name, id: id, seq: seq, at: at})
}

// Limit is Ledger.Limit for the calls of this line alone, beside the limits of the whole ledger.
func (n Line) Limit(seq uint64, at time.Time, tokens int64, period time.Duration, burst, inFlight int64) {
	n.ledger.append(event{kind: limited, ofLine: true, line: n.name, seq: seq, at: at,
		cost: tokens, period: period, burst: burst, weight: inFlight})
}

func (l *Ledger) append(e event) {
	l.mu.Lock()
	l.events = append(l.events, e)
	l.mu.Unlock()
}

// sorted returns a copy of the events in order of seq. It costs O(n log n), O(n) where they lie in order already.
func (l *Ledger) sorted() []event {
	l.mu.Lock()
	events := slices.Clone(l.events)
	l.mu.Unlock()
	bySeq := func(a, b event) int {
		switch {
		case a.seq < b.seq:
			return -1
		case a.seq > b.seq:
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(events, bySeq) {
		slices.SortStableFunc(events, bySeq)
	}
	return events
}

// callKey names a call within a ledger.
type callKey struct {
	line string
	id   uint64
}

// Entries returns one entry for each call, in order of its first event. Where an event was recorded twice, the first
// stands; Audit reports the second.
func (l *Ledger) Entries() []Entry {
	var entries []Entry
	place := make(map[callKey]int)
	for _, e := range l.sorted() {
		if e.kind == limited {
			continue
		}
		key := callKey{e.line, e.id}
		i, known := place[key]
		if !known {
			i = len(entries)
			place[key] = i
			entries = append(entries, Entry{Line: e.line, ID: e.id})
		}
		entries[i].add(e)
	}
	return entries
}

func (n *Entry) add(e event) {
	switch {
	case e.kind == joined && n.Joined.IsZero():
		n.Joined, n.JoinSeq = e.at, e.seq
	case e.kind == started && n.Started.IsZero():
		n.Started, n.StartSeq, n.Nominal, n.Cost, n.Weight = e.at, e.seq, e.nominal, e.cost, e.weight
	case e.kind == ended && n.Ended.IsZero():
		n.Ended, n.EndSeq = e.at, e.seq
	case e.kind == left && n.Left.IsZero():
		n.Left, n.LeaveSeq = e.at, e.seq
	}
}

// Starts returns the real starts of all lines in order of seq, as WorstWindow takes them. A start that cost nothing is left
// out.
func (l *Ledger) Starts() []Start {
	var starts []Start
	for _, e := range l.sorted() {
		if e.kind == started && e.cost != 0 {
			starts = append(starts, Start{At: e.at, Cost: e.cost})
		}
	}
	return starts
}

// Limits returns the limit changes in order of seq.
func (l *Ledger) Limits() []LimitChange {
	var changes []LimitChange
	for _, e := range l.sorted() {
		if e.kind == limited {
			changes = append(changes, LimitChange{Line: e.line, OfLine: e.ofLine, Seq: e.seq, At: e.at,
				N: e.cost, Period: e.period, Burst: e.burst, Cap: e.weight})
		}
	}
	return changes
}
