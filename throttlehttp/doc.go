// Package throttlehttp shapes HTTP: the calls that go out, and those that come in.
//
// A [Transport] is an http.RoundTripper around another. Each request waits in the line of a limiter before it leaves, and holds its permit until
// its response has been read. What servers say about their limits, in Retry-After and in the many forms of rate limit headers, is heeded.
//
// Errors begin with "throttlehttp: " or "throttle: ", and say which limit held a request back.
package throttlehttp
