package inlinesvg

import (
	"cmp"
	"strings"

	"golang.org/x/net/html"
)

// camel maps lower-case names of SVG to their correct case. The HTML parser
// restores them; the simple tree builder does not.
var camel = tables.Map("camel")

// name returns an element's name in the case of SVG.
func name(n *html.Node) string { return cmp.Or(camel[n.Data], n.Data) }

func attributeName(key string) string {
	key = strings.TrimPrefix(key, "xlink:")
	return cmp.Or(camel[key], key)
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if (a.Namespace == "" || a.Namespace == "xlink") && attributeName(a.Key) == key {
			return a.Val
		}
	}
	return ""
}

// href returns the reference of an element, from either of the two attributes.
func href(n *html.Node) string { return strings.TrimSpace(attr(n, "href")) }

// target returns the target of a use element in this document, or nil.
func (r *Resolver) target(use *html.Node) *html.Node {
	file, id, ok := strings.Cut(href(use), "#")
	if !ok || id == "" {
		return nil
	}
	if file != "" && (r.base == nil || strings.Contains(file, ".svg")) {
		return nil
	}
	return r.byID(id)
}

// byID finds an element anywhere in the document.
func (r *Resolver) byID(id string) *html.Node {
	if r.ids == nil {
		r.index()
	}
	return r.ids[id]
}

// index indexes the elements of the drawings in the document by id.
func (r *Resolver) index() {
	r.ids = map[string]*html.Node{}
	if r.root == nil {
		return
	}
	for n := range r.root.Descendants() {
		if len(r.ids) >= maxIDs {
			return
		}
		if n.Type == html.ElementNode && n.Namespace == "svg" {
			if id := attr(n, "id"); id != "" && r.ids[id] == nil {
				r.ids[id] = n
			}
		}
	}
}
