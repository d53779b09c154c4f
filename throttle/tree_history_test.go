package throttle_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// A level is one limiter of a random tree, with the books that a model keeps of it.
type level struct {
	*throttle.Limiter
	name     string
	parent   *level
	books    []bookOf
	names    []string // of the quotas, "" for Config.Rate
	cap      int64    // below 0: none
	held     int64
	paused   time.Duration
	inner    bool
	line     []*entrant // who wait here, in order
	hasCosts bool
}

// An entrant is one caller in a history.
type entrant struct {
	*caller
	at    *level
	cost  throttle.Cost
	ended bool
	left  bool
}

// costAt is what e costs in a quota of that name.
func (e *entrant) costAt(name string) int64 {
	if k, ok := e.cost.Quotas[name]; ok && name != "" {
		return k
	}
	return e.cost.Tokens
}

// able reports whether the level, by itself, lacks nothing for e at that instant.
func (l *level) able(e *entrant, at time.Duration) bool {
	if at < l.paused || l.cap >= 0 && l.held+e.cost.Weight > l.cap {
		return false
	}
	for i, b := range l.books {
		if b.left(at).Cmp(big.NewRat(e.costAt(l.names[i]), 1)) < 0 {
			return false
		}
	}
	return true
}

// A history is a random tree and what has happened to it.
type history struct {
	*testing.T
	r      *rand.Rand
	seed   uint64
	levels []*level // parents before children
	rec    recorder
	seen   int // events judged
	all    []*entrant
	log    []string
}

func (h *history) fail(format string, args ...any) {
	h.Helper()
	for _, l := range h.log {
		h.Log(l)
	}
	h.Fatalf("seed %d at %v: %s", h.seed, sinceStart(), fmt.Sprintf(format, args...))
}

// ms is a random duration of whole milliseconds.
func (h *history) ms(most int64) time.Duration {
	return time.Duration(1+h.r.Int64N(most)) * time.Millisecond
}

func (h *history) grow() {
	for i := range 3 + h.r.IntN(4) {
		l := &level{name: fmt.Sprintf("L%d", i), cap: -1}
		c := throttle.Config{Name: l.name, Trace: h.rec.trace()}
		if i > 0 {
			l.parent = h.levels[h.r.IntN(min(i, 3))]
			c.Parent = l.parent.Limiter
			if h.r.IntN(3) == 0 {
				c.Share = 1 + h.r.Int64N(3)
			}
			l.parent.inner = true
		}
		if h.r.IntN(2) == 0 {
			c.Rate, c.Burst = throttle.Every(h.ms(4)), 4+h.r.Int64N(4)
			l.books, l.names = append(l.books, newBucketBook(c.Rate, c.Burst)), append(l.names, "")
		}
		if i == 0 || h.r.IntN(2) == 0 {
			c.MaxInFlight = 3 + h.r.Int64N(5)
			l.cap = c.MaxInFlight
		}
		for k := range 3 {
			if h.r.IntN(5) > 0 {
				continue
			}
			n, w := 4+h.r.Int64N(6), h.ms(15)
			q, b := throttle.Quota{Rate: throttle.Per(2, w), Burst: n}, bookOf(newBucketBook(throttle.Per(2, w), n))
			switch k {
			case 1:
				q, b = throttle.AtMost(n, w), &windowBook{n: n, w: w}
			case 2:
				q, b = throttle.FixedWindow(n, w), &intervalBook{n: n, period: w, grid: -1}
				if h.r.IntN(2) == 0 {
					grid := time.Duration(h.r.Int64N(int64(w)))
					q = q.AlignedTo(bubbleStart.Add(grid + time.Duration(h.r.Int64N(9)-4)*w))
					b = &intervalBook{n: n, period: w, grid: grid}
				}
			}
			q.Name = fmt.Sprintf("q%d", k)
			l.hasCosts = true
			c.Quotas = append(c.Quotas, q)
			l.books, l.names = append(l.books, b), append(l.names, q.Name)
		}
		l.Limiter = newLimiter(h, c)
		h.log = append(h.log, fmt.Sprintf("%s: below %v, share %d, rate %v (%d), cap %d, %v", l.name, c.Parent != nil, c.Share, c.Rate, c.Burst, c.MaxInFlight, c.Quotas))
		if l.parent != nil {
			h.log[len(h.log)-1] += " parent " + l.parent.name
		}
		h.levels = append(h.levels, l)
	}
}

