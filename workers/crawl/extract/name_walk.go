package extract

import (
	"strings"

	"golang.org/x/net/html"
)

// Limits of a walk through a document.
const (
	maxNodes = 200_000 // visited elements and texts
	maxWalk  = 1500    // depth
)

// visit calls enter for the nodes of a document in order, and skips the content
// of a node for which enter returns false. A nil document has no nodes.
func visit(root *html.Node, enter func(*html.Node) bool) {
	left := maxNodes
	var walk func(*html.Node, int)
	walk = func(n *html.Node, depth int) {
		if left--; left < 0 || depth > maxWalk || !enter(n) {
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, depth+1)
		}
	}
	if root != nil {
		walk(root, 0)
	}
}

// innerText returns the visible text of an element, up to about limit bytes.
func innerText(n *html.Node, limit int) string {
	var b strings.Builder
	visit(n, func(n *html.Node) bool {
		switch {
		case b.Len() >= limit:
			return false
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style" || n.Data == "svg" ||
			n.Data == "noscript" || n.Data == "template"):
			return false
		case n.Type == html.ElementNode && n.Data == "br":
			b.WriteByte(' ')
		}
		return true
	})
	return b.String()
}
