module github.com/turnstile-go/turnstile/throttleredis

go 1.26.0

require github.com/turnstile-go/turnstile v0.0.0

replace github.com/turnstile-go/turnstile => ..
