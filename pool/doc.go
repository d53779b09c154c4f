// Package pool runs many tasks under a limiter: a producer is held back until each may start.
//
// Which one do I want?
//
//   - Tasks of any kind, added one by one, as with errgroup: Group.
//   - The same function for each item of a sequence: ForEach.
//   - The same, and its results, in the order of the items or as they come: Map.
//
// A task waits in the limiter's line before it has a goroutine, and under the context of whoever adds it. So there are as many goroutines as
// tasks in flight, however many are to come; tasks start in the order in which they were added; and a task that nobody waits for any more takes nothing.
//
// # Outcomes
//
// Each task has one outcome: it was refused by the limiter, or its function returned, panicked or called runtime.Goexit. A panic is
// carried to the caller of Wait, with the stack of where it happened; so is a Goexit, which t.FailNow makes in a test.
package pool
