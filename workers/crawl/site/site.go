// Package site determines which URLs belong to the crawled brand.
package site

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"letterhead/domain/brand"
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

// Reference returns a reference of a page or a style sheet as browsers read it: without the characters that they
// ignore, and with slashes for backslashes before the query (WHATWG URL, special schemes).
func Reference(ref string) string {
	ref = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || r == 0 {
			return -1
		}
		return r
	}, strings.TrimSpace(ref))
	if !strings.ContainsRune(ref, '\\') || hasScheme(ref, "data") {
		return ref
	}
	end := strings.IndexAny(ref, "?#")
	if end < 0 {
		end = len(ref)
	}
	return strings.ReplaceAll(ref[:end], `\`, "/") + ref[end:]
}

func hasScheme(ref, scheme string) bool {
	return len(ref) > len(scheme) && ref[len(scheme)] == ':' && strings.EqualFold(ref[:len(scheme)], scheme)
}

// Absolute resolves a Reference to an http or https URL without fragment, or
// returns nil if it is not one or has credentials.
func Absolute(base *url.URL, ref string) *url.URL {
	if ref == "" || len(ref) > brand.MaxURLBytes {
		return nil
	}
	u, err := url.Parse(ref)
	if err != nil {
		return nil
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	if !brand.IsWebURL(u) {
		return nil
	}
	u.Fragment, u.RawFragment = "", ""
	u.Host = strings.ToLower(u.Host)
	return u
}

// Resolve makes a reference of a page or a style sheet absolute. It returns nil if the scheme is not http or https.
func Resolve(base *url.URL, ref string) *url.URL { return Absolute(base, Reference(ref)) }

// Letters is brand.Letters.
func Letters(text string) string { return brand.Letters(text) }
