package page

import (
	"bytes"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/site"
)

const maxWalkDepth = 1500 // limits the recursion over a tree; the parser keeps trees shallower than this

// Parse parses a page. It ignores the body beyond MaxBytes. It never fails.
func Parse(body []byte, contentType string, at *url.URL, of site.Site) *Page {
	text, detected := decode(body[:min(len(body), MaxBytes)], contentType, at)
	root := tree(bytes.ReplaceAll(text, []byte{0}, nil)) // which browsers do not show
	insertWritten(root)
	g := &gatherer{
		page: &Page{URL: at, Base: at, Root: root, Detected: detected, ElementID: map[string]bool{}, InTree: new(InTree)},
		site: of, strangers: foreignTo(of, strangerWords), tools: foreignTo(of, toolWords),
		overlays: foreignTo(of, overlayWords),
	}
	g.page.onward = sync.OnceValue(g.page.readOnward)
	g.base(root)
	g.walk(root, place{}, 0)
	g.page.Text = Clean(g.text.String(), maxTextBytes)
	g.page.Data = linkeddata.Parse(g.blobs)
	return g.page
}

// gatherer is one pass over a tree.
type gatherer struct {
	page             *Page
	site             site.Site
	text             strings.Builder
	blobs            [][]byte
	images           int
	banners          bool     // a header was seen
	strangers, tools []string // the words of containers without logos of the site
	overlays         []string // the words of consent dialogs
	layers           int      // that were searched for a request for consent
}

// place is the current place in the page.
type place struct {
	zone     Zone
	link     *Anchor // the enclosing link, which collects text
	home     bool    // which leads to the home page
	foreign  bool    // or to another site
	window   bool    // in another window
	label    string  // its aria-label or title
	excluded bool
	hidden   bool
	absent   bool       // not shown to anybody, by an attribute: not even read aloud
	soft     bool       // in a search, a menu of languages, a cart
	logoWall bool       // among the logos of several
	narrow   bool       // shown on small screens only
	inner    bool       // in an article, a list, an aside: a header there belongs to a part
	scheme   string     // color scheme it is shown in
	picture  *html.Node // the enclosing picture element
	linkNode *html.Node // the enclosing link
	logoNode *html.Node // the nearest ancestor named logo
	named    bool       // it is no farther away than the reason for excluded
	silent   bool       // text is not visible: noscript
}

// base finds the first base element with a valid href, before any URL is resolved against it.
func (g *gatherer) base(root *html.Node) {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.DataAtom == atom.Base && n.Namespace == "" {
			if u := resolve(g.page.URL, Attr(n, "href")); u != nil {
				g.page.Base = u
				return
			}
		}
	}
}

const maxFrameNodes = 2000 // limits the search for the page's frame within an overlay

// framesPage reports whether an element contains the page itself, so that its class, such as "cookie-notice-visible",
// is a state of the page. A dialog may have a header of its own.
func framesPage(n *html.Node, dialog bool) bool {
	left := maxFrameNodes - 1
	for c := range n.Descendants() {
		if c.Type != html.ElementNode {
			continue
		}
		switch c.DataAtom {
		case atom.Header, atom.Nav, atom.H1:
			if !dialog {
				return true
			}
		case atom.Main:
			return true
		}
		if left--; left < 0 {
			return true // an element of that size is not a notice
		}
	}
	return false
}

func (g *gatherer) walk(n *html.Node, at place, depth int) {
	if depth > maxWalkDepth {
		return
	}
	switch n.Type {
	case html.TextNode:
		g.visible(n.Data, at)
	case html.ElementNode:
		var enter bool
		if at, enter = g.element(n, at); !enter {
			return
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		g.walk(c, at, depth+1)
	}
	if n.Type == html.ElementNode && n.DataAtom == atom.A {
		g.endLink(at.link)
	}
}

// visible adds a piece of text.
func (g *gatherer) visible(text string, at place) {
	if at.silent {
		return
	}
	for range strings.FieldsSeq(text) {
		g.page.Words++
	}
	if g.text.Len() < maxTextBytes {
		g.text.WriteString(text)
		g.text.WriteByte(' ')
	}
	if at.link != nil && len(at.link.Text) < maxLinkText {
		at.link.Text += " " + text
	}
}

const maxLinkText = 300 // limits the text of a link, in bytes

// element processes an element and returns the place of its children, and whether to visit them.
func (g *gatherer) element(n *html.Node, at place) (place, bool) {
	words := tokens(n)
	if n.Namespace != "" { // svg and math: their titles and links do not belong to the page
		if n.DataAtom == atom.Svg {
			g.inlineSVG(n, words, g.within(at, n, words))
		}
		return at, false
	}
	if g.isOverlay(n, words) {
		return at, false // cookie walls do not belong to the page
	}
	if id := Attr(n, "id"); id != "" && len(id) <= 64 && len(g.page.ElementID) < 500 {
		g.page.ElementID[id] = true
	}
	at = g.within(at, n, words)
	if at.zone == Header {
		g.banners = true
	}
	switch n.DataAtom {
	case atom.Html:
		g.page.Lang = Clean(Attr(n, "lang"), 35)
	case atom.Title:
		if g.page.Title == "" {
			g.page.Title = Clean(inner(n), MaxValueRunes)
		}
		return at, false
	case atom.Meta:
		from := len(g.page.Metas)
		g.meta(n)
		g.owned(n, from, at)
		if r := g.page.Refresh; r != nil && at.silent && !g.own(r.URL) {
			g.page.Refresh = nil // it sends only visitors without scripts on
		}
	case atom.Link:
		g.link(n)
	case atom.Script:
		g.scriptElement(n)
		return at, false
	case atom.Object, atom.Embed:
		g.image(n, words, at)
		return at, false
	case atom.Template:
		// Rendered in place only if it is the root of a shadow tree.
		_, shadow := lookup(n, "shadowrootmode")
		return at, shadow
	case atom.Style, atom.Svg, atom.Math, atom.Textarea, atom.Select:
		return at, false
	case atom.Iframe, atom.Frame:
		g.source(Attr(n, "src"))
		if u := g.page.Resolve(Attr(n, "src")); n.DataAtom == atom.Frame && u != nil && len(g.page.Frames) < maxFrames {
			g.page.Frames = append(g.page.Frames, u)
		}
		return at, false
	case atom.Noscript:
		at.silent = true
	case atom.Form:
		g.page.Forms++
	case atom.Input:
		if strings.EqualFold(Attr(n, "type"), "password") {
			g.page.Password = true
		}
		if strings.EqualFold(Attr(n, "type"), "image") {
			g.image(n, words, at)
		}
	case atom.H1:
		if t := Clean(inner(n), MaxValueRunes); t != "" && !at.absent && len(g.page.Headings) < maxHeadings {
			g.page.Headings = append(g.page.Headings, t)
		}
	case atom.Picture:
		at.picture = n
	case atom.A:
		at = g.anchor(n, at)
	case atom.Img:
		g.image(n, words, at)
	}
	g.background(n, words, at)
	from := len(g.page.Metas)
	g.microdata(n)
	g.owned(n, from, at)
	return at, true
}
