package css

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// closing returns the position at which the bracket at a position closes, or
// the length of the text if it does not. Strings are skipped.
func closing(text string, open int) int {
	nest := 0
	for i := open; i < len(text); i = after(text, i) {
		switch text[i] {
		case '(', '[', '{':
			nest++
		case ')', ']', '}':
			if nest--; nest <= 0 {
				return i
			}
		}
	}
	return len(text)
}

// after returns the position after the escape, string or single byte at a position.
func after(text string, i int) int {
	switch text[i] {
	case '\\':
		return i + 2
	case '"', '\'':
		return stringEnd(text, i)
	}
	return i + 1
}

// stringEnd returns the position after the string that begins at a position.
func stringEnd(text string, start int) int {
	quote := text[start]
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		case '\n':
			return i // a string ends with its line
		}
	}
	return len(text)
}

// Split yields the parts of a text between separators outside of brackets and strings.
func Split(text string, separator byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i < len(text); i = after(text, i) {
			switch text[i] {
			case '(', '[', '{':
				i = min(closing(text, i), len(text)-1)
			case separator:
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(text[start:])
	}
}

// words splits a value at white space outside of brackets and strings, and around slashes.
func words(value string) []string {
	var out []string
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out = append(out, value[start:end])
		}
		start = -1
	}
	for i := 0; i < len(value); i = after(value, i) {
		switch c := value[i]; {
		case isSpace(c):
			flush(i)
			continue
		case c == '/':
			flush(i)
			out = append(out, "/")
			continue
		case start < 0:
			start = i
		}
		if strings.IndexByte("([{", value[i]) >= 0 {
			i = min(closing(value, i), len(value)-1)
		}
	}
	flush(len(value))
	return out
}

// unquote removes the quotes of a string, if any, and resolves escapes.
func unquote(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > 0 && (text[0] == '"' || text[0] == '\'') {
		quote := text[:1]
		text = strings.TrimSuffix(text[1:], quote)
	}
	return unescape(text)
}

// unescape resolves the escapes of an identifier or string (CSS Syntax 3, section 4.3.7).
func unescape(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out.WriteByte(text[i])
			continue
		}
		end := i + 1
		for end < len(text) && end < i+7 && isHex(text[end]) {
			end++
		}
		switch {
		case end > i+1:
			code, _ := strconv.ParseInt(text[i+1:end], 16, 32) // at most six hex digits
			if r := rune(code); r != 0 && utf8.ValidRune(r) {
				out.WriteRune(r)
			} else {
				out.WriteRune(utf8.RuneError)
			}
			i = end - 1
			if end < len(text) && isSpace(text[end]) {
				i++
			}
		case end < len(text) && text[end] == '\n': // a string continues on the next line
			i = end
		case end < len(text):
			out.WriteByte(text[end])
			i = end
		}
	}
	return out.String()
}

func isHex(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' }

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == '\f' }

// isName reports whether a byte is allowed in an identifier.
func isName(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b >= 0x80
}

// nameEnd returns the end of the identifier that begins at a position.
func nameEnd(text string, start int) int {
	i := start
	for i < len(text) {
		switch {
		case isName(text[i]):
			i++
		case text[i] == '\\' && i+1 < len(text):
			i += 2
			// A hexadecimal escape ends with a space, which belongs to it.
			if isHex(text[i-1]) {
				for end := i + 5; i < end && i < len(text) && isHex(text[i]); {
					i++
				}
				if i < len(text) && isSpace(text[i]) {
					i++
				}
			}
		default:
			return i
		}
	}
	return min(i, len(text))
}

// indexFunction returns the start of a function call in a value, or -1. It ignores longer names with that suffix.
func indexFunction(value, name string) int {
	for from := 0; from < len(value); {
		i := indexFold(value[from:], name)
		if i < 0 {
			return -1
		}
		if i += from; i == 0 || !isName(value[i-1]) {
			return i
		}
		from = i + len(name)
	}
	return -1
}

// indexFold finds a lower-case ASCII word that ends in a parenthesis.
func indexFold(text, word string) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '(')
		if i < 0 {
			return -1
		}
		i += from
		if start := i + 1 - len(word); start >= 0 && strings.EqualFold(text[start:i+1], word) {
			return start
		}
		from = i + 1
	}
}

func indexURL(value string) int { return indexFunction(value, "url(") }

