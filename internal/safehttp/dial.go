package safehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

const (
	dnsTimeout     = 5 * time.Second
	connectTimeout = 5 * time.Second
	// maxAddrs bounds how many addresses of one name are tried.
	maxAddrs = 6
	// stagger is how long one address is waited for before the next is tried beside it (RFC 8305).
	stagger = 250 * time.Millisecond
)

// Resolver turns a host name into addresses. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// rootedResolver asks for the name as it stands. Without the final dot the search list of the machine
// applies, and in a cluster acme.com would first be looked for as acme.com.svc.cluster.local.
type rootedResolver struct{ *net.Resolver }

func (r rootedResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r.Resolver.LookupNetIP(ctx, network, host+".")
}

// dialContext is the transport's only way out: resolve, let the guard see each address, connect.
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
	var refusal error
	for _, addr := range addrs {
		ap := netip.AddrPortFrom(addr, uint16(port))
		if err := c.guard.check(ap); err != nil {
			refusal = err
			continue
		}
		if len(approved) < maxAddrs {
			approved = append(approved, ap)
		}
	}
	if refusal != nil {
		c.cfg.Logger.WarnContext(ctx, "address refused", "host", host, "answers", len(addrs), "approved", len(approved), "error", refusal)
	}
	if len(approved) == 0 {
		return nil, refusal
	}
	return c.connect(ctx, approved)
}

// resolve returns at least one address, families by turns, or a *DNSError within ErrDNS.
func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		// CheckURL lets no address through; if one came by another way, it has not been checked.
		return nil, fmt.Errorf("%w: %s is not a name", ErrBlockedAddress, host)
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	addrs, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	if err != nil {
		var cause *net.DNSError
		failed := &DNSError{Host: host, Err: err}
		if errors.As(err, &cause) {
			failed.NotFound, failed.Timeout = cause.IsNotFound, cause.IsTimeout
		}
		failed.Timeout = failed.Timeout || ctx.Err() != nil
		failed.NotFound = failed.NotFound && !failed.Timeout
		return nil, fmt.Errorf("%w: %w", ErrDNS, failed)
	}
	return interleave(addrs), nil
}

// interleave puts the families by turns, the resolver's first choice first, so that a broken route of
// one family costs one stagger. Some resolvers give IPv4 addresses in their IPv6 form; what is dialed
// is IPv4 then, and the guard judges it as that.
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

// connect tries approved addresses, each a stagger after the one before or as soon as that failed, and
// returns the first connection, or the first error.
func (c *Client) connect(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	results := make(chan attempt, len(addrs)) // room for all, so no attempt waits for a reader
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

// closeRest closes connections that came too late. The attempts' context is canceled, so it ends soon.
func closeRest(results <-chan attempt, pending int) {
	for range pending {
		if r := <-results; r.err == nil {
			r.conn.Close()
		}
	}
}
