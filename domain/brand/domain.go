package brand

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Limits of names, from RFC 1035 section 2.3.4.
const (
	maxHostBytes  = 253 // the 255 octets on the wire minus the length bytes at both ends
	maxLabelBytes = 63
	// maxHostInput limits the input of IDNA. Every rune of a valid name takes at most 4 bytes and
	// yields at least one, but runes that are mapped to nothing take room, too.
	maxHostInput = 1024
	// maxQuoted limits how much of the input an error quotes, in runes.
	maxQuoted = 80
)

// ErrInvalidDomain is returned by RegistrableDomain and ParseIdentifier for every invalid input; the
// error is an *InvalidDomainError.
var ErrInvalidDomain = errors.New("the domain is not valid")

// InvalidDomainError explains in one sentence what a developer has to change.
type InvalidDomainError struct{ Sentence string }

func (e *InvalidDomainError) Error() string { return e.Sentence }

// Is makes errors.Is(err, ErrInvalidDomain) true.
func (e *InvalidDomainError) Is(target error) bool { return target == ErrInvalidDomain }

func invalid(format string, args ...any) error {
	return &InvalidDomainError{Sentence: fmt.Sprintf(format, args...)}
}

// specialUse contains the top-level names that are not delegated in the public DNS and never will be (IANA's
// special-use registry: RFC 2606, 6761, 6762, 7686, 8375, 9476; ICANN's reservations of internal, corp, home and mail),
// and those that private networks and overlays use anyway. Crawling such a name would query the machine's own network.
var specialUse = map[string]bool{
	"alt": true, "arpa": true, "corp": true, "example": true, "exit": true, "gnu": true, "home": true,
	"i2p": true, "internal": true, "intranet": true, "invalid": true, "lan": true, "local": true,
	"localdomain": true, "localhost": true, "mail": true, "onion": true, "private": true, "test": true,
	"zkey": true,
}

// RegistrableDomain returns the registered domain under which a brand is stored: the public suffix plus one label, in
// lower-case ASCII without a trailing dot. The public suffix list includes its private section, so alice.github.io is a
// separate domain; a private suffix itself (github.io) is resolved by the list's ICANN section.
//
// Names in other scripts are converted to punycode with the IDNA lookup profile. A homograph that IDNA
// allows is a different domain; the function does not guess which one was meant. It does not resolve
// names: a suffix that is not delegated yet fails in the DNS.
//
// The host has no scheme, port, path or userinfo; ParseIdentifier removes those. Errors: ErrInvalidDomain.
func RegistrableDomain(host string) (string, error) {
	if err := checkCharacters(host, maxHostInput); err != nil {
		return "", err
	}
	if c := strings.IndexFunc(host, foreign); c >= 0 {
		return "", unexpectedInHost(host, host[c])
	}
	ascii, err := toASCII(host)
	if err != nil {
		return "", err
	}
	if err := checkPublic(ascii); err != nil {
		return "", err
	}
	domain, err := registrable(ascii)
	if err == nil && strings.Contains(domain, "_") {
		return "", invalid("%s has an underscore, which no registered domain has; check its spelling.", quoted(domain))
	}
	return domain, err
}

// foreign reports whether an ASCII character occurs in no host.
func foreign(r rune) bool {
	return r < utf8.RuneSelf && r != '-' && r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// checkCharacters rejects characters that no identifier contains.
func checkCharacters(s string, most int) error {
	switch {
	case s == "":
		return invalid("The identifier is empty; send a domain such as acme.com.")
	case len(s) > most:
		return invalid("The identifier has %d bytes; at most %d are allowed.", len(s), most)
	case !utf8.ValidString(s):
		return invalid("The identifier %s is not valid UTF-8.", quoted(s))
	}
	for _, r := range s {
		switch {
		case r == 0:
			return invalid("The identifier %s contains a NUL character.", quoted(s))
		case unicode.IsControl(r):
			return invalid("The identifier %s contains the control character %U.", quoted(s), r)
		case unicode.IsSpace(r):
			return invalid("The identifier %s contains a space; send one identifier without spaces.", quoted(s))
		}
	}
	return nil
}

func unexpectedInHost(host string, c byte) error {
	switch c {
	case '%':
		return invalid("The host %s contains a percent sign; percent-encode an identifier exactly once.", quoted(host))
	case '[', ']':
		return invalid("%s is an IP address; send the domain of the company.", quoted(host))
	case ':':
		if strings.Count(host, ":") > 1 {
			return invalid("%s looks like an IP address; send the domain of the company.", quoted(host))
		}
	}
	return invalid("The host %s contains %q, which no domain has; check its spelling.", quoted(host), c)
}

// withUnderscores is the profile of idna.Lookup that accepts underscores, which names of services have, and other ASCII
// characters, which foreign finds.
var withUnderscores = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false))

