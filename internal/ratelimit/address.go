package ratelimit

import (
	"net/http"
	"net/netip"
)

// addressBitsIPv6: a client has at least a /64.
const addressBitsIPv6 = 64

// AddressOf returns the address from which a request came, or the network of an IPv6 address. It is empty if the server does
// not know it.
func AddressOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if network, err := ip.Prefix(addressBitsIPv6); err == nil {
			ip = network.Addr()
		}
	}
	return ip.String()
}
