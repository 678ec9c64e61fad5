package svg

import (
	"cmp"
	"encoding/base64"
	"encoding/xml"
	"math"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
)

// elements is the allow-list. It excludes scripts (script, handlers), animations (animate, set), links (a), other
// documents (foreignObject, feImage), elements that are slow to draw (feTurbulence, lighting, convolution), and
// invisible ones (metadata, title, desc).
var elements = setOf(
	"svg", "g", "defs", "symbol", "switch", "use", "image",
	"path", "rect", "circle", "ellipse", "line", "polyline", "polygon",
	"text", "tspan", "textPath",
	"linearGradient", "radialGradient", "stop", "pattern", "clipPath", "mask",
	"filter", "feBlend", "feColorMatrix", "feComponentTransfer", "feComposite", "feDropShadow", "feFlood",
	"feFuncA", "feFuncB", "feFuncG", "feFuncR", "feGaussianBlur", "feMerge", "feMergeNode", "feMorphology", "feOffset",
)

// linking are the elements that may refer to another one by href.
var linking = setOf("use", "textPath", "linearGradient", "radialGradient", "pattern", "filter", "image")

// attributeKind is the type of a value, which determines its check.
type attributeKind uint8

const (
	kindLengths   attributeKind = iota + 1 // numbers with units, or a list of them
	kindNumbers                            // plain numbers, or a list of them
	kindSmall                              // plain numbers up to maxSmall
	kindWord                               // keywords, names of filter results
	kindViewBox                            //
	kindTransform                          //
	kindPath                               // path data
)

