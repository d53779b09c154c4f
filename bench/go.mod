module github.com/turnstile-go/turnstile/bench

go 1.26.0

replace github.com/turnstile-go/turnstile => ../

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/juju/ratelimit v1.0.2
	github.com/klauspost/cpuid/v2 v2.4.2
	github.com/turnstile-go/turnstile v0.0.0
	go.uber.org/goleak v1.3.0
	go.uber.org/ratelimit v0.3.1
	golang.org/x/sync v0.25.0
	golang.org/x/time v0.16.0
)

require (
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/kr/text v0.2.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
)
