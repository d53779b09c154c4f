package throttleredis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var parts embed.FS

// script is the text of the one script, whose parts are joined in the order of their names.
var script, scriptSHA = func() (string, string) {
	names, err := fs.Glob(parts, "lua/*.lua")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	var text []byte
	for _, name := range names {
		part, err := parts.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		text = append(text, part...)
	}
	sum := sha1.Sum(text)
	return string(text), hex.EncodeToString(sum[:])
}()

// errStale: a batch arrived after its successor. It did nothing.
var errStale = errors.New("throttleredis: the call was overtaken by a later one")

// run sends one batch until it is answered or timeout has passed. To send it again is harmless, since the batch is numbered: the half of
// the time is for the first try, so that a lost reply leaves time for a second.
func run(client redis.UniversalClient, timeout time.Duration, keys []string, args []any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	pause := timeout / 50
	for try := 0; ; try++ {
		one, end := ctx, context.CancelFunc(func() {})
		if try == 0 {
			one, end = context.WithTimeout(ctx, timeout/2)
		}
		answer, err := client.EvalSha(one, scriptSHA, keys, args...).Text()
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			answer, err = client.Eval(one, script, keys, args...).Text()
		}
		end()
		if err == nil {
			return answer, nil
		}
		if final(err) || ctx.Err() != nil {
			return "", err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return "", err
		}
	}
}

// final reports whether to try again would bring the same answer: Redis itself said no, and not for a passing reason.
func final(err error) bool {
	var said redis.Error
	if !errors.As(err, &said) {
		return errors.Is(err, redis.ErrClosed)
	}
	for _, passing := range []string{"LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "BUSY", "NOSCRIPT", "MOVED", "ASK"} {
		if redis.HasErrorPrefix(err, passing) {
			return false
		}
	}
	return true
}

func schemaError(name, schema string) error {
	return fmt.Errorf("throttleredis: %q: the keys have schema %s, and this program knows %d; upgrade it: %w", name, schema, 1, ErrSchema)
}
