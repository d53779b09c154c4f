package throttle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// Children share what their parent gives in turns: round robin, a turn as long as its Share.

// order is the names of the limiters in the order of their starts.
func order(starts []throttle.Event) string {
	var names []string
	for _, e := range starts {
		names = append(names, e.Limiter)
	}
	return strings.Join(names, " ")
}

// repeated is words, n times over.
func repeated(words string, n int) string {
	return strings.TrimSpace(strings.Repeat(words+" ", n))
}

// mustOrder asserts how the starts begin.
func mustOrder(t testing.TB, rec *recorder, want string) {
	t.Helper()
	if got := order(rec.starts()); !strings.HasPrefix(got+" ", want+" ") {
		t.Fatalf("started in the order %.200q; want %.200q", got, want)
	}
}

// joinMany has n callers of that cost join l's line.
func joinMany(ctx context.Context, l *throttle.Limiter, n int, tokens int64) {
	for range n {
		join(ctx, l, tokens, 1)
	}
}

// slowParent is a limiter of 1/s, empty.
func slowParent(t testing.TB, rec *recorder, burst int64) *throttle.Limiter {
	top := newLimiter(t, throttle.Config{Name: "top", Rate: throttle.PerSecond(1), Burst: burst, Trace: rec.trace()})
	if _, err := top.TryAcquireN(burst); err != nil {
		t.Fatal(err)
	}
	rec.mu.Lock()
	rec.events = nil
	rec.mu.Unlock()
	return top
}

// child is a limiter of that name and share below parent, with nothing of its own.
func child(t testing.TB, rec *recorder, parent *throttle.Limiter, name string, share int64) *throttle.Limiter {
	return newLimiter(t, throttle.Config{Name: name, Parent: parent, Share: share, Trace: rec.trace()})
}

func TestTurns_ChildrenAndTheParentsOwnCallersTakeOneTurnEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		a, b, c := child(t, &rec, top, "a", 0), child(t, &rec, top, "b", 0), child(t, &rec, top, "c", 1)
		joinMany(t.Context(), a, 8, 1)
		joinMany(t.Context(), b, 4, 1)
		joinMany(t.Context(), top, 6, 1)
		joinMany(t.Context(), c, 2, 1)
		time.Sleep(time.Minute)
		mustOrder(t, &rec, "a b top c a b top c a b top a b top a top a top a a")
		mustBeOnTime(t, rec.starts())
	})
}

// Those who wait at a limiter when it becomes a parent are its one child of share 1 from then on, in their order.
func TestTurns_ThoseWhoWaitedBeforeTheFirstChildAreOneChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		var early []*caller
		for range 4 {
			early = append(early, join(t.Context(), top, 1, 1))
		}
		time.Sleep(500 * time.Millisecond)
		a := child(t, &rec, top, "a", 2)
		joinMany(t.Context(), a, 4, 1)
		late := join(t.Context(), top, 1, 1)
		early[2].leave()
		time.Sleep(time.Minute)
		mustOrder(t, &rec, "top a a top a a top top")
		early[0].mustStartAt(t, 1*time.Second)
		early[1].mustStartAt(t, 4*time.Second)
		early[3].mustStartAt(t, 7*time.Second)
		late.mustStartAt(t, 8*time.Second)
		if s := top.Stats(); s.Started != 9 || s.Left != 1 || s.Waiting != 0 {
			t.Errorf("%+v; want 9 started and 1 left", s)
		}
	})
}

// They keep their permits, costs by name, deadlines and the cap's line.
func TestTurns_ThoseWhoWaitedForAPermitBeforeTheFirstChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := newLimiter(t, throttle.Config{MaxInFlight: 2, Quotas: []throttle.Quota{named("q", throttle.AtMost(10, time.Hour))}})
		p := mustTry(t, top, 1, 2)
		heavy := joinCost(t.Context(), top, throttle.Cost{Tokens: 1, Weight: 2, Quotas: map[string]int64{"q": 7}})
		a := newLimiter(t, throttle.Config{Parent: top})
		light := join(t.Context(), a, 1, 1)
		p.Release()
		heavy.mustStartAt(t, 0)
		mustLevels(t, top, 2)
		light.mustWait(t)
		heavy.permit.Release()
		light.mustStartAt(t, 0)
		mustLevels(t, top, 1)
		light.permit.Release()
		mustHoldAll(t, 0, top)
	})
}

