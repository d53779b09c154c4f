module github.com/turnstile-go/turnstile/throttleredis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/turnstile-go/turnstile v0.0.0
	go.uber.org/goleak v1.3.0
)

replace github.com/turnstile-go/turnstile => ..
