package site

import (
	"net/url"
	"strings"

	"letterhead/domain/brand"
)

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
