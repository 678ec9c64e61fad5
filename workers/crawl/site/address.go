package site

import (
	"net/url"
	"strings"
	"unicode"
)

// MaxURLBytes limits a URL.
const MaxURLBytes = 2048

// Reference returns a reference of a page or a style sheet without the
// characters that browsers ignore.
func Reference(ref string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || r == 0 {
			return -1
		}
		return r
	}, strings.TrimSpace(ref))
}

// Absolute resolves a Reference to an http or https URL without fragment, or
// returns nil if it is not one or has credentials.
func Absolute(base *url.URL, ref string) *url.URL {
	if ref == "" || len(ref) > MaxURLBytes {
		return nil
	}
	u, err := url.Parse(ref)
	if err != nil {
		return nil
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil
	}
	u.Fragment, u.RawFragment = "", ""
	u.Host = strings.ToLower(u.Host)
	return u
}

// Letters returns a text in the form of a domain label: its letters and digits,
// in lower case.
func Letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
