package site

import (
	"net/url"
	"strings"
	"unicode"
)

// MaxURLBytes bounds a URL.
const MaxURLBytes = 2048

// Reference is a reference of a page or a style sheet without what browsers drop from it.
func Reference(ref string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || r == 0 {
			return -1
		}
		return r
	}, strings.TrimSpace(ref))
}

// Absolute makes a Reference a URL of the web: http or https, without fragment, or nil when it is none or
// has credentials.
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

// Letters is a text as the label of a domain has it: its letters and digits, in lower case.
func Letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
