package safehttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/safehttp"
	"letterhead/internal/testmust"
)

// refusedAddrs are addresses to which the client must never connect.
var refusedAddrs = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8", "168.63.129.16",
	"169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1",
	"192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
	"240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
	"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1",
	"2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1",
	"fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2a00:1450::5efe:7f00:1", "2a00:1450::200:5efe:a00:1",
	"198.100.1.1", // an address of this machine
}

var allowedAddrs = []string{"93.184.216.34", "1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "198.20.0.1", "2606:4700:4700::1111", "2a0e:8f02::1"}

// Rule 11.
func TestFetch_PrivateResolvedAddress_Blocked(t *testing.T) {
	for _, addr := range refusedAddrs {
		t.Run(addr, func(t *testing.T) {
			n := newInternet(t)
			n.name("evil.example", addr)
			n.name("mapped.example", addr)
			if a := netip.MustParseAddr(addr); a.Is4() { // as resolvers of some systems return it
				n.names["mapped.example"] = func(int) ([]netip.Addr, error) { return []netip.Addr{netip.AddrFrom16(a.As16())}, nil }
			}
			c := n.client(nil)
			for _, u := range []string{"http://evil.example/", "https://evil.example/", "https://evil.example:80/x", "http://mapped.example/"} {
				get(t, c, u, safehttp.ErrBlockedAddress)
			}
			if d := n.dials(); len(d) > 0 {
				t.Errorf("dialed %v", d)
			}
		})
	}
	for _, addr := range allowedAddrs {
		t.Run(addr, func(t *testing.T) {
			n := newInternet(t)
			n.name("good.example", addr)
			n.serve(netip.AddrPortFrom(netip.MustParseAddr(addr), 80).String(), raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
			if res := get(t, n.client(nil), "http://good.example/", nil); string(res.Body) != "hi" {
				t.Errorf("body %q", res.Body)
			}
		})
	}
}

// TestSocketGuard uses the guard as in production, on the address of the socket. The guard alone must
// prevent that a listener at the loopback address is reached.
// Rule 11.
func TestSocketGuard(t *testing.T) {
	l := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	reached := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reached <- struct{}{}
			conn.Close()
		}
	}()
	n := newInternet(t)
	n.name("evil.example", "127.0.0.1")
	n.name("own.example", "198.100.1.1")
	c := n.client(func(cfg *safehttp.Config) { cfg.Dial = nil }) // a real socket, with the guard in its Control
	get(t, c, "http://evil.example/", safehttp.ErrBlockedAddress)
	get(t, c, "http://own.example/", safehttp.ErrBlockedAddress)
	select {
	case <-reached:
		t.Error("the listener was reached")
	default:
	}
}

func TestResolve_MixedAddresses_UsesPublicOnly(t *testing.T) {
	n := newInternet(t)
	n.name("mixed.example", "10.0.0.1", "::1", public, "169.254.169.254", "64:ff9b::7f00:1")
	n.serve(public+":80", raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
	get(t, n.client(nil), "http://mixed.example/", nil)
	if d := n.dials(); len(d) != 1 || d[0] != "tcp4 "+public+":80" {
		t.Errorf("dialed %v", d)
	}
}

// Rule 11.
func TestFetch_DNSRebinding_Blocked(t *testing.T) {
	n := newInternet(t)
	n.names["rebind.example"] = func(asked int) ([]netip.Addr, error) {
		if asked == 1 {
			return addrs(public), nil
		}
		return addrs("127.0.0.1"), nil
	}
	n.serve(public+":80", n.http(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/again", http.StatusFound)
		}
	}), nil))
	c := n.client(nil)
	get(t, c, "http://rebind.example/", safehttp.ErrBlockedAddress) // the redirect resolves the name again and gets another address
	if d := n.dials(); len(d) != 1 {
		t.Errorf("dialed %v", d)
	}
}

// badTargets are URLs that must never be fetched.
var badTargets = []string{
	"http://127.0.0.1/", "http://127.1/", "http://127.0.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://017700000001/",
	"http://1.2.3.0400/", "http://1.2.3.0xff/", "http://0/", "http://0.0.0.0/", "http://8.8.8.8/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:a00:1]/",
	"http://[fe80::1%25eth0]/", "http://[2606:4700:4700::1111]/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://１２７.０.０.１/", "http://%31%32%37.0.0.1/",
	"http://localhost/", "http://localhost./", "http://LOCALHOST/", "http://foo.localhost/", "http://router/", "http://router./", "http://printer.local/", "http://db.internal/",
	"http://metadata.google.internal/computeMetadata/v1/", "http://x.onion/", "http://nas.lan/", "http://a.home.arpa/", "http://x.corp/", "http://com/",
	"https://example.com:22/", "http://example.com:6379/", "http://example.com:8080/", "http://example.com:0/", "http://example.com:65536/", "http://example.com:443443/", "http://example.com:-80/", "http://example.com:8o/",
	"http://user@example.com/", "http://user:pass@example.com/", "http://@example.com/", "http://example.com@127.0.0.1/", "http://example.com#@127.0.0.1:80/@x:1/../\\",
	"file:///etc/passwd", "gopher://example.com:80/_GET", "ftp://example.com/", "data:text/html,x", "javascript:alert(1)", "ws://example.com/", "HTTPS:example.com", "http:example.com",
	"http:\\\\example.com/", "http://example.com\\@127.0.0.1/", "\\\\example.com\\x", "http:///x", "http://", "http://?x", "http://#x", "http://./", "http://../", "http://.example.com/", "http://example..com/", "http://example.com../",
	"http://exa mple.com/", "http://exa\tmple.com/", "http://example.com/\r\nX: y", "http://example.com/\x00", "http://example.com/\x7f", "http://exam\x01ple.com", "http://example.com\n.evil/",
	"http://ex_ample!.com/", "http://exa<b>.com/", "http://exa%00mple.com/", "http://exa%2fmple.com/", "http://xn--a.com/", "http://xn--/",
	"http://" + strings.Repeat("a", 64) + ".com/", "http://" + strings.Repeat("a.", 130) + "com/", "http://example.com/" + strings.Repeat("a", 9000),
}

