package throttle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// Several quotas hold at once: a caller starts when each of them lets it, and is charged in each at that instant.

// joinCost has a new caller ask l for a cost by quota, as join does.
func joinCost(ctx context.Context, l *throttle.Limiter, cost throttle.Cost) *caller {
	ctx, cancel := context.WithCancel(ctx)
	c := &caller{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		c.permit, c.err = l.AcquireCost(ctx, cost)
		c.at = sinceStart()
	}()
	synctest.Wait()
	return c
}

// mustLevels asserts the whole tokens of Config.Quotas, in order.
func mustLevels(t testing.TB, l *throttle.Limiter, want ...int64) {
	t.Helper()
	got := l.Quotas()
	if len(got) != len(want) {
		t.Fatalf("%d quotas; want %d", len(got), len(want))
	}
	for i, q := range got {
		if q.Tokens != want[i] {
			t.Fatalf("quota %v has %d tokens; want %d", q.Quota, q.Tokens, want[i])
		}
	}
}

// mustRefuse asserts that a try of one token is told to come back after that wait, by a limit in which the words are.
func mustRefuse(t testing.TB, l *throttle.Limiter, after time.Duration, words string) {
	t.Helper()
	_, err := l.TryAcquire()
	mustTellNotYet(t, err, after, words)
}

func mustTellNotYet(t testing.TB, err error, after time.Duration, words string) {
	t.Helper()
	var no *throttle.NotYetError
	switch {
	case !errors.As(err, &no):
		t.Fatalf("got %v; want not yet, by %q", err, words)
	case no.RetryAfter != after:
		t.Fatalf("told to wait %v by %q; want %v by %q", no.RetryAfter, no.Limit, after, words)
	case !strings.Contains(no.Limit, words):
		t.Fatalf("the limit that binds is %q; want %q", no.Limit, words)
	}
}

// fourKinds is a limiter with a rate and one quota of each kind.
func fourKinds(t testing.TB, trace *throttle.Trace) *throttle.Limiter {
	return newLimiter(t, throttle.Config{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 5, Trace: trace,
		Quotas: []throttle.Quota{
			{Name: "steady", Rate: throttle.PerMinute(60), Burst: 3},
			named("any minute", throttle.AtMost(6, time.Minute)),
			named("hour", throttle.FixedWindow(8, time.Hour)),
		},
	})
}

func TestQuotas_AllAreChargedAtEachStartAndNoneByARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fourKinds(t, nil)
		mustLevels(t, l, 3, 6, 8)
		mustPass(t, l, 1, 1)
		mustLevels(t, l, 2, 5, 7)
		mustHaveTokens(t, l, 4)
		mustPass(t, l, 5, 2) // "steady" has 2 left
		mustLevels(t, l, 0, 3, 5)
		mustHaveTokens(t, l, 2)
		c := join(t.Context(), l, 1, 1)
		mustLevels(t, l, 0, 3, 5) // nothing is taken by waiting
		mustHaveTokens(t, l, 2)
		time.Sleep(time.Second)
		c.mustStartAt(t, time.Second)
		mustLevels(t, l, 0, 2, 4)
		mustHaveTokens(t, l, 4)
	})
}

// Each of the four binds in turn as time goes by.
func TestQuotas_TheRefusalNamesTheOneThatBindsAndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fourKinds(t, nil)
		mustPass(t, l, 3, 3)
		mustRefuse(t, l, time.Second, `"steady"`)
		_, err := l.TryAcquireN(3)
		mustTellNotYet(t, err, 3*time.Second, `"steady"`)
		time.Sleep(3 * time.Second)
		mustPass(t, l, 4, 3)
		mustRefuse(t, l, 57*time.Second, `"any minute", at most 6 in 1m0s`)
		time.Sleep(57 * time.Second) // 60 s: the first three leave the window
		mustPass(t, l, 3, 2)         // and "hour" has 2 left
		mustRefuse(t, l, 59*time.Minute, `"hour", 8 each 1h0m0s`)
		time.Sleep(59*time.Minute - 1)
		mustRefuse(t, l, 1, `"hour"`)
		time.Sleep(1)
		mustPass(t, l, 1, 1)
		mustLevels(t, l, 2, 5, 7)
	})
}

