package extract

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// foreignName matches names of third-party blocks in a page: consent dialogs by
// their vendors' names, chats, share buttons, advertisements.
var foreignName = lazyregexp.New(`(?i)` + tables.Any("foreignName"))

// ForeignBlock reports whether an element and its content belong to a third party.
func ForeignBlock(n *html.Node) bool {
	if n.Data == "iframe" || n.Data == "template" {
		return true
	}
	switch n.Data {
	case "html", "body", "main", "article", "h1": // they contain the page, whatever their state
		return false
	}
	foreign := func(name string) bool { return foreignName.MatchString(name) && !stateName.MatchString(name) }
	return foreign(page.Attr(n, "id")) || slices.ContainsFunc(strings.Fields(page.Attr(n, "class")), foreign)
}

// stateName matches the state of a block, not its kind: ads-loaded, no-cookies.
var stateName = lazyregexp.New(`(?i)^(has|no|not|with|without|is|js)[-_]|[-_](` + tables.Any("stateName") + `)$`)
