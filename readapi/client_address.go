package readapi

import (
	"net/http"
	"net/netip"
	"strings"
)

// Limits of X-Forwarded-For.
const (
	// maxForwardedHops bounds the hops that are looked at. Chains of proxies are a handful long; past the bound
	// the last good hop is the client.
	maxForwardedHops = 32
	// maxForwardedEntry bounds one entry: the longest address there is in text, with brackets and port, has 53
	// bytes.
	maxForwardedEntry = 64
	// addressBitsIPv6: a visitor has at least a /64 (RFC 6177), so that single addresses of it say nothing.
	addressBitsIPv6 = 64
)

const headerForwardedFor = "X-Forwarded-For"

// clientAddress returns the address that the limits of visitors go by: that of the connection, or, when the
// connection comes from a trusted proxy, the last one in X-Forwarded-For that no trusted proxy has. What stands
// left of it anybody can have written. When all are trusted the leftmost is the client, and an entry that is no
// address ends the search at the hop before it.
//
// IPv4 in IPv6 is IPv4, zones are dropped, and IPv6 counts by /64. A connection without an IP address gives the
// zero Addr.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	client, ok := addressOf(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	if isTrusted(client, trusted) {
		client = lastUntrusted(client, r.Header[headerForwardedFor], trusted)
	}
	return visitorOf(client)
}

// visitorOf returns what stands for a visitor: an IPv4 address, or the /64 of an IPv6 address.
func visitorOf(client netip.Addr) netip.Addr {
	if client.Is4() {
		return client
	}
	// Of an IPv6 address any length up to 128 is one of a prefix.
	network, _ := client.Prefix(addressBitsIPv6)
	return network.Addr()
}

// lastUntrusted walks the lines of X-Forwarded-For, which are one list, from its end.
func lastUntrusted(client netip.Addr, lines []string, trusted []netip.Prefix) netip.Addr {
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			if hops == maxForwardedHops {
				return client
			}
			var entry string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, entry = rest[:comma], rest[comma+1:]
			} else {
				entry, more = rest, false
			}
			hop, ok := addressOf(strings.TrimSpace(entry))
			if !ok {
				return client
			}
			if client = hop; !isTrusted(client, trusted) {
				return client
			}
		}
	}
	return client
}

// addressOf reads an address, with or without a port: some proxies write one.
func addressOf(text string) (netip.Addr, bool) {
	if len(text) > maxForwardedEntry {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		a = withPort.Addr()
	}
	return a.Unmap().WithZone(""), true
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	for _, network := range trusted {
		if network.Contains(a) {
			return true
		}
	}
	return false
}
