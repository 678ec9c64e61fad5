package crawl_test

import (
	"context"
	"fmt"
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
	"letterhead/internal/testmust"
	"letterhead/internal/testnet"
	"letterhead/workers/crawl"
)

// internet is a closed test network whose connections can fail, and which records the requests. It is connected below
// the guard of safehttp, at the interfaces intended for that.
type internet struct {
	*testnet.Internet
	t         testing.TB
	authority *testcert.Authority

	mu       sync.Mutex
	hosts    map[netip.Addr]string // of the names that were looked up
	refusing map[string]bool       // host or host:port
	silent   map[string]bool       // host or host:port
	mute     chan struct{}         // no TXT query is answered; closed when the first query is abandoned
	asked    []string              // host and path of every request
	busy     map[string]int
	busiest  map[string]int // the most concurrent requests of a host
}

func newInternet(t testing.TB) *internet {
	t.Helper()
	authority := testmust.Get(testcert.NewAuthority())(t)
	network := testmust.Get(testnet.New(authority))(t)
	t.Cleanup(network.Close)
	return &internet{
		Internet: network, t: t, authority: authority, hosts: map[netip.Addr]string{},
		refusing: map[string]bool{}, silent: map[string]bool{}, busy: map[string]int{}, busiest: map[string]int{},
	}
}

// serve adds a site to the network.
func (n *internet) serve(host string, site http.Handler) {
	n.Serve(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.asked = append(n.asked, host+r.URL.RequestURI())
		n.busy[host]++
		n.busiest[host] = max(n.busiest[host], n.busy[host])
		n.mu.Unlock()
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.busy[host]--
		}()
		site.ServeHTTP(w, r)
	}))
}

// refuse makes a host, or one port of it such as acme.com:443, refuse connections.
func (n *internet) refuse(where string) { n.refusing[where] = true }

// LookupNetIP implements the resolver.
func (n *internet) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	addrs, err := n.Internet.LookupNetIP(ctx, network, host)
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.hosts[addrs[0]] = strings.TrimSuffix(host, ".")
	}
	return addrs, err
}

// LookupTXT implements the resolver.
func (n *internet) LookupTXT(ctx context.Context, name string) ([]string, error) {
	if n.mute != nil {
		<-ctx.Done()
		close(n.mute)
		return nil, ctx.Err()
	}
	return n.Internet.LookupTXT(ctx, name)
}

// dial connects to the host of an address, unless its connections fail.
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
	}
	return n.Dial(ctx, network, address)
}

// client returns the production client, with its guard enabled.
func (n *internet) client() *safehttp.Client {
	n.t.Helper()
	c, err := safehttp.New(safehttp.Config{
		Resolver: n, Dial: n.dial, RootCAs: n.authority.Pool(), OwnAddrs: func() ([]netip.Addr, error) { return nil, nil },
	})
	testmust.Succeed(n.t, err)
	n.t.Cleanup(c.Close)
	return c
}

// crawlTime is the time of a crawl that should have enough of it on a busy machine.
const crawlTime = 10 * time.Minute

// crawl crawls a domain's home page.
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
	return n.crawlWith(config(n.t), target, allowed)
}

func (n *internet) crawlWith(
	cfg crawl.Config, target crawl.Target, allowed time.Duration,
) (*crawl.Result, crawl.Stats, error) {
	n.t.Helper()
	c := testmust.Get(crawl.New(cfg, n.client(), n.assets()))(n.t)
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
	requested := testmust.Get(b.RequestCrawl(brand.RequestCrawl{CrawlID: "c", Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: crawlTime}))(t)
	b.Apply(requested[0], 0, time.Time{})
	events := testmust.Get(b.SucceedCrawl(brand.SucceedCrawl{CrawlID: "c", Record: result.Record, FinalURL: result.FinalURL}))(t)
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
