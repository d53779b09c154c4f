package pool

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
)

// Map returns the results of f for the items of seq: each item's result and error; the zero result where the limiter refused. Nothing happens before the sequence
// returned is ranged over; each time that it is, seq is ranged over, too.
//
// Calls of f run under the limiter in goroutines of their own, and start in the order of the items. Results are delivered in that order, or, with
// AsTheyCome, as they come. Items are taken from seq by one goroutine, not the caller's, at most Ahead beyond those delivered: a slow
// consumer holds seq back.
//
// The first error delivered is the last thing delivered, unless KeepGoing is set; in the order of items that is what a plain loop would
// do. If ctx is done before seq ends, the results of items taken already are delivered, and then an error that says how many there
// were, so that a sequence cut short is not mistaken for a whole one.
//
// Leaving the loop, or a panic in it, ends everything: the contexts of calls in flight are ended, with no effect on ctx, and the range statement
// returns once all of them, and seq, have returned. seq is asked for no more items then, but is not interrupted: one that blocks
// should itself heed ctx. A panic or Goexit of f, or of seq, does the same and is carried to the consumer, the panic as a *PanicError.
func Map[T, R any](ctx context.Context, c Config, seq iter.Seq[T], f func(context.Context, T) (R, error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		if err := c.wrong("Map", ctx, seq == nil, f == nil); err != nil {
			var none R
			yield(none, err)
			return
		}
		if c.Ahead == 0 {
			c.Ahead = DefaultAhead
		}
		m := &mapping[T, R]{
			config: c, outer: ctx, seq: seq, f: f,
			places: make(chan struct{}, c.Ahead), results: make(chan *result[R], c.Ahead), pulled: make(chan struct{}),
		}
		m.run(yield)
		carry(m.input)
		carry(m.group.broken)
	}
}

// A mapping is one range over the sequence that Map returns.
//
// Truths:
//
//  1. An item has a place from before it is taken from seq until its result is about to be delivered. There are Ahead places.
//  2. So at most Ahead results are on their way, and none waits for room in results, nor do two in order share a slot of early.
//  3. When run returns, the producer has returned and all calls have ended.
type mapping[T, R any] struct {
	config Config
	outer  context.Context // the caller's
	ctx    context.Context // ends with run
	seq    iter.Seq[T]
	f      func(context.Context, T) (R, error)
	group  *Group

	places  chan struct{}
	results chan *result[R]
	failed  atomic.Bool // no more items are wanted: an error is on its way

	pulled chan struct{} // closed when the producer has returned; then the rest may be read
	taken  int           // items
	cut    error         // why seq was left before its end, if ctx was done
	input  error         // how seq broke, if it did
}

type result[R any] struct {
	item  int
	value R
	ending
}

// run delivers results until there are no more, or nobody wants them, and leaves nothing running.
func (m *mapping[T, R]) run(yield func(R, error) bool) {
	m.group, m.ctx = WithContext(m.outer, m.config.Limiter)
	m.group.Cost = m.config.Cost
	defer func() {
		m.group.cancel(errEnded)
		<-m.pulled
		m.group.open.Wait()
	}()
	go m.produce()
	early := make([]*result[R], m.config.Ahead) // came before their turn; by item, modulo Ahead
	pulled, delivered := m.pulled, 0
	for pulled != nil || delivered < m.taken {
		select {
		case <-pulled:
			pulled = nil
			if m.input != nil {
				return
			}
			continue
		case r := <-m.results:
			if r.broken {
				return
			}
			early[m.slot(r.item)] = r
		}
		for {
			at := m.slot(delivered)
			r := early[at]
			if r == nil {
				break
			}
			early[at] = nil
			delivered++
			<-m.places
			if !yield(r.value, r.err) || r.err != nil && !m.config.KeepGoing {
				return
			}
		}
	}
	if m.cut != nil {
		var none R
		yield(none, m.cut)
	}
}

// slot returns where in early the result of an item lies, or of any, where they are delivered as they come.
func (m *mapping[T, R]) slot(item int) int {
	if m.config.AsTheyCome {
		return 0
	}
	return item % m.config.Ahead
}

// produce takes items and has a call started for each.
func (m *mapping[T, R]) produce() {
	defer close(m.pulled)
	attempt(func() error {
		if !m.place() {
			return nil
		}
		for item := range m.seq {
			m.start(item)
			if !m.place() {
				break
			}
		}
		return nil
	}, func(end ending) { m.input = end.err })
}

// start waits for a call's turn; its result, a refusal too, comes by results.
func (m *mapping[T, R]) start(item T) {
	r := &result[R]{item: m.taken}
	m.taken++
	m.group.add(m.ctx, m.group.cost(), func(ctx context.Context) (err error) {
		r.value, err = m.f(ctx, item)
		return err
	}, func(end ending) {
		r.ending = end
		if end.err != nil && !m.config.KeepGoing {
			m.failed.Store(true)
		}
		m.results <- r
	})
}

// place waits for a place for one more item, and reports whether one is wanted.
func (m *mapping[T, R]) place() bool {
	select {
	case m.places <- struct{}{}:
	case <-m.ctx.Done():
	}
	if m.outer.Err() != nil {
		m.cut = fmt.Errorf("pool: Map: the sequence was cut short after %d items: %w", m.taken, context.Cause(m.outer))
	}
	return m.ctx.Err() == nil && !m.failed.Load()
}