func TestQuotas_TheRateBindsWhereItIsTheSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{
			Rate: throttle.PerSecond(1), Burst: 1, Quotas: []throttle.Quota{throttle.AtMost(100, time.Minute)},
		})
		mustPass(t, l, 2, 1)
		mustRefuse(t, l, time.Second, "rate 1/s (burst 1)")
	})
}

// Two buckets, a window and an interval: the front waits for the latest due of all, whichever that is.
func TestQuotas_AWaiterStartsAtTheLatestOfTheDues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := fourKinds(t, rec.trace())
		var line []*caller
		for range 17 {
			line = append(line, join(t.Context(), l, 1, 1))
		}
		time.Sleep(3 * time.Hour)
		want := []time.Duration{
			0, 0, 0, time.Second, 2 * time.Second, 3 * time.Second, // "steady"
			time.Minute, time.Minute, // "any minute" had 6
			time.Hour, time.Hour, time.Hour, time.Hour + time.Second, time.Hour + 2*time.Second, time.Hour + 3*time.Second, // "hour" had 8
			time.Hour + time.Minute, time.Hour + time.Minute,
			2 * time.Hour,
		}
		for i, c := range line {
			c.mustStartAt(t, want[i])
		}
		mustBeOnTime(t, rec.starts())
	})
}

func TestQuotas_SeveralWithoutARateNeedNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{throttle.AtMost(2, time.Second), throttle.AtMost(3, time.Minute)}})
		mustPass(t, l, 3, 2)
		time.Sleep(time.Second)
		mustPass(t, l, 3, 1)
		mustRefuse(t, l, 59*time.Second, "at most 3 in 1m0s")
	})
}

// A quota changed by name holds at once, for those who wait too, and the others stay as they are.
func TestQuotas_SetQuotaChangesTheNamedOneAtOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		q       throttle.Quota // room for 2
		next    throttle.Quota // room for 4
		startAt time.Duration  // of a third, if it is changed after 10 s
		blocked time.Duration  // of a third, if it is not
	}{
		{"bucket", throttle.Quota{Rate: throttle.Every(time.Minute), Burst: 2}, throttle.Quota{Rate: throttle.Every(12 * time.Second), Burst: 4}, 20 * time.Second, time.Minute},
		{"window", throttle.AtMost(2, time.Minute), throttle.AtMost(4, time.Minute), 10 * time.Second, time.Minute},
		{"interval", throttle.FixedWindow(2, time.Minute), throttle.FixedWindow(4, time.Minute), 10 * time.Second, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, change := range []bool{false, true} {
					begun := sinceStart()
					l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1000), Burst: 1000, Quotas: []throttle.Quota{
						named("other", throttle.AtMost(50, time.Hour)), named("q", test.q),
					}})
					mustPass(t, l, 3, 2)
					c := join(t.Context(), l, 1, 1)
					time.Sleep(10 * time.Second)
					want := test.blocked
					if change {
						mustDo(t, l.SetQuota(named("q", test.next)))
						want = test.startAt
						if got := l.Quotas()[1].Quota; got != named("q", test.next) {
							t.Fatalf("the quota in force is %v; want %v", got, test.next)
						}
					}
					time.Sleep(time.Minute)
					c.mustStartAt(t, begun+want)
					if got := l.Quotas()[0].Tokens; got != 47 {
						t.Fatalf("the other quota has %d; want 47", got)
					}
				}
			})
		})
	}
}

// Less room counts what is spent already.
func TestQuotas_SetQuotaToLessKeepsWhatIsSpent(t *testing.T) {
	for _, test := range []struct {
		name    string
		q, next throttle.Quota
		retry   time.Duration
	}{
		{"bucket", throttle.Quota{Rate: throttle.PerSecond(1), Burst: 10}, throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1}, 0},
		{"window", throttle.AtMost(10, time.Minute), throttle.AtMost(3, time.Minute), time.Minute},
		{"interval", throttle.FixedWindow(10, time.Minute), throttle.FixedWindow(3, time.Minute), time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{named("q", test.q)}})
				mustPass(t, l, 5, 5)
				mustDo(t, l.SetQuota(named("q", test.next)))
				if test.retry == 0 { // a bucket's level is cut to the burst
					mustPass(t, l, 5, 1)
					return
				}
				mustRefuse(t, l, test.retry, `"q"`)
				time.Sleep(test.retry)
				mustPass(t, l, 5, 3)
			})
		})
	}
}

