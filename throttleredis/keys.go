package throttleredis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// keys are the names of a limiter's keys. All have one hash tag, so that a cluster keeps them in one slot.
type keys struct {
	state string   // hash: settings, bucket, fence. Its name and ":" and a process is that process's channel
	all   []string // as KEYS of the script: state, leases, queue, seen, fences, and the record of the process
}

// keysOf returns the keys of a limiter, as process sees them. Braces and what is not plain in the name are written as %XX, so
// that no name can break the hash tag or be taken for another.
func keysOf(prefix, name, process string) keys {
	state := "{" + prefix + ":" + escape(name) + "}"
	return keys{state, []string{state, state + ":l", state + ":q", state + ":w", state + ":f", state + ":r:" + process}}
}

func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c == '%' || c == '{' || c == '}' || c == ':' || c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// newProcess returns the name of a process: random, so that a restarted one is another.
func newProcess() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
