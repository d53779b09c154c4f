package adapt

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnstile-go/turnstile/throttle"
)

// A Semaphore has the shape of x/sync/semaphore's Weighted, over a limiter with an in-flight cap, and a rate too if it has one: each Acquire costs one token.
//
// It differs in three things. Release(n) gives back what one Acquire(n) took, and not a part of it. A weight above the cap is refused at once,
// not when the context ends. And Acquire's errors are those of the limiter: use errors.Is.
//
// All methods may be called from many goroutines. The zero Semaphore is unusable; Acquire says so.
type Semaphore struct {
	lim throttle.Admitter

	mu   sync.Mutex
	held map[int64][]throttle.Held // by weight: which of them a Release gives back makes no difference
}

// NewSemaphore returns a Semaphore of lim, which should have a cap: without one, nothing counts what is held.
func NewSemaphore(lim throttle.Admitter) (*Semaphore, error) {
	if lim == nil {
		return nil, fmt.Errorf("adapt: NewSemaphore: the limiter is nil; want one made by throttle.New: %w", throttle.ErrInvalid)
	}
	return &Semaphore{lim: lim, held: make(map[int64][]throttle.Held)}, nil
}

// Acquire waits for its turn, a token, and n of the cap. An n of 0 takes nothing; below it is an error.
func (s *Semaphore) Acquire(ctx context.Context, n int64) error {
	if s.lim == nil {
		return fmt.Errorf("adapt: the Semaphore was not made by NewSemaphore: %w", throttle.ErrInvalid)
	}
	if n == 0 && ctx != nil {
		return context.Cause(ctx)
	}
	_, held, err := s.lim.Admit(ctx, throttle.Cost{Tokens: 1, Weight: n})
	if err == nil {
		s.keep(n, held)
	}
	return err
}

// TryAcquire reports whether a token and n of the cap were free, and nobody in line, and takes them.
func (s *Semaphore) TryAcquire(n int64) bool {
	if s.lim == nil {
		return false
	}
	if n == 0 {
		return true
	}
	_, held, err := s.lim.TryAdmit(context.Background(), throttle.Cost{Tokens: 1, Weight: n})
	if err == nil {
		s.keep(n, held)
	}
	return err == nil
}

// Release gives back what one Acquire or TryAcquire of n took. It panics if none of n is held, as Weighted does if fewer are.
func (s *Semaphore) Release(n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	stack := s.held[n]
	if len(stack) == 0 {
		s.mu.Unlock()
		panic(fmt.Sprintf("adapt: Release(%d): no Acquire(%d) is held; want one Release for each Acquire, of the same weight", n, n))
	}
	last := len(stack) - 1
	held := stack[last]
	stack[last] = nil
	if last == 0 {
		delete(s.held, n)
	} else {
		s.held[n] = stack[:last]
	}
	s.mu.Unlock()
	held.Release()
}

func (s *Semaphore) keep(n int64, held throttle.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[n] = append(s.held[n], held)
}