func TestTurns_AShareOf3GetsThreeTimesAShareOf1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		a, b := child(t, &rec, top, "a", 3), child(t, &rec, top, "b", 1)
		joinMany(t.Context(), b, 10, 1)
		joinMany(t.Context(), a, 30, 1)
		time.Sleep(time.Hour)
		mustOrder(t, &rec, repeated("b a a a", 10))
	})
}

// Also where the children have rates of their own that let them keep up, though not two callers at once: a has
// its next caller ready long before the parent can let anybody through, so that its turn is not over.
func TestTurns_SharesHoldWhereChildrenHaveARateOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		own := throttle.Config{Parent: top, Rate: throttle.PerSecond(10), Burst: 1, Trace: rec.trace()}
		own.Name, own.Share = "a", 3
		a := newLimiter(t, own)
		own.Name, own.Share = "b", 1
		b := newLimiter(t, own)
		joinMany(t.Context(), b, 10, 1)
		joinMany(t.Context(), a, 30, 1)
		time.Sleep(time.Hour)
		mustOrder(t, &rec, repeated("b a a a", 10))
	})
}

// Where what the parent lacks is permits, too.
func TestTurns_SharesHoldForPermitsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := newLimiter(t, throttle.Config{Name: "top", MaxInFlight: 1, Trace: rec.trace()})
		first := mustTry(t, top, 1, 1)
		a, b := child(t, &rec, top, "a", 3), child(t, &rec, top, "b", 1)
		use := func(l *throttle.Limiter) {
			l.Do(t.Context(), func(context.Context) error { time.Sleep(time.Second); return nil })
		}
		for range 10 {
			go use(b)
			for range 3 {
				synctest.Wait()
				go use(a)
			}
		}
		synctest.Wait()
		first.Release()
		time.Sleep(time.Hour)
		mustOrder(t, &rec, "top "+repeated("b a a a", 10))
	})
}

// Turns are counted in tokens: within one turn, the tokens of each are as its share, whatever single costs are.
func TestTurns_SharesAreOfTokensWhateverCallsCost(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 6))
			var rec recorder
			const most = 9
			top := slowParent(t, &rec, most)
			shares := map[string]int64{"a": 1 + r.Int64N(4), "b": 1 + r.Int64N(4), "c": 1}
			for name, share := range shares {
				l := child(t, &rec, top, name, share)
				largest := 1 + r.Int64N(most)
				for range 300 {
					join(t.Context(), l, 1+r.Int64N(largest), 1)
				}
			}
			time.Sleep(time.Hour)
			spent, served := map[string]float64{}, map[string]int{}
			for i, e := range rec.starts() {
				if served[e.Limiter]++; served[e.Limiter] == 300 {
					break // its line is empty
				}
				spent[e.Limiter] += float64(e.Tokens) / float64(shares[e.Limiter])
				for x := range shares {
					for y := range shares {
						if spent[x]-spent[y] > 2*most {
							t.Fatalf("seed %d: after %d starts %s has %v turns' tokens and %s %v", seed, i+1, x, spent[x], y, spent[y])
						}
					}
				}
			}
			mustBeOnTime(t, rec.starts())
		})
	}
}

