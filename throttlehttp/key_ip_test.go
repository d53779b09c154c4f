package throttlehttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttlehttp"
)

func newClientIP(t testing.TB, c throttlehttp.ClientIP) throttlehttp.KeyFunc {
	t.Helper()
	f, err := throttlehttp.NewClientIP(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestKEY08_AHeaderIsNotTrustedUnlessConfigured(t *testing.T) {
	for name, key := range map[string]throttlehttp.KeyFunc{
		"zero":                  throttlehttp.RemoteIP,
		"another proxy trusted": newClientIP(t, throttlehttp.ClientIP{TrustedProxies: prefixes("10.0.0.0/8")}),
		"behind one hop":        newClientIP(t, throttlehttp.ClientIP{TrustedHops: 1}),
		"the other header":      newClientIP(t, throttlehttp.ClientIP{TrustedHops: 1, Header: "Forwarded"}),
	} {
		h := guardOf(t, throttlehttp.Rule{Limiters: newKeyed(t, rate(1, time.Hour, 5)), Key: key}).Wrap(ok)
		if n := passed(h, 100, func(i int) *http.Request {
			invented := fmt.Sprintf("198.51.100.%d", i)
			r := request("203.0.113.9:4711", "X-Forwarded-For", invented, "X-Real-Ip", invented, "True-Client-Ip", invented)
			switch name {
			case "behind one hop": // the proxy has added whom it was called by
				r.Header.Set("X-Forwarded-For", invented+", 192.0.2.77")
			case "the other header":
				r.Header.Set("Forwarded", "for="+invented+", for=192.0.2.77")
			default:
				r.Header.Set("Forwarded", "for="+invented)
			}
			return r
		}); n != 5 {
			t.Errorf("%s: %d of 100 pass; want 5", name, n)
		}
	}
}

func TestKEY09_AnIPv6ClientIsItsPrefix(t *testing.T) {
	h := guardOf(t, throttlehttp.Rule{Limiters: newKeyed(t, rate(1, time.Hour, 5)), Key: throttlehttp.RemoteIP}).Wrap(ok)
	if n := passed(h, 100, func(i int) *http.Request { return request(fmt.Sprintf("[2001:db8:1:2::%x]:80", i+1)) }); n != 5 {
		t.Errorf("%d of 100 addresses of a /64 pass; want 5", n)
	}
	if res := serve(h, request("[2001:db8:1:3::1]:80")); res.StatusCode != 200 {
		t.Errorf("another /64 is told %d", res.StatusCode)
	}
	same := func(a, b string) {
		t.Helper()
		if x, y := throttlehttp.RemoteIP(request(a)), throttlehttp.RemoteIP(request(b)); x != y || x == "" {
			t.Errorf("%s is %q, %s is %q; want the same", a, x, b, y)
		}
	}
	same("[::ffff:1.2.3.4]:80", "1.2.3.4:9")
	same("[fe80::1%eth0]:80", "[fe80::1%eth1]:80")
	same("[2001:DB8::A]:80", "[2001:db8:0:0::b]:80")
	wide := newClientIP(t, throttlehttp.ClientIP{IPv6Bits: 48, IPv4Bits: 24})
	if got := wide(request("[2001:db8:1:2::1]:80")) + " " + wide(request("192.0.2.77:80")); got != "2001:db8:1::/48 192.0.2.0/24" {
		t.Errorf("by /48 and /24 they are %s", got)
	}
	whole := newClientIP(t, throttlehttp.ClientIP{IPv6Bits: 128})
	if got := whole(request("[2001:db8::1%en0]:80")); got != "2001:db8::1" {
		t.Errorf("whole it is %s", got)
	}
}

func TestClientBehindProxies(t *testing.T) {
	const peer = "10.0.0.1:4711"
	two := throttlehttp.ClientIP{TrustedHops: 2}
	own := throttlehttp.ClientIP{TrustedProxies: prefixes("10.0.0.0/8", "2001:db8:ffff::/48")}
	forwarded := func(c throttlehttp.ClientIP) throttlehttp.ClientIP { c.Header = "forwarded"; return c }
	both := own
	both.TrustedHops = 1
	for _, c := range []struct {
		name   string
		config throttlehttp.ClientIP
		peer   string
		lines  []string
		want   string
	}{
		{"two hops", two, peer, []string{"9.9.9.9, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"two hops, in two lines", two, peer, []string{"9.9.9.9, 192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"two hops, the least", two, peer, []string{"192.0.2.1,10.0.0.2"}, "192.0.2.1"},
		{"not through both", two, peer, []string{"9.9.9.9"}, "10.0.0.1"},
		{"no header", two, peer, nil, "10.0.0.1"},
		{"garbage where the client should be", two, peer, []string{"nonsense, 10.0.0.2"}, "10.0.0.1"},
		{"garbage to the left of it", two, peer, []string{"nonsense, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"an empty element", two, peer, []string{"192.0.2.1,,10.0.0.2"}, "10.0.0.1"},
		{"a port and brackets", two, peer, []string{"[2001:db8::1]:80, 10.0.0.2:80"}, "2001:db8::/64"},
		{"through a Unix socket", throttlehttp.ClientIP{TrustedHops: 1}, "@", []string{"192.0.2.1"}, "192.0.2.1"},
		{"prefixes", own, peer, []string{"9.9.9.9, 192.0.2.1, 10.0.0.3, 10.0.0.2"}, "192.0.2.1"},
		{"prefixes, IPv6", own, "[2001:db8:ffff::1]:80", []string{"9.9.9.9, 2001:db8:1::1, 2001:db8:ffff::2"}, "2001:db8:1::/64"},
		{"prefixes, mapped", own, "[::ffff:10.0.0.1]:80", []string{"192.0.2.1, ::ffff:10.0.0.2"}, "192.0.2.1"},
		{"prefixes, all trusted", own, peer, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"prefixes, garbage", own, peer, []string{"9.9.9.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"prefixes, a stranger calls", own, "192.0.2.9:1", []string{"9.9.9.9"}, "192.0.2.9"},
		{"both, one hop", both, peer, []string{"192.0.2.1, 10.0.0.2"}, "10.0.0.2"},
		{"both, a stranger calls", both, "192.0.2.9:1", []string{"9.9.9.9"}, "192.0.2.9"},
		{"Forwarded", forwarded(two), peer, []string{`for=9.9.9.9, For="192.0.2.1:80";proto=http;by=10.0.0.2, for=10.0.0.2`}, "192.0.2.1"},
		{"Forwarded, IPv6", forwarded(own), peer, []string{`for="[2001:db8:1::1]:4711"`}, "2001:db8:1::/64"},
		{"Forwarded, unquoted", forwarded(own), peer, []string{`for=[2001:db8:1::1]:4711`}, "2001:db8:1::/64"},
		{"Forwarded, hidden", forwarded(own), peer, []string{`for=9.9.9.9, for=_hidden, for=10.0.0.2`}, "10.0.0.2"},
		{"Forwarded, no for", forwarded(own), peer, []string{`for=9.9.9.9, proto=https`}, "10.0.0.1"},
		{"Forwarded, open quote in a line before", forwarded(two), peer, []string{`for="9.9.9.9`, `for=192.0.2.1, for=10.0.0.2`}, "192.0.2.1"},
		{"Forwarded, open quote in the line", forwarded(two), peer, []string{`for="9.9.9.9, for=192.0.2.1, for=10.0.0.2`}, "10.0.0.1"},
		{"Forwarded, an escape", forwarded(own), peer, []string{`for="192.0.2\.1"`}, "192.0.2.1"},
		{"Forwarded, a comma in quotes", forwarded(own), peer, []string{`for="9.9.9.9, for=8.8.8.8";by=a, for=192.0.2.1`}, "192.0.2.1"},
		{"Forwarded, for twice", forwarded(own), peer, []string{`for=192.0.2.1;for=9.9.9.9`}, "10.0.0.1"},
		{"the header that is not configured", forwarded(own), peer, nil, "10.0.0.1"},
	} {
		name := "X-Forwarded-For"
		if c.config.Header != "" {
			name = "Forwarded"
		}
		r := request(c.peer)
		r.Header[name] = c.lines
		if c.lines == nil && c.config.Header != "" {
			r.Header.Set("X-Forwarded-For", "9.9.9.9")
		}
		before := fmt.Sprint(r.Header)
		if got := newClientIP(t, c.config)(r); got != c.want {
			t.Errorf("%s: the client of %q is %s; want %s", c.name, c.lines, got, c.want)
		}
		if got := fmt.Sprint(r.Header); got != before {
			t.Errorf("%s: the header was changed to %s", c.name, got)
		}
	}
}

func TestClientIPIsChecked(t *testing.T) {
	for want, c := range map[string]throttlehttp.ClientIP{
		"TrustedHops is -1":               {TrustedHops: -1},
		`Header is "X-Real-IP"; want`:     {TrustedHops: 1, Header: "X-Real-IP"},
		"nobody is trusted to write it":   {Header: "Forwarded"},
		"IPv6Bits is 129":                 {IPv6Bits: 129},
		"IPv6Bits is -1":                  {IPv6Bits: -1},
		"IPv4Bits is 33":                  {IPv4Bits: 33},
		"TrustedProxies[0] is not a":      {TrustedProxies: make([]netip.Prefix, 1)},
		"TrustedProxies[1] is ::ffff:10.": {TrustedProxies: prefixes("10.0.0.0/8", "::ffff:10.0.0.0/104")},
	} {
		f, err := throttlehttp.NewClientIP(c)
		if f != nil || !errors.Is(err, throttlehttp.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("NewClientIP: %v; want %q in it", err, want)
		}
	}
}

// Whatever a client puts to the left of what the proxies wrote, it is the same client.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"", "9.9.9.9", "9.9.9.9, ", ",,", `for="x`, `for="a\`, `for=_x;by="[::1]:1", for=unknown`, "[::1", "::1%zone", "for", "=;,", "\x00", "1.2.3.4:99999"} {
		f.Add(seed)
	}
	xff := newClientIP(f, throttlehttp.ClientIP{TrustedHops: 2})
	forwarded := newClientIP(f, throttlehttp.ClientIP{TrustedHops: 2, Header: "Forwarded"})
	proxies := newClientIP(f, throttlehttp.ClientIP{TrustedProxies: prefixes("10.0.0.0/8"), Header: "Forwarded"})
	f.Fuzz(func(t *testing.T, invented string) {
		r := request("10.0.0.1:1")
		for _, joined := range []bool{false, true} {
			lines := func(text string) []string {
				if joined {
					return []string{invented + ", " + text}
				}
				return []string{invented, text}
			}
			r.Header["X-Forwarded-For"] = lines("192.0.2.1, 10.0.0.2")
			if got := xff(r); got != "192.0.2.1" {
				t.Errorf("X-Forwarded-For %q: the client is %q; want 192.0.2.1", r.Header["X-Forwarded-For"], got)
			}
			r.Header["Forwarded"] = lines("for=192.0.2.1, for=10.0.0.2")
			for _, key := range []throttlehttp.KeyFunc{forwarded, proxies} {
				got := key(r)
				malformed := joined && got == "10.0.0.1" // then the line cannot be read at all
				if got != "192.0.2.1" && !malformed {
					t.Errorf("Forwarded %q: the client is %q; want 192.0.2.1", r.Header["Forwarded"], got)
				}
			}
		}
		// And of nothing but what it invented, the key is an address, a prefix, or none.
		r.Header["Forwarded"], r.RemoteAddr = []string{invented}, invented
		for _, key := range []throttlehttp.KeyFunc{forwarded, proxies, throttlehttp.RemoteIP} {
			got := key(r)
			_, err := netip.ParseAddr(got)
			_, err2 := netip.ParsePrefix(got)
			if got != "" && err != nil && err2 != nil {
				t.Errorf("%q has the key %q", invented, got)
			}
		}
	})
}
