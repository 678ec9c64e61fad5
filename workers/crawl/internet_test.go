package crawl_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/safehttp"
	"letterhead/internal/testcert"
	"letterhead/workers/crawl"
)

// internet is a closed test network: names, addresses that look public, and web
// servers. It is connected below the guard of safehttp, at the interfaces
// intended for that.
type internet struct {
	t         testing.TB
	authority *testcert.Authority
	plain     net.Listener
	secure    net.Listener

	mu       sync.Mutex
	sites    map[string]http.Handler
	addrs    map[string]netip.Addr
	hosts    map[netip.Addr]string
	refusing map[string]bool // host or host:port
	silent   map[string]bool // host or host:port
	txt      map[string][]string
	mute     chan struct{} // no TXT query is answered; closed when the first query is abandoned
	asked    []string      // host and path of every request
	busy     map[string]int
	busiest  map[string]int // the most concurrent requests of a host
}

func newInternet(t testing.TB) *internet {
	t.Helper()
	n := &internet{
		t: t, sites: map[string]http.Handler{}, addrs: map[string]netip.Addr{}, hosts: map[netip.Addr]string{},
		refusing: map[string]bool{}, silent: map[string]bool{},
		txt: map[string][]string{}, busy: map[string]int{}, busiest: map[string]int{},
	}
	var err error
	if n.authority, err = testcert.NewAuthority(); err != nil {
		t.Fatal(err)
	}
	quiet := log.New(discard{}, "", 0) // some tests make clients give up
	for _, at := range []*net.Listener{&n.plain, &n.secure} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*at = l
	}
	for _, l := range []net.Listener{n.plain, tls.NewListener(n.secure, &tls.Config{GetCertificate: n.authority.Certificate})} {
		server := &http.Server{Handler: n, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}
	return n
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// serve adds a site to the network.
func (n *internet) serve(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sites[host] = h
	if _, ok := n.addrs[host]; !ok {
		i := len(n.addrs)
		addr := netip.AddrFrom4([4]byte{45, 90, byte(i >> 8), byte(i%250 + 1)})
		n.addrs[host], n.hosts[addr] = addr, host
	}
}

// refuse makes a host, or one port of it such as acme.com:443, refuse
// connections.
func (n *internet) refuse(where string) { n.refusing[where] = true }

// ServeHTTP passes a request to its site.
func (n *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	n.mu.Lock()
	n.asked = append(n.asked, host+r.URL.RequestURI())
	site := n.sites[host]
	n.busy[host]++
	n.busiest[host] = max(n.busiest[host], n.busy[host])
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.busy[host]--
	}()
	if site == nil {
		http.Error(w, "no such site here", http.StatusMisdirectedRequest)
		return
	}
	site.ServeHTTP(w, r)
}

// LookupNetIP implements the resolver.
func (n *internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok := n.addrs[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{addr}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// LookupTXT implements the resolver.
func (n *internet) LookupTXT(ctx context.Context, name string) ([]string, error) {
	if n.mute != nil {
		<-ctx.Done()
		close(n.mute)
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if records, ok := n.txt[name]; ok {
		return records, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// dial connects to the listener for an address.
func (n *internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	host := n.hosts[to.Addr()]
	refusing := n.refusing[host] || n.refusing[fmt.Sprint(host, ":", to.Port())]
	silent := n.silent[host] || n.silent[fmt.Sprint(host, ":", to.Port())]
	n.mu.Unlock()
	switch {
	case host == "":
		return nil, fmt.Errorf("no server at %s", address)
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case refusing:
		// A port without a listener, for the error of a real refusal.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		closed := l.Addr().String()
		l.Close()
		return (&net.Dialer{}).DialContext(ctx, "tcp", closed)
	case to.Port() == 443:
		return (&net.Dialer{}).DialContext(ctx, "tcp", n.secure.Addr().String())
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", n.plain.Addr().String())
}

// client returns the production client, with its guard enabled.
func (n *internet) client() *safehttp.Client {
	n.t.Helper()
	c, err := safehttp.New(safehttp.Config{
		Resolver: n, Dial: n.dial, RootCAs: n.authority.Pool(), OwnAddrs: func() ([]netip.Addr, error) { return nil, nil },
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// crawl crawls a domain's home page.
// crawlTime is the time of a crawl that should have enough of it on a busy machine.
const crawlTime = 10 * time.Minute

func (n *internet) crawl(domain string) (*crawl.Result, error) {
	n.t.Helper()
	return n.crawlTarget(crawl.Target{Domain: domain}, crawlTime)
}

func (n *internet) crawlTarget(target crawl.Target, allowed time.Duration) (*crawl.Result, error) {
	n.t.Helper()
	result, _, err := n.crawlCounted(target, allowed)
	return result, err
}

func (n *internet) crawlCounted(target crawl.Target, allowed time.Duration) (*crawl.Result, crawl.Stats, error) {
	n.t.Helper()
	c, err := crawl.New(config(n.t), n.client(), n.assets())
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), allowed)
	defer cancel()
	result, stats, err := c.Crawl(ctx, target)
	if err == nil && !result.NotModified {
		keeps(n.t, target.Domain, result)
	}
	return result, stats, err
}

// keeps checks that a brand keeps each value of a crawl's record.
func keeps(t testing.TB, domain string, result *crawl.Result) {
	t.Helper()
	b := brand.New(domain)
	requested, err := b.RequestCrawl(brand.RequestCrawl{CrawlID: "c", Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: crawlTime})
	if err != nil {
		t.Fatal(err)
	}
	b.Apply(requested[0], 0, time.Time{})
	events, err := b.SucceedCrawl(brand.SucceedCrawl{CrawlID: "c", Record: result.Record, FinalURL: result.FinalURL})
	if err != nil {
		t.Fatal(err)
	}
	got := events[len(events)-1].(eventschemas.CrawlSucceeded).Record
	if want := result.Record.Normalized(); !reflect.DeepEqual(got, want) {
		t.Errorf("the brand at %s keeps %+v of %+v", domain, got, want)
	}
}

func (n *internet) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}
