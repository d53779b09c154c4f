// Package adapt gives limiters the shape of others' limiters, for code that takes one of those.
//
//	the code takes                                          give it       made by
//	Wait(ctx) error, or more of x/time/rate's methods       *Rate         NewRate
//	Take() time.Time, as of uber-go/ratelimit               *Pacer        NewPacer
//	Kubernetes client-go's flowcontrol.RateLimiter          *Flow         NewFlow
//	x/sync/semaphore's Acquire, TryAcquire and Release      *Semaphore    NewSemaphore
//
// The first three shapes tell when to start and never hear of an end. So they are for limiters that have nothing to release: the constructors
// refuse one with an in-flight cap, here or above, or with Config.Settled, by an error that is throttle.ErrCapped. A cap needs code that releases:
// call the limiter itself, or take a Semaphore.
//
// Code that you may change is better off with the limiter's own methods: docs/migrating.md shows how.
package adapt
