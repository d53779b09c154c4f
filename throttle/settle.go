package throttle

import (
	"fmt"
	"maps"
)

// Settle corrects what the call of this permit cost, now that it is known: its Tokens, and its Quotas by name where they
// differ from that; the Weight is not looked at. It may be called once, before Release, on a limiter with Config.Settled.
//
// An under-estimate is charged at once, as debt if need be. An over-estimate is given back, as far as no window comes to
// exceed its promise, counted in settled costs: a token bucket takes back at most the room that it has had at every moment
// since the start, so that what others could not have spent better is not given out twice; an AtMost forgets
// the rest of the start; a FixedWindow takes it back within the same period only. The permit stays in flight.
//
// It returns an error, and changes nothing, if the permit is released or settled already, if a cost is below 0, if a quota
// has not such a name, or if the limiter does not keep what is to be settled. It costs O(calls in flight).
func (p Permit) Settle(actual Cost) error {
	if p.c == nil {
		return fmt.Errorf("throttle: Settle: the permit has nothing to settle; want one of a limiter with Config.Settled: %w", ErrInvalid)
	}
	l := p.l
	d := l.dom
	d.mu.Lock()
	what := ""
	_, open := l.bills[p.id]
	switch {
	case !p.open() && !p.isThrough():
		what = "the permit has been released"
	case l.bills == nil:
		what = "want a limiter with Config.Settled"
	case !open && p.open():
		what = "the permit has been settled"
	case actual.Tokens < 0:
		what = fmt.Sprintf("cost is %d tokens; want 0 or more", actual.Tokens)
	}
	for name, k := range actual.Quotas {
		if what == "" && k < 0 {
			what = fmt.Sprintf("Cost.Quotas[%q] is %d; want 0 or more", name, k)
		}
		if what == "" && !l.hasQuota(name) {
			what = fmt.Sprintf("Cost.Quotas[%q]: no quota here or above has that name", name)
		}
	}
	if what != "" {
		d.mu.Unlock()
		return invalid(l.name, "Settle: %s", what)
	}
	now := d.now()
	d.catchUp(now)
	if p.isThrough() {
		if s := d.dry.of[p.c]; s != nil {
			s.settled, s.actual = now-s.came, actual
			s.actual.Quotas = maps.Clone(actual.Quotas)
			d.dry.plan(s, now)
			d.catchUp(now)
		}
	} else {
		l.settle(p.id, actual, now)
		d.run(now)
	}
	d.unlock(now)
	return nil
}

// settle corrects what the call named id cost; run is to follow.
func (l *Limiter) settle(id uint64, actual Cost, now int64) {
	for _, it := range l.bills[id] {
		it.settle(costIn(it.name, actual.Tokens, actual.Quotas), now)
		l.dom.mark(it.gate)
	}
	l.closeBill(id)
}

// A bill is what an open call was charged, by account; see Limiter.bills.
type bill []*item

// An item is one line of a bill: what one account was charged, and how much of that it may take back.
//
// room, for a token bucket, is the least that was missing to a full one since the start, lowered by what others have
// been over-estimated by since. Giving back more would put tokens into a bucket that was full, or nearly, without them: then
// some window would hold more starts than it was promised. Lowering the room of the others keeps two calls
// that overlap from using the same room.
type item struct {
	gate    *gate
	book    *book
	name    string
	k       int64 // charged
	at      int64 // the instant of the start, by the clock
	nominal int64 // and the one as of which it was charged
	room    u128  // in units of the bucket
}

// A book is an account, of which open calls may give something back.
type book struct {
	bucket *bucket // either this
	other  settler // or an interval or a window
	open   []*item
}

// A settler corrects by itself what it charged, to the cost k.
type settler interface {
	settle(it *item, k, now int64)
}

// openBill notes what a call that has just started was charged, at every level.
func (g *gate) openBill(id uint64, tokens int64, named map[string]int64, at, now int64) {
	var b bill
	add := func(x *gate, k *book, name string) {
		it := &item{gate: x, book: k, name: name, k: costIn(name, tokens, named), at: now, nominal: at}
		if k.bucket != nil {
			it.room = k.bucket.missing
		}
		k.open = append(k.open, it)
		b = append(b, it)
	}
	for x := g; x != nil; x = x.tree.parent {
		if x.books == nil {
			x.openBooks()
		}
		for i, k := range x.books {
			name := ""
			if i > 0 || x.bucket.burst == 0 {
				name = x.more[i-len(x.books)+len(x.more)].name
			}
			add(x, k, name)
		}
	}
	g.owner.bills[id] = b
}

// openBooks makes the books of a gate's accounts: its bucket's first, if it has one.
func (g *gate) openBooks() {
	g.books = []*book{}
	if g.bucket.burst != 0 {
		g.books = append(g.books, &book{bucket: &g.bucket})
	}
	for i := range g.more {
		switch a := g.more[i].account.(type) {
		case *bucketAccount:
			g.books = append(g.books, &book{bucket: &a.bucket})
		case settler:
			g.books = append(g.books, &book{other: a})
		}
	}
}

// look has the books of this gate look, before something is charged or a burst grows: what is missing has not been less before.
func (g *gate) look(at int64) {
	for _, b := range g.books {
		b.look(at)
	}
}

// look lowers the rooms of open calls to what is missing at the instant at.
func (b *book) look(at int64) {
	if b.bucket == nil || len(b.open) == 0 {
		return
	}
	missing := b.bucket.missingAt(at)
	for _, it := range b.open {
		if missing.less(it.room) {
			it.room = missing
		}
	}
}

// settle corrects the item to the cost k at the instant now.
func (it *item) settle(k, now int64) {
	b := it.book
	if b.bucket == nil {
		b.other.settle(it, k, now)
		return
	}
	b.look(now)
	missing := b.bucket.missingAt(now)
	if k >= it.k {
		missing = missing.add(mul(uint64(k-it.k), b.bucket.p))
		if most := b.bucket.limit.add(mul(MaxBurst, b.bucket.p)); most.less(missing) {
			missing = most // the largest debt
		}
		b.bucket.set(now, missing)
		return
	}
	over := mul(uint64(it.k-k), b.bucket.p)
	back := over
	if it.room.less(back) {
		back = it.room
	}
	b.bucket.set(now, missing.sub(back))
	for _, other := range b.open {
		if other == it {
			continue
		}
		if other.room.less(over) {
			other.room = u128{}
		} else {
			other.room = other.room.sub(over)
		}
	}
}

// closeBill ends what may be given back for a call.
func (l *Limiter) closeBill(id uint64) {
	for _, it := range l.bills[id] {
		open := it.book.open
		for i := range open {
			if open[i] == it {
				open[i] = open[len(open)-1]
				open[len(open)-1] = nil
				it.book.open = open[:len(open)-1]
				break
			}
		}
	}
	delete(l.bills, id)
}

// rescale turns the rooms of open calls into units of a bucket whose rate has changed from p units a token, rounded down.
func (b *book) rescale(p uint64) {
	for _, it := range b.open {
		whole, part := it.room.div(p)
		hi := mul(part, b.bucket.p)
		units, _ := hi.div(p)
		it.room = mul(whole, b.bucket.p).add(u128{lo: units})
	}
}
