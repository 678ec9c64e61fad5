//go:build lab

package lab

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// builtIn has the rows of the sites that are built into the lab. Each has its own registrable domain.
var builtIn = map[string]row{
	// Name resolution.
	"nxdomain-lab.com":         failure(404, "domain_not_found", nil, nil),
	"dns-empty-lab.com":        failure(404, "domain_not_found", nil, nil),
	"servfail-lab.com":         failure(502, "fetch_failed", nil, nil),
	"dns-timeout-lab.com":      failure(504, "timeout", nil, nil),
	"dns-private-lab.com":      failure(502, "fetch_failed", nil, nil),
	"dns-private6-lab.com":     failure(502, "fetch_failed", nil, nil),
	"metadata.google.internal": failure(400, "invalid_domain", nil, nil),
	"dns-mixed-lab.com":        found("Mixed", none, nil, wellKnownIcons),
	// It is random which of the first two requests gets the public address.
	"dns-rebind-lab.com": {status: []int{200, 502}, code: "fetch_failed", repeatStatus: 503, name: "Rebind", maxTime: quickTime, optional: concat([]string{"/", robotsTxt}, wellKnownIcons, withoutTLS([]string{"/"}))},
	"ipv6-lab.com":       found("Six", none, nil, wellKnownIcons),

	// Connections.
	"refused-lab.com":          failure(502, "fetch_failed", nil, nil),
	"unreachable-lab.com":      failure(502, "fetch_failed", nil, nil),
	"reset-lab.com":            failure(502, "fetch_failed", nil, nil),
	"blackhole-lab.com":        failure(504, "timeout", nil, nil),
	"blackhole-accept-lab.com": failure(504, "timeout", nil, nil),
	"tls-selfsigned-lab.com":   failure(502, "fetch_failed", []string{"http:/"}, nil),
	"tls-expired-lab.com":      failure(502, "fetch_failed", []string{"http:/"}, nil),
	"tls-wronghost-lab.com":    failure(502, "fetch_failed", []string{"http:/"}, nil),
	"http-only-lab.com":        {status: []int{200}, repeatStatus: 200, name: "Plain Only", maxTime: quickTime, required: withoutTLS([]string{"/"}), optional: withoutTLS(concat([]string{robotsTxt}, wellKnownIcons))},
	"https-only-lab.com":       found("Secure Only", none, nil, wellKnownIcons),

	// Response bodies.
	"slow-headers-lab.com": failure(504, "timeout", []string{"/"}, []string{robotsTxt, "http:/"}),
	"slow-body-lab.com":    failure(504, "timeout", []string{"/"}, []string{robotsTxt}),
	"endless-body-lab.com": found("Endless", none, nil, wellKnownIcons).withTime(heavyTime),
	"huge-header-lab.com":  failure(502, "fetch_failed", []string{"/"}, []string{robotsTxt}).withBytes(maxHeader),
	"gzip-bomb-lab.com":    failure(404, "no_brand_data", []string{"/"}, concat([]string{robotsTxt}, wellKnownIcons)).withTime(heavyTime),
	"png-bomb-lab.com":     found("PNG Bomb", none, []string{"/icon.png"}, wellKnownIcons),
	"ico-bomb-lab.com":     found("ICO Bomb", none, []string{"/favicon.ico"}, wellKnownIcons),
	"svg-bomb-lab.com":     found("SVG Bomb", none, []string{"/logo.svg", "/icon.svg"}, wellKnownIcons).withTime(heavyTime),
	// Its sanitized SVG is a plain rectangle, which is not accepted as a logo; that of hostile-svg-lab.com is accepted.
	"svg-script-lab.com":  found("SVG Script", none, []string{"/logo.svg", "/icon.svg"}, wellKnownIcons),
	"broken-utf8-lab.com": found("Café Broken", none, nil, wellKnownIcons),
	"utf16-lab.com":       found("Sixteen Ünits", none, nil, wellKnownIcons),
	"gb18030-lab.com":     found("北京实验室", none, nil, wellKnownIcons),
	"nested-513-lab.com":  found("Nested Lab", none, nil, wellKnownIcons),
	"json-lab.com":        failure(404, "no_brand_data", []string{"/"}, wellKnownPaths),
	"pdf-lab.com":         failure(404, "no_brand_data", []string{"/"}, wellKnownPaths),
	"empty-lab.com":       failure(404, "no_brand_data", []string{"/"}, wellKnownPaths),

	// Redirects. A request follows at most five; the crawler requests the home page and robots.txt.
	"redirect-loop-lab.com":    failure(502, "fetch_failed", []string{"/", "/round"}, []string{robotsTxt}).withRepeats(6).withRequests(12),
	"redirect-chain-lab.com":   failure(502, "fetch_failed", []string{"/", "/hop/5"}, []string{robotsTxt, "/hop/1", "/hop/2", "/hop/3", "/hop/4"}).withRepeats(2).withRequests(12),
	"redirect-private-lab.com": failure(502, "fetch_failed", []string{"/"}, []string{robotsTxt}),
	"icon-private-lab.com":     found("Icon Private", none, nil, concat(wellKnownIcons, []string{"/private/*"})).withHosts("redirect-private-lab.com"),
	// It redirects all paths, including robots.txt, to one page.
	"cross-redirect-lab.com": found("Good Lab", some, nil, nil).withHosts("good-lab.com").withRepeats(2),
	"cookie-loop-lab.com":    found("Cookie Loop", none, nil, wellKnownIcons).withRepeats(2),

	// Statuses.
	"forbidden-lab.com":          failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"unauthorized-lab.com":       failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"gone-legal-lab.com":         failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"linkedin-style-999-lab.com": failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"cloudflare-lab.com":         failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"captcha-200-lab.com":        failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"rate-limited-lab.com":       failure(422, "fetch_blocked", []string{"/"}, wellKnownPaths),
	"server-error-lab.com":       failure(502, "fetch_failed", []string{"/"}, []string{robotsTxt}),
	// The first request is answered 503: either that of robots.txt or that of the home page.
	"flaky-lab.com":         {status: []int{200, 502}, code: "fetch_failed", repeatStatus: 503, name: "Flaky", maxTime: quickTime, required: []string{"/"}, optional: concat([]string{robotsTxt}, wellKnownIcons)},
	"parked-lab.com":        failure(404, "no_brand_data", []string{"/"}, []string{robotsTxt}),
	"default-nginx-lab.com": failure(404, "no_brand_data", []string{"/"}, []string{robotsTxt}),

	// Images.
	"logo-404-lab.com":   found("Logo 404", none, []string{"/logo.svg", "/favicon.ico", "/apple-touch-icon.png"}, []string{"/og.png"}),
	"logo-html-lab.com":  found("Logo HTML", none, wellKnownIcons, []string{"/logo.png"}),
	"many-icons-lab.com": found("Many Icons", some, nil, concat(wellKnownIcons, []string{"/icon-*"})).withTime(heavyTime),
	"nologo-lab.com":     found("No Logo Lab", none, nil, wellKnownIcons),

	// Good sites.
	"bimi-lab.com": found("BIMI Lab", some, []string{"/bimi.svg"}, wellKnownIcons),
	"dark-lab.com": found("Dark Lab", some, []string{"/logo-white.svg", "/icon.svg"}, wellKnownIcons),
	// Its robots.txt may be cached already because another host redirects to it.
	"good-lab.com": {
		status: []int{200}, repeatStatus: 200, cost: 1, name: "Good Lab", logos: some, maxTime: quickTime,
		required: []string{"/", "/logo.svg", "/icon.svg", "/favicon.ico", "/apple-touch-icon.png", "/site.webmanifest", "/style.css", "/og.png"},
		optional: []string{robotsTxt, "/icon-192.png", "/icon-512.png", "/about", "/contact"}, // which may state facts of the company
	},
}

