// Package turnstile is the front page of a toolkit that calls a downstream neither too fast nor
// too many at a time. The code is in its packages:
//
//   - [github.com/turnstile-go/turnstile/throttle]: the Limiter, which combines a rate limit with
//     an in-flight limit behind one fair line. Begin there.
//   - [github.com/turnstile-go/turnstile/fake]: a clock, a downstream, an auditor and a leak
//     finder, to test code that is shaped by it.
//
// Commands and adapters are modules of their own, so that the toolkit needs nothing beyond
// golang.org/x/sync.
//
// This package itself exports nothing. Its tests are the toolkit's proof: stress_test.go runs limiters
// under many goroutines, random costs, cancellations and live changes, and audits every start against
// the contract C1 to C11 that package throttle documents.
package turnstile
