module github.com/turnstile-go/turnstile/throttlehttp

go 1.26.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/turnstile-go/turnstile v0.0.0
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sync v0.25.0 // indirect

replace github.com/turnstile-go/turnstile => ..
