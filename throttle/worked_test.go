package throttle_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// The worked cases that every release reproduces. Those of a rate with a cap are in worked_flight_test.go.

// A step is one Take of a token at an instant since the first, and its answer.
type step struct {
	at         time.Duration
	allowed    bool
	remaining  int64
	retryAfter time.Duration
}

func TestWorked_TokenBucket(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name  string
		rate  throttle.Rate
		burst int64
		begin time.Duration // the first take, since the bucket was made
		steps []step
	}{
		{"two pass, a third fails, and after 1.1 s exactly one more", throttle.PerSecond(1), 2, 0, []step{
			{0, true, 1, 0}, {0, true, 0, 0}, {0, false, 0, s}, {1100 * ms, true, 0, 0}, {1100 * ms, false, 0, 900 * ms},
		}},
		{"an idle hour saves up 3 of 10", throttle.PerSecond(10), 3, 0, []step{
			{0, true, 2, 0}, {time.Hour, true, 2, 0}, {time.Hour, true, 1, 0}, {time.Hour, true, 0, 0},
			{time.Hour, false, 0, 100 * ms}, {time.Hour, false, 0, 100 * ms}, {time.Hour, false, 0, 100 * ms}, {time.Hour, false, 0, 100 * ms},
			{time.Hour, false, 0, 100 * ms}, {time.Hour, false, 0, 100 * ms}, {time.Hour, false, 0, 100 * ms},
		}},
		{"0.25 of a token at 2/s waits 375 ms", throttle.PerSecond(2), 1, 0, []step{
			{0, true, 0, 0}, {125 * ms, false, 0, 375 * ms},
		}},
		{"capacity 3, four at one instant", throttle.Every(2 * s), 3, 0, []step{
			{0, true, 2, 0}, {0, true, 1, 0}, {0, true, 0, 0}, {0, false, 0, 2 * s}, {1 * s, false, 0, 1 * s}, {2 * s, true, 0, 0},
		}},
		{"partial time is kept", throttle.Every(2 * s), 1, 0, []step{
			{0, true, 0, 0}, {1 * s, false, 0, 1 * s}, {2 * s, true, 0, 0},
		}},
		{"time spent full counts for nothing", throttle.Every(2 * s), 1, 1 * s, []step{
			{1 * s, true, 0, 0}, {2 * s, false, 0, 1 * s}, {3 * s, true, 0, 0},
		}},
		{"emptied, then 20 s idle: two pass", throttle.Every(1 * s), 2, 0, []step{
			{0, true, 1, 0}, {0, true, 0, 0}, {20 * s, true, 1, 0}, {20 * s, true, 0, 0}, {20 * s, false, 0, 1 * s},
		}},
		{"an instant earlier than the last mints nothing", throttle.Every(2 * s), 1, 0, []step{
			{10 * s, true, 0, 0}, {5 * s, false, 0, 2 * s}, {12 * s, true, 0, 0},
		}},
		{"nor if it is let through", throttle.Every(2 * s), 3, 0, []step{
			{10 * s, true, 2, 0}, {5 * s, true, 1, 0}, {9 * s, true, 0, 0}, {9 * s, false, 0, 2 * s}, {11 * s, false, 0, 1 * s},
		}},
		{"a wait of 0.4 s, and whole tokens left", throttle.PerSecond(1), 2, 0, []step{
			{0, true, 1, 0}, {600 * ms, true, 0, 0}, {600 * ms, false, 0, 400 * ms},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBucket(t, c.rate, c.burst)
			if c.begin > 0 { // time passes before the first spend: a take that is never allowed shows it to the bucket
				b.Take(bubbleStart, c.burst+1)
			}
			for i, want := range c.steps {
				d := b.Take(bubbleStart.Add(want.at), 1)
				if got := (step{want.at, d.Allowed, d.Remaining, d.RetryAfter}); got != want {
					t.Errorf("take %d: %+v; want %+v", i, got, want)
				}
			}
		})
	}
}

func TestWorked_TriedEvery10msExactly54PassAndTheTryAt10sIsThe55th(t *testing.T) {
	b := newBucket(t, throttle.PerSecond(5), 5)
	passed := 0
	for i := range 1000 {
		if b.Take(bubbleStart.Add(time.Duration(i)*10*time.Millisecond), 1).Allowed {
			passed++
		}
	}
	if passed != 54 {
		t.Errorf("%d of 1,000 tries pass; want 54", passed)
	}
	if d := b.Take(bubbleStart.Add(10*time.Second), 1); !d.Allowed {
		t.Errorf("the try at 10 s: %+v; want allowed", d)
	}
}

func TestWorked_ConstructorsNameTheWrongField(t *testing.T) {
	for _, c := range []struct {
		field string
		rate  throttle.Rate
		burst int64
	}{
		{"Burst", throttle.PerSecond(1), 0},
		{"Burst", throttle.PerSecond(1), -1},
		{"Period", throttle.Per(1, 0), 1},
		{"Period", throttle.Per(1, -time.Second), 1},
		{"N", throttle.PerSecond(-1), 1},
		{"N", throttle.Per(0, time.Second), 1},
		{"Rate", throttle.PerSecond(2_000_000_000), 1},
	} {
		_, err := throttle.NewBucket(throttle.Quota{Rate: c.rate, Burst: c.burst})
		if !errors.Is(err, throttle.ErrInvalid) || !strings.Contains(err.Error(), c.field+" is ") {
			t.Errorf("NewBucket of %+v: %v; want ErrInvalid that names %s", c, err, c.field)
		}
		_, err = throttle.New(throttle.Config{Rate: c.rate, Burst: c.burst})
		if !errors.Is(err, throttle.ErrInvalid) || !strings.Contains(err.Error(), c.field+" is ") {
			t.Errorf("New of %+v: %v; want ErrInvalid that names %s", c, err, c.field)
		}
	}
}

