// Package fake is what you need to test your own rate-limited code deterministically: no sleeping, no wall clock, no
// thresholds. It imports the standard library alone, not package testing, and nothing of package throttle.
//
//	you want to                                                      take
//	move time by hand, and know when timers are armed                Clock
//	the same for contexts with a deadline                            Clock.WithTimeout, Clock.WithDeadline
//	wait until n callers are in line, without sleeping               Until
//	have something slow to call: service times, stalls, failures     Downstream, Dist, Stall
//	see which calls reached it, and when                             Downstream.Ledger
//	record what a limiter did, from its trace callbacks              Ledger
//	prove that rate, cap and order held, changes of limits too       Audit
//	judge a plain list of instants against burst + rate*t            WorstWindow
//	find permits that nobody released, and who took them             Leaks
//
// Within a testing/synctest bubble time is virtual already: leave the clock nil everywhere, use synctest.Wait for Until, and
// take the rest as it is.
//
// Values out of range are errors that name the field, the value and what would be right. Only a bug in the test's own source panics: a
// negative Advance, a nil function, a nil parent context, a callback that arms itself again without delay for ever.
package fake