// lookupASCII returns a name in ASCII. Underscores do not change the rules for the other characters.
func lookupASCII(host string) (string, error) {
	ascii, err := idna.Lookup.ToASCII(host)
	if err == nil {
		return ascii, nil
	}
	named, otherErr := withUnderscores.ToASCII(host)
	if otherErr != nil || !strings.Contains(named, "_") {
		return "", err
	}
	const letter = "a" // the name is as valid as it would be with letters
	if _, err := idna.Lookup.ToASCII(strings.ReplaceAll(named, "_", letter)); err != nil {
		return "", err
	}
	return named, nil
}

// toASCII maps a host to its lower-case ASCII form and checks its lengths.
func toASCII(host string) (string, error) {
	ascii, err := lookupASCII(host)
	if err != nil {
		return "", invalid("The host %s is not a valid domain name (IDNA): %s.",
			quoted(host), strings.TrimPrefix(err.Error(), "idna: "))
	}
	ascii = strings.TrimSuffix(ascii, ".") // the root, which ends every full name
	if len(ascii) > maxHostBytes {
		return "", invalid("The host %s has %d characters; a domain name has at most %d.",
			quoted(host), len(ascii), maxHostBytes)
	}
	for label := range strings.SplitSeq(ascii, ".") {
		switch {
		case label == "":
			return "", invalid("The host %s has an empty label; remove the extra dot.", quoted(host))
		case len(label) > maxLabelBytes:
			return "", invalid("The host %s has a label of %d characters; a label has at most %d.",
				quoted(host), len(label), maxLabelBytes)
		}
	}
	return ascii, nil
}

// checkPublic rejects names that cannot exist in the public DNS.
func checkPublic(ascii string) error {
	last := ascii[strings.LastIndexByte(ascii, '.')+1:]
	switch {
	case numeric(last):
		// Every spelling that some resolver accepts as an IPv4 address ends in a number: 127.0.0.1,
		// 127.1, 0177.0.0.1, 0x7f.1, 2130706433. No top-level domain does (RFC 3696 section 2).
		return invalid("%s is an IP address; send the domain of the company.", quoted(ascii))
	case specialUse[last]:
		return invalid("%s is a name for private or special use (.%s); send a public domain.", quoted(ascii), last)
	case last != ascii:
		return nil
	}
	if _, icann := publicsuffix.PublicSuffix(ascii); icann {
		return nil // a top-level domain; registrable rejects it with a better sentence
	}
	return invalid("%s is a single label; send a whole domain, with its ending.", quoted(ascii))
}

// numeric reports whether inet_aton would parse a label as a number: digits, or 0x and hex digits.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// registrable returns the registrable domain of a valid name.
func registrable(ascii string) (string, error) {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	if suffix != ascii {
		return lastLabels(ascii, suffix), nil
	}
	if icann {
		return "", invalid(
			"%s is a public suffix, under which companies register their domains; send the whole domain of one.",
			quoted(ascii))
	}
	// A private suffix: its owner registered it under the longest suffix of the ICANN section.
	for rest := parent(ascii); rest != ""; rest = parent(rest) {
		if suffix, icann := publicsuffix.PublicSuffix(rest); icann && suffix == rest {
			return lastLabels(ascii, rest), nil
		}
	}
	return "", invalid("%s is a public suffix; send a domain under it.", quoted(ascii))
}

// lastLabels returns the suffix of the name with one more label.
func lastLabels(name, suffix string) string {
	before := name[:len(name)-len(suffix)-1]
	return name[strings.LastIndexByte(before, '.')+1:]
}

func parent(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}

// quoted quotes input in an error: escaped and truncated.
func quoted(s string) string {
	if utf8.RuneCountInString(s) > maxQuoted {
		s = string([]rune(s)[:maxQuoted]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
