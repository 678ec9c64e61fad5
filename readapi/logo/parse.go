package logo

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
	"letterhead/internal/web"
)

// maxPath limits the length of a path, in bytes as sent: enough for a domain of 1,024 bytes and all
// options, with every byte escaped.
const maxPath = 4 << 10

// maxShown limits how much of a request an error quotes, in bytes.
const maxShown = 60

// InvalidError explains in a sentence what is wrong with a request.
type InvalidError struct{ Sentence string }

func (e *InvalidError) Error() string { return e.Sentence }

func invalid(format string, args ...any) error {
	return &InvalidError{Sentence: fmt.Sprintf(format, args...)}
}

// Allowed values. Names are lower case.
var (
	types     = []Type{Icon, Symbol, Full}
	formats   = []imaging.Format{imaging.WebP, imaging.PNG, imaging.SVG, imaging.JPEG}
	themes    = []Theme{Light, Dark}
	fallbacks = []Fallback{Monogram, Transparent, NotFound}
	plates    = []string{autoPlate, noPlate}
)

// Values of the parameter plate.
const (
	autoPlate = "auto"
	noPlate   = "never"
)

// Names of the monogram in the compatible third-party URLs, whose names path options use.
const (
	lettermark Fallback = "lettermark"
	thirdParty Fallback = "brandfetch" // there the vendor's own mark
)

// spellings are the values that options with several spellings may have.
type spellings struct {
	formats         []imaging.Format
	inPath, inQuery []Fallback
	anyCase         bool
}

// documented are the spellings that /logo accepts; published are those of a separate host, which also accepts the
// spellings of the compatible third-party URLs.
var (
	documented = spellings{formats: formats, inPath: []Fallback{lettermark, Transparent, NotFound}, inQuery: fallbacks}
	published  = spellings{
		formats: append(slices.Clone(formats), "jpg"),
		inPath:  []Fallback{lettermark, thirdParty, Transparent, NotFound},
		inQuery: append(slices.Clone(fallbacks), lettermark, thirdParty),
		anyCase: true,
	}
)

// meanings maps alternative spellings of option values to the values.
var meanings = map[string]string{
	"jpg": string(imaging.JPEG), string(lettermark): string(Monogram), string(thirdParty): string(Monogram),
}

// requestedOptions are the options in a path or a query; missing ones are zero.
type requestedOptions struct {
	kind       Type
	size       int // clamped
	format     imaging.Format
	theme      Theme
	background Background
	noPlate    bool
	adaptive   bool
	fallback   Fallback
}

// Parse parses a request for a logo. path is the part after /logo/, still percent-encoded; accept
// contains the request's Accept headers. Unknown query parameters are ignored. The domain is returned
// as sent, decoded. Errors: *InvalidError.
//
// A path may contain options, in any order and each followed by a slash: w, h, theme, type and
// fallback with their values, and one bare type. A type may have an extension, which is a format. If
// path and query contain the same option, the values must be equal.
func Parse(path, rawQuery string, accept []string) (domain string, o Options, err error) {
	return documented.parse(path, rawQuery, accept)
}

// ParsePublished is Parse for the path after the slash on a separate host. It accepts every published form of the
// compatible third-party URLs, which may spell values differently, in any case, and put a kind before the identifier.
func ParsePublished(path, rawQuery string, accept []string) (Identifier, Options, error) {
	id := Identifier{Kind: Domain}
	if first, rest, _ := strings.Cut(path, "/"); slices.Contains([]Kind{Domain, Ticker, ISIN, Crypto}, Kind(first)) {
		if id.Kind, path = Kind(first), rest; strings.Trim(rest, "/") == "" {
			return Identifier{}, Options{}, invalid("The path lacks the identifier after %s, "+
				"as in /domain/github.com or /ticker/AAPL.", first)
		}
	}
	name, o, err := published.parse(path, rawQuery, accept)
	if err != nil {
		return Identifier{}, Options{}, err
	}
	id.Name = name
	return id, o, nil
}

// Kind is the kind of an Identifier, and the path segment that may precede it.
type Kind string

// Kinds of identifiers. None of their names can be a domain, because none has a dot.
const (
	Domain Kind = "domain"
	Ticker Kind = "ticker"
	ISIN   Kind = "isin"
	Crypto Kind = "crypto"
	Name   Kind = "name" // of a company; only LogoDev has it
)

// Identifier names a brand. The name is as sent, decoded.
type Identifier struct {
	Kind Kind
	Name string
}

