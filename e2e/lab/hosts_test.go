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

// builtIn are the sites that are always in the lab. Each has a registrable domain of its own.
var builtIn = map[string]row{
	// Names.
	"nxdomain-lab.com":         failure(404, "domain_not_found", nil, nil),
	"dns-empty-lab.com":        failure(404, "domain_not_found", nil, nil),
	"servfail-lab.com":         failure(502, "fetch_failed", nil, nil),
	"dns-timeout-lab.com":      failure(504, "timeout", nil, nil),
	"dns-private-lab.com":      failure(502, "fetch_failed", nil, nil),
	"dns-private6-lab.com":     failure(502, "fetch_failed", nil, nil),
	"metadata.google.internal": failure(400, "invalid_domain", nil, nil),
	"dns-mixed-lab.com":        found("Mixed", none, nil, knownIcon),
	// Which of the first two fetches gets the public address is chance.
	"dns-rebind-lab.com": {status: []int{200, 502}, code: "fetch_failed", again: 503, name: "Rebind", within: atOnce, may: join([]string{"/", rules}, knownIcon, plain([]string{"/"}))},
	"ipv6-lab.com":       found("Six", none, nil, knownIcon),

	// Connections.
	"refused-lab.com":          failure(502, "fetch_failed", nil, nil),
	"unreachable-lab.com":      failure(502, "fetch_failed", nil, nil),
	"reset-lab.com":            failure(502, "fetch_failed", nil, nil),
	"blackhole-lab.com":        failure(504, "timeout", nil, nil),
	"blackhole-accept-lab.com": failure(504, "timeout", nil, nil),
	"tls-selfsigned-lab.com":   failure(502, "fetch_failed", []string{"http:/"}, nil),
	"tls-expired-lab.com":      failure(502, "fetch_failed", []string{"http:/"}, nil),
	"tls-wronghost-lab.com":    failure(502, "fetch_failed", []string{"http:/"}, nil),
	"http-only-lab.com":        {status: []int{200}, again: 200, name: "Plain Only", within: atOnce, must: plain([]string{"/"}), may: plain(join([]string{rules}, knownIcon))},
	"https-only-lab.com":       found("Secure Only", none, nil, knownIcon),

	// Bytes.
	"slow-headers-lab.com": failure(504, "timeout", []string{"/"}, []string{rules, "http:/"}),
	"slow-body-lab.com":    failure(504, "timeout", []string{"/"}, []string{rules}),
	"endless-body-lab.com": found("Endless", none, nil, knownIcon).takes(heavy),
	"huge-header-lab.com":  failure(502, "fetch_failed", []string{"/"}, []string{rules}).reading(maxHeader),
	"gzip-bomb-lab.com":    failure(404, "no_brand_data", []string{"/"}, join([]string{rules}, knownIcon)).takes(heavy),
	"png-bomb-lab.com":     found("PNG Bomb", none, []string{"/icon.png"}, knownIcon),
	"ico-bomb-lab.com":     found("ICO Bomb", none, []string{"/favicon.ico"}, knownIcon),
	"svg-bomb-lab.com":     found("SVG Bomb", none, []string{"/logo.svg", "/icon.svg"}, knownIcon).takes(heavy),
	// What is harmless in it is one rectangle, which is no logo; hostile-svg-lab.com has one that is.
	"svg-script-lab.com":  found("SVG Script", none, []string{"/logo.svg", "/icon.svg"}, knownIcon),
	"broken-utf8-lab.com": found("Café Broken", none, nil, knownIcon),
	"utf16-lab.com":       found("Sixteen Ünits", none, nil, knownIcon),
	"gb18030-lab.com":     found("北京实验室", none, nil, knownIcon),
	"nested-513-lab.com":  found("Nested Lab", none, nil, knownIcon),
	"json-lab.com":        failure(404, "no_brand_data", []string{"/"}, undeclared),
	"pdf-lab.com":         failure(404, "no_brand_data", []string{"/"}, undeclared),
	"empty-lab.com":       failure(404, "no_brand_data", []string{"/"}, undeclared),

	// Redirects. A fetch follows five; the home page and robots.txt are two.
	"redirect-loop-lab.com":    failure(502, "fetch_failed", []string{"/", "/round"}, []string{rules}).repeating(6).atMost(12),
	"redirect-chain-lab.com":   failure(502, "fetch_failed", []string{"/", "/hop/5"}, []string{rules, "/hop/1", "/hop/2", "/hop/3", "/hop/4"}).repeating(2).atMost(12),
	"redirect-private-lab.com": failure(502, "fetch_failed", []string{"/"}, []string{rules}),
	"icon-private-lab.com":     found("Icon Private", none, nil, join(knownIcon, []string{"/private/*"})).reaching("redirect-private-lab.com"),
	// Whatever it is asked for it redirects to one page, robots.txt as well.
	"cross-redirect-lab.com": found("Good Lab", some, nil, nil).reaching("good-lab.com").repeating(2),
	"cookie-loop-lab.com":    found("Cookie Loop", none, nil, knownIcon).repeating(2),

	// Statuses.
	"forbidden-lab.com":          failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"unauthorized-lab.com":       failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"gone-legal-lab.com":         failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"linkedin-style-999-lab.com": failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"cloudflare-lab.com":         failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"captcha-200-lab.com":        failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"rate-limited-lab.com":       failure(422, "fetch_blocked", []string{"/"}, undeclared),
	"server-error-lab.com":       failure(502, "fetch_failed", []string{"/"}, []string{rules}),
	// The first request gets the 503: robots.txt, or the home page.
	"flaky-lab.com":         {status: []int{200, 502}, code: "fetch_failed", again: 503, name: "Flaky", within: atOnce, must: []string{"/"}, may: join([]string{rules}, knownIcon)},
	"parked-lab.com":        failure(404, "no_brand_data", []string{"/"}, []string{rules}),
	"default-nginx-lab.com": failure(404, "no_brand_data", []string{"/"}, []string{rules}),

	// Pictures.
	"logo-404-lab.com":   found("Logo 404", none, []string{"/logo.svg", "/favicon.ico", "/apple-touch-icon.png"}, []string{"/og.png"}),
	"logo-html-lab.com":  found("Logo HTML", none, knownIcon, []string{"/logo.png"}),
	"many-icons-lab.com": found("Many Icons", some, nil, join(knownIcon, []string{"/icon-*"})).takes(heavy),
	"nologo-lab.com":     found("No Logo Lab", none, nil, knownIcon),

	// Good ones.
	"bimi-lab.com": found("BIMI Lab", some, []string{"/bimi.svg"}, knownIcon),
	"dark-lab.com": found("Dark Lab", some, []string{"/logo-white.svg", "/icon.svg"}, knownIcon),
	// Its rules may be known already: another host redirects to it.
	"good-lab.com": {
		status: []int{200}, again: 200, cost: 1, name: "Good Lab", logos: some, within: atOnce,
		must: []string{"/", "/logo.svg", "/icon.svg", "/favicon.ico", "/apple-touch-icon.png", "/site.webmanifest", "/style.css", "/og.png"},
		may:  []string{rules, "/icon-192.png", "/icon-512.png"},
	},
}

