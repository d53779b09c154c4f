// Package throttleredis shares the limits of package throttle between processes, through Redis: a rate and an in-flight
// cap, in front of which the callers of all processes form one line.
//
// A Limiter is a throttle.Admitter, so that adapters take it where they take a throttle.Limiter.
//
// How it works. Each process keeps a line of its own. Up to Batch callers of its front are brought before Redis together, with all that the
// process has to say at that moment (releases, renewals), in one script call that decides all of it at one instant of the server's clock.
// Only one such call of a limiter is on its way from a process at a time, and it is numbered: sent again after a lost reply, it is answered as it
// was the first time. So a lost reply costs no token and no permit.
//
// A permit is a lease. It is renewed while it is held; when the process dies it ends. The holder counts by its own monotonic clock, from
// before the call was sent, and has its context cancelled, with ErrLeaseLost as the cause, before the lease can have been given to another.
//
// There is no goroutine and no connection in use while nothing is held and nobody waits; the subscription for wake-ups stays for a second.
package throttleredis
