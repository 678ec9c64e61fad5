package safehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	dnsTimeout     = 5 * time.Second
	connectTimeout = 5 * time.Second
	// maxAddrs limits how many addresses of one name are tried.
	maxAddrs = 6
	// stagger is the delay before the next address is tried concurrently (RFC 8305).
	stagger = 250 * time.Millisecond
)

// Resolver resolves host names. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// rootedResolver resolves absolute names. Without a final dot the search list of the machine would
// apply, and in a Kubernetes cluster acme.com would first be resolved as acme.com.svc.cluster.local.
type rootedResolver struct{ *net.Resolver }

func (r rootedResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r.Resolver.LookupNetIP(ctx, network, host+".")
}

// dialContext makes all connections of the transport. It resolves the host, checks each address with
// the guard, and connects.
func (c *Client) dialContext(ctx context.Context, _, hostPort string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%w: port %q", ErrBlockedAddress, clip(portText))
	}
	addrs, err := c.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	approved := make([]netip.AddrPort, 0, maxAddrs)
	var blocked error
	for _, addr := range addrs {
		ap := netip.AddrPortFrom(addr, uint16(port))
		if err := c.guard.check(ap); err != nil {
			blocked = err
			continue
		}
		if len(approved) < maxAddrs {
			approved = append(approved, ap)
		}
	}
	if blocked != nil {
		c.cfg.Logger.WarnContext(ctx, "address blocked", "host", host, "answers", len(addrs), "approved", len(approved),
			"error", blocked)
	}
	if len(approved) == 0 {
		return nil, blocked
	}
	return c.connect(ctx, approved)
}

// resolve returns at least one address, alternating between IPv4 and IPv6, or a *DNSError within ErrDNS.
func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		// CheckURL rejects IP addresses, so this one was not checked.
		return nil, fmt.Errorf("%w: %s is not a name", ErrBlockedAddress, host)
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	addrs, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	if err != nil {
		failed := &DNSError{Host: host, Err: err}
		if cause, ok := errors.AsType[*net.DNSError](err); ok {
			failed.NotFound, failed.Timeout = cause.IsNotFound, cause.IsTimeout
		}
		failed.Timeout = failed.Timeout || ctx.Err() != nil
		failed.NotFound = failed.NotFound && !failed.Timeout
		return nil, fmt.Errorf("%w: %w", ErrDNS, failed)
	}
	return interleave(addrs), nil
}

// interleave alternates between IPv4 and IPv6 addresses, beginning with the resolver's first choice, so
// that a broken IPv6 route delays a connection by one stagger only. Some resolvers return IPv4
// addresses in IPv6 form. These are converted to IPv4 before the guard checks them.
func interleave(addrs []netip.Addr) []netip.Addr {
	var first, second []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if len(first) == 0 || a.Is4() == first[0].Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	mixed := make([]netip.Addr, 0, len(addrs))
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			mixed = append(mixed, first[i])
		}
		if i < len(second) {
			mixed = append(mixed, second[i])
		}
	}
	return mixed
}

type attempt struct {
	conn net.Conn
	err  error
}

// connect tries approved addresses, each one stagger after the previous one or as soon as that failed.
// It returns the first connection, or the first error if all fail.
func (c *Client) connect(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	results := make(chan attempt, len(addrs)) // has room for all attempts, so that none blocks
	started, pending := 0, 0
	start := func() {
		ap := addrs[started]
		started++
		pending++
		go func() {
			network := "tcp6"
			if ap.Addr().Is4() {
				network = "tcp4"
			}
			conn, err := c.dial(ctx, network, ap.String())
			results <- attempt{conn, err}
		}()
	}
	start()
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	var firstErr error
	for {
		select {
		case r := <-results:
			pending--
			if r.err == nil {
				go closeRest(results, pending)
				return r.conn, nil
			}
			if firstErr == nil {
				firstErr = r.err
			}
			if started < len(addrs) {
				start()
				timer.Reset(stagger)
			} else if pending == 0 {
				return nil, firstErr
			}
		case <-timer.C:
			if started < len(addrs) {
				start()
				timer.Reset(stagger)
			}
		case <-ctx.Done():
			go closeRest(results, pending)
			return nil, fmt.Errorf("connect: %w", ctx.Err())
		}
	}
}

// closeRest closes connections that were made too late. It ends soon because the context of the attempts is canceled.
func closeRest(results <-chan attempt, pending int) {
	for range pending {
		if r := <-results; r.err == nil {
			r.conn.Close()
		}
	}
}

const (
	// maxTXTRecords and maxTXTBytes limit how much of a name server's response is kept.
	maxTXTRecords = 16
	maxTXTBytes   = 4 << 10
)

// TXTResolver is a Resolver that also resolves TXT records. *net.Resolver implements it.
type TXTResolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// LookupTXT returns the TXT records of a name, each as one string. It returns none if the name has none
// or the configured resolver does not support them. It does not connect to the host. Errors: ErrDNS,
// ErrForbiddenURL if the name is not valid.
func (c *Client) LookupTXT(ctx context.Context, name string) ([]string, error) {
	resolver, ok := c.cfg.Resolver.(TXTResolver)
	if !ok {
		return nil, nil
	}
	if len(name) > maxHostBytes || !strings.Contains(name, ".") || strings.ContainsFunc(name, notInName) {
		return nil, fmt.Errorf("%w: TXT records of %q", ErrForbiddenURL, clip(name))
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	records, err := resolver.LookupTXT(ctx, name)
	if err != nil {
		if cause, ok := errors.AsType[*net.DNSError](err); ok && cause.IsNotFound && !cause.IsTimeout {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrDNS, &DNSError{Host: name, Timeout: ctx.Err() != nil, Err: err})
	}
	out := make([]string, 0, min(len(records), maxTXTRecords))
	for _, r := range records[:min(len(records), maxTXTRecords)] {
		if len(r) <= maxTXTBytes {
			out = append(out, r)
		}
	}
	return out, nil
}

// notInName reports whether a character is not allowed in names. Allowed are letters, digits, hyphens,
// dots, and the underscore of service labels.
func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
}

func (r rootedResolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	return r.Resolver.LookupTXT(ctx, name+".")
}

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
