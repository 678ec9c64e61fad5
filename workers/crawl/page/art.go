package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// describe returns the Image of an element shown at a place.
func (g *gatherer) describe(n *html.Node, words []string, at place) Image {
	g.images++
	// A logo leads home in the same window; a link that opens another window is in a bar of the company's other sites.
	home := at.home && (!at.window || at.logoNode != nil || has(words, logoWords))
	return Image{
		Node:      n,
		Box:       at.box(n),
		Tokens:    append(slices.Clone(words), ancestorTokens(n)...),
		Own:       words,
		Width:     pixels(Attr(n, "width")),
		Height:    pixels(Attr(n, "height")),
		Zone:      at.zone,
		Top:       at.zone == Body && g.page.Words < topWords && len(g.page.Headings) == 0 && (home || !at.inner),
		Home:      home,
		Sister:    home && at.link != nil && g.sister(at.link.URL),
		Linked:    at.link != nil,
		Foreign:   at.foreign,
		LinkLabel: at.label,
		Excluded:  at.excluded || at.soft && !has(words, logoWords) || !home && (at.logoWall || isLogoWall(words)),
		Hidden:    at.hidden,
		Narrow:    at.narrow,
		Scheme:    at.scheme,
		Order:     g.images,
	}
}

// topWords is the number of visible words within which an element is at the top
// of a page without a marked header: a menu has fewer.
const topWords = 60

// box returns the element shared by the images of one logo: the link around
// them, the element named logo, or the parent.
func (at place) box(n *html.Node) *html.Node {
	switch {
	case at.linkNode != nil:
		return at.linkNode
	case at.logoNode != nil:
		return at.logoNode
	}
	return n.Parent
}

// image adds an img element, or another one that shows a file.
func (g *gatherer) image(n *html.Node, words []string, at place) {
	if len(g.page.Images) >= MaxImages {
		return
	}
	im := g.describe(n, words, at)
	im.Alt = Clean(cmp.Or(Attr(n, "alt"), Attr(n, "aria-label"), Attr(n, "title")), maxLinkText)
	im.Home = im.Home || g.describedAsHome(at, im.Alt)
	g.setSources(&im, n)
	im.URL = g.imageURL(n)
	if im.URL == nil || im.Large.URL != nil && LastResort(im.URL.Path) && !LastResort(im.Large.URL.Path) {
		im.URL = im.Large.URL
	}
	if im.URL != nil {
		im.Part = part(Attr(n, "src"))
		g.page.Images = append(g.page.Images, im)
	}
	g.variants(im, at.picture)
}

// part returns the part of an SVG file in a URL: logo in /sprite.svg#logo.
func part(ref string) string {
	ref = strings.TrimSpace(ref)
	file, id, _ := strings.Cut(ref[:min(len(ref), MaxURLBytes)], "#")
	if strings.HasPrefix(file, "data:") || !strings.HasSuffix(file, ".svg") || len(id) > maxPart {
		return ""
	}
	return id
}

const maxPart = 100 // bytes

// variants adds the variants of a picture element for dark and light pages.
func (g *gatherer) variants(im Image, picture *html.Node) {
	if picture == nil {
		return
	}
	for c, left := picture.FirstChild, maxSources; c != nil && left > 0; c, left = c.NextSibling, left-1 {
		if c.Type != html.ElementNode || c.DataAtom != atom.Source || len(g.page.Images) >= MaxImages {
			continue
		}
		scheme := ColorScheme(Attr(c, "media"))
		best, _ := largest(Attr(c, "srcset"))
		u := g.page.Resolve(best)
		if scheme == "" || u == nil {
			continue
		}
		v := im
		v.URL, v.Scheme, v.Large, v.Larger = u, scheme, Source{}, nil
		g.page.Images = append(g.page.Images, v)
	}
}

const maxSVGParts = 100 // limits the children of an svg element that are searched for its name

func (g *gatherer) inlineSVG(n *html.Node, words []string, at place) {
	if len(g.page.InlineSVGs) >= MaxInlineSVGs {
		return
	}
	if !at.excluded && !at.soft && !at.logoWall {
		g.symbols(n, maxSVGParts)
	}
	alt := Attr(n, "aria-label")
	named, left := false, maxSVGParts
	for c := n.FirstChild; c != nil && left > 0; c, left = c.NextSibling, left-1 {
		switch {
		case c.Type != html.ElementNode:
		case c.Data == "title" && alt == "":
			alt = inner(c)
		case c.Data == "use" && !named: // the name of the symbol that it uses
			named = true
			_, id, _ := strings.Cut(Attr(c, "href")+namespaced(c, "xlink", "href"), "#")
			words = append(slices.Clone(words), SplitWords(id[:min(len(id), maxPart)])...)
		}
	}
	im := g.describe(n, words, at)
	im.Alt = Clean(alt, maxLinkText)
	im.Home = im.Home || g.describedAsHome(at, im.Alt)
	if file := g.framed(n); file == nil {
		g.page.InlineSVGs = append(g.page.InlineSVGs, im)
	} else if len(g.page.Images) < MaxImages {
		im.URL = file
		g.page.Images = append(g.page.Images, im)
	}
}

