package throttlehttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
)

// A KeyFunc says whose request it is. "" is nobody's in particular: such requests share one budget. The name of an authenticated user is best
// taken by a function of your own, from where your authentication has put it:
//
//	func(r *http.Request) string { return userOf(r.Context()) }
//
// RemoteIP is the address of the connection; NewClientIP that of the client behind proxies; HeaderKey a field's value; JoinKeys a
// key of several parts; FirstKey the first that there is.
type KeyFunc func(*http.Request) string

// maxKey is the longest key in bytes that is kept as it is.
const maxKey = 64

// keyOf returns r's key, shortened.
func keyOf(f KeyFunc, r *http.Request) string {
	if f == nil {
		return ""
	}
	return shorten(f(r))
}

// shorten returns key, or what stands for it if it is longer than maxKey: longer than maxKey itself, so that no short key equals it.
func shorten(key string) string {
	if len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// HeaderKey returns the key that is the value of a request's header field, the whole of it; of several values, the first. Where clients choose the
// value freely, each new one is a new budget: take one that has been verified.
func HeaderKey(name string) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string {
		if values := r.Header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// JoinKeys returns the key that has all of parts. Each part is written behind its length, so that different parts never make the same key,
// whatever characters are in them.
func JoinKeys(parts ...KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		var key []byte
		for _, part := range parts {
			text := part(r)
			key = strconv.AppendInt(key, int64(len(text)), 10)
			key = append(key, ':')
			key = append(key, text...)
		}
		return string(key)
	}
}

// FirstKey returns the key that is the first of choices that is not "", behind its place among them, so that a user called 192.0.2.1 is not
// the address of that name.
func FirstKey(choices ...KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		for i, choice := range choices {
			if text := choice(r); text != "" {
				return strconv.Itoa(i) + ":" + text
			}
		}
		return ""
	}
}
