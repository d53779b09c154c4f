package fake

import (
	"math"
	"math/big"
	"testing"
	"time"
)

func TestTheBucketMatchesTheWorkedCases(t *testing.T) {
	at := func(d time.Duration) time.Time { return Epoch.Add(d) }
	b := newTokenBucket(1, 2*time.Second, 3)
	for i, want := range []bool{true, true, true, false} {
		if got := b.take(at(0), 1); got != want {
			t.Errorf("take %d: %v", i, got)
		}
	}
	if w := b.wait(1); w != 2*time.Second {
		t.Errorf("wait %v, want 2s", w)
	}
	b.to(at(time.Second))
	if w := b.wait(1); w != time.Second || b.take(at(time.Second), 1) || !b.take(at(2*time.Second), 1) {
		t.Errorf("wait %v, want 1s, then a take at 2s", w)
	}
	b.to(at(time.Second)) // earlier than the last: nothing
	if b.tokens().Sign() != 0 || b.wait(1) != 2*time.Second {
		t.Errorf("an earlier instant minted: %v", b.tokens())
	}
	if b.to(at(2 * time.Second)); b.tokens().Sign() != 0 { // nor does the way back
		t.Errorf("the way back minted: %v", b.tokens())
	}
	third := newTokenBucket(3, time.Second, 1)
	third.take(at(0), 1)
	if w := third.wait(1); w != 333_333_334 {
		t.Errorf("wait %v, want a third of a second, rounded up", w)
	}

	passed := 0
	five := newTokenBucket(5, time.Second, 5)
	for i := range 1000 {
		if five.take(at(time.Duration(i)*10*time.Millisecond), 1) {
			passed++
		}
	}
	if passed != 54 || !five.take(at(10*time.Second), 1) {
		t.Errorf("%d passed, want 54 and a 55th at 10 s", passed)
	}
}

func TestAChangeOfRateRoundsThePartTokenDown(t *testing.T) {
	b := newTokenBucket(1, 10, 5) // 1 per 10 ns
	b.to(Epoch)
	b.take(Epoch, 5)
	b.to(Epoch.Add(27))              // 2.7 tokens
	b.change(Epoch.Add(27), 1, 4, 5) // 0.7 of 4: 2.8, down to 2
	if want := big.NewRat(5, 2); b.tokens().Cmp(want) != 0 {
		t.Errorf("level %v, want %v", b.tokens(), want)
	}
	b.change(Epoch.Add(27), 1, 4, 9) // more burst adds nothing
	if want := big.NewRat(5, 2); b.tokens().Cmp(want) != 0 {
		t.Errorf("level %v after a higher burst, want %v", b.tokens(), want)
	}
	b.change(Epoch.Add(27), 1, 4, 2) // less burst cuts
	if want := big.NewRat(2, 1); b.tokens().Cmp(want) != 0 {
		t.Errorf("level %v after a lower burst, want %v", b.tokens(), want)
	}
}

func TestTheBucketIsExactAtTheEnds(t *testing.T) {
	b := newTokenBucket(1, 365*24*time.Hour, 1<<62)
	b.take(Epoch, 1<<62)
	if w := b.wait(1 << 62); w != math.MaxInt64 {
		t.Errorf("wait %v, want it saturated", w)
	}
	far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // beyond what a Duration holds
	b.to(far)
	if want := big.NewRat(far.Unix()-Epoch.Unix(), 365*86400); b.tokens().Cmp(want) != 0 {
		t.Errorf("level %v, want %v", b.tokens(), want)
	}
}
