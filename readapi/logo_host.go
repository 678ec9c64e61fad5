package readapi

import (
	"net/url"
	"strings"
)

// logoHost is a host name that serves logos at its root. The zero value is none.
type logoHost struct {
	name string // lower case, without a dot at its end
	port string // "" = any
}

// usualPorts are those that clients leave out of Host.
var usualPorts = map[string]string{"http": "80", "https": "443"}

// parseLogoHost reads the setting; scheme is that of the addresses that are given out.
func parseLogoHost(setting, scheme string) logoHost {
	name, port := splitHost(strings.ToLower(setting))
	if port == usualPorts[scheme] {
		port = ""
	}
	return logoHost{name: name, port: port}
}

// splitHost takes a host apart as a Host header has it, with or without a port and the dot of the root.
func splitHost(sent string) (name, port string) {
	name = sent
	if i := strings.LastIndexByte(sent, ':'); i > strings.LastIndexByte(sent, ']') {
		name, port = sent[:i], sent[i+1:]
	}
	return strings.TrimSuffix(name, "."), port
}

// is says whether a request's Host is this one. A port there decides only when the setting has one: proxies send
// it or not as they like.
func (h logoHost) is(sent string) bool {
	if h.name == "" {
		return false
	}
	name, port := splitHost(sent)
	return strings.EqualFold(name, h.name) && (h.port == "" || h.port == port)
}

// logoURLs is what stands before the domain in the address of a logo.
func logoURLs(baseURL, host string) string {
	if host == "" {
		return baseURL + logoPath
	}
	return schemeOf(baseURL) + "://" + host + "/"
}

func schemeOf(baseURL string) string {
	scheme, _, _ := strings.Cut(baseURL, ":")
	return strings.ToLower(scheme)
}

// iconURL is the logo endpoint's address of a domain's icon.
func (a *API) iconURL(domain string) string { return a.logoURLs + url.PathEscape(domain) }

// noLogo are the first segments of paths at the root of a logo host that clients ask every host for and that
// would be read as domains.
var noLogo = map[string]bool{"": true, "favicon.ico": true, "robots.txt": true, "ads.txt": true, "sitemap.xml": true, ".well-known": true}

// logoAddress returns what a request's path says of a logo, still percent-encoded, and false when it is none.
// On a logo host /logo/acme.com is what it is on the other, since "logo" is no domain.
func (x *exchange) logoAddress() (address string, ok bool) {
	sent := x.request.URL.EscapedPath()
	if !x.api.logoHost.is(x.request.Host) {
		return strings.TrimPrefix(sent, logoPath), true
	}
	if address, ok = strings.CutPrefix(sent, logoPath); !ok {
		address = strings.TrimPrefix(sent, "/")
	}
	first, _, _ := strings.Cut(address, "/")
	return address, !noLogo[strings.ToLower(first)]
}
