package readapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8:ffff::/48"),
}

func requestFrom(remote string, forwarded ...string) *http.Request {
	r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
	if len(forwarded) > 0 {
		r.Header[headerForwardedFor] = forwarded
	}
	return r
}

func TestClientAddress_ForwardedFor_IsReadFromTheEnd(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("10.0.0.9,", maxForwardedHops), ",")
	for name, c := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"the connection":                     {"198.51.100.7:1234", nil, "198.51.100.7"},
		"a client's header":                  {"198.51.100.7:1234", []string{"203.0.113.9"}, "198.51.100.7"},
		"a proxy without a header":           {"10.1.2.3:1234", nil, "10.1.2.3"},
		"an empty header":                    {"10.1.2.3:1234", []string{""}, "10.1.2.3"},
		"behind a proxy":                     {"10.1.2.3:1234", []string{"203.0.113.9"}, "203.0.113.9"},
		"behind two":                         {"10.1.2.3:1234", []string{"203.0.113.9, 192.0.2.1"}, "203.0.113.9"},
		"the visitor's own entries":          {"10.1.2.3:1234", []string{"1.1.1.1, 10.9.9.9, 203.0.113.9,10.7.7.7"}, "203.0.113.9"},
		"two lines are one list":             {"10.1.2.3:1234", []string{"1.1.1.1, 203.0.113.9", "10.7.7.7"}, "203.0.113.9"},
		"the last line first":                {"10.1.2.3:1234", []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		"all trusted":                        {"10.1.2.3:1234", []string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		"rubbish":                            {"10.1.2.3:1234", []string{"unknown"}, "10.1.2.3"},
		"rubbish left of a trusted one":      {"10.1.2.3:1234", []string{"203.0.113.9, _hidden, 10.0.0.2"}, "10.0.0.2"},
		"an empty entry":                     {"10.1.2.3:1234", []string{"203.0.113.9,, 10.0.0.2"}, "10.0.0.2"},
		"rubbish left of the visitor":        {"10.1.2.3:1234", []string{"x, 203.0.113.9"}, "203.0.113.9"},
		"an entry with a port":               {"10.1.2.3:1234", []string{"203.0.113.9:555"}, "203.0.113.9"},
		"IPv6 with brackets and a port":      {"10.1.2.3:1234", []string{"[2001:db8:1:2:3::4]:555"}, "2001:db8:1:2::"},
		"IPv6 with brackets":                 {"10.1.2.3:1234", []string{"[2001:db8:1:2:3::4]"}, "2001:db8:1:2::"},
		"IPv6 by /64":                        {"[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::"},
		"a zone":                             {"[fe80::1:2%eth0]:1234", nil, "fe80::"},
		"IPv4 in IPv6":                       {"[::ffff:198.51.100.7]:1234", nil, "198.51.100.7"},
		"a proxy by IPv4 in IPv6":            {"[::ffff:10.1.2.3]:1234", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a proxy by IPv6":                    {"[2001:db8:ffff::1]:1234", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy whose /64 is not its own":   {"[2001:db8:fffe::1]:1234", []string{"203.0.113.9"}, "2001:db8:fffe::"},
		"as many hops as are looked at":      {"10.1.2.3:1234", []string{"203.0.113.9," + strings.TrimPrefix(many, "10.0.0.9,")}, "203.0.113.9"},
		"more hops than are looked at":       {"10.1.2.3:1234", []string{"203.0.113.9," + many}, "10.0.0.9"},
		"more lines than hops are looked at": {"10.1.2.3:1234", append([]string{"203.0.113.9"}, strings.Split(many, ",")...), "10.0.0.9"},
		"an entry of great length":           {"10.1.2.3:1234", []string{"203.0.113.9" + strings.Repeat(" ", 100) + "x"}, "10.1.2.3"},
		"no address at all":                  {"pipe", []string{"203.0.113.9"}, "invalid IP"},
	} {
		if got := clientAddress(requestFrom(c.remote, c.forwarded...), proxies).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := clientAddress(requestFrom("10.1.2.3:1234", "203.0.113.9"), nil).String(); got != "10.1.2.3" {
		t.Errorf("without trusted proxies: %s, want %q", got, "10.1.2.3")
	}
}

// Whatever the header contains, the result has the form that limits use, entries left of the
// visitor have no effect, and one line or several give the same result.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{"", "203.0.113.9", "1.1.1.1, 10.0.0.1", "::ffff:10.0.0.1,x", "[::1]:80,,", "fe80::1%eth0, 10.0.0.1", "10.0.0.1 , 10.0.0.2:1"} {
		f.Add(seed, "198.51.100.1")
	}
	f.Fuzz(func(t *testing.T, header, forged string) {
		got := clientAddress(requestFrom("10.1.2.3:1", header), proxies)
		if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%q: %s", header, got)
		}
		if network, err := got.Prefix(64); got.Is6() && (err != nil || network.Addr() != got) {
			t.Fatalf("%q: %s is not a /64", header, got)
		}
		if split := clientAddress(requestFrom("10.1.2.3:1", strings.Split(header, ",")...), proxies); split != got {
			t.Fatalf("%q: %s in one line, %s in several", header, got, split)
		}
		if behind := clientAddress(requestFrom("10.1.2.3:1", forged+", 203.0.113.9"), proxies); behind.String() != "203.0.113.9" {
			t.Fatalf("with %q in front of the visitor: %s", forged, behind)
		}
		if direct := clientAddress(requestFrom("198.51.100.7:1", header), proxies); direct.String() != "198.51.100.7" {
			t.Fatalf("%q from an untrusted connection: %s", header, direct)
		}
	})
}