func TestWorked_SixCallersStartInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(2), Burst: 2})
		var callers []*caller
		for range 6 {
			callers = append(callers, join(t.Context(), l, 1, 1))
		}
		time.Sleep(3 * time.Second)
		for i, ms := range []time.Duration{0, 0, 500, 1000, 1500, 2000} {
			callers[i].mustStartAt(t, ms*time.Millisecond)
		}
	})
}

// A gcra is the same limit seen as a generic cell rate algorithm: a theoretical arrival time.
type gcra struct{ spacing, tolerance, tat time.Duration }

// take asks at the instant now; wait is 0 if it conforms.
func (g *gcra) take(now time.Duration) (wait time.Duration) {
	if early := g.tat - g.tolerance; now < early {
		return early - now
	}
	g.tat = max(now, g.tat) + g.spacing
	return 0
}

func TestWorked_GCRAViewIsTheSame(t *testing.T) {
	const ms = time.Millisecond
	g := gcra{spacing: 500 * ms, tolerance: 500 * ms}
	b := newBucket(t, throttle.PerSecond(2), 2)
	for i, want := range []struct{ tat, wait time.Duration }{{500 * ms, 0}, {1000 * ms, 0}, {1000 * ms, 500 * ms}} {
		wait, d := g.take(0), b.Take(bubbleStart, 1)
		if g.tat != want.tat || wait != want.wait || d.RetryAfter != want.wait || d.Allowed != (want.wait == 0) {
			t.Errorf("take %d: arrival time %v, wait %v; bucket %+v; want %v and %v", i, g.tat, wait, d, want.tat, want.wait)
		}
	}
	random := rand.New(rand.NewPCG(2, 500))
	var now time.Duration
	for i := range 10_000 {
		now += time.Duration(random.IntN(int(600 * ms)))
		for range random.IntN(3) {
			if wait, d := g.take(now), b.Take(bubbleStart.Add(now), 1); d.RetryAfter != wait || d.Allowed != (wait == 0) {
				t.Fatalf("take %d at %v: wait %v; bucket %+v", i, now, wait, d)
			}
		}
	}
}

// passes counts the tokens that b lets through when tried as often as every gap from from to to, ends included, and
// returns the most of them in any window of length w.
func passes(b *throttle.Bucket, from, to, gap, w time.Duration) (n, most int) {
	var at []time.Time
	for i := from; i <= to; i += gap {
		for b.Take(bubbleStart.Add(i), 1).Allowed {
			at = append(at, bubbleStart.Add(i))
		}
	}
	return len(at), mostIn(at, w)
}

func TestWorked_ChoosingNumbers(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	all := 0
	for range 200 {
		b := newBucket(t, throttle.PerSecond(10), 10)
		b.Take(bubbleStart, 10)
		n, _ := passes(b, 0, 10*s, 100*ms, s)
		all += n
	}
	if all != 2000*10 {
		t.Errorf("200 clients of 10/s pass %d in 10 s; want 2,000/s", all)
	}

	for _, c := range []struct {
		capacity  int64
		recovered time.Duration
	}{{10, 1 * s}, {600, 60 * s}} {
		b := newBucket(t, throttle.PerSecond(10), c.capacity)
		if !b.Take(bubbleStart, c.capacity).Allowed { // 600: a minute of traffic at once
			t.Errorf("capacity %d: not all at once", c.capacity)
		}
		if b.Take(bubbleStart.Add(c.recovered-1), c.capacity).Allowed || !b.Take(bubbleStart.Add(c.recovered), c.capacity).Allowed {
			t.Errorf("capacity %d at 10/s is not full again after exactly %v", c.capacity, c.recovered)
		}
	}

	// Where a fixed window of 100 a minute lets 200 through in 2 s around its edge, a bucket lets through
	// capacity + rate x t: 103 in 2 s, 200 in 60 s; and 100 in 60 s where capacity + rate x 60 s is 100.
	for _, c := range []struct {
		rate, capacity int64
		w              time.Duration
		most           int
	}{
		{100, 100, 2 * s, 103},
		{100, 100, 60 * s, 200},
		{50, 50, 60 * s, 100},
	} {
		b := newBucket(t, throttle.PerMinute(c.rate), c.capacity)
		b.Take(bubbleStart, c.capacity+1) // full, and idle until 59 s
		if _, most := passes(b, 59*s, 240*s, 100*ms, c.w); most != c.most {
			t.Errorf("capacity %d, %d a minute: at most %d pass in %v; want %d", c.capacity, c.rate, most, c.w, c.most)
		}
	}
}

// What a client is told as Retry-After: 1 is the adapter's rounding; the core tells the wait exactly.
func TestWorked_WaitOf400msIsToldExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{Rate: throttle.PerSecond(1), Burst: 1})
		mustTry(t, l, 1, 1)
		time.Sleep(600 * time.Millisecond)
		if got := retryAfter(t, l); got != 400*time.Millisecond {
			t.Errorf("the wait told is %v; want 400 ms", got)
		}
		if s := l.Stats(); s.Tokens != 0 {
			t.Errorf("%d tokens; want 0: whole tokens count", s.Tokens)
		}
	})
}
