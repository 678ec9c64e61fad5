package extract

import (
	"strings"

	"golang.org/x/net/html"
)

// Limits of a walk through a document.
const (
	maxNodes = 200_000 // elements and texts that are visited
	maxWalk  = 1500    // depth
)

// visit shows the nodes of a document in order; what stands inside of one is passed over when enter says
// false. A nil document has none.
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

// innerText is the visible text of an element, up to about a number of bytes.
func innerText(n *html.Node, limit int) string {
	var b strings.Builder
	visit(n, func(n *html.Node) bool {
		switch {
		case b.Len() >= limit:
			return false
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style" || n.Data == "svg" || n.Data == "noscript" || n.Data == "template"):
			return false
		case n.Type == html.ElementNode && n.Data == "br":
			b.WriteByte(' ')
		}
		return true
	})
	return b.String()
}