// TestHosts_LookedUp_MatchTheirRows looks up the hosts one after the other, so that all traffic belongs to one host.
func TestHosts_LookedUp_MatchTheirRows(t *testing.T) {
	s := startServer(t, portHosts, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	for _, host := range slices.Sorted(maps.Keys(builtIn)) {
		r := builtIn[host]
		if r.maxTime == slowTime {
			continue
		}
		if host == "ipv6-lab.com" && !reachable("[2a0e:8f02::1]:443") {
			r = failure(502, "fetch_failed", nil, nil)
		}
		t.Run(strings.TrimSuffix(host, "-lab.com"), func(t *testing.T) { r.check(t, s, host, true) })
	}
}

// TestSlowHosts_LookedUp_MatchTheirRows concurrently looks up the hosts that take until the timeout of a look-up.
func TestSlowHosts_LookedUp_MatchTheirRows(t *testing.T) {
	for _, host := range slices.Sorted(maps.Keys(builtIn)) {
		if r := builtIn[host]; r.maxTime == slowTime {
			t.Run(strings.TrimSuffix(host, "-lab.com"), func(t *testing.T) {
				t.Parallel()
				r.check(t, node, host, false)
			})
		}
	}
}

// reachable reports whether this machine can connect to an address. Some machines have no IPv6.
func reachable(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
