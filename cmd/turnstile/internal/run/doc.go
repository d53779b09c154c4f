// Package run reads lines and runs each, as a URL to fetch or a command to execute, under the
// limits of one throttle.Limiter. Results are JSON lines.
//
// One goroutine reads the input, one lets lines join the limiter's line in the order of the input,
// and one goroutine for each line that waits or runs does the rest:
//
//	read -> (16 lines) -> join -> wait for the turn -> run -> result
//
// So at most InFlight lines run, ahead lines wait (10 ms worth of the rate, 1 to 256), and 17 more are
// read, whatever the input's length. A line that has started keeps 24 bytes to the end, for the summary, which
// takes some 200 more for a moment to judge the starts against a rate.
// With KeepOrder finished results wait for earlier ones: up to 1,024 lines and about 32 MiB, beyond
// which nothing more is started until the earliest has finished.
package run
