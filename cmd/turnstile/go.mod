module github.com/turnstile-go/turnstile/cmd/turnstile

go 1.26.0

require (
	github.com/spf13/cobra v1.10.2
	github.com/turnstile-go/turnstile v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.25.0
	golang.org/x/term v0.48.0
	golang.org/x/time v0.16.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/turnstile-go/turnstile => ../..
