package throttlehttp

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
)

// DefaultIPv6Bits is how much of an IPv6 address is its key, unless configured: a /64 is what one client is given, and has 2^64 addresses.
const DefaultIPv6Bits = 64

// A ClientIP says how a client's address is found. The zero ClientIP takes that of the connection, and trusts no header.
//
// A proxy adds the address that it was called from to a header: so each address there was written by the one behind it, and those that a client
// invented stand to the left. The walk begins at the connection and goes left over addresses of proxies, as long as they are
// trusted; the first that is not is the client. It is read no further.
type ClientIP struct {
	// TrustedHops is how many proxies every request comes through: 0 or more. A request with fewer addresses than that has not come that way, and counts
	// as from its connection.
	TrustedHops int
	// TrustedProxies are the proxies' addresses. With TrustedHops too, a proxy must be within both.
	TrustedProxies []netip.Prefix
	// Header is what the proxies write: "X-Forwarded-For" (also for ""), or "Forwarded" (RFC 7239). Name the one that yours do write, as a
	// client can send the other.
	Header string
	// IPv6Bits is how many leading bits of an IPv6 address are its key: 1 to 128; 0 is DefaultIPv6Bits.
	IPv6Bits int
	// IPv4Bits is that of an IPv4 address: 1 to 32; 0 is 32.
	IPv4Bits int
}

// RemoteIP is the key by the zero ClientIP: the connection's address, an IPv6 one by its /64.
func RemoteIP(r *http.Request) string { return remoteIP.key(r) }

var remoteIP = clientIP{ClientIP: ClientIP{IPv6Bits: DefaultIPv6Bits, IPv4Bits: 32}}

type clientIP struct {
	ClientIP
	forwarded bool
}

// NewClientIP returns the key by the client's address, or an error that names the field of c that is wrong. The key is the address, or its prefix,
// in the one form that netip writes: an IPv4 address within IPv6 is IPv4, zones are left out, and case does not matter. Where the connection has no IP address
// (a Unix socket), and no proxy told one, it is "".
func NewClientIP(c ClientIP) (KeyFunc, error) {
	if what := c.wrong(); what != "" {
		return nil, fmt.Errorf("throttlehttp: ClientIP: %s: %w", what, ErrInvalid)
	}
	ip := clientIP{c, http.CanonicalHeaderKey(c.Header) == "Forwarded"}
	if ip.IPv6Bits == 0 {
		ip.IPv6Bits = DefaultIPv6Bits
	}
	if ip.IPv4Bits == 0 {
		ip.IPv4Bits = 32
	}
	ip.TrustedProxies = slices.Clone(c.TrustedProxies)
	return ip.key, nil
}

func (c *ClientIP) wrong() string {
	header := http.CanonicalHeaderKey(c.Header)
	switch {
	case c.TrustedHops < 0:
		return fmt.Sprintf("TrustedHops is %d; want 0 or more", c.TrustedHops)
	case header != "" && header != "X-Forwarded-For" && header != "Forwarded":
		return fmt.Sprintf("Header is %q; want %q or %q", c.Header, "X-Forwarded-For", "Forwarded")
	case c.Header != "" && c.TrustedHops == 0 && len(c.TrustedProxies) == 0:
		return fmt.Sprintf("Header is %q, but nobody is trusted to write it; want TrustedHops or TrustedProxies", c.Header)
	case c.IPv6Bits < 0 || c.IPv6Bits > 128:
		return fmt.Sprintf("IPv6Bits is %d; want 1 to 128, or 0 for %d", c.IPv6Bits, DefaultIPv6Bits)
	case c.IPv4Bits < 0 || c.IPv4Bits > 32:
		return fmt.Sprintf("IPv4Bits is %d; want 1 to 32, or 0 for 32", c.IPv4Bits)
	}
	for i, p := range c.TrustedProxies {
		if !p.IsValid() {
			return fmt.Sprintf("TrustedProxies[%d] is not a prefix; want one as netip.ParsePrefix returns", i)
		}
		if p.Addr().Is4In6() {
			return fmt.Sprintf("TrustedProxies[%d] is %v, an IPv4 address within IPv6; want it as IPv4", i, p)
		}
	}
	return ""
}

// key is the KeyFunc.
func (c *clientIP) key(r *http.Request) string {
	addr := c.client(r)
	bits := c.IPv6Bits
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4():
		bits = c.IPv4Bits
	}
	if bits == addr.BitLen() {
		return addr.String()
	}
	prefix, err := addr.Prefix(bits)
	if err != nil { // bits are in range
		return ""
	}
	return prefix.String()
}

// client returns the client's address, or the zero Addr where there is none.
func (c *clientIP) client(r *http.Request) netip.Addr {
	peer, _ := parseNode(r.RemoteAddr)
	if c.TrustedHops == 0 && len(c.TrustedProxies) == 0 {
		return peer
	}
	name, left := "X-Forwarded-For", (*forwardedFor).xff
	if c.forwarded {
		name, left = "Forwarded", (*forwardedFor).rfc7239
	}
	at, told := peer, forwardedFor{lines: r.Header[name]}
	for hops := 0; c.trusts(at, hops); hops++ {
		next, ok := left(&told)
		if !ok {
			if c.TrustedHops > 0 {
				return peer
			}
			return at
		}
		at = next
	}
	return at
}

// trusts reports whether the node at, reached after so many hops, is a proxy whose word counts.
func (c *clientIP) trusts(at netip.Addr, hops int) bool {
	if c.TrustedHops > 0 && hops >= c.TrustedHops {
		return false
	}
	if len(c.TrustedProxies) == 0 {
		return true
	}
	return slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(at) })
}
