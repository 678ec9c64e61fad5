package brand

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

const (
	// maxIdentifier limits an identifier in bytes, like the URLs that browsers and proxies forward.
	maxIdentifier = 4096
	// maxLocalPart limits the part of an e-mail address before the @ (RFC 5321 section 4.5.3.1.1).
	maxLocalPart = 64
	maxPort      = 65535
)

// Kind is the kind of an Identifier.
type Kind int

const (
	Domain  Kind = iota + 1 // Identifier.Domain is set
	BrandID                 // Identifier.BrandID is set
)

// Identifier identifies a brand in a request.
type Identifier struct {
	Kind    Kind
	Domain  string // registrable
	BrandID uuid.UUID
}

// ParseIdentifier parses a domain, a URL (its host counts; http, https or no scheme, as browsers read it), an e-mail
// address (its domain counts; also after mailto: or in angle brackets after a name), a brand id or a brand's URN. Every
// interface that takes an identifier uses it. The identifier has been percent-decoded once, as part of the request;
// surrounding spaces are ignored. Errors: ErrInvalidDomain.
func ParseIdentifier(s string) (Identifier, error) {
	if len(s) > maxIdentifier { // including the spaces that were sent
		return Identifier{}, checkCharacters(s, maxIdentifier)
	}
	s, err := withoutName(strings.Trim(s, " "))
	if err != nil {
		return Identifier{}, err
	}
	if err := checkCharacters(s, maxIdentifier); err != nil {
		return Identifier{}, err
	}
	id, isID, err := parseBrandID(s)
	if err != nil {
		return Identifier{}, err
	}
	if isID {
		return Identifier{Kind: BrandID, BrandID: id}, nil
	}
	host, err := hostOf(s)
	if err != nil {
		return Identifier{}, err
	}
	domain, err := RegistrableDomain(host)
	if err != nil {
		return Identifier{}, err
	}
	return Identifier{Kind: Domain, Domain: domain}, nil
}

// WholeOrPart returns the domain that a text is or names; or, if it names none, the text, which domains may have in them.
func WholeOrPart(text string) (whole, part string) {
	text = strings.TrimSpace(text)
	if id, err := ParseIdentifier(text); err == nil && id.Kind == Domain {
		return id.Domain, ""
	}
	return "", strings.ToLower(text)
}

// ParseDomain parses a domain alone. It rejects the other forms of an identifier, and anything else with the error of
// ParseIdentifier. Errors: ErrInvalidDomain.
func ParseDomain(s string) (string, error) {
	domain, err := RegistrableDomain(s)
	if err == nil {
		return domain, nil
	}
	if _, other := ParseIdentifier(s); other != nil {
		return "", other
	}
	return "", invalid("%s is more than a domain; send the domain alone.", quoted(s))
}

// withoutName returns the content of angle brackets: those around a URL or an e-mail address, and those around an
// address after a name.
func withoutName(s string) (string, error) {
	name, inner, found := strings.Cut(s, "<")
	if !found || !strings.HasSuffix(inner, ">") {
		return s, nil
	}
	inner = inner[:len(inner)-1]
	if name = strings.ReplaceAll(name, " ", ""); name == "" {
		return inner, nil
	}
	if err := checkCharacters(name, maxIdentifier); err != nil {
		return "", err
	}
	if !strings.Contains(inner, "@") || strings.ContainsAny(name, "/?#@:") { // the brackets may be part of a URL
		return "", invalid("%s has text before its angle brackets; send what is between them, alone.", quoted(s))
	}
	return inner, nil
}

// parseBrandID parses a UUID in its canonical form of 36 characters, bare or in a brand's URN. The
// scheme and namespace of a URN are case-insensitive (RFC 8141 section 3.1).
func parseBrandID(s string) (uuid.UUID, bool, error) {
	text, isURN := s, false
	if len(s) >= len(URNPrefix) && strings.EqualFold(s[:len(URNPrefix)], URNPrefix) {
		text, isURN = s[len(URNPrefix):], true
	}
	const canonical = 36 // the parser accepts other lengths too, which would make a brand's id ambiguous
	if len(text) == canonical {
		if id, err := uuid.Parse(text); err == nil {
			return id, true, nil
		}
	}
	if isURN {
		return uuid.Nil, false, invalid("%s is not the urn of a brand; it ends in the brand's id, a uuid.", quoted(s))
	}
	if _, err := uuid.Parse(text); err == nil {
		return uuid.Nil, false, invalid(
			"%s is a uuid in another form; send the brand's id as 36 characters, with its hyphens.", quoted(s))
	}
	return uuid.Nil, false, nil
}

