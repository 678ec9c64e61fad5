package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// sight describes something that is drawn at a place.
func (g *gatherer) sight(n *html.Node, words []string, at place) Image {
	g.images++
	// A logo leads home in the same window; what opens another one is a bar of the house's other sites.
	home := at.home && (!at.window || at.logoNode != nil || has(words, logoWords))
	im := Image{
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
		Excluded:  at.excluded || at.soft && !has(words, logoWords) || !home && (at.crowd || isCrowd(words)),
		Hidden:    at.hidden,
		Narrow:    at.narrow,
		Scheme:    at.scheme,
		Order:     g.images,
	}
	return im
}

// topWords are the visible words of a page within which something stands at its top, on pages that do not
// say where their header is: a menu has fewer.
const topWords = 60

// box is what the images of one logo share: the link around them, or what says logo, or the parent.
func (at place) box(n *html.Node) *html.Node {
	switch {
	case at.linkNode != nil:
		return at.linkNode
	case at.logoNode != nil:
		return at.logoNode
	}
	return n.Parent
}

// image takes an img element in, or another one that shows a file.
func (g *gatherer) image(n *html.Node, words []string, at place) {
	if len(g.page.Images) >= MaxImages {
		return
	}
	im := g.sight(n, words, at)
	alt := Attr(n, "alt")
	for _, name := range []string{"aria-label", "title"} {
		if alt == "" {
			alt = Attr(n, name)
		}
	}
	im.Alt = clean(alt, maxLinkText)
	im.Home = im.Home || g.told(at, im.Alt)
	im.Large = largeSource(g.page, n)
	if im.URL = g.imageURL(n); im.URL == nil {
		im.URL = im.Large.URL
	}
	if im.URL != nil {
		im.Part = part(Attr(n, "src"))
		g.page.Images = append(g.page.Images, im)
	}
	g.variants(im, at.picture)
}

// part is the part of a drawing that a URL asks for: logo in /sprite.svg#logo.
func part(ref string) string {
	ref = strings.TrimSpace(ref)
	file, id, _ := strings.Cut(ref[:min(len(ref), MaxURLBytes)], "#")
	if strings.HasPrefix(file, "data:") || !strings.HasSuffix(file, ".svg") || len(id) > maxPart {
		return ""
	}
	return id
}

const maxPart = 100 // bytes

// maxSources bounds the children of a picture element that are asked for files, white space among them.
const maxSources = 48

// largeSource is the largest file that an img and the sources of its picture element offer, and its width in
// pixels, 0 unknown.
func largeSource(p *Page, n *html.Node) Source {
	var out Source
	take := func(srcset string) {
		if ref, size := largest(srcset); size > float64(out.Width) {
			if u := p.Resolve(ref); u != nil && size > 1 {
				out = Source{u, int(min(size, maxSize))}
			}
		}
	}
	for _, name := range []string{"srcset", "data-srcset", "data-lazy-srcset"} {
		take(Attr(n, name))
	}
	if n.Parent == nil || n.Parent.DataAtom != atom.Picture {
		return out
	}
	for c, left := n.Parent.FirstChild, maxSources; c != nil && left > 0; c, left = c.NextSibling, left-1 {
		// Formats that are not read here are passed over.
		if c.DataAtom == atom.Source && !strings.Contains(Attr(c, "type"), "avif") && ColorScheme(Attr(c, "media")) == "" {
			take(Attr(c, "srcset"))
			take(Attr(c, "data-srcset"))
		}
	}
	return out
}

// variants adds what a picture element offers for dark and light pages.
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
		v.URL, v.Scheme, v.Large = u, scheme, Source{}
		g.page.Images = append(g.page.Images, v)
	}
}

// maxDrawingParts bounds the parts of a drawing that are asked for its name, which is the first of them.
const maxDrawingParts = 100

// drawing takes an svg element in.
func (g *gatherer) drawing(n *html.Node, words []string, at place) {
	if len(g.page.Drawings) >= MaxDrawings {
		return
	}
	alt := Attr(n, "aria-label")
	named, left := false, maxDrawingParts
	for c := n.FirstChild; c != nil && left > 0; c, left = c.NextSibling, left-1 {
		switch {
		case c.Type != html.ElementNode:
		case c.Data == "title" && alt == "":
			alt = inner(c)
		case c.Data == "use" && !named: // the name of what it draws
			named = true
			_, id, _ := strings.Cut(Attr(c, "href")+namespaced(c, "xlink", "href"), "#")
			words = append(slices.Clone(words), SplitWords(id[:min(len(id), maxPart)])...)
		}
	}
	im := g.sight(n, words, at)
	im.Alt = clean(alt, maxLinkText)
	im.Home = im.Home || g.told(at, im.Alt)
	if file := g.framed(n); file == nil {
		g.page.Drawings = append(g.page.Drawings, im)
	} else if len(g.page.Images) < MaxImages {
		im.URL = file
		g.page.Images = append(g.page.Images, im)
	}
}

// maxFramedNodes bounds the elements of a drawing that is but a frame around a file.
const maxFramedNodes = 12

// framed is the file that a drawing shows and nothing else beside it: pages put an image into an svg so that
// old browsers show another one. It is nil for every other drawing.
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
				ref := Attr(c, "href")
				if ref == "" {
					ref = namespaced(c, "xlink", "href")
				}
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

// ground takes an element in that may show a logo as its background: one that says logo, or a link home,
// with no image in it.
func (g *gatherer) ground(n *html.Node, words []string, at place) {
	if len(g.page.Grounds) >= MaxGrounds || n.DataAtom == atom.Img || n.DataAtom == atom.Picture {
		return
	}
	if !has(words, logoWords) && !(n.DataAtom == atom.A && at.home) || holdsPicture(n) {
		return
	}
	im := g.sight(n, words, at)
	im.Alt = clean(Attr(n, "aria-label"), maxLinkText)
	if im.Alt == "" {
		im.Alt = clean(inner(n), maxLinkText)
	}
	if at.logoNode == nil && at.inner && isHomeEntry(im.Alt) {
		return // an entry of a menu, whose background is that of them all
	}
	g.page.Grounds = append(g.page.Grounds, im)
}

// maxGroundNodes bounds the nodes of an element that is a logo; a larger one is a part of the page.
const maxGroundNodes = 30

// holdsPicture reports whether an element holds a picture of its own, or too much to be a logo.
func holdsPicture(n *html.Node) bool {
	left := maxGroundNodes
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

// maxSrcset bounds the candidates read of a srcset.
const maxSrcset = 40

// largest returns the address with the largest descriptor of a srcset, and that: pixels, or a density.
func largest(srcset string) (best string, bestSize float64) {
	bestSize = -1
	for i, part := range strings.Split(srcset, ", ") {
		if i >= maxSrcset {
			break
		}
		fields := strings.Fields(strings.Trim(part, ", "))
		if len(fields) == 0 {
			continue
		}
		size := 1.0
		if len(fields) > 1 {
			if v, err := strconv.ParseFloat(strings.TrimRight(fields[1], "wxh"), 64); err == nil {
				size = v
			}
		}
		if size > bestSize {
			best, bestSize = fields[0], size
		}
	}
	return best, bestSize
}

// pixels reads a width or height attribute, 0 when it is none.
func pixels(text string) int {
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "px"), 64)
	if err != nil || n < 1 || n > 100_000 {
		return 0
	}
	return int(n)
}
