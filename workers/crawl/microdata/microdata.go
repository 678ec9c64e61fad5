// Package microdata reads the items that a page marks up with itemscope, itemtype and itemprop (HTML microdata), or
// with typeof and property (RDFa Lite), into the same graph as JSON-LD, so that queries for the site's owner do not
// depend on the syntax.
package microdata

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
)

// Limits of one page.
const (
	maxItems      = 500
	maxProperties = 3000 // of all items
	maxReferences = 20   // ids in one itemref
	maxNesting    = 16   // items within items
	maxDepth      = 1500 // of the tree; the parser keeps trees shallower
	maxNodes      = 100_000
	maxValueBytes = 4000
	maxTypeBytes  = 200
	maxTypes      = 8 // of one item
)

// Parse reads the items of a document. base resolves URLs; nil leaves them
// unresolved. The graph is never nil; it is empty for a page without items.
func Parse(root *html.Node, base *url.URL) *linkeddata.Graph {
	r := &reader{base: base, left: maxNodes}
	if root != nil {
		r.walk(root, scope{}, 0)
	}
	if len(r.top) == 0 {
		return linkeddata.Parse(nil)
	}
	text, _ := json.Marshal(r.top) // strings, lists and maps always marshal
	return linkeddata.Parse([][]byte{text})
}

// item is an item in the form of JSON-LD.
type item map[string]any

// reader is one pass over a document.
type reader struct {
	base       *url.URL
	root       *html.Node
	ids        map[string]*html.Node // built on the first itemref
	top        []item
	items      int
	properties int
	left       int          // nodes
	references []*html.Node // the elements that are being read through an itemref, to detect cycles
}

// scope is the current item of the walk.
type scope struct {
	item    item // nil outside of items
	nesting int
	rdfa    bool // schema.org is the vocabulary for typeof and property
}

func (r *reader) walk(n *html.Node, at scope, depth int) {
	if r.left--; r.left < 0 || depth > maxDepth {
		return
	}
	if n.Type == html.DocumentNode && r.root == nil {
		r.root = n
	}
	if n.Type == html.ElementNode {
		switch n.DataAtom {
		case atom.Script, atom.Style, atom.Template, atom.Noscript:
			return
		}
		at = r.element(n, at, depth)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.walk(c, at, depth+1)
	}
}

// element adds the data of an element, and returns the scope of its children.
func (r *reader) element(n *html.Node, at scope, depth int) scope {
	isItem := false
	for _, a := range n.Attr {
		switch a.Key {
		case "itemscope":
			isItem = true
		case "vocab":
			at.rdfa = strings.Contains(a.Val, "schema.org")
		}
	}
	kind, properties := page.Attr(n, "itemtype"), page.Attr(n, "itemprop")
	if typeof := page.Attr(n, "typeof"); typeof != "" && (at.rdfa || strings.HasPrefix(typeof, "schema:")) && !isItem {
		isItem, kind, at.rdfa = true, typeof, true
	}
	if p := page.Attr(n, "property"); p != "" && at.rdfa && at.item != nil && properties == "" {
		properties = strings.ReplaceAll(p, "schema:", "")
	}
	if !isItem {
		if properties != "" && at.item != nil {
			r.set(at.item, properties, r.value(n))
		}
		return at
	}
	if r.items >= maxItems || at.nesting >= maxNesting {
		return scope{nesting: at.nesting, rdfa: at.rdfa}
	}
	r.items++
	x := item{"@type": types(kind)}
	if id := cmp.Or(page.Attr(n, "itemid"), page.Attr(n, "resource")); id != "" && len(id) <= maxValueBytes {
		x["@id"] = id
	}
	if properties != "" && at.item != nil {
		r.set(at.item, properties, x)
	} else {
		r.top = append(r.top, x)
	}
	inner := scope{item: x, nesting: at.nesting + 1, rdfa: at.rdfa}
	r.referenced(page.Attr(n, "itemref"), inner, depth)
	return inner
}

// referenced reads the elements elsewhere in the document that an item references by id.
func (r *reader) referenced(references string, at scope, depth int) {
	if references == "" || r.root == nil {
		return
	}
	if r.ids == nil {
		r.index()
	}
	for i, id := range strings.Fields(references) {
		if i == maxReferences {
			return
		}
		n := r.ids[id]
		if n == nil || slices.Contains(r.references, n) {
			continue
		}
		r.references = append(r.references, n)
		r.walk(n, at, depth+1)
		r.references = r.references[:len(r.references)-1]
	}
}

// index indexes the elements of the document by id.
func (r *reader) index() {
	r.ids = map[string]*html.Node{}
	for n := range r.root.Descendants() {
		if r.left--; r.left < 0 {
			return
		}
		if id := page.Attr(n, "id"); id != "" && r.ids[id] == nil {
			r.ids[id] = n
		}
	}
}

// set adds a value to each of an item's named properties.
func (r *reader) set(x item, names string, value any) {
	if text, ok := value.(string); ok && text == "" {
		return
	}
	for name := range strings.FieldsSeq(names) {
		name = name[strings.LastIndexByte(name, '/')+1:] // some write the property's complete URL
		if name == "" || strings.HasPrefix(name, "@") || r.properties >= maxProperties {
			continue
		}
		r.properties++
		values, _ := x[name].([]any)
		x[name] = append(values, value)
	}
}

// types returns the last segments of the types' URLs.
func types(text string) []string {
	out := []string{}
	for t := range strings.FieldsSeq(text) {
		if t = strings.TrimRight(t, "/"); len(t) <= maxTypeBytes && len(out) < maxTypes {
			out = append(out, strings.TrimPrefix(t[strings.LastIndexAny(t, "/#")+1:], "schema:"))
		}
	}
	return out
}

// value returns the value of an element as a property: depending on its kind a URL, a declared value, or its text. A
// content attribute counts on every element, as search engines treat it.
func (r *reader) value(n *html.Node) string {
	if v := page.Attr(n, "content"); v != "" || n.DataAtom == atom.Meta {
		return bounded(v)
	}
	switch v := page.Attr(n, page.ValueAttributes[n.Data]); {
	case n.DataAtom == atom.Data, n.DataAtom == atom.Meter:
		return bounded(page.Attr(n, "value"))
	case n.DataAtom == atom.Time && v != "":
		return bounded(v)
	case v != "":
		return r.resolved(v)
	}
	var text strings.Builder
	r.text(n, &text, 0)
	return bounded(text.String())
}

func (r *reader) resolved(address string) string {
	address = strings.TrimSpace(address)
	if len(address) > maxValueBytes {
		return ""
	}
	if u, err := url.Parse(address); err == nil && r.base != nil {
		return r.base.ResolveReference(u).String()
	}
	return address
}

// text collects the text of an element.
func (r *reader) text(n *html.Node, to *strings.Builder, depth int) {
	if r.left--; r.left < 0 || depth > maxDepth || to.Len() > maxValueBytes {
		return
	}
	switch {
	case n.Type == html.TextNode:
		to.WriteString(n.Data[:min(len(n.Data), 2*maxValueBytes)])
	case n.DataAtom == atom.Script || n.DataAtom == atom.Style:
		return
	case n.DataAtom == atom.Br:
		to.WriteByte(' ')
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.text(c, to, depth+1)
	}
}

// bounded truncates a value and collapses its spaces.
func bounded(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxValueBytes {
		text = text[:maxValueBytes]
	}
	return strings.ToValidUTF8(text, "")
}