// hostOf returns the host of a domain, URL or e-mail address.
func hostOf(s string) (string, error) {
	if _, err := netip.ParseAddr(s); err == nil { // an IPv6 address would look like a scheme or a port
		return "", invalid("%s is an IP address; send the domain of the company.", quoted(s))
	}
	if scheme, address, _ := strings.Cut(s, ":"); strings.EqualFold(scheme, "mailto") {
		address, _, _ = strings.Cut(address, "?") // headers of the message (RFC 6068)
		local, domain, found := cutLast(address, "@")
		if !found {
			return "", invalid("%s has no e-mail address after mailto:; send an address or a domain.", quoted(s))
		}
		return emailDomain(s, local, domain)
	}
	rest, isURL, err := withoutScheme(s)
	if err != nil {
		return "", err
	}
	authority, hasPath := rest, false
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		if rest[i] == '\\' { // browsers treat it as a slash, other software as part of the host
			return "", invalid("%s contains a backslash; send a domain or a URL with slashes.", quoted(s))
		}
		authority, hasPath = rest[:i], true
	}
	if local, domain, found := cutLast(authority, "@"); found {
		if isURL || hasPath {
			return "", withUser(s)
		}
		return emailDomain(s, local, domain)
	}
	if authority == "" {
		return "", invalid("%s has no host; send a domain such as acme.com.", quoted(s))
	}
	return withoutPort(s, authority)
}

// withUser rejects a URL with a user name. Either side of the @ may look like the domain that was meant, so the error
// does not advise to remove one.
func withUser(s string) error {
	return invalid("%s contains a user name or password before an @; send the domain that you mean, alone.", quoted(s))
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func emailDomain(s, local, domain string) (string, error) {
	switch {
	case strings.Contains(local, "@"):
		return "", invalid("%s has more than one @; send one e-mail address.", quoted(s))
	case local == "" || domain == "":
		return "", invalid("%s is not an e-mail address; it needs a name before the @ and a domain after it.",
			quoted(s))
	case len(local) > maxLocalPart:
		return "", invalid("%s is not an e-mail address; at most %d characters are allowed before the @.",
			quoted(s), maxLocalPart)
	case strings.Contains(local, ":"):
		return "", withUser(s)
	}
	return domain, nil
}

// withoutScheme removes http: or https: and all slashes after it, as browsers do (URL Standard, "special authority
// ignore slashes state"; proxies that clean paths remove a slash), or the slashes of a URL without a scheme. It rejects
// every other scheme.
func withoutScheme(s string) (rest string, isURL bool, err error) {
	if rest, isURL = strings.CutPrefix(s, "//"); isURL {
		return rest, true, nil
	}
	scheme, after, found := strings.Cut(s, ":")
	if !found || !isScheme(scheme) {
		return s, false, nil
	}
	switch {
	case strings.EqualFold(scheme, "http"), strings.EqualFold(scheme, "https"):
		return strings.TrimLeft(after, "/"), true, nil
	case strings.HasPrefix(after, "//"):
		return "", false, invalid("%s is a URL with the scheme %s; send one with http or https.",
			quoted(s), quoted(scheme))
	case startsLikePort(after, strings.Contains(scheme, ".")):
		return s, false, nil // a host with a port
	case strings.Contains(after, "@"):
		return "", false, withUser(s)
	default:
		return "", false, invalid("%s is not a web address; send a domain such as acme.com.", quoted(s))
	}
}

// isScheme implements RFC 3986 section 3.1. A host name without a port may look the same.
func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return false
		}
	}
	return s != ""
}

// startsLikePort reports whether a port follows, which may be empty after a host (RFC 3986 section 3.2.3).
func startsLikePort(after string, host bool) bool {
	if after == "" || after[0] == '/' {
		return host
	}
	return '0' <= after[0] && after[0] <= '9'
}

// withoutPort removes the port of a host. RegistrableDomain rejects bracketed and bare IPv6 addresses.
func withoutPort(s, authority string) (string, error) {
	host, port, found := strings.Cut(authority, ":")
	if !found || strings.HasPrefix(authority, "[") || strings.Contains(port, ":") {
		return authority, nil
	}
	if n, err := strconv.ParseUint(cmp.Or(port, "0"), 10, 32); err != nil || n > maxPort {
		return "", invalid("%s has the port %s, which is not a number up to %d.", quoted(s), quoted(port), maxPort)
	}
	return host, nil
}
