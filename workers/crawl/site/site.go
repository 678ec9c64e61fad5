// Package site determines which URLs belong to the crawled brand.
package site

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Site identifies the site of one brand.
type Site struct {
	Domain string   // the requested registrable domain, and the key of the record
	Label  string   // the domain without its public suffix, in Unicode: acme of acme.co.uk
	Others []string // other domains of the brand, to which its home page redirected
}

// New returns the site of a registrable domain.
func New(domain string) Site {
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	return Site{Domain: domain, Label: label(domain)}
}

// Redirected returns the site with the domain of its home page's final URL.
func (s Site) Redirected(final *url.URL) Site {
	if final == nil || s.OwnHost(final.Hostname()) {
		return s
	}
	s.Others = append(s.Others[:len(s.Others):len(s.Others)], Registrable(final.Hostname()))
	return s
}

// Registrable returns the registrable domain of a host, or the host itself if it has none.
func Registrable(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if d, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return d
	}
	return host
}

// OwnHost reports whether a host belongs to the site.
func (s Site) OwnHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return within(host, s.Domain) || slices.ContainsFunc(s.Others, func(d string) bool { return within(host, d) })
}

// Own reports whether a URL leads to the site.
func (s Site) Own(u *url.URL) bool { return u != nil && s.OwnHost(u.Hostname()) }

// Labels returns the labels of all domains of the site, the label of the requested domain first.
func (s Site) Labels() []string {
	out := []string{s.Label}
	for _, d := range s.Others {
		out = append(out, label(d))
	}
	return out
}

func within(host, domain string) bool {
	return domain != "" && (host == domain || strings.HasSuffix(host, "."+domain))
}

func label(domain string) string {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	name := strings.TrimSuffix(strings.TrimSuffix(domain, suffix), ".")
	if name == "" { // the domain is itself a suffix, such as github.io
		name, _, _ = strings.Cut(domain, ".")
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	if u, err := idna.Display.ToUnicode(name); err == nil {
		return u
	}
	return name
}
