package logo

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// Profile names a service whose requests are answered in its forms.
type Profile string

// Profiles. Brandfetch has the forms that ParsePublished parses.
const (
	Brandfetch Profile = "brandfetch"
	Clearbit   Profile = "clearbit"
	LogoDev    Profile = "logodev"
	Google     Profile = "google"
	DuckDuckGo Profile = "duckduckgo"
	Bitwarden  Profile = "bitwarden"
	Besticon   Profile = "besticon"
)

// Profiles are all profiles, sorted.
var Profiles = []Profile{Besticon, Bitwarden, Brandfetch, Clearbit, DuckDuckGo, Google, LogoDev}

// Sizes in pixels, by default and at most, of the services: docs/use-it-with.md has the sources.
const (
	logoDevMost     = 800
	googleSize      = 16
	googleMost      = 256
	faviconSize     = 64 // DuckDuckGo and Bitwarden, whose requests name none
	besticonDefault = 80
)

// ParseShape parses a request in the form of a profile other than Brandfetch. path is the part after the slash, still
// percent-encoded. Parameters have any case, the first of several counts, unknown ones are ignored, and unusable values
// mean the default, as at these services. ok is false if the profile has no such path. The name is a host, without
// scheme, port and path, or text that is none.
func (p Profile) ParseShape(path, rawQuery string) (id Identifier, o Options, ok bool) {
	q, path := lenient(rawQuery), strings.TrimSuffix(path, "/")
	first, rest, _ := strings.Cut(path, "/")
	if (p == Clearbit || p == LogoDev) && strings.HasPrefix(rest, "/") { // a URL that is not percent-encoded
		first, rest = path, ""
	}
	id.Kind, o = Domain, Options{Type: Icon, Size: DefaultSize, Format: imaging.PNG, Fallback: NoImage}
	switch p {
	case Clearbit:
		id.Name, ok = hostOf(first), rest == ""
		o.Size, o.Format = q.size("size", DefaultSize, MaxSize), q.format(imaging.PNG)
	case LogoDev:
		o.Format = q.format(imaging.JPEG)
		if o.Size = q.size("size", DefaultSize, logoDevMost); q.truth("retina") {
			o.Size = min(2*o.Size, MaxSize)
		}
		switch strings.ToLower(q["theme"]) { // the page's, so the ink is the other one
		case "light":
			o.Theme = Dark
		case "dark":
			o.Theme = Light
		}
		if q["fallback"] != "404" {
			o.Fallback = Monogram
		}
		switch kind := Kind(first); {
		case rest == "" && first != "search":
			id.Name, ok = hostOf(first), true
		case kind == Ticker, kind == ISIN, kind == Crypto, kind == Name:
			id.Kind, id.Name, ok = kind, unescaped(rest), !strings.Contains(rest, "/")
		}
	case Google:
		o.Fallback = Globe
		switch strings.ToLower(path) {
		case "s2/favicons":
			id.Name, ok = hostOf(cmp.Or(q["domain"], q["domain_url"])), true
			o.Size = q.size("sz", googleSize, googleMost)
		case "faviconv2":
			id.Name, ok = hostOf(q["url"]), true
			o.Size = q.size("size", googleSize, googleMost)
		}
	case DuckDuckGo:
		o.Fallback, o.Size = Globe, faviconSize
		host, icon := strings.CutSuffix(rest, ".ico")
		id.Name, ok = hostOf(host), icon && (first == "ip3" || first == "ip2")
	case Bitwarden:
		o.Size = faviconSize
		id.Name, ok = hostOf(first), rest == "icon.png"
	case Besticon:
		o.Fallback, o.Size = Monogram, q.size("size", besticonDefault, MaxSize)
		id.Name, ok = hostOf(q["url"]), path == "icon"
	}
	o.Gray = (p == Clearbit || p == LogoDev) && (q.truth("greyscale") || q.truth("grayscale"))
	if o.Gray && o.Format == imaging.SVG {
		o.Format = imaging.PNG
	}
	return id, o, ok
}

// localEndings are the endings of names that only a local network or another network resolves.
var localEndings = []string{".local", ".localhost", ".internal", ".lan", ".home.arpa", ".onion"}

// IsLocal reports whether a host can have no public brand: an IP address, a name of one label, or of a local network.
func IsLocal(host string) bool {
	host = strings.ToLower(host)
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || !strings.Contains(host, ".") ||
		slices.ContainsFunc(localEndings, func(ending string) bool { return strings.HasSuffix(host, ending) })
}

// hostOf returns the host of a URL, of a host with a port, or of a host, each percent-encoded or not.
func hostOf(sent string) string {
	host := strings.TrimSpace(unescaped(sent))
	if _, after, ok := strings.Cut(host, "://"); ok {
		host = after
	}
	host = strings.TrimPrefix(host, "//")
	if end := strings.IndexAny(host, `/?#\`); end >= 0 {
		host = host[:end]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') &&
		strings.Count(host, ":") == 1 || strings.HasPrefix(host, "[") && colon > strings.IndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.TrimSuffix(host, ".")
}

// unescaped decodes percent-encoding, and leaves text that is not encoded correctly as it is.
func unescaped(sent string) string {
	if text, err := url.PathUnescape(sent); err == nil {
		return text
	}
	return sent
}

// shapeQuery has the first value of each parameter, by its name in lower case.
type shapeQuery map[string]string

func lenient(rawQuery string) shapeQuery {
	q := shapeQuery{}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		name = strings.ToLower(name)
		if _, seen := q[name]; err != nil || seen {
			continue
		}
		if q[name], err = url.QueryUnescape(rawValue); err != nil { // a URL that is not encoded
			q[name] = rawValue
		}
	}
	return q
}

func (q shapeQuery) truth(name string) bool {
	return strings.EqualFold(q[name], "true") || q[name] == "1"
}

// size returns a side in pixels, of a range like 32..64..128 the middle.
func (q shapeQuery) size(name string, otherwise, most int) int {
	parts := strings.Split(q[name], "..")
	n, err := strconv.Atoi(parts[len(parts)/2])
	if err != nil || n < 1 {
		n = otherwise
	}
	return min(max(n, MinSize), most)
}

func (q shapeQuery) format(otherwise imaging.Format) imaging.Format {
	f := strings.ToLower(q["format"])
	if f == "jpg" {
		return imaging.JPEG
	}
	if slices.Contains(formats, imaging.Format(f)) {
		return imaging.Format(f)
	}
	return otherwise
}
