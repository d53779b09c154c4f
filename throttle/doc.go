// Package throttle calls a downstream neither too fast nor too many at a time.
//
// A Limiter combines a rate limit (a token bucket) with an in-flight limit (permits of a
// semaphore) behind one line. Callers start in the order in which they came; the one in front waits for
// its token, then for its permit, and both are taken at the instant at which it starts:
//
//	lim, err := throttle.New(throttle.Config{
//		Name: "api", Rate: throttle.PerSecond(10), Burst: 5, MaxInFlight: 3,
//	})
//	...
//	permit, err := lim.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer permit.Release()
//
// # Which type do I want?
//
//   - A rate, a cap, or both, shared by goroutines: Limiter.
//   - Several quotas at once, of several kinds: Config.Quotas, with AtMost and FixedWindow.
//   - Tenants below a host below a global limit, in turns: Config.Parent.
//   - A limiter for each key, made and forgotten by itself: Keyed.
//   - A cost that is known only afterwards: Config.Settled and Permit.Settle.
//   - One cap under several rates: a Semaphore, given to several Limiters.
//   - A token bucket on instants of my own, in one goroutine: Bucket.
//
// # The contract
//
// The tests are named after these.
//
//   - C1, rate: in every window of length t, the cost of all starts is at most Burst + Rate x t,
//     counted at starts, not at some earlier reservation. This is exact for nominal starts; real ones, which
//     timers may delay, keep Burst + Rate x (t + Slack). A live change of the rate counts from its instant on, and
//     a higher burst adds no tokens.
//   - C2, in flight: no start makes the weight held exceed the cap in force.
//   - C3, order: callers start in the order in which they joined the line. No try, no newcomer and no small
//     cost overtakes.
//   - C4, free to leave: a caller that gives up takes nothing and costs nobody anything. One that was done
//     before its start is never started; a start made first stands.
//   - C5, no idle capacity: if the front caller can be paid for and a permit is free, it starts.
//   - C6, three kinds of no: never (ErrTooLarge, ErrClosed), not yet (*NotYetError, with the wait) and the
//     caller's own context (*LeftError). A caller whose deadline is not after its start, as reckoned, is told at once.
//   - C7, live limits: SetRate, SetBurst, SetQuota and SetMaxInFlight hold at once, for those who wait too.
//   - C8, once: a permit is released once, however often Release is called, and a panic in Do releases.
//   - C9, quiet: no background goroutine, at most one armed timer per limiter, nothing left once the last
//     caller has gone.
//   - C10, exact: token arithmetic is that of rational numbers; waits beyond 292 years saturate.
//   - C11, time: monotonic. An instant that comes late mints nothing; after a pause of the process the
//     catch-up is at most Slack.
//
// # Nominal starts
//
// Timers of an idle process fire up to a millisecond late. If each start were counted from the instant
// at which a timer happened to fire, 10,000/s at burst 1 would reach a tenth of that. So a start is charged as of the
// instant at which it was due, its nominal start, which may lie up to Slack before the real one. Waiting for a
// permit earns nothing of the kind.
package throttle
