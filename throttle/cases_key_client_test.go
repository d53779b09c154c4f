package throttle_test

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/throttle"
)

// The cases of kind KEY that are about who the client is.

// Parts of a key need not be joined, so that they cannot run together.
func TestKEY_07_PartsDoNotCollide(t *testing.T) {
	type key struct{ method, path string }
	k := newKeyed[key](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1})
	for i, parts := range []key{{"aa", "b"}, {"a", "ab"}, {"", "aab"}, {"aab", ""}, {"a:", "b"}, {"a", ":b"}, {"a:b", ""}, {":", ":"}, {"::", ""}} {
		passKey(t, k, parts, 2, 1)
		haveKeys(t, k, i+1)
	}
}

// Which key a request has is the server's affair (it reads no header of an untrusted peer); here, one key is one budget.
func TestKEY_08_OneSocketAddressIsOneBudget(t *testing.T) {
	k := newKeyed[netip.Addr](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 5})
	passed := 0
	for range 100 {
		peer := netip.MustParseAddrPort("192.0.2.7:4711")
		if _, err := k.TryAcquire(peer.Addr()); err == nil {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 100 passed; want 5", passed)
	}
	haveKeys(t, k, 1)
}

// Masking addresses is the server's affair; here, a masked netip.Prefix is a key as it is.
func TestKEY_09_AnIPv6PrefixIsOneKey(t *testing.T) {
	client := func(addr string) netip.Prefix {
		a := netip.MustParseAddr(addr).Unmap().WithZone("")
		bits := 64
		if a.Is4() {
			bits = 32
		}
		p, err := a.Prefix(bits)
		mustDo(t, err)
		return p
	}
	k := newKeyed[netip.Prefix](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 5})
	passed := 0
	for i := range 100 {
		a := netip.MustParseAddr("2001:db8::").As16()
		binary.BigEndian.PutUint64(a[8:], uint64(i)<<40)
		if _, err := k.TryAcquire(client(netip.AddrFrom16(a).String())); err == nil {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 100 passed; want 5", passed)
	}
	passKey(t, k, client("2001:db8:0:1::1"), 1, 1)
	passKey(t, k, client("::ffff:1.2.3.4"), 5, 5)
	passKey(t, k, client("1.2.3.4"), 1, 0)
	passKey(t, k, client("FE80::1%eth0"), 5, 5)
	passKey(t, k, client("fe80::1"), 1, 0)
}

// Which part of a credential is the key is the server's affair; here, the whole value counts.
func TestKEY_12_KeysDifferByTheirLastByte(t *testing.T) {
	k := newKeyed[string](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1})
	passKey(t, k, "sk-live-00"+strings.Repeat("k", 4096)+"1", 2, 1)
	passKey(t, k, "sk-live-00"+strings.Repeat("k", 4096)+"2", 2, 1)
	passKey(t, k, "sk-live-00", 2, 1)
	haveKeys(t, k, 3)
}

// Cutting what users send is the server's affair; here, a digest is a key, and keeps its 32 bytes alone.
func TestKEY_14_LongTextsAsDigests(t *testing.T) {
	k := newKeyed[[32]byte](t, throttle.Config{Rate: throttle.PerHour(1), Burst: 1})
	text := make([]byte, 1<<14)
	before := heapInUse()
	for i := range 1000 {
		binary.BigEndian.PutUint64(text[len(text)-8:], uint64(i)) // they differ in the last bytes
		passKey(t, k, sha256.Sum256(text), 2, 1)
	}
	haveKeys(t, k, 1000)
	if after := heapInUse(); after > before && after-before > 1<<20 {
		t.Errorf("%d bytes kept; want less than 1 MB", after-before)
	}
}
