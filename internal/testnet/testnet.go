// Package testnet simulates the internet inside one process: names, addresses that look public, and web servers. It
// replaces the resolver and the dialer of package safehttp, below its guard. It serves saved pages, recordings and
// folders of files, so that a whole crawl runs without a network.
package testnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"letterhead/internal/safehttp"
	"letterhead/internal/testcert"
)

// Limits of one internet.
const (
	// maxHosts limits the names that can be looked up, because each gets an address.
	maxHosts = 4000
	// headerTime limits how long a server waits for a request.
	headerTime = time.Minute
)

// Internet holds sites by host. It is safe for concurrent use.
type Internet struct {
	authority     *testcert.Authority
	plain, secure net.Listener
	servers       []*http.Server

	mu    sync.Mutex
	sites map[string]http.Handler
	rest  http.Handler // for hosts without a site; if nil they do not exist
	addrs map[string]netip.Addr
	hosts map[netip.Addr]string
	txt   map[string][]string
}

// New starts an empty internet. The certificates of its hosts are signed by the
// authority. The caller must call Close. Errors: if listening fails.
func New(authority *testcert.Authority) (*Internet, error) {
	n := &Internet{
		authority: authority, sites: map[string]http.Handler{}, addrs: map[string]netip.Addr{},
		hosts: map[netip.Addr]string{}, txt: map[string][]string{},
	}
	for _, at := range []*net.Listener{&n.plain, &n.secure} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			n.Close()
			return nil, fmt.Errorf("start the test network: %w", err)
		}
		*at = l
	}
	quiet := log.New(io.Discard, "", 0) // crawls close connections early
	for _, l := range []net.Listener{n.plain, tls.NewListener(n.secure, &tls.Config{GetCertificate: authority.Certificate})} {
		server := &http.Server{Handler: n, ErrorLog: quiet, ReadHeaderTimeout: headerTime}
		n.servers = append(n.servers, server)
		go server.Serve(l)
	}
	return n, nil
}

// Close stops every server.
func (n *Internet) Close() {
	for _, s := range n.servers {
		s.Close()
	}
	for _, l := range []net.Listener{n.plain, n.secure} {
		if l != nil {
			l.Close()
		}
	}
}

// Serve adds a site.
func (n *Internet) Serve(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sites[strings.ToLower(host)] = h
}

// ServeRest serves every host without a site; from then on every name exists.
func (n *Internet) ServeRest(h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rest = h
}

// Announce adds a TXT record to a name.
func (n *Internet) Announce(name, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name = strings.ToLower(name)
	n.txt[name] = append(n.txt[name], text)
}

// Client returns the production client, with its guard enabled. The caller closes it.
func (n *Internet) Client() (*safehttp.Client, error) {
	return safehttp.New(safehttp.Config{
		Resolver: n, Dial: n.Dial, RootCAs: n.authority.Pool(), OwnAddrs: func() ([]netip.Addr, error) { return nil, nil },
	})
}

// ServeHTTP passes a request to the site of its host.
func (n *Internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	n.mu.Lock()
	site := n.sites[host]
	if site == nil {
		site = n.rest
	}
	n.mu.Unlock()
	if site == nil {
		http.Error(w, "no such site here", http.StatusMisdirectedRequest)
		return
	}
	site.ServeHTTP(w, r)
}

// LookupNetIP returns the address of a host, one of 45.90.0.0/16.
func (n *Internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok := n.addrs[host]; ok {
		return []netip.Addr{addr}, nil
	}
	if n.sites[host] == nil && n.rest == nil || len(n.addrs) >= maxHosts {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	i := len(n.addrs)
	addr := netip.AddrFrom4([4]byte{45, 90, byte(i / 250), byte(i%250 + 1)})
	n.addrs[host], n.hosts[addr] = addr, host
	return []netip.Addr{addr}, nil
}

// LookupTXT returns the TXT records of a name.
func (n *Internet) LookupTXT(_ context.Context, name string) ([]string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	n.mu.Lock()
	defer n.mu.Unlock()
	if texts := n.txt[name]; len(texts) > 0 {
		return append([]string(nil), texts...), nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// Dial connects to the server for an address.
func (n *Internet) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	_, known := n.hosts[to.Addr()]
	n.mu.Unlock()
	if !known {
		return nil, errors.New("no host at " + address)
	}
	if to.Port() == 443 {
		return (&net.Dialer{}).DialContext(ctx, "tcp", n.secure.Addr().String())
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", n.plain.Addr().String())
}
