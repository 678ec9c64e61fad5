package page

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/lazyregexp"
)

// lazySources are the attributes with the URL of lazily loaded images.
var lazySources = []string{"data-src", "data-lazy-src", "data-original", "data-lazy", "data-image", "data-srcset",
	"data-lazy-srcset"}

var (
	// placeholderWords are words in the name of a placeholder file, whatever the rest of its name.
	placeholderWords = []string{"placeholder", "spacer", "lazyload", "lazyloading", "lazyloader"}
	blanks           = tables.List("blanks") // words in the name of such a file if the rest of the name is filler
	fillers          = tables.List("fillers")
	imageFile        = lazyregexp.New(`(?i)\.(svg|png|jpe?g|gif|webp)$`) // matches paths of images
)

// minImageBytes is the size in bytes below which an image in a data URL is a placeholder: a pixel, an empty SVG.
const minImageBytes = 150

// placeholder reports whether a URL names a placeholder image.
func (g *gatherer) placeholder(u *url.URL) bool {
	if u.Scheme == "data" {
		return len(u.Opaque) < minImageBytes
	}
	stem := strings.TrimSuffix(path.Base(u.Path), path.Ext(u.Path))
	words := SplitWords(stem)
	if len(words) == 0 || slices.Contains(g.site.Labels(), strings.ToLower(stem)) || has(words, logoWords) {
		return false
	}
	return has(words, placeholderWords) || has(words, blanks) && !slices.ContainsFunc(words,
		func(w string) bool { return !slices.Contains(blanks, w) && !slices.Contains(fillers, w) })
}

// imageURL returns the URL of an image, preferring a real URL to an embedded placeholder. A URL for lazy loading goes
// before src, which is a placeholder then. It returns nil if there are only placeholders.
func (g *gatherer) imageURL(n *html.Node) *url.URL {
	real := func(u *url.URL) bool { return u != nil && !g.placeholder(u) }
	for _, name := range lazySources {
		value := Attr(n, name)
		if strings.HasSuffix(name, "srcset") {
			value, _ = largest(value)
		}
		if u := g.page.Resolve(value); u != nil {
			return u
		}
	}
	best, _ := largest(Attr(n, "srcset"))
	ofSet := g.page.Resolve(best)
	if real(ofSet) && strings.HasSuffix(strings.ToLower(ofSet.Path), ".svg") {
		return ofSet // src is for browsers that know neither
	}
	name := "src"
	if n.DataAtom == atom.Object {
		name = "data"
	}
	src := resolveImage(g.page.Base, Attr(n, name))
	if real(src) && src.Scheme != "data" {
		return src
	}
	if real(ofSet) {
		return ofSet
	}
	if real(src) {
		return src
	}
	return g.lazyFile(n)
}

// lazyFile returns the image in any attribute of an element without src, from which the page's own script will load it.
func (g *gatherer) lazyFile(n *html.Node) *url.URL {
	for _, a := range n.Attr {
		if a.Namespace != "" || !strings.HasPrefix(a.Key, "data-") {
			continue
		}
		if u := g.page.Resolve(a.Val); u != nil && imageFile.MatchString(u.Path) && !g.placeholder(u) {
			return u
		}
	}
	return nil
}
