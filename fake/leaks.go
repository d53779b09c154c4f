package fake

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const (
	stackDepth = 32 // frames kept of each stack
	strayLimit = 64 // stacks kept of releases that match nothing; further ones are only counted

	module = "github.com/turnstile-go/turnstile/"
)

// Leaks finds permits that were dropped without a release, and says where they were acquired. It is for tests: hand
// Took and Gave to a limiter's trace callbacks (started, released), run the code under test, then Check.
//
// Took must be called by the goroutine that acquires, as a limiter's trace does. Call ids must be unique: one Leaks for one limiter.
//
//	from         event           to
//	-            Took            outstanding
//	outstanding  Gave            -
//	outstanding  Took again      outstanding, and reported
//	-            Gave            reported: a release of what was not taken, or the second
//
// The zero Leaks is ready to use. All methods may be called from many goroutines. Took costs about a microsecond and 400 bytes
// while the permit is out: it keeps program counters only, and a stack becomes text when it is asked for.
type Leaks struct {
	mu     sync.Mutex
	taken  uint64
	out    map[uint64]*taking
	strays []stray
	more   uint64 // strays beyond strayLimit
}

// Leak is one permit that is out.
type Leak struct {
	ID    uint64
	Func  string // the function that acquired it, with its package
	File  string
	Line  int
	Stack string // from that function outwards: a line with the function, an indented one with file:line, as in a panic
}

// String gives the id, the acquiring function and the place.
func (l Leak) String() string {
	return fmt.Sprintf("permit %d, acquired by %s at %s:%d", l.ID, l.Func, l.File, l.Line)
}

type taking struct {
	order uint64
	stack stack
}

// stray is a call that fits nothing: a release of what is not out, or a second taking of what is.
type stray struct {
	id    uint64
	what  string
	stack stack
}

// stack is a call stack as program counters, from the caller of Took or Gave outwards.
type stack struct {
	n   int
	pcs [stackDepth]uintptr
}

// Took records that the permit of call id was acquired, and by whom.
func (l *Leaks) Took(id uint64) {
	var s stack
	s.n = runtime.Callers(2, s.pcs[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.out[id]; twice {
		l.strayLocked(stray{id, "acquired a second time while it is out", s})
		return
	}
	if l.out == nil {
		l.out = make(map[uint64]*taking)
	}
	l.taken++
	l.out[id] = &taking{l.taken, s}
}

// Gave records that the permit of call id was released.
func (l *Leaks) Gave(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, out := l.out[id]; out {
		delete(l.out, id)
		return
	}
	s := stray{id: id, what: "released without being out (twice?)"}
	s.stack.n = runtime.Callers(2, s.stack.pcs[:])
	l.strayLocked(s)
}

func (l *Leaks) strayLocked(s stray) {
	if len(l.strays) == strayLimit {
		l.more++
		return
	}
	l.strays = append(l.strays, s)
}

// Outstanding returns the permits that are out, the one acquired first first.
func (l *Leaks) Outstanding() []Leak {
	type numbered struct {
		id uint64
		*taking
	}
	l.mu.Lock()
	out := make([]numbered, 0, len(l.out))
	for id, t := range l.out {
		out = append(out, numbered{id, t})
	}
	l.mu.Unlock()
	slices.SortFunc(out, func(a, b numbered) int { return cmp.Compare(a.order, b.order) })
	leaks := make([]Leak, len(out))
	for i, t := range out {
		leaks[i] = t.stack.leak(t.id)
	}
	return leaks
}

// Err returns nil if every permit came back once, else an error that lists each that is out, and each release that matched
// nothing, with its stack.
func (l *Leaks) Err() error {
	var errs []error
	for _, leak := range l.Outstanding() {
		errs = append(errs, fmt.Errorf("permit %d not released; acquired by\n%s", leak.ID, leak.Stack))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.strays {
		errs = append(errs, fmt.Errorf("permit %d %s, by\n%s", s.id, s.what, s.stack.leak(s.id).Stack))
	}
	if l.more > 0 {
		errs = append(errs, fmt.Errorf("and %d more acquired or released twice", l.more))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("fake: leaks: %s:\n%w", count(len(errs), "report"), errors.Join(errs...))
}

// Check fails the test t, by its Errorf, with what Err says. A *testing.T is such a t.
func (l *Leaks) Check(t interface {
	Helper()
	Errorf(format string, args ...any)
}) {
	t.Helper()
	if err := l.Err(); err != nil {
		t.Errorf("%v", err)
	}
}

// leak turns a stack into text, from the acquiring function outwards.
func (s *stack) leak(id uint64) Leak {
	var frames []runtime.Frame
	for next := runtime.CallersFrames(s.pcs[:s.n]); ; {
		frame, more := next.Next()
		if frame.PC != 0 {
			frames = append(frames, frame)
		}
		if !more {
			break
		}
	}
	frames = fromUser(frames)
	leak := Leak{ID: id}
	if len(frames) > 0 {
		leak.Func, leak.File, leak.Line = frames[0].Function, frames[0].File, frames[0].Line
	}
	var text strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&text, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	leak.Stack = text.String()
	return leak
}

// fromUser leaves out what lies within the acquiring function: the trace callback and, around it, the limiter's own
// frames. Where the stack shows no limiter, the caller of Took is the one.
func fromUser(frames []runtime.Frame) []runtime.Frame {
	limiter := max(slices.IndexFunc(frames, ofLimiter), 0)
	user := slices.IndexFunc(frames[limiter:], func(f runtime.Frame) bool { return !ofLimiter(f) })
	if user < 0 {
		return frames
	}
	return frames[limiter+user:]
}

// ofLimiter reports whether a frame belongs to this module's limiters and adapters, and not to a test of theirs.
func ofLimiter(f runtime.Frame) bool {
	rest, ours := strings.CutPrefix(f.Function, module)
	return ours && strings.HasPrefix(rest, "throttle") && !strings.HasSuffix(f.File, "_test.go")
}