func TestQuotas_SetQuotaRefusesAnUnknownNameAndAnotherKind(t *testing.T) {
	l := fourKinds(t, nil)
	bucket := throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1}
	mustSay(t, l.SetQuota(named("nobody", bucket)), throttle.ErrInvalid, `"nobody"`)
	mustSay(t, l.SetQuota(named("nobody", throttle.AtMost(1, time.Second))), throttle.ErrInvalid, `"nobody"`)
	mustSay(t, l.SetQuota(throttle.AtMost(1, time.Second)), throttle.ErrInvalid, "at most 1 in 1s")
	mustSay(t, l.SetQuota(throttle.FixedWindow(1, time.Second)), throttle.ErrInvalid, "1 each 1s")
	mustSay(t, l.SetQuota(named("steady", throttle.AtMost(1, time.Second))), throttle.ErrInvalid, "steady", "same kind")
	mustSay(t, l.SetQuota(named("any minute", bucket)), throttle.ErrInvalid, "any minute", "same kind")
	mustSay(t, l.SetQuota(named("hour", throttle.AtMost(1, time.Second))), throttle.ErrInvalid, "hour", "same kind")
	mustSay(t, l.SetQuota(named("hour", throttle.FixedWindow(0, time.Second))), throttle.ErrInvalid)
	mustSay(t, l.SetQuota(named("any minute", throttle.AtMost(1, 0))), throttle.ErrInvalid)
	mustSay(t, l.SetQuota(named("steady", throttle.Quota{Rate: throttle.PerSecond(1)})), throttle.ErrInvalid, "Burst is 0")
	mustLevels(t, l, 3, 6, 8) // nothing has changed
	// The limiter's own name, or none, is Config.Rate.
	mustDo(t, l.SetQuota(throttle.Quota{Name: "api", Rate: throttle.PerSecond(7), Burst: 7}))
	mustDo(t, l.SetQuota(throttle.Quota{Rate: throttle.PerSecond(2), Burst: 2}))
	mustHaveTokens(t, l, 2)
	mustLevels(t, l, 3, 6, 8)
}

func TestQuotas_AConfigNamesTheQuotaThatIsWrong(t *testing.T) {
	ok := throttle.AtMost(1, time.Second)
	for _, test := range []struct {
		name  string
		qs    []throttle.Quota
		words []string
	}{
		{"twice the same name", []throttle.Quota{named("a", ok), named("b", ok), named("a", throttle.FixedWindow(1, 1))}, []string{"Quotas[2]", `"a"`}},
		{"an empty one", []throttle.Quota{ok, {}}, []string{"Quotas[1]"}},
		{"a window of none", []throttle.Quota{throttle.AtMost(0, time.Second)}, []string{"Quotas[0]", "0"}},
		{"a negative window", []throttle.Quota{throttle.AtMost(-3, time.Second)}, []string{"Quotas[0]", "-3"}},
		{"a window of no length", []throttle.Quota{throttle.AtMost(3, 0)}, []string{"Quotas[0]"}},
		{"a window of negative length", []throttle.Quota{throttle.AtMost(3, -time.Second)}, []string{"Quotas[0]", "-1s"}},
		{"an interval of no length", []throttle.Quota{throttle.FixedWindow(3, 0)}, []string{"Quotas[0]"}},
		{"above the largest", []throttle.Quota{throttle.AtMost(throttle.MaxBurst+1, time.Second)}, []string{"Quotas[0]"}},
		{"a bucket that is aligned", []throttle.Quota{(throttle.Quota{Rate: throttle.PerSecond(1), Burst: 1}).AlignedTo(bubbleStart)}, []string{"Quotas[0]", "FixedWindow"}},
		{"a window that is aligned", []throttle.Quota{ok.AlignedTo(bubbleStart)}, []string{"Quotas[0]", "FixedWindow"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := throttle.New(throttle.Config{Name: "x", Quotas: test.qs})
			mustSay(t, err, throttle.ErrInvalid, append(test.words, `"x"`)...)
		})
	}
	if _, err := throttle.New(throttle.Config{Quotas: []throttle.Quota{ok, ok}}); err != nil {
		t.Errorf("two quotas without names: %v", err)
	}
	if _, err := throttle.NewBucket(ok); err == nil {
		t.Error("a Bucket was made of a window")
	}
}