// TestHosts_LookedUp_MatchTheirRows looks the hosts up one at a time, so that whatever is fetched meanwhile is theirs.
func TestHosts_LookedUp_MatchTheirRows(t *testing.T) {
	s := own(t, portHosts, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	for _, host := range slices.Sorted(maps.Keys(builtIn)) {
		r := builtIn[host]
		if r.within == clientsGiveUp {
			continue
		}
		if host == "ipv6-lab.com" && !reachable("[2a0e:8f02::1]:443") {
			r = failure(502, "fetch_failed", nil, nil)
		}
		t.Run(strings.TrimSuffix(host, "-lab.com"), func(t *testing.T) { r.check(t, s, host, true) })
	}
}

// TestSlowHosts_LookedUp_MatchTheirRows looks up those that take the whole time of a look-up, all at once.
func TestSlowHosts_LookedUp_MatchTheirRows(t *testing.T) {
	for _, host := range slices.Sorted(maps.Keys(builtIn)) {
		if r := builtIn[host]; r.within == clientsGiveUp {
			t.Run(strings.TrimSuffix(host, "-lab.com"), func(t *testing.T) {
				t.Parallel()
				r.check(t, node, host, false)
			})
		}
	}
}

// reachable reports whether this machine has a way to an address: some have no IPv6.
func reachable(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