func TestFetch_BadTarget_Blocked(t *testing.T) {
	n := newInternet(t)
	c := n.client(nil)
	for _, u := range badTargets {
		if res, err := c.NewSession().Get(t.Context(), u, safehttp.Limits{}); !errors.Is(err, safehttp.ErrForbiddenURL) || res != nil {
			t.Errorf("%.100q: %v", u, err)
		}
	}
	for _, u := range []string{"", "/path", "//example.com/", "example.com", "?q"} { // not absolute
		if _, err := c.NewSession().Get(t.Context(), u, safehttp.Limits{}); !errors.Is(err, safehttp.ErrForbiddenURL) {
			t.Errorf("%q: %v, want ErrForbiddenURL", u, err)
		}
	}
	if len(n.asked) > 0 || len(n.dials()) > 0 {
		t.Errorf("resolved %v and dialed %v, want nothing", n.asked, n.dials())
	}
}

// Rule 11.
func TestRedirect_BadTarget_Blocked(t *testing.T) {
	for _, target := range badTargets {
		if strings.ContainsAny(target, "\r\n\x00\x01\x7f") || len(target) > 8500 {
			continue // cannot be sent as a header; TestRedirect_Malformed_Fails sends such bytes directly
		}
		n := newInternet(t)
		n.site("start.example", redirectTo(target))
		res, err := n.client(nil).NewSession().Get(t.Context(), "http://start.example/?secret", safehttp.Limits{})
		if !errors.Is(err, safehttp.ErrBadRedirect) || !errors.Is(err, safehttp.ErrForbiddenURL) || res != nil {
			t.Errorf("to %.100q: %v", target, err)
		}
		if d := n.dials(); len(d) != 1 || d[0] != "tcp4 "+public+":80" {
			t.Errorf("to %.100q: dialed %v", target, d)
		}
	}
}

func TestRedirect_NameOfPrivateAddress_Blocked(t *testing.T) {
	for _, addr := range refusedAddrs {
		for _, target := range []string{"http://inner.example/", "//inner.example/x", "https://inner.example/"} {
			n := newInternet(t)
			n.site("start.example", redirectTo(target))
			n.name("inner.example", addr)
			get(t, n.client(nil), "http://start.example/", safehttp.ErrBlockedAddress)
			if d := n.dials(); len(d) != 1 {
				t.Errorf("%s at %s: dialed %v", target, addr, d)
			}
		}
	}
}

func TestRedirect_Malformed_Fails(t *testing.T) {
	for location, want := range map[string]error{
		"http://good.example/\x01":          safehttp.ErrMalformed, // not a valid header
		"http://good.example/\x00x":         safehttp.ErrMalformed,
		"http://127.0.0.1/\r\nLocation: /x": safehttp.ErrBadRedirect,
		"http://good.example/\ttab":         safehttp.ErrBadRedirect,
	} {
		n := newInternet(t)
		n.name("start.example", public)
		n.serve(public+":80", func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", location)
			}
		})
		if _, err := n.client(nil).NewSession().Get(t.Context(), "http://start.example/", safehttp.Limits{}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", location, err, want)
		}
		if d := n.dials(); len(d) != 1 {
			t.Errorf("%q: dialed %v", location, d)
		}
	}
}

func TestDeniedNetworks(t *testing.T) {
	n := newInternet(t)
	n.name("own.example", "45.90.7.7")
	n.name("own6.example", "2a0e:8f02::7")
	c := n.client(func(cfg *safehttp.Config) {
		cfg.Denied = []netip.Prefix{netip.MustParsePrefix("45.90.0.0/16"), netip.MustParsePrefix("2a0e:8f02::/32")}
	})
	get(t, c, "http://own.example/", safehttp.ErrBlockedAddress)
	get(t, c, "http://own6.example/", safehttp.ErrBlockedAddress)
}

