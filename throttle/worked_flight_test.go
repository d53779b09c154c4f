package throttle_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The worked cases of a rate with a cap: slow requests, a stall, callers that give up, a shared cap.

func TestWorked_CapHoldsABurstOfSlowRequests(t *testing.T) {
	for _, c := range []struct {
		inFlight    int64 // 0: a rate alone
		least, most int   // of the requests that run at once
	}{{0, 290, 400}, {4, 4, 4}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 10, MaxInFlight: c.inFlight})
			var mu sync.Mutex
			inside, peak := 0, 0
			var requests sync.WaitGroup
			for i := range 400 {
				service := 30 * time.Second
				if i%100 == 99 {
					service = 5 * time.Millisecond
				}
				requests.Go(func() {
					err := l.Do(t.Context(), func(context.Context) error {
						mu.Lock()
						inside++
						peak = max(peak, inside)
						mu.Unlock()
						time.Sleep(service)
						mu.Lock()
						inside--
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			requests.Wait()
			if peak < c.least || peak > c.most {
				t.Errorf("with MaxInFlight %d, %d ran at once; want %d to %d", c.inFlight, peak, c.least, c.most)
			}
		})
	}
}

func TestWorked_WaiterForAPermitSpendsNoBudgetUntilItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 5, MaxInFlight: 1})
		held := mustTry(t, l, 1, 1)
		w := join(t.Context(), l, 5, 1)
		time.Sleep(10 * time.Second) // its token is due at 1 s
		w.mustWait(t)
		if s := l.Stats(); s.Tokens != 5 {
			t.Errorf("%d tokens while it waits for its permit; want 5", s.Tokens)
		}
		held.Release()
		w.mustStartAt(t, 10*time.Second)
		if s := l.Stats(); s.Tokens != 0 {
			t.Errorf("%d tokens after its start; want 0", s.Tokens)
		}
		w.permit.Release()

		// Nor does a waiter for its token hold a permit.
		w = join(t.Context(), l, 1, 1)
		w.mustWait(t)
		mustHold(t, l, 0)
		w.leave()
	})
}

func TestWorked_Burst1StartsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(10), Burst: 1, Trace: rec.trace()})
		time.Sleep(time.Minute)
		for i := range 40 { // some come late, some in a crowd
			go func() { _ = l.Wait(t.Context()) }()
			time.Sleep(time.Duration(i%4) * 70 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		at := instants(rec.starts())
		if len(at) != 40 || !slices.IsSortedFunc(at, time.Time.Compare) {
			t.Fatalf("%d starts; want 40, in order", len(at))
		}
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap < 100*time.Millisecond {
				t.Errorf("starts %d and %d are %v apart; want 100 ms or more", i, i+1, gap)
			}
		}
	})
}

// stalled returns when a call that starts at the instant at ends, which takes 50 ms, of a downstream that is frozen from
// 10 s to 15 s and does nothing meanwhile.
func stalled(at time.Duration) time.Duration {
	const service, from, to = 50 * time.Millisecond, 10 * time.Second, 15 * time.Second
	switch {
	case at >= from && at < to:
		return to + service
	case at < from && at+service > from:
		return at + service + (to - from)
	}
	return at + service
}

func TestWorked_StallIsNotMadeUpForBeyondThePromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 10, MaxInFlight: 20, Trace: rec.trace()})
		var mu sync.Mutex
		inside, peak := 0, 0
		enter := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			inside += n
			peak = max(peak, inside)
		}
		var calls sync.WaitGroup
		for i := range 90 * 60 {
			time.Sleep(time.Duration(i)*time.Second/90 - sinceStart())
			calls.Go(func() {
				err := l.Do(t.Context(), func(context.Context) error {
					enter(1)
					time.Sleep(stalled(sinceStart()) - sinceStart())
					enter(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute - sinceStart())
		synctest.Wait()
		mustBeOnTime(t, rec.starts())
		at := instants(rec.starts())
		if len(at) != 5400 {
			t.Errorf("%d calls were started in 60 s; want all 5,400", len(at))
		}
		calls.Wait()
		if n := mostIn(at, time.Second); n > 110 {
			t.Errorf("%d starts in 1 s; want 110 at most", n)
		}
		if n := mostIn(at, 100*time.Millisecond); n > 20 {
			t.Errorf("%d starts in 100 ms; want 20 at most", n)
		}
		mustKeepRate(t, at, throttle.PerSecond(100), 10)
		if peak != 20 {
			t.Errorf("%d were in flight at once; want 20, in the stall", peak)
		}
	})
}

func TestWorked_CallersThatGiveUpCostNoStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(100), Burst: 10, MaxInFlight: 20, Trace: rec.trace()})
		var calls sync.WaitGroup
		for i := range 300 * 30 {
			time.Sleep(time.Duration(i)*time.Second/300 - sinceStart())
			calls.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				patience := time.AfterFunc(time.Second, cancel)
				defer cancel()
				_ = l.Do(ctx, func(context.Context) error {
					patience.Stop()
					time.Sleep(50 * time.Millisecond)
					return nil
				})
			})
		}
		time.Sleep(30*time.Second - sinceStart())
		synctest.Wait()
		mustBeOnTime(t, rec.starts())
		at := instants(rec.starts())
		if len(at) != 3000+10 {
			t.Errorf("%d starts in 30 s; want 3,000 and the burst of 10", len(at))
		}
		mustKeepRate(t, at, throttle.PerSecond(100), 10)
		calls.Wait()
	})
}

func TestWorked_SlowAndFastLimiterOnOneCapBothReachTheirRate(t *testing.T) {
	for _, burst := range []int64{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			sem := newSemaphore(t, 20)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+1)
			defer cancel()
			var loops sync.WaitGroup
			var slow, fast recorder
			for _, c := range []struct {
				rate int64
				rec  *recorder
			}{{5, &slow}, {500, &fast}} {
				l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(c.rate), Burst: burst, Semaphore: sem, Trace: c.rec.trace()})
				uncancelled := context.WithoutCancel(ctx) // a deadline would refuse those who come too late
				for range 40 {
					loops.Go(func() {
						for ctx.Err() == nil {
							own, leave := context.WithCancel(uncancelled)
							stop := context.AfterFunc(ctx, leave)
							_ = l.Do(own, func(context.Context) error {
								if n := sem.InFlight(); n > 20 {
									t.Errorf("%d in flight; want 20 at most", n)
								}
								time.Sleep(20 * time.Millisecond)
								return nil
							})
							stop()
							leave()
						}
					})
				}
			}
			loops.Wait()
			for _, c := range []struct {
				rate int64
				rec  *recorder
			}{{5, &slow}, {500, &fast}} {
				starts := c.rec.starts()
				if want := int(c.rate*10 + burst); len(starts) != want {
					t.Errorf("burst %d: the %d/s limiter made %d starts in 10 s; want its full rate, %d", burst, c.rate, len(starts), want)
				}
				mustKeepRate(t, instants(starts), throttle.PerSecond(c.rate), burst)
			}
		})
	}
}
