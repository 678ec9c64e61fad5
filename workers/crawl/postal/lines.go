package postal

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/workers/crawl/page"
)

// Limits of the lines of one document.
const (
	maxLines     = 4000
	maxLineBytes = 600
	maxNodes     = 60_000
	maxDepth     = 1500
)

// Line is one line of a document as it is displayed: the text between two
// breaks or borders of blocks. Addresses are written in lines.
type Line struct {
	Text    string
	Address bool       // whether it is in an address element
	Footer  bool       // whether it is in the page's footer
	Header  bool       // whether it is in the page's header
	Heading bool       // whether it is in a heading, h1 to h4
	Node    *html.Node // the element that contains the beginning of the line
}

// inline are the elements that do not break a line.
var inline = tables.Set("inline")

// silent are the elements whose text is not visible.
var silent = tables.Set("silent")

// quoted are the classes and ids of elements that quote others: comments, reviews, testimonials.
var quoted = tables.Set("quoted")

// isOfOthers reports whether an element quotes others.
func isOfOthers(n *html.Node) bool {
	if n.DataAtom == atom.Blockquote {
		return true
	}
	if n.DataAtom == atom.Html || n.DataAtom == atom.Body {
		return false
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "class", "id":
			for name := range strings.FieldsSeq(a.Val[:min(len(a.Val), maxNames)]) {
				if quoted[strings.ToLower(name)] {
					return true
				}
			}
		case "itemtype":
			if strings.HasSuffix(a.Val, "/Review") || strings.HasSuffix(a.Val, "/Comment") ||
				strings.HasSuffix(a.Val, "/UserComments") {
				return true
			}
		}
	}
	return false
}

const maxNames = 1000 // limits the bytes of a class that are read

// Lines returns the lines of a document in order, without those that are hidden
// by an attribute and the lines of comments and reviews; nil for no document. Its
// limits truncate it, so that no document takes more than a few milliseconds.
func Lines(root *html.Node) []Line {
	if root == nil {
		return nil
	}
	r := lineReader{left: maxNodes}
	r.walk(root, Line{}, 0)
	r.end()
	return r.lines
}

type lineReader struct {
	lines []Line
	text  strings.Builder
	open  Line // context of the current line
	left  int
}

func (r *lineReader) walk(n *html.Node, at Line, depth int) {
	if r.left--; r.left < 0 || depth > maxDepth || len(r.lines) >= maxLines {
		return
	}
	switch n.Type {
	case html.TextNode:
		if r.text.Len() < maxLineBytes {
			r.open, r.open.Node = at, n.Parent
			r.text.WriteString(n.Data[:min(len(n.Data), 2*maxLineBytes)])
		}
		return
	case html.ElementNode:
		if silent[n.Data] || page.IsHidden(n) || isOfOthers(n) {
			return
		}
	}
	breaks := n.Type == html.ElementNode && !inline[n.Data]
	if breaks {
		r.end()
	}
	switch n.DataAtom {
	case atom.Address:
		at.Address = true
	case atom.Footer:
		at.Footer = true
	case atom.Header:
		at.Header = true
	case atom.Article, atom.Main: // their headers are not the page's
		at.Header = false
	case atom.H1, atom.H2, atom.H3, atom.H4:
		at.Heading = true
	}
	if !at.Footer && page.IsFooter(n) {
		at.Footer = true
	}
	for _, a := range n.Attr {
		switch {
		case a.Key == "id" && strings.EqualFold(a.Val, "footer"),
			a.Key == "role" && strings.EqualFold(a.Val, "contentinfo"):
			at.Footer = true
		case a.Key == "id" && strings.EqualFold(a.Val, "header"), a.Key == "role" && strings.EqualFold(a.Val, "banner"):
			at.Header = true
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.walk(c, at, depth+1)
	}
	if breaks {
		r.end()
	}
}

// end closes the current line.
func (r *lineReader) end() {
	if r.text.Len() == 0 {
		return
	}
	text := strings.Join(strings.Fields(r.text.String()), " ")
	r.text.Reset()
	if text == "" || len(r.lines) >= maxLines {
		return
	}
	if len(text) > maxLineBytes {
		text = strings.ToValidUTF8(text[:maxLineBytes], "")
	}
	at := r.open
	at.Text = text
	r.lines = append(r.lines, at)
}
