// Package origin parses the web origins that publishable keys may be used from, and compares them with the origins
// that browsers send.
package origin

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

const (
	maxHostBytes  = 253
	maxLabelBytes = 63
	// MaxBytes limits the text of an origin: https://*. with the longest host and port.
	MaxBytes = len("https://*.") + maxHostBytes + len(":65535")
)

const wildcard = "*."

// Parse returns the canonical form of an allowed origin: https://host or https://host:port, in lower case, with the
// host in its ASCII form and without the default port. https://*.host allows every host below host, which must not be
// a suffix that is open to everyone, such as com or github.io. http is only for the machine of the browser (localhost,
// 127.0.0.1). The error quotes the text and explains how to correct it.
func Parse(text string) (string, error) {
	text = strings.TrimSpace(text)
	scheme, host, found := strings.Cut(text, "://")
	switch {
	case text == "":
		return "", errors.New("is empty; write https://host, such as https://www.acme.com")
	case len(text) > MaxBytes:
		return "", fmt.Errorf("has %d characters; an origin has at most %d", len(text), MaxBytes)
	case !found && strings.HasPrefix(text, "*"):
		return "", fmt.Errorf("%q has no scheme; write https://*.host", text)
	case !found:
		return "", fmt.Errorf("%q has no scheme; write https://host, such as https://www.acme.com", text)
	}
	host, below := strings.CutPrefix(host, wildcard)
	parsed, err := parse(scheme, strings.TrimSuffix(host, "/"))
	if err != nil {
		return "", fmt.Errorf("%q %w", text, err)
	}
	if !below {
		return parsed.String(), nil
	}
	if _, err := publicsuffix.EffectiveTLDPlusOne(parsed.host); err != nil || parsed.ip {
		return "", fmt.Errorf("%q has a wildcard over hosts of different owners; write it before a domain of your own, such as https://*.acme.com", text)
	}
	parsed.host = wildcard + parsed.host
	return parsed.String(), nil
}

// Allows reports whether one of the allowed origins, which Parse has returned, covers an origin that a browser sent.
func Allows(allowed []string, sent string) bool {
	if len(sent) > MaxBytes {
		return false
	}
	scheme, host, _ := strings.Cut(sent, "://")
	parsed, err := parse(scheme, host)
	if err != nil {
		return false
	}
	sent = parsed.String()
	for _, pattern := range allowed {
		before, after, below := strings.Cut(pattern, "*")
		if pattern == sent || below && len(sent) > len(before)+len(after) && strings.HasPrefix(sent, before) &&
			strings.HasSuffix(sent, after) {
			return true
		}
	}
	return false
}

// OfURL returns the origin of a URL, without checking it.
func OfURL(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return url
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + rest
}

// parts are the parts of an origin in canonical form.
type parts struct {
	scheme, host, port string // port is empty if it is the default
	ip                 bool
}

func (p parts) String() string {
	out := p.scheme + "://" + p.host
	if p.port != "" {
		out += ":" + p.port
	}
	return out
}

func parse(scheme, authority string) (parts, error) {
	p := parts{scheme: strings.ToLower(scheme)}
	if p.scheme != "https" && p.scheme != "http" {
		return p, errors.New("does not begin with https://")
	}
	switch i := strings.IndexAny(authority, `/?#@\*`); {
	case i < 0:
	case authority[i] == '@':
		return p, errors.New("contains a user name; leave it out")
	case authority[i] == '*':
		return p, errors.New("has a wildcard inside the host; only https://*.host is possible")
	default:
		return p, errors.New("has a path; an origin ends with its host or port")
	}
	host, port, err := splitPort(authority)
	if err != nil {
		return p, err
	}
	if p.host, p.ip, err = parseHost(host); err != nil {
		return p, err
	}
	if p.scheme == "http" && !p.local() {
		return p, errors.New("is not encrypted, so the key could be read on its way; write https://")
	}
	if p.port, err = parsePort(port, p.scheme); err != nil {
		return p, err
	}
	return p, nil
}

// splitPort returns the host, in brackets if it is an IPv6 address, and the port with its colon.
func splitPort(authority string) (host, port string, err error) {
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", errors.New("has no ] after the IPv6 address")
		}
		return authority[:end+1], authority[end+1:], nil
	}
	if i := strings.IndexByte(authority, ':'); i >= 0 {
		return authority[:i], authority[i:], nil
	}
	return authority, "", nil
}

func parseHost(host string) (canonical string, ip bool, err error) {
	if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", false, errors.New("has no valid IPv6 address between the brackets")
		}
		return "[" + addr.String() + "]", true, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String(), true, nil
	}
	if !utf8.ValidString(host) {
		return "", false, errors.New("is not UTF-8")
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", false, fmt.Errorf("has no valid host (%s)", strings.TrimPrefix(err.Error(), "idna: "))
	}
	ascii = strings.TrimSuffix(ascii, ".") // the root, which ends every full name
	switch last := ascii[strings.LastIndexByte(ascii, '.')+1:]; {
	case ascii == "":
		return "", false, errors.New("has no host; write https://host, such as https://www.acme.com")
	case len(ascii) > maxHostBytes:
		return "", false, fmt.Errorf("has a host of %d characters; a host has at most %d", len(ascii), maxHostBytes)
	case strings.Trim(last, "0123456789") == "":
		return "", false, errors.New("has a host that ends in a number but is not an IP address")
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if label == "" || len(label) > maxLabelBytes {
			return "", false, fmt.Errorf("has a host with a label that is empty or longer than %d characters",
				maxLabelBytes)
		}
	}
	return ascii, false, nil
}

// parsePort returns the digits of a port, or "" for the default of the scheme.
func parsePort(port, scheme string) (string, error) {
	if port == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(port, ":"), 10, 16)
	if err != nil || n == 0 || port[0] != ':' {
		return "", errors.New("has no valid port; a port is a number from 1 to 65535")
	}
	if scheme == "https" && n == 443 || scheme == "http" && n == 80 {
		return "", nil
	}
	return strconv.FormatUint(n, 10), nil
}

// local reports whether the host is the machine of the browser, so that nothing is sent over a network.
func (p parts) local() bool {
	if p.ip {
		return netip.MustParseAddr(strings.Trim(p.host, "[]")).IsLoopback()
	}
	return p.host == "localhost" || strings.HasSuffix(p.host, ".localhost")
}
