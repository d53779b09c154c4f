//go:build race

package throttle

// raced says that the race detector runs. It makes the state machine's tests ten times as slow, and has nothing
// to find in their one goroutine: they are shorter then.
const raced = true
