package page

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// anchor adds a link and returns the place of its children.
func (g *gatherer) anchor(n *html.Node, at place) place {
	href := strings.TrimSpace(Attr(n, "href"))
	rels := strings.Fields(strings.ToLower(Attr(n, "rel")))
	u := g.page.Resolve(href)
	at.link = &Anchor{URL: u, Me: slices.Contains(rels, "me"), Zone: at.zone}
	at.foreign = u != nil && !g.own(u)
	at.linkNode = n
	at.window = strings.EqualFold(Attr(n, "target"), "_blank")
	at.label = cmp.Or(Clean(Attr(n, "aria-label"), maxLinkText), Clean(Attr(n, "title"), maxLinkText))
	at.home = g.home(u, rels) || g.describedAsHome(at, at.label)
	// A link that is declared to lead home, or is named logo and leads there, contains only the site's own images.
	if slices.Contains(rels, "home") && !at.foreign || at.home && at.named {
		at.excluded = false
	}
	return at
}

func (g *gatherer) endLink(a *Anchor) {
	if a.URL == nil || len(g.page.Anchors) >= MaxAnchors {
		return
	}
	a.Text = Clean(a.Text, maxLinkText)
	g.page.Anchors = append(g.page.Anchors, *a)
}
