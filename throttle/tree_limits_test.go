package throttle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// What holds in a tree when callers leave and limits change: whoever can start then does, at that instant.

// A stage is a tree of top, mid and leaf, with one more leaf, at which a caller called the head waits for one thing, and what
// its line and the other leaf's come to when it leaves.
type stage struct {
	name string
	// What each level has: a rate of 1/s with that burst, of which so much is spent, and a cap of which so much is held.
	burst, spent, cap, held [3]int64 // leaf, mid, top
	tokens, weight          int64    // of the head
	next, other             time.Duration
}

const (
	plenty = 100
	// The head leaves after 500 ms.
	atOnce = 500 * time.Millisecond
)

// Behind the head, in its line, is one of cost 1 and weight 1, and in the other leaf's line another.
var stages = []stage{
	{
		name: "its own token", burst: [3]int64{9, plenty, plenty}, spent: [3]int64{8, 0, 0},
		cap: [3]int64{plenty, plenty, plenty}, tokens: 5, weight: 1, next: atOnce, other: 0,
	},
	{
		name: "its own permit", burst: [3]int64{plenty, plenty, plenty},
		cap: [3]int64{5, plenty, plenty}, held: [3]int64{3, 0, 0}, tokens: 1, weight: 4, next: atOnce, other: 0,
	},
	{
		name: "its parent's token", burst: [3]int64{plenty, 9, plenty}, spent: [3]int64{0, 7, 0},
		cap: [3]int64{plenty, plenty, plenty}, tokens: 5, weight: 1, next: atOnce, other: atOnce,
	},
	{
		name: "its parent's permit", burst: [3]int64{plenty, plenty, plenty},
		cap: [3]int64{plenty, 5, plenty}, held: [3]int64{0, 3, 0}, tokens: 1, weight: 4, next: atOnce, other: atOnce,
	},
	{
		name: "its grandparent's token", burst: [3]int64{plenty, plenty, 9}, spent: [3]int64{0, 0, 7},
		cap: [3]int64{plenty, plenty, plenty}, tokens: 5, weight: 1, next: atOnce, other: atOnce,
	},
	{
		name: "its grandparent's permit", burst: [3]int64{plenty, plenty, plenty},
		cap: [3]int64{plenty, plenty, 5}, held: [3]int64{0, 0, 3}, tokens: 1, weight: 4, next: atOnce, other: atOnce,
	},
}

// set makes the stage's tree, and spends and holds what it says, each at its own level.
func (s stage) set(t testing.TB) (leaf, other, mid, top *throttle.Limiter) {
	// The levels are spent from outside, one by one, by changing the limits of the others to what does not bind.
	limiter := func(name string, i int, parent *throttle.Limiter) *throttle.Limiter {
		l := newLimiter(t, throttle.Config{
			Name: name, Rate: throttle.PerSecond(1), Burst: s.burst[i], MaxInFlight: s.cap[i], Parent: parent,
		})
		return l
	}
	top = limiter("top", 2, nil)
	mid = limiter("mid", 1, top)
	leaf = limiter("leaf", 0, mid)
	other = newLimiter(t, throttle.Config{Name: "other", Parent: mid})
	for i, l := range []*throttle.Limiter{leaf, mid, top} {
		if s.spent[i] > 0 {
			mustTry(t, l, s.spent[i], 1).Release()
		}
		if s.held[i] > 0 {
			mustTry(t, l, 1, s.held[i])
		}
	}
	return leaf, other, mid, top
}

func TestTree_C4_TheHeadLeavesWhateverItWaitsFor(t *testing.T) {
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leaf, other, mid, top := s.set(t)
				head := join(t.Context(), leaf, s.tokens, s.weight)
				next := join(t.Context(), leaf, 1, 1)
				beside := join(t.Context(), other, 1, 1)
				head.mustWait(t)
				next.mustWait(t)
				time.Sleep(atOnce)
				head.leave()
				mustSay(t, head.err, context.Canceled)
				next.mustStartAt(t, s.next)
				beside.mustStartAt(t, s.other)
				mustHoldAll(t, s.held[0]+1, leaf)
				mustHoldAll(t, s.held[0]+s.held[1]+2, mid)
				mustHoldAll(t, s.held[0]+s.held[1]+s.held[2]+2, top)
			})
		})
	}
}