// enter has a caller ask some level.
func (h *history) enter() {
	l := h.levels[h.r.IntN(len(h.levels))]
	e := &entrant{at: l, cost: throttle.Cost{Tokens: 1 + h.r.Int64N(4), Weight: 1 + h.r.Int64N(3)}}
	if h.r.IntN(3) == 0 {
		for x := l; x != nil; x = x.parent {
			for _, name := range x.names {
				if name != "" && h.r.IntN(2) == 0 {
					if e.cost.Quotas == nil {
						e.cost.Quotas = map[string]int64{}
					}
					e.cost.Quotas[name] = h.r.Int64N(5)
				}
			}
		}
	}
	e.caller = joinCost(h.Context(), l.Limiter, e.cost)
	h.all = append(h.all, e)
	l.line = append(l.line, e)
	h.note("%s asks %v", l.name, e.cost)
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%v: ", sinceStart())+fmt.Sprintf(format, args...))
}

// step does one thing.
func (h *history) step() {
	l := h.levels[h.r.IntN(len(h.levels))]
	now := sinceStart()
	switch h.r.IntN(12) {
	case 0, 1, 2, 3:
		h.enter()
	case 4, 5:
		if e := h.pick(func(e *entrant) bool { return e.over() && e.err == nil && !e.ended }); e != nil {
			e.ended = true
			for x := e.at; x != nil; x = x.parent {
				if x.cap >= 0 {
					x.held -= e.cost.Weight
				}
			}
			h.note("release of %s %v", e.at.name, e.cost)
			e.permit.Release()
		}
	case 6:
		if e := h.pick(func(e *entrant) bool { return !e.over() }); e != nil {
			h.note("cancel at %s %v", e.at.name, e.cost)
			e.left = true
			e.at.line = slices.DeleteFunc(e.at.line, func(x *entrant) bool { return x == e })
			e.leave()
		}
	case 7:
		if l.cap >= 0 {
			l.cap = []int64{0, 3, 5, 9}[h.r.IntN(4)]
			h.note("cap of %s is %d", l.name, l.cap)
			mustDo(h, l.SetMaxInFlight(l.cap))
		}
	case 8:
		if len(l.names) > 0 && l.names[0] == "" {
			r, burst := throttle.Per(1+h.r.Int64N(3), h.ms(5)), 4+h.r.Int64N(4)
			h.note("rate of %s is %v (%d)", l.name, r, burst)
			l.books[0].(*bucketBook).change(now, r, burst)
			mustDo(h, l.SetQuota(throttle.Quota{Rate: r, Burst: burst}))
		}
	case 9:
		if h.r.IntN(2) == 0 {
			d := h.ms(5)
			h.note("pause of %s for %v", l.name, d)
			l.paused = max(l.paused, now+d)
			mustDo(h, l.PauseFor(d))
		}
	default:
		time.Sleep(h.ms(3))
	}
	synctest.Wait()
}