// symbols adds the symbols of an svg element, or of its definitions, that are named logo.
func (g *gatherer) symbols(n *html.Node, left int) {
	for c := n.FirstChild; c != nil && left > 0 && len(g.page.Symbols) < maxSymbols; c, left = c.NextSibling, left-1 {
		switch id := Attr(c, "id"); {
		case c.Type != html.ElementNode:
		case c.Data == "defs" && n.DataAtom == atom.Svg:
			g.symbols(c, left)
		case c.Data == "symbol" && len(id) <= maxPart && has(SplitWords(id), logoWords):
			g.page.Symbols = append(g.page.Symbols, id)
		}
	}
}

const maxFramedNodes = 12 // limits the elements of an svg that only wraps a file

// framed returns the file that is the only content of an svg element: pages wrap an image in an svg so that old
// browsers show another one. It returns nil for every other svg element.
func (g *gatherer) framed(svg *html.Node) *url.URL {
	var file *url.URL
	left := maxFramedNodes
	var only func(*html.Node) bool
	only = func(n *html.Node) bool {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.Type != html.ElementNode {
				continue
			}
			left--
			switch c.Data {
			case "image":
				ref := cmp.Or(Attr(c, "href"), namespaced(c, "xlink", "href"))
				if file != nil || g.page.Resolve(ref) == nil {
					return false
				}
				file = g.page.Resolve(ref)
			case "g", "a", "switch":
				if left < 0 || !only(c) {
					return false
				}
			case "title", "desc", "metadata", "defs", "style":
			default:
				return false
			}
		}
		return left >= 0
	}
	if !only(svg) {
		return nil
	}
	return file
}

// background adds an element that may have a logo as its background: one named
// logo, or a link home, that contains no image.
func (g *gatherer) background(n *html.Node, words []string, at place) {
	if len(g.page.Backgrounds) >= MaxBackgrounds || n.DataAtom == atom.Img || n.DataAtom == atom.Picture {
		return
	}
	if !has(words, logoWords) && !(n.DataAtom == atom.A && at.home) || containsImage(n) {
		return
	}
	im := g.describe(n, words, at)
	im.Alt = cmp.Or(Clean(Attr(n, "aria-label"), maxLinkText), Clean(inner(n), maxLinkText))
	if at.logoNode == nil && at.inner && (slices.Contains(homeLabels, strings.ToLower(im.Alt)) || saysHome(im.Alt)) {
		return // an entry of a menu, which shares its background with the others
	}
	g.page.Backgrounds = append(g.page.Backgrounds, im)
}

// maxBackgroundNodes limits the nodes of an element that is a logo; a larger one is a section of the page.
const maxBackgroundNodes = 30

// containsImage reports whether an element contains an image, or too much to be a logo.
func containsImage(n *html.Node) bool {
	left := maxBackgroundNodes
	var walk func(*html.Node) bool
	walk = func(n *html.Node) bool {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if left--; left < 0 {
				return true
			}
			if c.Type != html.ElementNode {
				continue
			}
			switch c.DataAtom {
			case atom.Img, atom.Svg, atom.Object, atom.Embed, atom.Picture, atom.H1, atom.Form:
				return c.DataAtom != atom.H1 || walk(c)
			}
			if walk(c) {
				return true
			}
		}
		return false
	}
	return walk(n)
}

// ColorScheme reads prefers-color-scheme out of a media query.
func ColorScheme(media string) string {
	media = strings.ToLower(strings.ReplaceAll(media, " ", ""))
	switch {
	case strings.Contains(media, "prefers-color-scheme:dark"):
		return "dark"
	case strings.Contains(media, "prefers-color-scheme:light"):
		return "light"
	}
	return ""
}

// pixels parses a width or height attribute; it returns 0 if the attribute is invalid.
func pixels(text string) int {
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "px"), 64)
	if err != nil || n < 1 || n > 100_000 {
		return 0
	}
	return int(n)
}
