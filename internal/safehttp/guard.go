package safehttp

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ownAddrsFor is how long the machine's own addresses are cached.
const ownAddrsFor = 30 * time.Second

// azureWireServer serves instance metadata on Azure. It is missing in the lists of package ssrf, which
// follow the IANA registries.
var azureWireServer = netip.MustParsePrefix("168.63.129.16/32")

// guard decides to which addresses the client may connect. It allows only public unicast addresses, over TCP on ports
// 80 and 443. It blocks all IPv6 addresses that embed an IPv4 address (mapped, compatible, translated, NAT64, 6to4,
// Teredo, ISATAP), because a gateway could forward them to that address.
type guard struct {
	guardian *ssrf.Guardian
	ownAddrs func() ([]netip.Addr, error)
	now      func() time.Time

	mu     sync.Mutex
	own    map[netip.Addr]bool
	readAt time.Time
}

func newGuard(denied []netip.Prefix, ownAddrs func() ([]netip.Addr, error), now func() time.Time) *guard {
	denied4, denied6 := []netip.Prefix{azureWireServer}, []netip.Prefix(nil)
	for _, p := range denied {
		if p.Addr().Is4() {
			denied4 = append(denied4, p)
		} else {
			denied6 = append(denied6, p)
		}
	}
	return &guard{
		guardian: ssrf.New(ssrf.WithDeniedV4Prefixes(denied4...), ssrf.WithDeniedV6Prefixes(denied6...)),
		ownAddrs: ownAddrs,
		now:      now,
	}
}

// control implements net.Dialer.Control. The address is the one to which the socket is about to connect.
func (g *guard) control(network, address string, conn syscall.RawConn) error {
	if err := g.guardian.Safe(network, address, conn); err != nil {
		return fmt.Errorf("%w: %w", ErrBlockedAddress, err)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBlockedAddress, err)
	}
	return g.check(ap)
}

// check returns ErrBlockedAddress unless the client may connect to ap.
func (g *guard) check(ap netip.AddrPort) error {
	if err := g.guardian.SafeAddrPort(ap); err != nil {
		return fmt.Errorf("%w: %w", ErrBlockedAddress, err)
	}
	addr := ap.Addr()
	if addr.Zone() != "" || isISATAP(addr) {
		return fmt.Errorf("%w: %s", ErrBlockedAddress, addr)
	}
	own, err := g.isOwn(addr)
	if err != nil {
		return fmt.Errorf("%w: own addresses are unknown: %w", ErrBlockedAddress, err)
	}
	if own {
		return fmt.Errorf("%w: %s is an address of this machine", ErrBlockedAddress, addr)
	}
	return nil
}

// isISATAP reports whether an address has an interface identifier of RFC 5214: [02]00:5efe followed by
// an IPv4 address, in any prefix.
func isISATAP(addr netip.Addr) bool {
	if !addr.Is6() {
		return false
	}
	b := addr.As16()
	return (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

func (g *guard) isOwn(addr netip.Addr) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); g.own == nil || now.Sub(g.readAt) >= ownAddrsFor {
		addrs, err := g.ownAddrs()
		if err != nil {
			return false, err
		}
		g.own = make(map[netip.Addr]bool, len(addrs))
		for _, a := range addrs {
			g.own[a.Unmap().WithZone("")] = true
		}
		g.readAt = now
	}
	return g.own[addr], nil
}

// interfaceAddrs returns the addresses of the machine's network interfaces, except the loopback device.
// Loopback addresses are blocked anyway, and a public address on that device (for anycast or a virtual
// IP address) can be listed in Config.Denied.
func interfaceAddrs() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, p.Addr())
			}
		}
	}
	return all, nil
}