// Limits of the sheets that are read. They are far above real pages; anything beyond is skipped.
const (
	MaxSheetBytes = 1 << 20 // limits one sheet
	maxBytes      = 4 << 20 // limits all sheets of a document, those in its elements included

	maxSheets       = 1000 // page builders write a style element for every block
	maxImportDepth  = 3
	maxImports      = 32 // URLs kept
	maxRules        = 60_000
	maxSelectors    = 120_000
	maxDeclarations = 400_000
	maxNesting      = 32 // blocks within blocks
	maxFaces        = 600
	maxLayers       = 1000
)

// book holds the parsed sheets of a document. It does not change afterwards.
type book struct {
	root, body *html.Node
	base       *url.URL
	resolve    Resolve

	rules     []rule
	selectors []selector
	byID      map[string][]int32 // indexes into selectors
	byClass   map[string][]int32
	byTag     map[string][]int32
	universal []int32

	faces    []Face
	imported []*url.URL
	layers   *layer // the root, which contains everything without a layer

	sheets       map[string][]byte
	left         int // bytes that may still be read
	read         int // sheets
	declarations int
	layerCount   int
}

// rule is a block of declarations. Its order is its index.
type rule struct {
	declarations []declaration
	at           *url.URL // the URL of the sheet
	layer        *layer
}

// declaration is one property with its value as written, without comments.
type declaration struct {
	name, value string
	important   bool
}

// layer is a cascade layer.
type layer struct {
	name     string
	parent   *layer
	children []*layer
	rank     int // a higher rank is stronger
}

func read(root *html.Node, base *url.URL, sheets map[string][]byte, resolve Resolve) *book {
	b := &book{
		root: root, base: base, resolve: resolve, sheets: sheets, left: maxBytes, layers: &layer{},
		byID: map[string][]int32{}, byClass: map[string][]int32{}, byTag: map[string][]int32{},
	}
	seen := map[string]bool{}
	if root != nil {
		b.walk(root, seen, false)
	}
	b.layers.order(0)
	b.sheets = nil
	return b
}

// order numbers a layer and those within it: a layer is weaker than the layers after it, and than the unlayered rules
// of its parent (CSS Cascade 5, section 6.4.3).
func (l *layer) order(from int) int {
	for _, child := range l.children {
		from = child.order(from)
	}
	l.rank = from
	return from + 1
}

// walk reads the sheets of a tree. The depth is limited by the builder of the tree.
func (b *book) walk(n *html.Node, seen map[string]bool, noscript bool) {
	if n.Type == html.ElementNode {
		switch n.Data {
		case "html":
			if n.Namespace == "" && b.root != n && (b.root == nil || b.root.Type != html.ElementNode) {
				b.root = n
			}
		case "body":
			if b.body == nil && n.Namespace == "" {
				b.body = n
			}
		case "style":
			if !noscript { // the page as seen with scripts enabled
				b.styleElement(n)
			}
		case "link":
			b.linkElement(n, seen)
		case "template":
			return
		}
		noscript = noscript || n.DataAtom == atom.Noscript
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.walk(c, seen, noscript)
	}
}

func (b *book) styleElement(n *html.Node) {
	if kind := attr(n, "type"); kind != "" && !strings.EqualFold(kind, "text/css") {
		return
	}
	if !Applies(attr(n, "media")) {
		return
	}
	var text strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			text.WriteString(c.Data)
		}
	}
	b.sheet(text.String(), b.base, scope{layer: b.layers}, nil)
}

func (b *book) linkElement(n *html.Node, seen map[string]bool) {
	rels := strings.Fields(strings.ToLower(attr(n, "rel")))
	if !slices.Contains(rels, "stylesheet") || slices.Contains(rels, "alternate") {
		return
	}
	at := b.resolve(b.base, attr(n, "href"))
	if at == nil || seen[at.String()] {
		return
	}
	text, ok := b.sheets[at.String()]
	if !ok {
		return
	}
	seen[at.String()] = true
	// media="print" onload="this.media='all'" loads a sheet late.
	if !Applies(attr(n, "media")) && !strings.Contains(attr(n, "onload"), "media") {
		return
	}
	b.sheet(string(text[:min(len(text), MaxSheetBytes)]), at, scope{layer: b.layers}, []string{at.String()})
}

// sheet reads one sheet. path holds the URLs of the sheets that led to it, itself last.
func (b *book) sheet(text string, at *url.URL, in scope, path []string) {
	if b.read >= maxSheets {
		return
	}
	b.read++
	text = text[:min(len(text), MaxSheetBytes, b.left)]
	b.left -= len(text)
	text = strings.TrimPrefix(text, "\ufeff")
	newParser(b, text, at, path).block(in, 0)
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}
