package page

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// localHome is the path of a home page in one language: /en, /de-de/, /en_us.
var localHome = regexp.MustCompile(`(?i)^/([a-z]{2}([-_][a-z]{2})?(/[a-z]{2})?)?/?$`)

var homePaths = []string{"/index.html", "/index.htm", "/index.php", "/home", "/home/"}

// home says whether a link leads to the site's home page.
func (g *gatherer) home(u *url.URL, rels []string) bool {
	if slices.Contains(rels, "home") {
		return true
	}
	if u == nil || !g.site.Own(u) || u.RawQuery != "" {
		return false
	}
	path := u.EscapedPath()
	switch {
	case localHome.MatchString(path), slices.Contains(homePaths, strings.ToLower(path)):
		return true
	case g.page.URL != nil && u.Hostname() == g.page.URL.Hostname():
		return path == g.page.URL.EscapedPath() && u.Fragment == ""
	}
	return false
}

// anchor takes a link in and returns the place of its children.
func (g *gatherer) anchor(n *html.Node, at place) place {
	href := strings.TrimSpace(attr(n, "href"))
	rels := strings.Fields(strings.ToLower(attr(n, "rel")))
	u := g.page.Resolve(href)
	at.link = &Anchor{URL: u, Me: slices.Contains(rels, "me"), Zone: at.zone}
	at.home = g.home(u, rels)
	at.foreign = u != nil && !g.site.Own(u)
	at.label = clean(attr(n, "aria-label"), maxLinkText)
	if at.label == "" {
		at.label = clean(attr(n, "title"), maxLinkText)
	}
	return at
}

func (g *gatherer) endLink(a *Anchor) {
	if a.URL == nil || len(g.page.Anchors) >= MaxAnchors {
		return
	}
	a.Text = clean(a.Text, maxLinkText)
	g.page.Anchors = append(g.page.Anchors, *a)
}

// lazySources are the attributes that lazily loaded pictures keep their address in.
var lazySources = []string{"data-src", "data-lazy-src", "data-original", "data-lazy", "data-srcset"}

// image takes an img element in.
func (g *gatherer) image(n *html.Node, words []string, at place) {
	g.images++
	if len(g.page.Images) >= MaxImages {
		return
	}
	alt := attr(n, "alt")
	if alt == "" {
		alt = attr(n, "title")
	}
	im := Image{
		Alt:       clean(alt, maxLinkText),
		Tokens:    append(words, ancestorTokens(n)...),
		Width:     pixels(attr(n, "width")),
		Height:    pixels(attr(n, "height")),
		Zone:      at.zone,
		Home:      at.home,
		Linked:    at.link != nil,
		Foreign:   at.foreign,
		LinkLabel: at.label,
		Excluded:  at.excluded,
		Hidden:    at.hidden,
		Order:     g.images,
	}
	if im.URL = g.imageURL(n); im.URL != nil {
		g.page.Images = append(g.page.Images, im)
	}
	g.variants(im, at.picture)
}

// imageURL prefers a real address over an embedded placeholder, and src over the rest.
func (g *gatherer) imageURL(n *html.Node) *url.URL {
	src := resolvePicture(g.page.Base, attr(n, "src"))
	if src != nil && src.Scheme != "data" {
		return src
	}
	for _, name := range lazySources {
		value := attr(n, name)
		if name == "data-srcset" {
			value = largest(value)
		}
		if u := g.page.Resolve(value); u != nil {
			return u
		}
	}
	if u := g.page.Resolve(largest(attr(n, "srcset"))); u != nil {
		return u
	}
	return src
}

// variants adds what a picture element offers for dark and light pages.
func (g *gatherer) variants(im Image, picture *html.Node) {
	if picture == nil {
		return
	}
	for c := picture.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.ElementNode || c.DataAtom != atom.Source || len(g.page.Images) >= MaxImages {
			continue
		}
		scheme := colorScheme(attr(c, "media"))
		u := g.page.Resolve(largest(attr(c, "srcset")))
		if scheme == "" || u == nil {
			continue
		}
		v := im
		v.URL, v.Scheme = u, scheme
		g.page.Images = append(g.page.Images, v)
	}
}

// colorScheme reads prefers-color-scheme out of a media query.
func colorScheme(media string) string {
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

// largest returns the address with the largest descriptor of a srcset.
func largest(srcset string) string {
	best, bestSize := "", -1.0
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
	return best
}

// pixels reads a width or height attribute, 0 when it is none.
func pixels(text string) int {
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "px"), 64)
	if err != nil || n < 1 || n > 100_000 {
		return 0
	}
	return int(n)
}
