package readapi

import (
	"net/url"
	"strings"
)

// logoHost is a host name that serves logos at its root. The zero value is none.
type logoHost struct {
	name string // lower case, without a trailing dot
	port string // "" = any
}

// usualPorts are the ports that clients omit from Host.
var usualPorts = map[string]string{"http": "80", "https": "443"}

// parseLogoHost parses the setting; scheme is that of the published URLs.
func parseLogoHost(setting, scheme string) logoHost {
	name, port := splitHost(strings.ToLower(setting))
	if port == usualPorts[scheme] {
		port = ""
	}
	return logoHost{name: name, port: port}
}

// splitHost splits a Host header, with or without a port and a trailing dot.
func splitHost(sent string) (name, port string) {
	name = sent
	if i := strings.LastIndexByte(sent, ':'); i > strings.LastIndexByte(sent, ']') {
		name, port = sent[:i], sent[i+1:]
	}
	return strings.TrimSuffix(name, "."), port
}

// is reports whether a request's Host is this one. A port in it matters only if the setting has one,
// since proxies may or may not send it.
func (h logoHost) is(sent string) bool {
	if h.name == "" {
		return false
	}
	name, port := splitHost(sent)
	return strings.EqualFold(name, h.name) && (h.port == "" || h.port == port)
}

// logoURLs returns the prefix of a logo's URL before the domain.
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

// iconURL returns the URL of a domain's icon.
func (a *API) iconURL(domain string) string { return a.logoURLs + url.PathEscape(domain) }

// noLogo are the first path segments at the root of a logo host that clients request from every host
// and that would be parsed as domains.
var noLogo = map[string]bool{"": true, "favicon.ico": true, "robots.txt": true, "ads.txt": true, "sitemap.xml": true,
	".well-known": true}

// logoAddress returns the part of the path that describes a logo, still percent-encoded, and false if there is none.
// path is the one on a host of logos, where /logo/acme.com works as on the other host, since "logo" is not a domain; ""
// on that host. published reports whether the address may have any published form, unlike below /logo.
func (x *exchange) logoAddress(path string, hosted bool) (address string, published, ok bool) {
	if !hosted {
		return strings.TrimPrefix(x.request.URL.EscapedPath(), logoPath), false, true
	}
	address, strict := strings.CutPrefix(path, strings.TrimPrefix(logoPath, "/"))
	first, _, _ := strings.Cut(address, "/")
	return address, !strict, !noLogo[strings.ToLower(first)]
}
