package throttlehttp_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the package's tests and then asserts that nothing is left running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
