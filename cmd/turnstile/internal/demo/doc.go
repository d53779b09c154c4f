// Package demo calls real HTTP servers on the loopback interface three ways at the same limits:
// rate.Wait then semaphore.Acquire, semaphore.Acquire then rate.Wait, and Turnstile. It shows what each of them
// did, in the terminal and as a page. Nothing is simulated, and every number is measured:
//
//   - starts of the hand-made ways: the clock, read as soon as the second of the two calls returned;
//   - starts of Turnstile: the instant of the start in its own Trace;
//   - received, and in flight at the server: the clock, read first thing in the server's handler
//     and last thing before it answers. Between start and receipt lies the network, so these jitter.
//
// Permits of Turnstile and of rate-then-semaphore are taken at the start, so that none is held before it.
//
// All scenarios and ways run at the same time, each against a server of its own.
package demo
