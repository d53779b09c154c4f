package throttle_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// Turnstile has no priorities, and so one line. The report's soak is of a million operations: so many
// take long under the race detector, so that this one has fewer, seeded, and the invariant is checked after each.
func TestLEK_05_SoakNeverLeavesTheLineStuck(t *testing.T) {
	ops := 200_000
	if testing.Short() {
		ops = 20_000
	}
	synctest.Test(t, func(t *testing.T) {
		soak(t, ops)
	})
}

// A bag holds the permits of those who run, of whom any may end first.
type bag struct {
	mu      sync.Mutex
	permits []throttle.Permit
}

func (b *bag) put(p throttle.Permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.permits = append(b.permits, p)
}

// take takes out any permit; the zero Permit, which nobody need release, if there is none.
func (b *bag) take(random *rand.Rand) (p throttle.Permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.permits); n > 0 {
		i := random.IntN(n)
		p, b.permits[i] = b.permits[i], b.permits[n-1]
		b.permits = b.permits[:n-1]
	}
	return p
}

// soak does ops random operations on a limiter of 2 in flight, 32 waiting and 20/s.
func soak(t *testing.T, ops int) {
	random := rand.New(rand.NewPCG(5, 152))
	l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(20), Burst: 4, MaxInFlight: 2, MaxQueue: 32})
	var running bag
	var cancels []context.CancelFunc
	var asked uint64
	for op := range ops {
		switch random.IntN(12) {
		case 0, 1: // submit, to expire in 15 s or sooner
			asked++
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(15_000))*time.Millisecond)
			cancels = append(cancels, cancel)
			go func() {
				if p, err := l.Acquire(ctx); err == nil {
					running.put(p)
				}
			}()
		case 2: // try
			asked++
			if p, err := l.TryAcquire(); err == nil {
				running.put(p)
			}
		case 3, 4, 5, 6: // end or fail: the permit comes back either way
			running.take(random).Release()
		case 7: // cancel somebody, who may have his answer already
			if n := len(cancels); n > 0 {
				i := n - 1 - random.IntN(min(n, 40))
				cancels[i]()
				cancels[i] = cancels[n-1]
				cancels = cancels[:n-1]
			}
		default:
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		}
		synctest.Wait()
		s := l.Stats()
		if s.InFlight < 2 && s.Tokens > 0 && s.Waiting > 0 {
			t.Fatalf("operation %d: %d wait though %d of 2 are in flight and %d tokens are there", op, s.Waiting, s.InFlight, s.Tokens)
		}
		if s.InFlight < 0 || s.InFlight > 2 || s.Waiting > 32 {
			t.Fatalf("operation %d: in flight %d, waiting %d; want at most 2 and 32", op, s.InFlight, s.Waiting)
		}
		if told := s.Started + s.Left + s.RefusedNotYet + s.RefusedQueueFull + uint64(s.Waiting); told != asked {
			t.Fatalf("operation %d: %d callers are accounted for; want the %d that asked", op, told, asked)
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	synctest.Wait()
	for range 2 {
		running.take(random).Release()
	}
	s := l.Stats()
	if s.InFlight != 0 || s.Waiting != 0 || min(s.Started, s.Left, s.RefusedNotYet, s.RefusedQueueFull) == 0 {
		t.Errorf("%+v; want nothing in flight or waiting, and every fate met with", s)
	}
}
