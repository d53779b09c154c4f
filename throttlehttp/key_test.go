package throttlehttp_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttlehttp"
)

// part is the key of a header field.
func part(n int) throttlehttp.KeyFunc { return throttlehttp.HeaderKey(fmt.Sprintf("Part-%d", n)) }

func TestKEY07_PartsOfAKeyDoNotRunTogether(t *testing.T) {
	k := newKeyed(t, rate(1, time.Hour, 1))
	h := guardOf(t, throttlehttp.Rule{Limiters: k, Key: throttlehttp.JoinKeys(part(1), part(2))}).Wrap(ok)
	for _, parts := range [][2]string{{"aa", "b"}, {"a", "ab"}, {"a:1", "b"}, {"a", "1:b"}, {"aab", ""}, {"", "aab"}} {
		if res := serve(h, request("192.0.2.1:1", "Part-1", parts[0], "Part-2", parts[1])); res.StatusCode != 200 {
			t.Errorf("%q is told %d; want 200, for nobody has used that key", parts, res.StatusCode)
		}
	}
	// The property, over all pairs of short strings of the characters that could confuse.
	words := []string{""}
	for _, a := range []string{"0", "1", ":", "2:", "a"} {
		for _, w := range append([]string(nil), words...) {
			words = append(words, w+a)
		}
	}
	seen := map[string][2]string{}
	join := throttlehttp.JoinKeys(part(1), part(2))
	for _, a := range words {
		for _, b := range words {
			r := &http.Request{Header: http.Header{"Part-1": {a}, "Part-2": {b}}}
			key := join(r)
			if other, ok := seen[key]; ok {
				t.Fatalf("%q and %q have the same key %q", other, [2]string{a, b}, key)
			}
			seen[key] = [2]string{a, b}
		}
	}
}

func TestFirstKeyKeepsKindsApart(t *testing.T) {
	f := throttlehttp.FirstKey(throttlehttp.HeaderKey("User"), throttlehttp.RemoteIP)
	user, address := f(request("198.51.100.7:1", "User", "192.0.2.1")), f(request("192.0.2.1:1"))
	if user == address || user == "" || address == "" {
		t.Errorf("the user of that name is %q, the address %q; want two keys", user, address)
	}
	if got := f(request("@")); got != "" {
		t.Errorf("nobody is %q; want none", got)
	}
}

func TestKEY12_TheWholeValueIsTheKey(t *testing.T) {
	for _, prefix := range []string{"sk_live_ab", strings.Repeat("x", 1000)} {
		h := guardOf(t, throttlehttp.Rule{Limiters: newKeyed(t, rate(1, time.Hour, 1)), Key: throttlehttp.HeaderKey("x-api-key")}).Wrap(ok)
		for _, last := range []string{"1", "2"} {
			if res := serve(h, request("192.0.2.1:1", "X-Api-Key", prefix+last)); res.StatusCode != 200 {
				t.Errorf("%d characters and %s: told %d; want 200", len(prefix), last, res.StatusCode)
			}
		}
		if res := serve(h, request("192.0.2.1:1", "X-Api-Key", prefix+"1")); res.StatusCode != 429 {
			t.Errorf("the first again is told %d; want 429", res.StatusCode)
		}
	}
}

func TestKEY14_LongKeysAreNotKept(t *testing.T) {
	k := newKeyed(t, rate(1, time.Hour, 1))
	h := guardOf(t, throttlehttp.Rule{Limiters: k, Key: throttlehttp.HeaderKey("Email")}).Wrap(ok)
	before := heap()
	for i := range 100 {
		serve(h, request("192.0.2.1:1", "Email", strings.Repeat("x", 1<<20)+fmt.Sprint(i)))
	}
	if kept := heap() - before; k.Len() != 100 || kept > 1<<20 {
		t.Errorf("%d keys, %d bytes kept; want 100, below 1 MiB", k.Len(), kept)
	}
	for key := range k.All() {
		if len(key) != len("sha256:")+64 {
			t.Fatalf("a key has %d bytes", len(key))
		}
	}
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A key that looks like a hashed one is another: nothing of 64 bytes or less has the length of one.
func TestAShortKeyIsNoHash(t *testing.T) {
	k := newKeyed(t, rate(1, time.Hour, 1))
	h := guardOf(t, throttlehttp.Rule{Limiters: k, Key: throttlehttp.HeaderKey("Key")}).Wrap(ok)
	serve(h, request("192.0.2.1:1", "Key", strings.Repeat("x", 65)))
	for hashed := range k.All() {
		if res := serve(h, request("192.0.2.1:1", "Key", hashed)); res.StatusCode != 200 {
			t.Errorf("who sends %q is told %d; want 200", hashed, res.StatusCode)
		}
	}
}
