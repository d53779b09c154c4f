package throttlehttp_test

import _ "github.com/turnstile-go/turnstile/throttle"
