package css

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

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
	combined  int                // pairs of selectors that nesting tried
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