func (s spellings) parse(path, rawQuery string, accept []string) (domain string, o Options, err error) {
	domain, here, err := s.parsePath(path)
	there, wrong := s.parseQuery(rawQuery)
	if err := cmp.Or(err, wrong, agree(here, there)); err != nil {
		return "", Options{}, err
	}
	format := cmp.Or(here.format, there.format)
	o = Options{
		Type:       cmp.Or(here.kind, there.kind, Icon),
		Size:       cmp.Or(here.size, there.size, DefaultSize),
		Format:     format,
		Negotiated: format == "",
		Theme:      cmp.Or(here.theme, there.theme, there.background.theme()),
		NoPlate:    there.noPlate,
		Adaptive:   there.adaptive,
		Fallback:   cmp.Or(here.fallback, there.fallback, Monogram),
	}
	if here.theme == Any && there.theme == Any && !there.background.Named {
		o.Background = there.background
	}
	on := there.background
	other := on.Named || on.Set && on.Color != imaging.White && on.Color != imaging.DarkPage
	if o.Adaptive && (here.theme != Any || there.theme != Any || o.Format != "" && o.Format != imaging.SVG || other) {
		return "", Options{}, invalid("The parameter scheme=auto answers an SVG for both color schemes. Remove it, or theme, " +
			"any format but svg, and any background but auto-light and auto-dark.")
	}
	if o.Negotiated {
		o.Format = Negotiate(accept)
	}
	return domain, o, nil
}

// pathOptions are the path options with a value, and an example of each.
var pathOptions = map[string]string{"w": "256", "h": "256", "theme": "dark", "type": "icon", "fallback": "lettermark"}

// parsePath parses the options of a path, segment by segment.
func (s spellings) parsePath(path string) (domain string, w requestedOptions, err error) {
	if len(path) > maxPath {
		return "", requestedOptions{}, invalid("The path is longer than %d bytes.", maxPath)
	}
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i, sent := range segments {
		if segments[i], err = url.PathUnescape(sent); err != nil {
			return "", requestedOptions{}, invalid("The path is not percent-encoded correctly.")
		}
		if s.anyCase && i > 0 {
			segments[i] = strings.ToLower(segments[i])
		}
	}
	domain, rest := segments[0], segments[1:]
	if domain == "" {
		return "", requestedOptions{}, invalid("The path lacks a domain. Put it first, as in /logo/github.com.")
	}
	var seen []string
	for len(rest) > 0 {
		name := rest[0]
		example, valued := pathOptions[name]
		switch {
		case !valued:
			name, err = "type", w.takeBare(name, s)
			rest = rest[1:]
		case len(rest) == 1 || rest[1] == "":
			return "", requestedOptions{}, invalid(
				"The path option %s has no value. Put the value after it, as in /logo/github.com/%s/%s.",
				name, name, example)
		default:
			err = w.takeOption(name, rest[1], s)
			rest = rest[2:]
		}
		if err != nil {
			return "", requestedOptions{}, err
		}
		if slices.Contains(seen, name) {
			return "", requestedOptions{}, invalid("The path gives the option %s more than once. Send it once.", name)
		}
		seen = append(seen, name)
	}
	return domain, w, nil
}

// takeBare parses the one segment without a name: a type.
func (w *requestedOptions) takeBare(segment string, s spellings) error {
	name, _, _ := strings.Cut(segment, ".")
	switch {
	case segment == "":
		return invalid("The path has an empty segment. Remove the extra slash.")
	case !slices.Contains(types, Type(name)):
		return invalid(
			"The path has %s, which is not a logo option. Options are /w/{pixels}, /h/{pixels}, /theme/{light|dark}, "+
				"/type/{icon|symbol|logo}, /fallback/{lettermark|transparent|404}, and icon, symbol or logo by itself.",
			shown(segment))
	}
	return w.takeType("", segment, s)
}

// takeType parses a type, whose extension is the format; what names the option in errors.
func (w *requestedOptions) takeType(what, value string, s spellings) (err error) {
	name, ending, ended := strings.Cut(value, ".")
	if w.kind, err = oneOf(what, name, types); err == nil && ended {
		w.format, err = oneOf("The ending of "+name, ending, s.formats)
	}
	return err
}

// takeOption parses an option with its value. The larger of two sizes is the longest side.
func (w *requestedOptions) takeOption(name, value string, s spellings) (err error) {
	what := "The path option " + name
	switch name {
	case "w", "h":
		var side int
		side, err = pixels(what, value)
		w.size = max(w.size, side)
	case "theme":
		w.theme, err = oneOf(what, value, themes)
	case "type":
		err = w.takeType(what, value, s)
	case "fallback":
		w.fallback, err = oneOf(what, value, s.inPath)
	}
	return err
}

