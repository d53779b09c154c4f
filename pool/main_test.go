package pool_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/turnstile-go/turnstile/throttle"
)

// TestMain runs the package's tests and then asserts that nothing is left running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLimiter returns a limiter of config c, or ends the test.
func newLimiter(t testing.TB, c throttle.Config) *throttle.Limiter {
	t.Helper()
	l, err := throttle.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return l
}
