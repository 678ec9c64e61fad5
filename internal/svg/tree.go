package svg

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/css"
	"letterhead/internal/imaging"
)

// Limits of a document. Real logos stay far below: the largest of 1,863 has 3,000 elements, with a depth of 30.
const (
	maxDepth      = 128
	maxElements   = 20_000
	maxAttributes = 256 // of one element
)

const (
	svgNamespace   = "http://www.w3.org/2000/svg"
	xlinkNamespace = "http://www.w3.org/1999/xlink"
	xmlNamespace   = "http://www.w3.org/XML/1998/namespace"
)

// attribute is an attribute in the allow-list, or a declaration of a property in it, in its output form.
type attribute struct{ name, value string }

// node is an element of the new document, or a text if name is empty.
type node struct {
	name     string
	attrs    []attribute
	children []*node
	text     string
	parent   *node

	source *html.Node  // in the original document
	id     string      // unique in the document
	href   string      // id to which it refers, or a data URL for image
	inside *document   // the SVG of an image, until it is embedded
	inline []attribute // of its style attribute, and of the style sheets
	style  map[string]string
	urls   []string // ids in its attributes and declarations
	shape  *outline // measured once; see outlineOf
}

// lineage lists an element and those around it, the outermost first.
func (n *node) lineage() (list []*node) {
	for ; n != nil; n = n.parent {
		list = append(list, n)
	}
	slices.Reverse(list)
	return list
}

func (n *node) attr(name string) string {
	for _, a := range n.attrs {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

func (n *node) set(name, value string) {
	for i := range n.attrs {
		if n.attrs[i].name == name {
			n.attrs[i].value = value
			return
		}
	}
	n.attrs = append(n.attrs, attribute{name, value})
}

func (n *node) drop(name string) {
	n.attrs = slices.DeleteFunc(n.attrs, func(a attribute) bool { return a.name == name })
}

// values yields the attributes of an element, and then its declarations.
func (n *node) values() iter.Seq[*attribute] {
	return func(yield func(*attribute) bool) {
		for _, list := range [][]attribute{n.attrs, n.inline} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// document is an SVG between the allow-list and the output.
type document struct {
	root          *node
	byID          map[string]*node
	order         []*node // all elements, parents first
	view          box
	hasView       bool
	width, height *int
	spent         *spending    // shared with the SVGs of images
	sheets        *css.Cascade // of the original document
	accepted      map[attribute]string
	styled        int       // bytes of values that were checked
	within        *document // the document with the image whose SVG this is
	elements      int       // of the source
	depth         int       // of the source
	adopted       int       // SVGs of images
	foreign       bool      // visible HTML was omitted
	boxes         bool      // see Sketch
}

// spending counts the embedded images that were read, successfully or not.
type spending struct{ images, pixels int }

// parser builds a document from a token stream. It is not recursive, so depth only takes memory.
type parser struct {
	doc      *document
	text     []byte
	decoder  *xml.Decoder
	at       *node
	source   *html.Node // the element of the original document, whose style rules see everything
	depth    int
	skipping int  // depth within an omitted element; 0 outside
	foreign  bool // that element is HTML that a browser shows
}

func newParser(text []byte) *parser {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = true
	// The text is UTF-8 regardless of a second declaration.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	doc := &document{byID: map[string]*node{}, accepted: map[attribute]string{}}
	return &parser{doc: doc, text: text, decoder: d, source: &html.Node{Type: html.DocumentNode}}
}

// parseDocument parses a document with the allow-list. within is the document in whose image it is, or nil.
func parseDocument(text []byte, within *document) (*document, error) {
	p := newParser(text)
	p.doc.within, p.doc.spent = within, &spending{}
	if within != nil {
		p.doc.spent = within.spent
	}
	for {
		token, err := p.decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", imaging.ErrMalformed, err)
		}
		if err := p.take(token); err != nil {
			return nil, err
		}
	}
	if p.doc.root == nil {
		return nil, fmt.Errorf("%w: no svg element", imaging.ErrMalformed)
	}
	p.doc.sheets = css.New(p.source, nil, nil, func(*url.URL, string) *url.URL { return nil })
	return p.doc, nil
}

func (p *parser) take(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return p.start(t)
	case xml.EndElement:
		p.end()
	case xml.CharData:
		p.charData(string(t))
	case xml.Directive:
		if p.doc.root == nil && p.decoder.Entity == nil {
			entities, err := parseEntities(t, p.text)
			if err != nil {
				return err
			}
			p.decoder.Entity = entities
		}
	}
	return nil // comments and processing instructions are omitted
}

func (p *parser) start(t xml.StartElement) error {
	p.depth++
	p.doc.depth = max(p.doc.depth, p.depth)
	p.doc.elements++
	switch {
	case p.depth > maxDepth:
		return fmt.Errorf("%w: elements nested deeper than %d", imaging.ErrTooLarge, maxDepth)
	case p.doc.elements > maxElements:
		return fmt.Errorf("%w: more than %d elements", imaging.ErrTooLarge, maxElements)
	case len(t.Attr) > maxAttributes:
		return fmt.Errorf("%w: more than %d attributes", imaging.ErrTooLarge, maxAttributes)
	}
	p.source.AppendChild(sourceOf(t))
	p.source = p.source.LastChild
	if p.skipping > 0 {
		p.skipping++
		return nil
	}
	name, ok := elementName(t.Name)
	switch {
	case p.at == nil && (name != "svg" || p.doc.root != nil):
		return fmt.Errorf("%w: the root is %.40q", imaging.ErrMalformed, t.Name.Local)
	case !ok:
		p.skipping = 1
		// A switch shows its next child instead, and no browser has an extension.
		p.foreign = name == "foreignObject" && p.at.name != "switch" &&
			!slices.ContainsFunc(t.Attr, func(a xml.Attr) bool { return a.Name.Local == "requiredExtensions" })
		return nil
	}
	if p.at != nil && t.Name.Local == "a" && (p.at.name == "text" || p.at.name == "tspan") {
		name = "tspan"
	}
	n := &node{name: name, parent: p.at, source: p.source}
	if !p.doc.readAttributes(n, t.Attr) {
		p.skipping = 1
		return nil
	}
	if p.at == nil {
		p.doc.root = n
	} else {
		p.at.children = append(p.at.children, n)
	}
	p.doc.order = append(p.doc.order, n)
	p.at = n
	return nil
}

// sourceOf returns an element for the style sheets, with names in lower case, as the selector library compares them.
func sourceOf(t xml.StartElement) *html.Node {
	n := &html.Node{Type: html.ElementNode, Data: strings.ToLower(t.Name.Local), Namespace: "svg"}
	for _, a := range t.Attr {
		if a.Name.Space == "" {
			n.Attr = append(n.Attr, html.Attribute{Key: strings.ToLower(a.Name.Local), Val: a.Value})
		}
	}
	return n
}

func (p *parser) end() {
	p.depth--
	p.source = p.source.Parent
	if p.skipping > 0 {
		p.skipping--
		return
	}
	p.at = p.at.parent
}

// unseen are the elements of HTML whose text a browser does not show.
var unseen = []string{"script", "style", "title", "iframe", "noscript", "noembed", "noframes", "template"}

// charData keeps text that is visible; elsewhere it is white space or meaningless.
func (p *parser) charData(s string) {
	if p.source.Data == "style" {
		p.source.AppendChild(&html.Node{Type: html.TextNode, Data: s})
	}
	if p.at == nil {
		return
	}
	if p.skipping > 0 {
		shown := p.foreign && strings.TrimSpace(s) != "" && !slices.Contains(unseen, p.source.Data)
		p.doc.foreign = p.doc.foreign || shown
		return
	}
	switch p.at.name {
	case "text", "tspan", "textPath":
		s = plainText(s)
		if last := len(p.at.children) - 1; last >= 0 && p.at.children[last].name == "" {
			p.at.children[last].text += s // around a comment
			return
		}
		if s != "" {
			p.at.children = append(p.at.children, &node{text: s, parent: p.at})
		}
	}
}

// plainText converts line ends and tabs to spaces, as SVG does, and drops characters that XML does not allow.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < 0x20 || r == 0x7f || r == 0xfffe || r == 0xffff || r == 0xfffd:
			return -1
		}
		return r
	}, s)
}

