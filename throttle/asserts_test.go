package throttle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/throttle"
)

// mustSay asserts that err is of the kind is, and that its text begins with the package's name and has every word.
func mustSay(t testing.TB, err, is error, words ...string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("got no error; want %v with %q", is, words)
	case !errors.Is(err, is):
		t.Fatalf("got %v; want errors.Is of %v", err, is)
	case !strings.HasPrefix(err.Error(), "throttle: "):
		t.Fatalf("the text %q does not begin with the package's name", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("the text %q lacks %q", err, w)
		}
	}
}

// passing returns how many of n tries pass at this instant. Their permits are kept.
func passing(l *throttle.Limiter, n int) int {
	passed := 0
	for range n {
		if _, err := l.TryAcquire(); err == nil {
			passed++
		}
	}
	return passed
}

// mustPass asserts that exactly want of n tries pass at this instant.
func mustPass(t testing.TB, l *throttle.Limiter, n, want int) {
	t.Helper()
	if got := passing(l, n); got != want {
		t.Fatalf("%d of %d tries passed; want %d", got, n, want)
	}
}

// mustDo ends the test where a setter that is right says no.
func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v; want no error", err)
	}
}

// mustHaveTokens asserts the whole tokens there.
func mustHaveTokens(t testing.TB, l *throttle.Limiter, want int64) {
	t.Helper()
	if got := l.Stats().Tokens; got != want {
		t.Fatalf("the bucket has %d tokens; want %d", got, want)
	}
}