// pick is one caller of those that are so.
func (h *history) pick(is func(*entrant) bool) *entrant {
	var some []*entrant
	for _, e := range h.all {
		if is(e) {
			some = append(some, e)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[h.r.IntN(len(some))]
}

// judge replays the starts that have come, and asserts the contract at each level.
func (h *history) judge() {
	starts := h.rec.starts()
	for ; h.seen < len(starts); h.seen++ {
		ev := starts[h.seen]
		at := ev.At.Sub(bubbleStart)
		if !ev.Nominal.Equal(ev.At) {
			h.fail("a start at %v is charged as of %v", at, ev.Nominal.Sub(bubbleStart))
		}
		i := slices.IndexFunc(h.levels, func(l *level) bool { return l.name == ev.Limiter })
		l := h.levels[i]
		if len(l.line) == 0 {
			h.fail("a start at %s, where nobody waits", l.name)
		}
		e := l.line[0] // C3
		l.line = l.line[1:]
		if !e.over() || e.err != nil || e.caller.at != at || e.cost.Tokens != ev.Tokens || e.cost.Weight != ev.Weight {
			h.fail("C3 at %s: %v started at %v; want the front, %v (over %v, %v, at %v)", l.name, ev, at, e.cost, e.over(), e.err, e.caller.at)
		}
		for x := l; x != nil; x = x.parent {
			if at < x.paused {
				h.fail("a start at %s in a pause of %s", l.name, x.name)
			}
			if x.cap >= 0 {
				if x.held += e.cost.Weight; x.held > x.cap {
					h.fail("C2 at %s: %d in flight of %d, by a start of %s", x.name, x.held, x.cap, l.name)
				}
			}
			for i, b := range x.books {
				k := e.costAt(x.names[i])
				if b.left(at).Cmp(big.NewRat(k, 1)) < 0 {
					h.fail("C1 at %s: a start of %s takes %d of %v %q", x.name, l.name, k, b.left(at), x.names[i])
				}
				b.charge(at, k)
			}
		}
	}
	now := sinceStart()
	for _, l := range h.levels {
		if got := l.Stats(); got.Waiting != len(l.line) || l.cap >= 0 && got.InFlight != l.held {
			h.fail("%s: %+v; want %d waiting and weight %d in flight", l.name, got, len(l.line), l.held)
		}
		levels := l.Quotas()
		for i, b := range l.books {
			got := l.Stats().Tokens
			if l.names[i] != "" {
				got = levels[0].Tokens
				levels = levels[1:]
			}
			if left := b.left(now); new(big.Int).Div(left.Num(), left.Denom()).Int64() != got {
				h.fail("%s has %d tokens of %q; want %v", l.name, got, l.names[i], left)
			}
		}
		if len(l.line) > 0 && !h.excused(l, now) {
			for _, x := range h.levels {
				h.note("%s: %d in line, %d of %d held", x.name, len(x.line), x.held, x.cap)
				if len(x.line) > 0 {
					if at := h.lacks(x, now); at != nil {
						h.note("its front, %v, lacks something at %s", x.line[0].cost, at.name)
					}
				}
			}
			h.fail("C5: the front of %s, %v, lacks nothing and no other child's turn is in its way", l.name, l.line[0].cost)
		}
	}
}

// lacks returns the lowest level that does not let l's front through at that instant, or nil.
func (h *history) lacks(l *level, now time.Duration) *level {
	for x := l; x != nil; x = x.parent {
		if !x.able(l.line[0], now) {
			return x
		}
	}
	return nil
}

// excused reports whether the front of l rightly waits: it lacks something, or at some level on its way it is the turn of another
// line's front, which lacks something there or above.
func (h *history) excused(l *level, now time.Duration) bool {
	if h.lacks(l, now) != nil {
		return true
	}
	for _, other := range h.levels {
		if other == l || len(other.line) == 0 {
			continue
		}
		at := h.lacks(other, now)
		if at == nil {
			continue
		}
		// Its front is let through by all below at, so that it may hold the turn at at; at its own level, it does if that is a parent.
		for x := at; x != nil; x = x.parent {
			for y := l; y != nil; y = y.parent {
				if x == y && (x == at && (at != other || other.inner)) {
					return true
				}
			}
		}
	}
	return false
}

func TestTree_RandomHistoriesKeepTheContractAtEveryLevel(t *testing.T) {
	seeds, steps := uint64(400), 150
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := &history{T: t, r: rand.New(rand.NewPCG(seed, 9)), seed: seed}
			h.grow()
			for range steps {
				h.step()
				h.judge()
			}
			// All caps open and all permits back: everybody starts.
			for _, l := range h.levels {
				if l.cap >= 0 {
					l.cap = 1000
					mustDo(t, l.SetMaxInFlight(1000))
				}
			}
			time.Sleep(time.Minute)
			h.judge()
			for _, e := range h.all {
				if !e.over() {
					h.fail("%v waits at %s for ever", e.cost, e.at.name)
				}
				if e.err == nil {
					e.permit.Release()
				}
			}
			for _, l := range h.levels {
				if got := l.Stats().InFlight; got != 0 {
					h.fail("weight %d is in flight at %s at the end", got, l.name)
				}
			}
		})
	}
}