// With nobody behind it, its leaf has no more to ask: the turn is the other's, at that instant, at every level above.
func TestTree_C4_ALoneHeadLeavesWhateverItWaitsFor(t *testing.T) {
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leaf, other, mid, top := s.set(t)
				head := join(t.Context(), leaf, s.tokens, s.weight)
				beside, above := join(t.Context(), other, 1, 1), join(t.Context(), top, 1, 1)
				time.Sleep(atOnce)
				head.leave()
				beside.mustStartAt(t, s.other)
				if !above.over() || above.err != nil {
					t.Fatalf("top's own waits on after the head has left (%v)", above.err)
				}
				mustHoldAll(t, s.held[0], leaf)
				mustHoldAll(t, s.held[0]+s.held[1]+1, mid)
				mustHoldAll(t, s.held[0]+s.held[1]+s.held[2]+2, top)
			})
		})
	}
}

// A caller behind the head that leaves changes nobody's start.
func TestTree_C4_LeavingFromBehindChangesNobodysStart(t *testing.T) {
	for _, s := range stages {
		if s.weight > 1 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at [2][]time.Duration
				for leaves := range 2 {
					begun := sinceStart()
					leaf, other, _, _ := s.set(t)
					head := join(t.Context(), leaf, s.tokens, s.weight)
					behind := join(t.Context(), leaf, 9, 1)
					beside := join(t.Context(), other, 1, 1)
					time.Sleep(atOnce)
					if leaves == 1 {
						behind.leave()
					}
					time.Sleep(time.Minute)
					if !head.over() || !beside.over() || head.err != nil || beside.err != nil {
						t.Fatalf("the head: %v; the one beside: %v", head.err, beside.err)
					}
					at[leaves] = []time.Duration{head.at - begun, beside.at - begun}
				}
				if at[0][0] != at[1][0] || at[0][1] != at[1][1] {
					t.Errorf("they start at %v; want %v, as if the one behind had stayed", at[1], at[0])
				}
			})
		})
	}
}

// A head that waits for its parent's turn, behind another child's, leaves: nothing changes for that other child.
func TestTree_C4_TheHeadLeavesWhileItWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 3)
		a, b, c := child(t, &rec, top, "a", 1), child(t, &rec, top, "b", 1), child(t, &rec, top, "c", 1)
		first := join(t.Context(), a, 2, 1)
		head, next := join(t.Context(), b, 1, 1), join(t.Context(), b, 3, 1)
		last := join(t.Context(), c, 1, 1)
		time.Sleep(atOnce)
		head.leave()
		time.Sleep(time.Minute)
		first.mustStartAt(t, 2*time.Second)
		// b's next asked when its head had left: behind c.
		last.mustStartAt(t, 3*time.Second)
		next.mustStartAt(t, 6*time.Second)
	})
}

// The whole line's context ends at one instant: none starts, whoever stays does.
func TestTree_C4_AWholeChildLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		a, b := child(t, &rec, top, "a", 3), child(t, &rec, top, "b", 1)
		gone, stop := context.WithCancel(t.Context())
		joinMany(gone, a, 20, 1)
		joinMany(t.Context(), b, 3, 1)
		time.Sleep(2500 * time.Millisecond)
		stop()
		time.Sleep(time.Hour)
		mustOrder(t, &rec, "a b b b")
		if s := a.Stats(); s.Started != 1 || s.Left != 19 || s.Waiting != 0 {
			t.Errorf("%+v; want 1 started and 19 left", s)
		}
		for i, e := range rec.starts() {
			if want := time.Duration(i+1) * time.Second; e.At.Sub(bubbleStart) != want {
				t.Errorf("start %d at %v; want %v", i, e.At.Sub(bubbleStart), want)
			}
		}
	})
}

// What a head lacks comes by a changed limit, at each level: it starts at that instant.
func TestTree_C7_AChangedLimitAtAnyLevelHoldsAtOnce(t *testing.T) {
	for level := range 3 {
		for _, test := range []struct {
			name   string
			lack   func(l *throttle.Limiter) error
			change func(l *throttle.Limiter) error
			after  time.Duration
		}{
			{"rate", func(l *throttle.Limiter) error { return l.SetRate(throttle.Every(time.Hour)) },
				func(l *throttle.Limiter) error { return l.SetRate(throttle.Every(time.Second)) }, time.Second},
			{"quota", func(l *throttle.Limiter) error {
				return l.SetQuota(throttle.Quota{Rate: throttle.Every(time.Hour), Burst: 1})
			}, func(l *throttle.Limiter) error {
				return l.SetQuota(throttle.Quota{Rate: throttle.Every(time.Millisecond), Burst: 1})
			}, time.Millisecond},
			{"cap", func(l *throttle.Limiter) error { return l.SetMaxInFlight(1) },
				func(l *throttle.Limiter) error { return l.SetMaxInFlight(2) }, 0},
			{"a cap of 0", func(l *throttle.Limiter) error { return l.SetMaxInFlight(0) },
				func(l *throttle.Limiter) error { return l.SetMaxInFlight(2) }, 0},
		} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leaf, mid, top := threeLevels(t, [3]int64{1000, 1000, 1000}, [3]int64{1, 1, 1}, [3]int64{9, 9, 9})
					l := []*throttle.Limiter{leaf, mid, top}[level]
					mustTry(t, leaf, 1, 1)
					mustDo(t, test.lack(l))
					a := join(t.Context(), leaf, 1, 1)
					time.Sleep(30 * time.Second)
					a.mustWait(t)
					mustHoldAll(t, 1, leaf, mid, top)
					mustDo(t, test.change(l))
					time.Sleep(test.after)
					// 30 s of the slow rate are part of a token: at 1 an hour, 1/120 of one.
					if !a.over() || a.err != nil || a.at < 30*time.Second || a.at > 30*time.Second+test.after {
						t.Fatalf("level %d: started at %v (error %v); want %v after the change at 30s", level, a.at, a.err, test.after)
					}
				})
			})
		}
	}
}

