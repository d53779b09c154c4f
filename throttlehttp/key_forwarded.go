package throttlehttp

import (
	"net/netip"
	"strings"
)

// A forwardedFor reads the addresses that proxies have put into a header, from the right to the left. Each call takes one, and
// fails where there is none, or what stands there is no address: "unknown", an obfuscated name, or garbage. What is left of that is never looked at.
type forwardedFor struct {
	lines []string // the last one is cut as it is read
	nodes []string // of the last line, where that is read as a whole
}

// xff takes the rightmost address of X-Forwarded-For: addresses behind commas.
func (f *forwardedFor) xff() (netip.Addr, bool) {
	if len(f.lines) == 0 {
		return netip.Addr{}, false
	}
	last := len(f.lines) - 1
	line, node := f.lines[last], ""
	if i := strings.LastIndexByte(line, ','); i >= 0 {
		node = line[i+1:]
		f.lines = append(f.lines[:last:last], line[:i]) // a copy: the request's header stays
	} else {
		node = line
		f.lines = f.lines[:last]
	}
	return parseNode(node)
}

// rfc7239 takes the address of the rightmost element of Forwarded. Lines are read one by one: a quote that a client left open
// swallows nothing that a proxy wrote in a line of its own.
func (f *forwardedFor) rfc7239() (netip.Addr, bool) {
	for len(f.nodes) == 0 {
		if len(f.lines) == 0 {
			return netip.Addr{}, false
		}
		nodes, ok := forwardedNodes(f.lines[len(f.lines)-1])
		if !ok {
			return netip.Addr{}, false
		}
		f.nodes, f.lines = nodes, f.lines[:len(f.lines)-1]
	}
	node := f.nodes[len(f.nodes)-1]
	f.nodes = f.nodes[:len(f.nodes)-1]
	return parseNode(node)
}

// forwardedNodes returns the for parameters of the elements of a Forwarded line, "" for an element without one, and whether the
// line is well formed:
//
//	for=192.0.2.60;proto=http;by=203.0.113.43, for="[2001:db8:cafe::17]:4711"
func forwardedNodes(line string) (nodes []string, ok bool) {
	node, seen := "", false
	for rest := line; ; {
		rest = strings.TrimLeft(rest, " \t")
		name, after, found := strings.Cut(rest, "=")
		if !found || !isToken(name) {
			return nil, false
		}
		value, after, ok := cutValue(after)
		if !ok {
			return nil, false
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return nil, false // which of them to believe?
			}
			node, seen = value, true
		}
		rest = strings.TrimLeft(after, " \t")
		if rest != "" && rest[0] == ';' {
			rest = rest[1:]
			continue
		}
		nodes = append(nodes, node)
		node, seen = "", false
		if rest == "" {
			return nodes, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = rest[1:]
	}
}

// cutValue takes a token or a quoted string from the beginning of s.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		end := strings.IndexAny(s, "; \t,")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], isToken(s[:end]) || isBareNode(s[:end])
	}
	var text strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return text.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		text.WriteByte(s[i])
	}
	return "", "", false
}

// isBareNode reports whether s is an address that should have been quoted, as some proxies write it: for=[2001:db8::1]:80.
func isBareNode(s string) bool {
	_, ok := parseNode(s)
	return ok
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// parseNode reads an address with or without a port: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80". The
// address comes without a zone, and as IPv4 if it is one within IPv6.
func parseNode(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if inner, found := strings.CutPrefix(s, "["); found && strings.HasSuffix(inner, "]") {
			addr, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
			if err == nil && addr.Is4() {
				return netip.Addr{}, false
			}
		} else {
			var port netip.AddrPort
			port, err = netip.ParseAddrPort(s)
			addr = port.Addr()
		}
	}
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.WithZone("").Unmap(), true
}
