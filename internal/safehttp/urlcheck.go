package safehttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxURLBytes   = 8192 // longer than any legitimate link, including signed ones
	maxHostBytes  = 253  // a domain name as text (RFC 1035, section 2.3.4), without the final dot
	maxLabelBytes = 63
)

// localSuffixes are top-level names that exist only on local networks, or never in the DNS.
var localSuffixes = []string{
	"localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home", "lan",
	"home.arpa", "onion", "i2p",
}

// hostProfile maps a host to ASCII as browsers do before a lookup. It allows underscores and hyphens
// anywhere, because real host names have them. The characters of labels are checked later.
var hostProfile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.CheckHyphens(false))

// CheckURL parses an absolute URL and returns it in the form in which it is fetched: with the host in ASCII and lower
// case, and without default port and fragment. The error is ErrForbiddenURL with the reason.
//
// The returned URL has a host name, never an IP address. The guard checks the addresses of the name.
func CheckURL(raw string) (*url.URL, error) {
	u, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return check(u)
}

// ResolveURL is CheckURL for a reference found at base: a redirect's Location, or a link on a page.
func ResolveURL(base *url.URL, ref string) (*url.URL, error) {
	u, err := parse(ref)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "" && u.Opaque == "" {
		u = base.ResolveReference(u)
	}
	return check(u)
}

func forbidden(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrForbiddenURL, fmt.Sprintf(format, args...))
}

func parse(raw string) (*url.URL, error) {
	raw = strings.Trim(raw, " \t\r\n\f")
	if len(raw) > maxURLBytes {
		return nil, forbidden("%d bytes long", len(raw))
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return nil, forbidden("contains a control character")
	}
	if strings.Contains(raw, `\`) { // browsers treat it as a slash, but url.Parse does not
		return nil, forbidden("contains a backslash")
	}
	u, err := url.Parse(escapeStrayPercents(raw))
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // the text of a url.Error contains the whole URL
		}
		return nil, forbidden("%v", err)
	}
	return u, nil
}

// escapeStrayPercents lets "100%.png" parse, like browsers.
func escapeStrayPercents(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if s[i] == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])) {
			b.WriteString("25")
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func check(u *url.URL) (*url.URL, error) {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, forbidden("scheme %q", clip(u.Scheme))
	case u.Opaque != "":
		return nil, forbidden("no // after the scheme")
	case u.User != nil:
		return nil, forbidden("contains user info")
	}
	host, err := CheckHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	host, err = withPort(u, host)
	if err != nil {
		return nil, err
	}
	checked := &url.URL{Scheme: u.Scheme, Host: host, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery,
		ForceQuery: u.ForceQuery}
	checked.Path = cmp.Or(checked.Path, "/")
	if n := len(checked.String()); n > maxURLBytes { // escaping may have made it longer
		return nil, forbidden("%d bytes long", n)
	}
	return checked, nil
}

func withPort(u *url.URL, host string) (string, error) {
	port := u.Port()
	switch {
	case port == "":
		return host, nil
	case port != "80" && port != "443":
		return "", forbidden("port %s", clip(port))
	case u.Scheme == "http" && port == "80", u.Scheme == "https" && port == "443":
		return host, nil
	}
	return host + ":" + port, nil
}

// CheckHost returns a host name in ASCII and lower case without a final dot. It rejects
// (ErrForbiddenURL) IP addresses in every notation, single labels, and names of local networks.
func CheckHost(host string) (string, error) {
	name, err := asciiHost(strings.TrimSuffix(host, "."))
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(name); err == nil || strings.ContainsAny(name, ":[]%") {
		return "", forbidden("host is an IP address")
	}
	if len(name) > maxHostBytes {
		return "", forbidden("host of %d bytes", len(name))
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	if len(labels) < 2 {
		return "", forbidden("host %q has a single label", clip(name))
	}
	if isNumeric(labels[len(labels)-1]) {
		// System calls parse 127.1, 0x7f.1 and 1.2.3.0400 as IPv4 addresses (WHATWG URL, "ends in a number").
		return "", forbidden("host is an IP address")
	}
	for _, suffix := range localSuffixes {
		if name == suffix || strings.HasSuffix(name, "."+suffix) {
			return "", forbidden("host %q belongs to a local network", clip(name))
		}
	}
	return name, nil
}

// asciiHost maps a host to ASCII. Full-width dots and circled digits become plain characters, so that
// the checks after it recognize them.
func asciiHost(host string) (string, error) {
	isPlain := !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf })
	lower := strings.ToLower(host)
	if isPlain && !strings.Contains(lower, "xn--") {
		return lower, nil
	}
	name, err := hostProfile.ToASCII(host)
	if err != nil {
		return "", forbidden("host %q is not a valid international name", clip(host))
	}
	return strings.TrimSuffix(name, "."), nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > maxLabelBytes {
		return forbidden("host has a label of %d bytes", len(label))
	}
	if i := strings.IndexFunc(label, notInName); i >= 0 {
		return forbidden("host contains the character %q", label[i])
	}
	return nil
}

// isNumeric reports whether some parsers would treat a host with this last label as an IPv4 address.
func isNumeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// clip truncates input quoted in errors.
func clip(s string) string {
	const longest = 80
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
