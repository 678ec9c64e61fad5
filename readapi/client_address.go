package readapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Limits of X-Forwarded-For.
const (
	// maxForwardedHops limits the hops that are examined. Proxy chains are short; beyond the limit the
	// last good hop is the client.
	maxForwardedHops = 32
	// maxForwardedEntry limits one entry: the longest IP address in text form, with brackets and port, has 53 bytes.
	maxForwardedEntry = 64
	// addressBitsIPv6: a visitor has at least a /64 (RFC 6177), so single addresses within it do not identify visitors.
	addressBitsIPv6 = 64
)

const headerForwardedFor = "X-Forwarded-For"

// Visitor returns the identity by which the limits of visitors count a client: its network address, whatever trusted
// proxies are between.
func Visitor(r *http.Request, trusted []netip.Prefix) string {
	if address := clientAddress(r, trusted); address.IsValid() {
		return address.String()
	}
	return addressUnknown
}

// clientAddress returns the IP address that the limits of visitors use: that of the connection, or, if the connection
// comes from a trusted proxy, the last one in X-Forwarded-For that is not a trusted proxy. Anything left of it may be
// forged. If all are trusted the leftmost is the client, and an invalid entry ends the search at the hop before it.
//
// IPv4 in IPv6 is IPv4, zones are dropped, and IPv6 counts by /64. A connection without an IP address
// gives the zero Addr.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	client := wholeAddress(r, trusted)
	if !client.Is6() {
		return client
	}
	// Prefix cannot fail: an IPv6 address allows any length up to 128.
	network, _ := client.Prefix(addressBitsIPv6)
	return network.Addr()
}

// wholeAddress is clientAddress before an IPv6 address becomes its /64.
func wholeAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	client, ok := addressOf(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	if isTrusted(client, trusted) {
		client = lastUntrusted(client, r.Header[headerForwardedFor], trusted)
	}
	return client
}

// lastUntrusted walks the lines of X-Forwarded-For, which form one list, from its end.
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

// addressOf parses an IP address, with or without a port, which some proxies add.
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
	return slices.ContainsFunc(trusted, func(network netip.Prefix) bool { return network.Contains(a) })
}