func TestTree_C7_WhoNoLongerFitsALevelIsToldNever(t *testing.T) {
	for level := range 3 {
		synctest.Test(t, func(t *testing.T) {
			leaf, mid, top := threeLevels(t, [3]int64{1, 1, 1}, [3]int64{5, 5, 5}, [3]int64{5, 5, 5})
			l := []*throttle.Limiter{leaf, mid, top}[level]
			mustTry(t, leaf, 5, 1)
			a := join(t.Context(), leaf, 4, 1)
			b := join(t.Context(), leaf, 1, 4)
			c := join(t.Context(), leaf, 2, 2)
			d := join(t.Context(), top, 4, 1)
			mustDo(t, l.SetMaxInFlight(3))
			a.mustWait(t)
			if !b.over() {
				t.Fatalf("level %d: weight 4 waits at a cap of 3", level)
			}
			mustSay(t, b.err, throttle.ErrTooLarge, "weight 4", `"leaf"`)
			mustDo(t, l.SetBurst(3))
			if !a.over() {
				t.Fatalf("level %d: a cost of 4 waits at a burst of 3", level)
			}
			mustSay(t, a.err, throttle.ErrTooLarge, "cost 4", `"leaf"`)
			c.mustWait(t)
			if got := leaf.Stats(); got.RefusedNever != 2 || got.Waiting != 1 {
				t.Errorf("level %d: %+v; want two told never", level, got)
			}
			time.Sleep(time.Minute)
			if !c.over() || !d.over() {
				t.Fatalf("level %d: a caller waits after a minute", level)
			}
			if level == 2 {
				mustSay(t, d.err, throttle.ErrTooLarge, "cost 4", `"top"`)
				c.mustStartAt(t, 2*time.Second)
				return
			}
			if d.err != nil || c.err != nil {
				t.Errorf("level %d: %v, %v; want both started", level, c.err, d.err)
			}
		})
	}
}

// A Semaphore shared by two children gives its permits to their fronts in turn, and its size holds at once.
func TestTree_ASemaphoreSharedByTwoChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 2)
		top := newLimiter(t, throttle.Config{Name: "top", Rate: throttle.PerSecond(100), Burst: 100, MaxInFlight: 3})
		a := newLimiter(t, throttle.Config{Name: "a", Parent: top, Semaphore: sem})
		b := newLimiter(t, throttle.Config{Name: "b", Parent: top, Semaphore: sem})
		c := newLimiter(t, throttle.Config{Name: "c", Parent: top})
		p1, p2 := mustTry(t, a, 1, 1), mustTry(t, b, 1, 1)
		a1, a2, b1, c1 := join(t.Context(), a, 1, 1), join(t.Context(), a, 1, 1), join(t.Context(), b, 1, 1), join(t.Context(), c, 1, 1)
		c1.mustStartAt(t, 0) // the third of top's; a and b lack theirs of sem
		p1.Release()
		a1.mustStartAt(t, 0)
		p2.Release()
		b1.mustStartAt(t, 0)
		a2.mustWait(t)
		mustDo(t, sem.Resize(0))
		b1.permit.Release()
		a1.permit.Release()
		a2.mustWait(t)
		mustHoldAll(t, 1, top)
		time.Sleep(time.Second)
		mustDo(t, sem.Resize(1))
		a2.mustStartAt(t, time.Second)
		b2, a3 := join(t.Context(), b, 1, 1), join(t.Context(), a, 1, 1)
		mustDo(t, top.SetMaxInFlight(1)) // 2 are held
		a2.permit.Release()
		b2.mustWait(t)
		c1.permit.Release()
		b2.mustStartAt(t, time.Second)
		b2.permit.Release()
		a3.mustStartAt(t, time.Second)
		a3.permit.Release()
		mustHoldAll(t, 0, a, b, c, top)
		if got := sem.InFlight(); got != 0 {
			t.Errorf("weight %d is held of the semaphore; want 0", got)
		}
	})
}