func TestSocketGuard_OwnAddressesUnknown_FailsClosed(t *testing.T) {
	n := newInternet(t)
	n.site("good.example", text("hi"))
	c := n.client(func(cfg *safehttp.Config) {
		cfg.OwnAddrs = func() ([]netip.Addr, error) { return nil, errors.New("no netlink") }
	})
	get(t, c, "http://good.example/", safehttp.ErrBlockedAddress)
}

func TestCheckURL_Normalizes(t *testing.T) {
	for in, want := range map[string]string{
		"http://Example.COM":                     "http://example.com/",
		" https://example.com./a?b#c ":           "https://example.com/a?b",
		"https://example.com:443/":               "https://example.com/",
		"http://example.com:80":                  "http://example.com/",
		"http://example.com:443/":                "http://example.com:443/",
		"http://example.com:/":                   "http://example.com/",
		"https://bücher.de/straße":               "https://xn--bcher-kva.de/stra%C3%9Fe",
		"https://xn--bcher-kva.de/":              "https://xn--bcher-kva.de/",
		"https://r3---sn-4g5e6nsz.example.com/x": "https://r3---sn-4g5e6nsz.example.com/x",
		"https://my_site.example.com/":           "https://my_site.example.com/",
		"https://example.com/100%.png":           "https://example.com/100%25.png",
		"https://example.com/a b":                "https://example.com/a%20b",
		"https://example.com/a%2Fb?q=%zz":        "https://example.com/a%2Fb?q=%25zz",
		"https://example.com?x":                  "https://example.com/?x",
		"https://example.com/?":                  "https://example.com/?",
		"HTTPS://example.com/":                   "https://example.com/",
		"http://1.example.com/":                  "http://1.example.com/",
		"http://0x.example.com/":                 "http://0x.example.com/",
	} {
		u, err := safehttp.CheckURL(in)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, u, err, want)
		}
	}
	base := testmust.Get(safehttp.CheckURL("https://example.com/a/b?c"))(t)
	for in, want := range map[string]string{
		"": "https://example.com/a/b?c", "x": "https://example.com/a/x", "/x": "https://example.com/x", "?x": "https://example.com/a/b?x", "#x": "https://example.com/a/b?c",
		"../../../x": "https://example.com/x", "//other.example/y": "https://other.example/y", "http://other.example": "http://other.example/",
	} {
		u, err := safehttp.ResolveURL(base, in)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, u, err, want)
		}
	}
}

// forbiddenDial fails the test if a forbidden address is dialed.
type forbiddenDial struct{ t *testing.T }

func (f forbiddenDial) dial(_ context.Context, network, addr string) (net.Conn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().Is4() || ap.Addr().String() != public || ap.Port() != 80 && ap.Port() != 443 {
		f.t.Errorf("dialed %s %s", network, addr)
	}
	return nil, errors.New("no network in this test")
}

func FuzzCheckURL(f *testing.F) {
	for _, u := range badTargets {
		f.Add("https://example.com/", u)
	}
	f.Add("https://example.com/a/b", "../x?y#z")
	f.Add("https://example.com/", strings.Repeat("\xb7", 4000)) // longer once it is escaped
	f.Add("http://bücher.de:443/", "//①②⑦.⓪.⓪.①")
	f.Fuzz(func(t *testing.T, base, ref string) {
		b, err := safehttp.CheckURL(base)
		if err != nil {
			return
		}
		u, err := safehttp.ResolveURL(b, ref)
		if err != nil {
			if !errors.Is(err, safehttp.ErrForbiddenURL) {
				t.Errorf("%.99q: %v, want ErrForbiddenURL", ref, err)
			}
			return
		}
		host, port := u.Hostname(), u.Port()
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" || port != "" && port != "80" && port != "443" {
			t.Errorf("%.99q gives %s", ref, u)
		}
		if net.ParseIP(host) != nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".") || strings.ToLower(host) != host {
			t.Errorf("%.99q gives host %q", ref, host)
		}
		if _, err := netip.ParseAddr(host); err == nil {
			t.Errorf("%.99q gives address %s", ref, host)
		}
		// The request is sent to the checked URL, so url.Parse must return the same URL, and checking
		// it again must change nothing.
		again, err := safehttp.CheckURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Errorf("%.99q gives %s, then %v (%v)", ref, u, again, err)
		}
		plain, err := url.Parse(u.String())
		if err != nil || plain.Host != u.Host || plain.Scheme != u.Scheme {
			t.Errorf("%.99q: url.Parse = %v, %v, want %s", ref, plain, err, u)
		}
		resolver := &internet{t: t, names: map[string]func(int) ([]netip.Addr, error){host: func(int) ([]netip.Addr, error) { return addrs("127.0.0.1", public), nil }}, asked: map[string]int{}}
		c := testmust.Get(safehttp.New(safehttp.Config{Resolver: resolver, Dial: forbiddenDial{t}.dial, OwnAddrs: func() ([]netip.Addr, error) { return nil, nil }}))(t)
		if _, err := c.NewSession().Get(t.Context(), u.String(), safehttp.Limits{}); err == nil {
			t.Error("Get succeeded without a network")
		}
	})
}