// parseQuery parses the parameters of a query, including those that the path overrides, so that errors
// in them are reported.
func (s spellings) parseQuery(rawQuery string) (requestedOptions, error) {
	p := &parameters{raw: rawQuery, anyCase: s.anyCase}
	size, w, width := p.pixels("size"), p.pixels("w"), p.pixels("width")
	requested := requestedOptions{
		kind: chosen(p, "type", types), size: cmp.Or(size, w, width), format: chosen(p, "format", s.formats),
		theme: chosen(p, "theme", themes), background: p.background(), noPlate: chosen(p, "plate", plates) == noPlate,
		adaptive: p.adaptive(), fallback: chosen(p, "fallback", s.inQuery),
	}
	return requested, p.err
}

// parameters are parsed one by one; err is the first error.
type parameters struct {
	raw     string
	anyCase bool // of values
	err     error
}

func (p *parameters) value(name string) (value string, ok bool) {
	if p.err != nil {
		return "", false
	}
	value, present, problem := web.QueryValue(p.raw, name)
	if problem != nil {
		p.err = invalid("%s", problem.Text)
		return "", false
	}
	if p.anyCase {
		value = strings.ToLower(value)
	}
	return value, present
}

func (p *parameters) pixels(name string) (side int) {
	if value, ok := p.value(name); ok {
		side, p.err = pixels("The parameter "+name, value)
	}
	return side
}

// adaptive parses the color scheme, which may only be auto.
func (p *parameters) adaptive() bool {
	value, ok := p.value("scheme")
	if ok && value != "auto" {
		p.err = invalid("The parameter scheme must be auto, not %s.", shown(value))
	}
	return ok
}

// background parses a background: light, dark, auto-light, auto-dark, or six hexadecimal digits in either case.
func (p *parameters) background() (b Background) {
	value, ok := p.value("background")
	if !ok {
		return b
	}
	name, auto := strings.CutPrefix(value, "auto-")
	if named, ok := namedBackgrounds[name]; ok {
		return Background{Color: named, Set: true, Named: !auto}
	}
	if digits, err := hex.DecodeString(value); err == nil && len(digits) == 3 {
		return Background{Color: imaging.RGB{R: digits[0], G: digits[1], B: digits[2]}, Set: true}
	}
	p.err = invalid(
		"The parameter background must be light, dark, auto-light, auto-dark or six hexadecimal digits such as 0b5fff, "+
			"without #, not %s.",
		shown(value))
	return b
}

func chosen[T ~string](p *parameters, name string, list []T) (choice T) {
	if value, ok := p.value(name); ok {
		choice, p.err = oneOf("The parameter "+name, value, list)
	}
	return choice
}

// agree returns an error if path and query contain different values for the same option.
func agree(path, query requestedOptions) error {
	for _, option := range []struct {
		name    string
		differs bool
	}{
		{"type", differ(path.kind, query.kind)},
		{"size", differ(path.size, query.size)},
		{"format", differ(path.format, query.format)},
		{"theme", differ(path.theme, query.theme)},
		{"fallback", differ(path.fallback, query.fallback)},
	} {
		if option.differs {
			return invalid("The path and the query contain different values of %s. Remove one of them.", option.name)
		}
	}
	return nil
}

func differ[T comparable](a, b T) bool {
	var none T
	return a != none && b != none && a != b
}

// oneOf finds a value in a list, and returns what it means; what names the option in errors.
func oneOf[T ~string](what, value string, list []T) (T, error) {
	if slices.Contains(list, T(value)) {
		return T(cmp.Or(meanings[value], value)), nil
	}
	last := len(list) - 1
	names := make([]string, last)
	for i := range names {
		names[i] = string(list[i])
	}
	return "", invalid("%s must be %s or %s, not %s.", what, strings.Join(names, ", "), list[last], shown(value))
}

// pixels parses a length, digits only, and clamps it. The number may be arbitrarily large.
func pixels(what, value string) (int, error) {
	digits := strings.TrimLeft(value, "0")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, invalid("%s must be a whole number of at least 1, not %s.", what, shown(value))
	}
	side, err := strconv.Atoi(digits)
	if err != nil { // too large for an int
		side = MaxSize
	}
	return min(max(side, MinSize), MaxSize), nil
}

// shown returns a part of a request as an error quotes it.
func shown(text string) string {
	if len(text) > maxShown {
		return fmt.Sprintf("%q…", text[:maxShown])
	}
	return fmt.Sprintf("%q", text)
}
