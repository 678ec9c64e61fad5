package extract

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("extract")
var genericNames = FoldedSet(tables.List("genericNames")...) // folded page names that do not identify the owner
var hostNames = FoldedSet(tables.List("hostNames")...)       // providers whose name on a page names its host

// packageName matches a developer's name for the program that generates the
// site, which frameworks use by default: acme-web, acme_frontend.
var packageName = lazyregexp.New(`^[a-z0-9]+(?:[-_][a-z0-9]+)*[-_](?:` + tables.Any("packageName") + `)$`)

// statusName is the title of an error page.
var statusName = lazyregexp.New(`^(4|5)\d\d\b|^(http )?error \d+|^index of /|^(` + tables.Any("statusName") + `)\b`)

// templateName is the title of a template that somebody sells or gives away.
var templateName = lazyregexp.New(`^(?:` + tables.Any("templateName") + `)$`)

// generic reports whether a name identifies no brand.
func generic(name string) bool {
	f := Folded(name)
	lower := strings.ToLower(strings.TrimSpace(name))
	return f == "" || genericNames[f] || statusName.MatchString(lower) || templateName.MatchString(lower)
}

// slogan matches a name that addresses the visitor: "Your partner for …", "Ihr Partner rund um …".
var slogan = lazyregexp.New(`(?i)^(` + tables.Any("slogan") + `)\s+\S+\s+\S+`)

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