// Nobody overtakes the fronts that wait for a shared cap, however little a newcomer of another child weighs.
func TestTree_C3_NoNewcomerOvertakesInASharedCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 4)
		top := newLimiter(t, throttle.Config{Name: "top", MaxInFlight: 100})
		a := newLimiter(t, throttle.Config{Name: "a", Parent: top, Semaphore: sem})
		b := newLimiter(t, throttle.Config{Name: "b", Parent: top, Semaphore: sem})
		p := mustTry(t, b, 1, 2)
		heavy := join(t.Context(), a, 1, 3)
		mustRefuse(t, b, 0, "Semaphore 4")
		light := join(t.Context(), b, 1, 1)
		heavy.mustWait(t)
		light.mustWait(t)
		p.Release()
		heavy.mustStartAt(t, 0)
		light.mustStartAt(t, 0)
	})
}

// A start that fails at one level, since its permit was taken meanwhile, leaves nothing taken at the others.
func TestTree_AStartThatLacksAPermitAfterAllHoldsNoneBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 1)
		root := newLimiter(t, throttle.Config{Name: "root", MaxInFlight: 100})
		host := newLimiter(t, throttle.Config{Name: "host", Parent: root, Rate: throttle.PerSecond(1), Burst: 1})
		mid := newLimiter(t, throttle.Config{Name: "mid", Parent: host, Semaphore: sem})
		leaf := newLimiter(t, throttle.Config{Name: "leaf", Parent: mid, MaxInFlight: 1})
		other := newLimiter(t, throttle.Config{Name: "other", Parent: root, Semaphore: sem})
		mustTry(t, host, 1, 1)
		head := join(t.Context(), leaf, 1, 1) // all there but the host's token
		p := mustTry(t, other, 1, 1)
		time.Sleep(10 * time.Second)
		head.mustWait(t)
		mustDo(t, sem.Resize(2))
		head.mustStartAt(t, 10*time.Second) // the permit of leaf is free still
		p.Release()
		head.permit.Release()
		mustHoldAll(t, 0, leaf, mid, other)
	})
}

// A timer that is late at one level costs nothing at the next: each level's rate is reached.
func TestTree_LateTimersAtEveryLevelCostNoThroughput(t *testing.T) {
	for level := range 3 {
		synctest.Test(t, func(t *testing.T) {
			const rate = 10_000
			var rec recorder
			clock := &lateClock{late: time.Millisecond}
			var parent, l *throttle.Limiter
			for i := 2; i >= 0; i-- {
				c := throttle.Config{Rate: throttle.PerSecond(rate), Burst: 1, Parent: parent, Clock: clock, Trace: rec.trace()}
				if i != level {
					c.Rate = throttle.PerSecond(rate * 3 / 2)
				}
				l = newLimiter(t, c)
				parent = l
			}
			ctx, cancel := context.WithCancel(t.Context())
			for range 100 {
				go func() {
					for l.Wait(ctx) == nil {
					}
				}()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			starts := rec.starts()
			cancel()
			synctest.Wait()
			if n, least := len(starts), rate-2*rate/1000; n < least {
				t.Errorf("slowest at level %d: %d starts in a second; want %d or more", level, n, least)
			}
			mustKeepRate(t, nominals(starts), throttle.PerSecond(rate), 1)
		})
	}
}

// The least slack of the levels bounds how far before the clock a start is charged, whichever level's timer is late.
func TestTree_TheLeastSlackOfTheLevelsHolds(t *testing.T) {
	for _, slacks := range [][2]time.Duration{{throttle.NoSlack, 10 * time.Millisecond}, {10 * time.Millisecond, throttle.NoSlack}} {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			clock := &lateClock{late: 5 * time.Millisecond}
			top := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1000), Burst: 1, Slack: slacks[1], Clock: clock})
			l := newLimiter(t, throttle.Config{Parent: top, Rate: throttle.PerSecond(2000), Burst: 50, Slack: slacks[0], Clock: clock, Trace: rec.trace()})
			for range 50 {
				join(t.Context(), l, 1, 1)
			}
			time.Sleep(time.Minute)
			for i, e := range rec.starts() {
				if !e.Nominal.Equal(e.At) {
					t.Fatalf("slacks %v: start %d is charged as of %v before; want no slack", slacks, i, e.At.Sub(e.Nominal))
				}
			}
		})
	}
}