// A child that lacks its own token or permit is passed over, and keeps nobody waiting.
func TestTurns_AStalledChildDoesNotHoldTheParent(t *testing.T) {
	for _, test := range []struct {
		name string
		own  throttle.Config
	}{
		{"by its cap", throttle.Config{MaxInFlight: 1}},
		{"by its rate", throttle.Config{Rate: throttle.Every(time.Hour), Burst: 1}},
		{"by its window", throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(1, time.Hour)}}},
		{"by its interval", throttle.Config{Quotas: []throttle.Quota{throttle.FixedWindow(1, time.Hour)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				top := slowParent(t, &rec, 1)
				test.own.Name, test.own.Parent, test.own.Share, test.own.Trace = "stalled", top, 5, rec.trace()
				stalled := newLimiter(t, test.own)
				b := child(t, &rec, top, "b", 1)
				ctx, cancel := context.WithCancel(t.Context())
				joinMany(ctx, stalled, 3, 1)
				joinMany(t.Context(), b, 5, 1)
				time.Sleep(20 * time.Second)
				mustOrder(t, &rec, "stalled b b b b b")
				for i, e := range rec.starts() {
					if want := time.Duration(i+1) * time.Second; e.At.Sub(bubbleStart) != want {
						t.Fatalf("start %d at %v; want %v", i, e.At.Sub(bubbleStart), want)
					}
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// A child's own permit may be taken by others who share its Semaphore while it waits for its parent's token.
func TestTurns_AChildWhosePermitIsTakenMeanwhileDoesNotHoldTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(t, 1)
		root := newLimiter(t, throttle.Config{Name: "root", MaxInFlight: 100})
		host := newLimiter(t, throttle.Config{Name: "host", Parent: root, Rate: throttle.PerSecond(1), Burst: 10})
		mustTry(t, host, 8, 1) // 2 are left
		a := newLimiter(t, throttle.Config{Name: "a", Parent: host, Semaphore: sem})
		b := newLimiter(t, throttle.Config{Name: "b", Parent: host})
		other := newLimiter(t, throttle.Config{Name: "other", Parent: root, Semaphore: sem})
		heavy := join(t.Context(), a, 7, 1) // waits for 5 tokens of the host's
		light := join(t.Context(), b, 1, 1)
		light.mustWait(t) // it is the turn of a
		p := mustTry(t, other, 1, 1)
		light.mustStartAt(t, 0) // a lacks its permit: the turn is b's, who can be paid for
		time.Sleep(10 * time.Second)
		heavy.mustWait(t)
		p.Release()
		heavy.mustStartAt(t, 10*time.Second)
	})
}

// Nor does one whose own cap shrinks while it waits for its parent's token or permit.
func TestTurns_AChildWhoseCapShrinksMeanwhileDoesNotHoldTheParent(t *testing.T) {
	for _, size := range []int64{0, 1} {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				top := newLimiter(t, throttle.Config{Name: "top", MaxInFlight: 3})
				sem := newSemaphore(t, 2)
				c := throttle.Config{Name: "a", Parent: top, MaxInFlight: 2}
				if shared {
					c.MaxInFlight, c.Semaphore = 0, sem
				}
				a := newLimiter(t, c)
				b := newLimiter(t, throttle.Config{Name: "b", Parent: top})
				held := mustTry(t, a, 1, 1)
				p := mustTry(t, b, 1, 2)
				head := join(t.Context(), a, 1, 1) // its own permit is there; it is its turn at top, which is full
				beside := join(t.Context(), b, 1, 1)
				if shared {
					mustDo(t, sem.Resize(size))
				} else {
					mustDo(t, a.SetMaxInFlight(size))
				}
				head.mustWait(t)
				p.Release()
				beside.mustStartAt(t, 0)
				held.Release()
				if size == 1 {
					head.mustStartAt(t, 0)
				} else {
					head.mustWait(t)
				}
			})
		}
	}
}

// The same, where the turn is what the other child waits for.
func TestTurns_AShrunkCapGivesTheTurnToTheNextAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := newLimiter(t, throttle.Config{Name: "top", MaxInFlight: 4})
		a := newLimiter(t, throttle.Config{Name: "a", Parent: top, MaxInFlight: 3})
		b := newLimiter(t, throttle.Config{Name: "b", Parent: top})
		mustTry(t, b, 1, 2)
		heavy := join(t.Context(), a, 1, 3) // top has 2
		light := join(t.Context(), b, 1, 1)
		light.mustWait(t)
		mustDo(t, a.SetMaxInFlight(0))
		light.mustStartAt(t, 0)
		heavy.mustWait(t)
	})
}

// A heavy cost waits in its turn for all its tokens; then the others have theirs, token for token.
func TestTurns_AHeavyCostHasItsTurnAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 5)
		a, b := child(t, &rec, top, "a", 1), child(t, &rec, top, "b", 1)
		joinMany(t.Context(), b, 2, 1)
		joinMany(t.Context(), a, 3, 5)
		joinMany(t.Context(), b, 18, 1)
		time.Sleep(time.Hour)
		mustOrder(t, &rec, "b a b b b b a b b b b b a b b b b b b b b b b")
	})
}

