package throttle

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"
)

// holderFrames is how many frames of a caller are kept, those of this package, which come first, included.
const holderFrames = 16

// A Holder is a permit that is held, and who holds it; see Config.Holders.
type Holder struct {
	Limiter string          // the Config.Name of the limiter that gave it: the one asked, or one below
	ID      uint64          // of the call, as in the events of a Trace, and Permit.ID
	Weight  int64           // of the cap
	Since   time.Time       // its start, on the limiter's Clock
	Label   string          // what WithLabel gave the context of its Acquire; none for a try
	Frames  []runtime.Frame // where it was acquired, the innermost first: up to 16, less those of this package
}

// String tells, on one line, who holds the permit and since when.
func (h Holder) String() string {
	where := "unknown"
	if len(h.Frames) > 0 {
		where = fmt.Sprintf("%s (%s:%d)", h.Frames[0].Function, h.Frames[0].File, h.Frames[0].Line)
	}
	if h.Label != "" {
		where = fmt.Sprintf("%q, %s", h.Label, where)
	}
	return fmt.Sprintf("%q: weight %d since %v, by %s", h.Limiter, h.Weight, h.Since.Format(time.RFC3339Nano), where)
}

type labelKey struct{}

// WithLabel returns a context whose permits Holders lists under that label: a job's name, a request's path. It costs nothing elsewhere.
func WithLabel(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, labelKey{}, label)
}

// A holding is what is kept of a caller until its release, or until it leaves the line unstarted.
type holding struct {
	l      *Limiter
	c      *call
	label  string
	n      int // of pcs
	frames [holderFrames]uintptr
}

// Holders lists the permits that are held now, here and in limiters below, the longest held first. It costs O(permits held), and needs
// Config.Holders here; without it, it returns nil.
func (l *Limiter) Holders() []Holder {
	if l == nil || l.dom == nil {
		return nil
	}
	return l.listHolders()
}

func (l *Limiter) listHolders() []Holder {
	d := l.dom
	d.mu.Lock()
	if l.holders == nil {
		d.mu.Unlock()
		return nil
	}
	all := make([]Holder, 0, len(l.holders))
	held := make([]*holding, 0, len(l.holders))
	for id, h := range l.holders {
		if h.c.state == callStarted {
			all = append(all, Holder{Limiter: h.l.name, ID: id, Weight: h.c.weight, Since: d.time(h.c.at), Label: h.label})
			held = append(held, h)
		}
	}
	d.mu.Unlock()
	for i, h := range held { // frames are written before the holding is kept, and not after
		all[i].Frames = h.resolve()
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// ownPrefix begins the names of this package's functions.
const ownPrefix = "github.com/turnstile-go/turnstile/throttle."

// resolve returns the frames outside of this package.
func (h *holding) resolve() (out []runtime.Frame) {
	if h.n == 0 {
		return nil
	}
	frames := runtime.CallersFrames(h.frames[:h.n])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function != "" && (len(out) > 0 || !strings.HasPrefix(f.Function, ownPrefix)) {
			out = append(out, f)
		}
	}
	return out
}

// keep notes who the caller of c is, at every level that lists holders. It is called by that caller, once c has its id, without the lock: a
// walk of the stack takes long. The holding ends with freeCall, whatever becomes of c.
func (l *Limiter) keep(ctx context.Context, c *call) {
	h := &holding{l: l, c: c}
	if ctx != nil {
		h.label, _ = ctx.Value(labelKey{}).(string)
	}
	h.n = runtime.Callers(2, h.frames[:])
	l.dom.mu.Lock()
	defer l.dom.mu.Unlock()
	for x := l; x != nil && c.state != callFree; x = x.up() { // a shadow may be over
		if x.holders != nil {
			x.holders[c.id] = h
		}
	}
}

// unkeep undoes keep, if that was done. The caller holds the lock.
func (l *Limiter) unkeep(c *call) {
	for x := l; x != nil; x = x.up() {
		delete(x.holders, c.id)
	}
}

// Holders lists the permits of key that are held now, as Limiter.Holders does. It makes no key.
func (k *Keyed[K]) Holders(key K) []Holder {
	s, hash, err := k.shardOf(key)
	if err != nil {
		return nil
	}
	s.dom.mu.Lock()
	pos := s.find(hash, key)
	if pos < 0 || s.entries[pos].last != resides {
		s.dom.mu.Unlock()
		return nil
	}
	r := s.residents[s.entries[pos].missing.lo]
	r.users.Add(1)
	s.dom.mu.Unlock()
	defer s.leave(hash, key, r)
	return r.listHolders()
}

// AllHolders returns the permits held with their keys, those of one key together, as All returns the keys.
func (k *Keyed[K]) AllHolders() iter.Seq2[K, Holder] {
	return func(yield func(K, Holder) bool) {
		for key := range k.All() {
			for _, h := range k.Holders(key) {
				if !yield(key, h) {
					return
				}
			}
		}
	}
}