// attributes is the allow-list of attributes that are not properties. Properties are also allowed as attributes; id,
// href and xml:space are handled by name.
var attributes = map[string]attributeKind{
	"x": kindLengths, "y": kindLengths, "width": kindLengths, "height": kindLengths, "x1": kindLengths,
	"y1": kindLengths, "x2": kindLengths, "y2": kindLengths, "cx": kindLengths, "cy": kindLengths,
	"r": kindLengths, "rx": kindLengths, "ry": kindLengths, "fx": kindLengths, "fy": kindLengths,
	"fr": kindLengths, "dx": kindLengths, "dy": kindLengths, "offset": kindLengths, "textLength": kindLengths,
	"startOffset": kindLengths,
	"points":      kindNumbers, "rotate": kindNumbers, "pathLength": kindNumbers, "values": kindNumbers,
	"tableValues": kindNumbers, "slope": kindNumbers, "intercept": kindNumbers, "amplitude": kindNumbers,
	"exponent": kindNumbers, "k1": kindNumbers, "k2": kindNumbers, "k3": kindNumbers, "k4": kindNumbers,
	"stdDeviation": kindSmall, "radius": kindSmall,
	"viewBox": kindViewBox,
	"d":       kindPath,

	"transform": kindTransform, "gradientTransform": kindTransform, "patternTransform": kindTransform,
	"preserveAspectRatio": kindWord, "gradientUnits": kindWord, "spreadMethod": kindWord,
	"patternUnits": kindWord, "patternContentUnits": kindWord, "clipPathUnits": kindWord, "maskUnits": kindWord,
	"maskContentUnits": kindWord, "filterUnits": kindWord, "primitiveUnits": kindWord, "in": kindWord,
	"in2": kindWord, "result": kindWord, "mode": kindWord, "operator": kindWord, "type": kindWord,
	"lengthAdjust": kindWord, "method": kindWord, "spacing": kindWord, "side": kindWord,
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// readAttributes copies the attributes in the allow-list. It returns false if
// the element is useless without an omitted one: an image without a raster.
func (d *document) readAttributes(n *node, attrs []xml.Attr) bool {
	seen := make(map[string]bool, len(attrs))
	var href, xlink string
	for _, a := range attrs {
		switch {
		case a.Name.Local == "href" && a.Name.Space == "":
			href = a.Value
		case a.Name.Local == "href" && (a.Name.Space == xlinkNamespace || a.Name.Space == "xlink"):
			xlink = a.Value
		case a.Name.Local == "space" && (a.Name.Space == xmlNamespace || a.Name.Space == "xml"):
			if a.Value == "preserve" && !seen["xml:space"] {
				n.attrs = append(n.attrs, attribute{"xml:space", a.Value})
				seen["xml:space"] = true
			}
		case a.Name.Space == "" && !seen[a.Name.Local]:
			seen[a.Name.Local] = true // a second one with this name is not well-formed; the first one is used
			d.readAttribute(n, a.Name.Local, a.Value)
		}
	}
	if linking[n.name] {
		n.href = d.reference(n, cmp.Or(href, xlink))
	}
	if n.name == "image" && n.href == "" && n.inside == nil {
		delete(d.byID, n.id)
		return false
	}
	return true
}

func (d *document) readAttribute(n *node, name, value string) {
	if name == "id" {
		if isID(value) && d.byID[value] == nil {
			n.id = value
			d.byID[value] = n
		}
		return
	}
	keep := properties[name] // see bake
	if attributes[name] != 0 {
		value, keep = cleanAttribute(n.name, name, value)
	}
	if keep {
		n.attrs = append(n.attrs, attribute{name, value})
	}
}

// words matches keyword attributes, such as "xMidYMid meet" or "effect1_dropShadow".
var words = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.-]*(?: [A-Za-z][A-Za-z0-9_.-]*){0,3}$`)

const (
	maxWord = 128 // bytes of a keyword attribute, an id, or a class
	// maxSmall limits radii of blurs, in user units.
	maxSmall = 1000
)

func cleanAttribute(element, name, value string) (string, bool) {
	switch attributes[name] {
	case kindLengths:
		if element == "filter" && !isFilterExtent(value) {
			return "", false
		}
		return cleanLengths(value)
	case kindNumbers:
		if name == "points" {
			return cleanPoints(value)
		}
		return cleanNumbers(value, maxCoordinate)
	case kindSmall:
		return cleanNumbers(value, maxSmall)
	case kindWord:
		value = strings.Join(strings.Fields(value), " ")
		return value, len(value) <= maxWord && words.MatchString(value)
	case kindViewBox:
		if v, ok := parseViewBox(value); ok {
			return formatNumber(v.x) + " " + formatNumber(v.y) + " " + formatNumber(v.w) + " " + formatNumber(v.h), true
		}
	case kindTransform:
		return cleanTransform(value)
	case kindPath:
		return cleanPath(value)
	}
	return "", false
}

// isFilterExtent keeps the canvas of a filter near the image: ten times its size is already large.
func isFilterExtent(value string) bool {
	const maxPercent, maxUnits = 1000, 20_000
	list, ok := parseLengths(value)
	if !ok || len(list) != 1 {
		return false
	}
	if list[0].unit == "%" {
		return math.Abs(list[0].value) <= maxPercent
	}
	return math.Abs(list[0].value) <= maxUnits
}

// isID allows the characters of ids by drawing programs that need no escape anywhere. It rejects ids that begin like an
// executable URL, although they would be harmless: other scanners may be less careful.
func isID(s string) bool {
	if s == "" || len(s) > maxWord || !utf8.ValidString(s) || urlScheme.MatchString(s) {
		return false
	}
	for i, r := range s {
		switch {
		case unicode.IsLetter(r), r == '_':
		case i > 0 && (unicode.IsDigit(r) || r == '-' || r == '.' || r == ':'):
		default:
			return false
		}
	}
	return true
}

var urlScheme = lazyregexp.New(`(?i)(?:script|data|https?|file):`)

var ident = lazyregexp.New(`^-?[A-Za-z_][A-Za-z0-9_-]*$`)

// isIdent reports whether s is a name in CSS that needs no escape.
func isIdent(s string) bool { return len(s) <= maxWord && ident.MatchString(s) }

// reference returns the id of a link inside the document, or an image's data; else "".
func (d *document) reference(n *node, href string) string {
	href = strings.TrimSpace(href)
	if n.name == "image" {
		return d.embedded(n, href)
	}
	if id, local := strings.CutPrefix(href, "#"); local && isID(id) {
		return id
	}
	return ""
}

// Limits of embedded images, together with those in their SVGs.
const (
	maxRasters      = 16
	maxRasterPixels = 4 << 20 // total
	rasterSide      = 1024    // pixels of the longer side after encoding
)

// embedded decodes a data URL of a raster and re-encodes it as PNG, the only format that is stable under repetition.
// For anything else it returns "". An SVG becomes part of the document; see embed.
func (d *document) embedded(n *node, href string) string {
	raw := DataURL(href)
	if raw == nil || d.spent.images >= maxRasters {
		return ""
	}
	d.spent.images++
	limits := imaging.Limits{Pixels: maxRasterPixels - d.spent.pixels, Bytes: MaxBytes}
	if limits.Pixels <= 0 {
		return ""
	}
	switch f := imaging.Sniff(raw); {
	case f.IsVector():
		d.embed(n, raw)
		return ""
	case f != imaging.PNG && f != imaging.JPEG && f != imaging.GIF && f != imaging.WebP && f != imaging.AVIF:
		return ""
	}
	img, info, err := imaging.Decode(raw, limits)
	if err != nil {
		return ""
	}
	d.spent.pixels += info.Width * info.Height
	clean, err := imaging.EncodePNG(imaging.Scale(img, rasterSide))
	if err != nil {
		return ""
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(clean)
}

// DataURL returns the content of a data URL, whatever type it states: browsers also look at the bytes of an image. It
// is nil for another URL, and for base64 that is not valid.
func DataURL(href string) []byte {
	head, payload, found := strings.Cut(href, ",")
	if head = strings.ToLower(head); !found || !strings.HasPrefix(head, "data:") {
		return nil
	}
	if text, err := url.PathUnescape(payload); err == nil { // else it is often not escaped, percent signs included
		payload = text
	}
	if !strings.HasSuffix(strings.TrimSpace(head), ";base64") {
		return []byte(payload)
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.Map(dropSpace, payload), "="))
	if err != nil {
		return nil
	}
	return raw
}

func dropSpace(r rune) rune {
	if r == ' ' || r == '\t' || r == '\n' || r == '\r' {
		return -1
	}
	return r
}
