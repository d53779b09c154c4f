package throttle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind MET that concern Stats: they are of one instant, from what decides, and true at every step.

func TestMET_01_GaugesAreTrueAtEachStepAndZeroAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			plain = iota
			cancelledInLine
			cancelledRunning
			panics
		)
		fates := make([]int, 0, 1000)
		for fate, n := range []int{300, 300, 300, 100} {
			for range n {
				fates = append(fates, fate)
			}
		}
		rand.New(rand.NewPCG(1, 27581)).Shuffle(990, func(i, j int) { fates[10+i], fates[10+j] = fates[10+j], fates[10+i] })

		l := newLimiter(t, throttle.Config{MaxInFlight: 10})
		var mu sync.Mutex
		inLine, running := 0, int64(0)
		count := func(line int, run int64) {
			mu.Lock()
			defer mu.Unlock()
			inLine, running = inLine+line, running+run
		}
		check := func() {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if s := l.Stats(); s.Waiting != inLine || s.InFlight != running {
				t.Fatalf("at %v: waiting %d, in flight %d; want the true %d and %d", sinceStart(), s.Waiting, s.InFlight, inLine, running)
			}
		}
		var requests sync.WaitGroup
		var leaveLine []context.CancelFunc
		for _, fate := range fates { // the first 10 are plain and fill the cap
			ctx, cancel := context.WithCancel(t.Context())
			if fate == cancelledInLine {
				leaveLine = append(leaveLine, cancel)
			}
			count(1, 0)
			requests.Go(func() {
				defer cancel()
				defer func() {
					if r := recover(); (r != nil) != (fate == panics) {
						t.Errorf("recovered %v from a request of fate %d", r, fate)
					}
				}()
				started := false
				err := l.Do(ctx, func(ctx context.Context) error {
					started = true
					count(-1, 1)
					defer count(0, -1)
					if fate == cancelledRunning {
						time.AfterFunc(2*time.Millisecond, cancel)
					}
					select {
					case <-time.After(5 * time.Millisecond):
					case <-ctx.Done():
					}
					if fate == panics {
						panic("request")
					}
					return ctx.Err()
				})
				if !started {
					count(-1, 0)
				}
				if cancelled := fate == cancelledInLine || fate == cancelledRunning; errors.Is(err, context.Canceled) != cancelled {
					t.Errorf("a request of fate %d got %v", fate, err)
				}
			})
			check()
		}
		for _, leave := range leaveLine {
			leave()
			check()
		}
		for l.Stats().InFlight > 0 {
			time.Sleep(time.Millisecond)
			check()
		}
		requests.Wait()
		if s := l.Stats(); s.Waiting != 0 || s.InFlight != 0 || s.Started != 700 || s.Left != 300 || s.DoubleReleases != 0 {
			t.Errorf("%+v; want nobody left, 700 started, 300 left", s)
		}
	})
}

func TestMET_02_CountsAddUpWhenCancelMeetsGrant(t *testing.T) {
	queued := make(chan struct{}, 5)
	l := newLimiter(t, throttle.Config{MaxInFlight: 5, MaxQueue: 5, Trace: &throttle.Trace{
		Queued: func(throttle.Event) { queued <- struct{}{} },
	}})
	var asked uint64
	addUp := func() {
		s := l.Stats()
		if s.InFlight < 0 || s.InFlight > 5 || s.Waiting < 0 || s.Waiting > 5 {
			t.Errorf("in flight %d, waiting %d; want 0 to 5", s.InFlight, s.Waiting)
		}
		told := s.Started + s.Left + s.RefusedNever + s.RefusedNotYet + s.RefusedQueueFull + s.RefusedClosed
		if told+uint64(s.Waiting) != asked {
			t.Errorf("%+v: %d told and %d waiting; want the %d that asked", s, told, s.Waiting, asked)
		}
	}
	for range rounds(10_000) {
		asked++
		held := mustTry(t, l, 1, 5)
		var callers []*contender
		for range 5 {
			asked++
			callers = append(callers, contend(l, queued))
		}
		asked++
		if _, err := l.Acquire(t.Context()); !errors.Is(err, throttle.ErrQueueFull) {
			t.Fatalf("a sixth: %v; want ErrQueueFull", err)
		}
		together(held.Release, addUp, func() {
			for _, c := range callers {
				c.cancel()
			}
		})
		started := int64(0)
		for _, c := range callers {
			<-c.over
			if c.err == nil {
				started++
			}
		}
		addUp()
		mustHold(t, l, started)
		for _, c := range callers {
			c.permit.Release()
		}
		mustHold(t, l, 0)
		if t.Failed() {
			return
		}
	}
}

// The structure that decides is the one that Stats reads. A limit that says no, here the rate, takes no permit.
func TestMET_03_StatsForetellTheTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 3
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 3, MaxInFlight: size})
		random := rand.New(rand.NewPCG(3, 16405))
		var running bag
		met := map[bool]int{}
		var cancels []context.CancelFunc
		for step := range 5000 {
			switch random.IntN(8) {
			case 0:
				ctx, cancel := context.WithCancel(t.Context())
				cancels = append(cancels, cancel)
				weight := 1 + random.Int64N(size)
				go func() {
					if p, err := l.AcquireCost(ctx, throttle.Cost{Tokens: 1, Weight: weight}); err == nil {
						running.put(p)
					}
				}()
			case 1, 2, 3:
				running.take(random).Release()
			case 4, 5:
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			case 6, 7:
				if n := len(cancels); n > 0 {
					cancels[n-1]()
					cancels = cancels[:n-1]
				}
			}
			synctest.Wait()
			s := l.Stats()
			free := s.MaxInFlight - s.InFlight
			if s.MaxInFlight != size || free < 0 || free > size {
				t.Fatalf("step %d: %d free and %d in flight of %d; want %d in all", step, free, s.InFlight, s.MaxInFlight, size)
			}
			want := free >= 1 && s.Waiting == 0 && s.Tokens >= 1
			p, err := l.TryAcquire()
			if (err == nil) != want {
				t.Fatalf("step %d: with %+v a try got %v; want it through: %v", step, s, err, want)
			}
			p.Release()
			mustHold(t, l, s.InFlight)
			met[want]++
		}
		for _, cancel := range cancels {
			cancel()
		}
		if met[true] < 500 || met[false] < 500 {
			t.Errorf("%d tries let through and %d not; want many of each", met[true], met[false])
		}
	})
}