// One heavy start is no reason for the turns after it to be as long: each of b and c costs one token, and has one turn.
func TestTurns_OneHeavyCostDoesNotMakeAllLaterTurnsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1000)
		a, b, c := child(t, &rec, top, "a", 1), child(t, &rec, top, "b", 1), child(t, &rec, top, "c", 1)
		join(t.Context(), a, 1000, 1)
		time.Sleep(time.Hour)
		mustDo(t, top.SetBurst(1))
		mustPass(t, top, 2, 1)
		joinMany(t.Context(), b, 100, 1)
		joinMany(t.Context(), c, 100, 1)
		time.Sleep(100 * time.Second)
		mustOrder(t, &rec, "a top "+repeated("b c", 40))
		time.Sleep(time.Hour)
	})
}

// A caller of no tokens spends none of a turn, but its turn is over nonetheless.
func TestTurns_CallersOfNoTokensTakeTurnsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := newLimiter(t, throttle.Config{Name: "top", MaxInFlight: 1})
		a, b := child(t, &rec, top, "a", 1), child(t, &rec, top, "b", 1)
		use := func(l *throttle.Limiter, tokens int64) {
			p, err := l.AcquireCost(t.Context(), throttle.Cost{Tokens: tokens, Weight: 1})
			if err == nil {
				time.Sleep(time.Second)
				p.Release()
			}
		}
		for range 20 {
			go use(b, 1)
			synctest.Wait()
			go use(a, 0)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		mustOrder(t, &rec, repeated("b a", 20))
	})
}

// The largest costs and shares are within range: their product must not turn a turn into a debt.
func TestTurns_TheLargestCostsAndSharesDoNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		const cost = throttle.MaxBurst / 2 // where there is no rate, it only counts for the turns
		top := newLimiter(t, throttle.Config{Name: "top", MaxInFlight: 1, Trace: rec.trace()})
		first := mustTry(t, top, 1, 1)
		a, b := child(t, &rec, top, "a", 5), child(t, &rec, top, "b", 1)
		use := func(l *throttle.Limiter) {
			if p, err := l.AcquireN(t.Context(), cost); err == nil {
				time.Sleep(time.Second)
				p.Release()
			}
		}
		for range 10 {
			go use(b)
			for range 5 {
				synctest.Wait()
				go use(a)
			}
		}
		synctest.Wait()
		first.Release()
		time.Sleep(time.Hour)
		mustOrder(t, &rec, "top "+repeated("b a a a a a", 10))
	})
}

// Turns are taken at each level by itself: of two hosts each has half, however many tenants it has.
func TestTurns_EachLevelTakesTurnsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		x, y := child(t, &rec, top, "x", 1), child(t, &rec, top, "y", 1)
		x1, x2, x3, y1 := child(t, &rec, x, "x1", 1), child(t, &rec, x, "x2", 2), child(t, &rec, x, "x3", 1), child(t, &rec, y, "y1", 1)
		joinMany(t.Context(), y1, 16, 1)
		joinMany(t.Context(), x1, 4, 1)
		joinMany(t.Context(), x2, 8, 1)
		joinMany(t.Context(), x3, 4, 1)
		time.Sleep(time.Hour)
		mustOrder(t, &rec, "y1 x1 y1 x2 y1 x3 y1 x2 y1 x1 "+repeated("y1 x3 y1 x2 y1 x2 y1 x1", 2)+" y1 x3 y1 x2 y1 x2")
	})
}

// Whoever was idle is behind those whose turn it is, and owes them nothing.
func TestTurns_AChildThatWasIdleHasOneTurnAndNoArrears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		top := slowParent(t, &rec, 1)
		a, b := child(t, &rec, top, "a", 3), child(t, &rec, top, "b", 1)
		joinMany(t.Context(), b, 30, 1)
		time.Sleep(10*time.Second + time.Second/2)
		joinMany(t.Context(), a, 1, 1) // no more than a third of its turn
		time.Sleep(5 * time.Second)
		joinMany(t.Context(), a, 7, 1)
		time.Sleep(time.Hour)
		mustOrder(t, &rec, fmt.Sprintf("%s a %s a a a b a a a b a %s", repeated("b", 11), repeated("b", 4), repeated("b", 13)))
	})
}