// elementName returns the name of an element in the new document, and whether it is kept. A link becomes a group: its
// content is drawn, but its target is dropped.
func elementName(name xml.Name) (string, bool) {
	switch name.Space {
	case svgNamespace, "", "svg": // no namespace: inline SVG cut from a page
	default:
		return "", false
	}
	if name.Local == "a" {
		return "g", true
	}
	return name.Local, elements[name.Local]
}

// write returns the new document as text.
func (d *document) write() []byte {
	var b bytes.Buffer
	refers := slices.ContainsFunc(d.order, func(n *node) bool { return n.href != "" })
	d.root.write(&b, refers)
	return b.Bytes()
}

// write recurses at most maxDepth deep.
func (n *node) write(b *bytes.Buffer, withXlink bool) {
	if n.name == "" {
		escapeTo(b, n.text)
		return
	}
	b.WriteString("<" + n.name)
	if n.parent == nil {
		writeAttribute(b, "xmlns", svgNamespace)
		if withXlink { // href alone is SVG 2; older viewers only support this one
			writeAttribute(b, "xmlns:xlink", xlinkNamespace)
		}
	}
	for _, a := range n.attrs {
		writeAttribute(b, a.name, a.value)
	}
	if n.id != "" {
		writeAttribute(b, "id", n.id)
	}
	if len(n.inline) > 0 {
		writeAttribute(b, "style", writeDeclarations(n.inline))
	}
	switch {
	case n.href == "":
	case n.name == "image":
		writeAttribute(b, "xlink:href", n.href)
	default:
		writeAttribute(b, "xlink:href", "#"+n.href)
	}
	if len(n.children) == 0 {
		b.WriteString("/>")
		return
	}
	b.WriteString(">")
	for _, c := range n.children {
		c.write(b, false)
	}
	b.WriteString("</" + n.name + ">")
}

func writeAttribute(b *bytes.Buffer, name, value string) {
	b.WriteString(" " + name + `="`)
	escapeTo(b, value)
	b.WriteByte('"')
}

var xmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")

func escapeTo(b *bytes.Buffer, s string) { b.WriteString(xmlEscaper.Replace(s)) }
