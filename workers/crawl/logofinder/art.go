package logofinder

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/inlinesvg"
	"letterhead/workers/crawl/page"
)

// Scores of images on the page: estimates, some of them adjusted on saved pages.
const (
	homeScore       = 50.0 // in a link to the home page
	headerPlus      = 20.0 // … in the header
	topPlus         = 10.0 // … at the top of a page without one
	headerLogoScore = 40.0 // in the header, in an element called logo, and not in a link home
	headerScore     = 25.0
	namedScore      = 25.0 // anywhere, called logo
	unlinkedPenalty = 15.0
	namelessPenalty = 15.0
	sisterPenalty   = 15.0
	footerPenalty   = 15.0
	bodyPenalty     = 10.0
	hiddenPenalty   = 20.0
	narrowPenalty   = 6.0
	brandAltScore   = 20.0
	partAltScore    = 12.0
	brandFileScore  = 6.0
	logoWordScore   = 8.0 // its own class or id
	logoBoxScore    = 6.0 // the class or id of an ancestor
	logoFileScore   = 6.0
	logoAltScore    = 5.0
	firstScore      = 12.0
	footerToo       = 15.0
	areaScore       = 5.0
	vectorScore     = 3.0
	largePenalty    = 20.0
	tinyPenalty     = 12.0
	iconPenalty     = 25.0
	photoPenalty    = 8.0
	agreementScore  = 10.0
	minMarkScore    = 45.0
	tinySide        = 40      // the declared size in pixels below which header art is a menu icon
	largeArea       = 200_000 // the declared square pixels of a share image or a stage image
	minArea         = 1000
)

const (
	maxInlineSVGs  = 24 // limits the svg elements of a page that are resolved
	maxBackgrounds = 24 // limits the elements whose backgrounds are looked up
	maxAncestors   = 12 // limits the ancestors of an element that are checked for styles that hide it
)

var (
	// photoFile matches the file format of photographs: logos have flat colors, and usually no background.
	photoFile = lazyregexp.New(`(?i)\.jpe?g$`)
	// bannerFile matches files cropped for or named after the head of a page.
	bannerFile = lazyregexp.New(`(?i)^cropped-|header|banner`)
	// themeHeader matches images that themes provide for the head of a page.
	themeHeader = lazyregexp.New(`(?i)/themes/.*/headers?/`)
)

const (
	// bannerWidth and bannerAspect are the minimum size of a photograph across the page.
	bannerWidth  = 600 // CSS pixels
	bannerAspect = 3.0
)

// banner reports whether something is an image across the head of a page, not a mark: a photograph, by its file or
// shape, that is named only by the page's own title.
func (c *collector) banner(s pageImage) bool {
	name := fileName(s.file)
	if s.data == nil && themeHeader.MatchString(s.file.Path) {
		return true
	}
	if !photoFile.MatchString(name) || says(s.Own) || says(page.SplitWords(name)) {
		return false
	}
	across := s.width > bannerWidth && s.width > bannerAspect*s.height || s.width*s.height > largeArea
	return bannerFile.MatchString(name) && (across || !c.brand.inText(name)) || across && !c.brand.inText(name)
}

// pageImage is something visible on the page, with the data for a candidate.
type pageImage struct {
	page.Image
	file          *url.URL
	data          []byte
	part          *inlinesvg.Sprite
	crop          *Crop
	width, height float64 // CSS pixels, 0 unknown
	method        string
}

// art adds the images that the page shows as its logo.
func (c *collector) art() {
	var all []pageImage
	for _, im := range c.in.Page.Images {
		if s, ok := c.image(im); ok {
			all = append(all, s)
		}
	}
	all = append(all, c.inlineSVGs()...)
	all = append(all, c.backgrounds()...)
	slices.SortStableFunc(all, func(a, b pageImage) int { return a.Order - b.Order })
	again := map[string]bool{} // URLs that the footer also shows
	for _, s := range all {
		if s.Zone == page.Footer {
			again[s.file.String()] = true
		}
	}
	share := c.shareImages()
	var found []Candidate
	var first any // the box of the first in the document
	for _, s := range all {
		x, ok := c.weigh(s)
		if !ok {
			continue
		}
		if first == nil && !s.Hidden && s.Zone != page.Footer {
			first = s.Box
		}
		if first == any(s.Box) {
			x.add("first on the page", firstScore)
		}
		if s.Zone != page.Footer && again[s.file.String()] {
			x.add(signFooterToo, footerToo)
		}
		edge := s.Zone == page.Header || s.Zone == page.Nav
		if share[uploaded(s.file)] && !s.Home && !(edge && says(s.Tokens)) {
			continue
		}
		if x.Score >= minMarkScore {
			found = append(found, x)
		}
	}
	c.list = append(c.list, c.plausible(append(found, c.symbols()...))...)
}

// plausible drops images that may belong to others if there is a clear logo: those that neither share a box with the
// best one nor name the brand, nor link home and are called logo.
func (c *collector) plausible(found []Candidate) []Candidate {
	best := -1
	for i := range found {
		if best < 0 || found[i].Score > found[best].Score {
			best = i
		}
	}
	var out []Candidate
	for i, x := range found {
		named := x.has(signLogoOwn, signLogoBox) && strings.HasPrefix(x.Method, methodHome)
		if x.footer && i != best && !x.has(signBrandFile, signDrawn) {
			continue // its alt may name the brand even if a theme or an owner put it there
		}
		named = named || x.has(signBrandAlt, signPartAlt, signBrandFile, signFooterToo)
		if i == best || x.box == found[best].box || named {
			out = append(out, x)
		}
	}
	return out
}

const methodHome = "home link " // the prefix of the methods of images in a link to the home page

const (
	signBrandAlt  = "alt is the brand"
	signPartAlt   = "alt holds the brand"
	signBrandFile = "file name holds the brand"
	signLogoOwn   = "class says logo"
	signLogoBox   = "inside a logo"
	signLogoFile  = "file name says logo"
	signVector    = "vector"
	signDrawn     = "drawn on the page"
	signFooterToo = "in the footer too"
)

// shareImages has the share images of the page, as uploaded returns them.
func (c *collector) shareImages() map[string]bool {
	share := map[string]bool{}
	for _, key := range []string{"og:image", "twitter:image"} {
		if u := c.in.Page.Resolve(c.in.Page.Meta(key)); u != nil {
			share[uploaded(u)] = true
		}
	}
	return share
}

// image returns the pageImage of an element that shows a file.
func (c *collector) image(im page.Image) (pageImage, bool) {
	s := pageImage{Image: im, file: im.URL, width: float64(im.Width), height: float64(im.Height), method: "picture"}
	if im.Part != "" {
		u := *im.URL
		u.Fragment = im.Part
		s.file, s.part = &u, &inlinesvg.Sprite{URL: im.URL, ID: im.Part}
	}
	return s, c.possible(im) && im.URL != nil
}

// possible reports whether something on the page can be its logo.
func (c *collector) possible(im page.Image) bool {
	if im.Foreign || im.Excluded && !c.brand.surely(im) {
		return false
	}
	return !c.brand.stranger(im)
}

// inlineSVGs resolves the svg elements that can be the logo.
func (c *collector) inlineSVGs() []pageImage {
	var out []pageImage
	resolver := inlinesvg.NewResolver(c.in.Page.Root, c.in.Page.Base, c.in.Style)
	left := maxInlineSVGs
	for _, im := range c.in.Page.InlineSVGs {
		edge := im.Zone == page.Header || im.Zone == page.Nav || im.Top
		if !c.possible(im) || left == 0 ||
			!(im.Home || says(im.Tokens) || edge && c.brand.fit(im.Alt) > 0 || edge && !im.Linked) {
			continue
		}
		left--
		d, err := resolver.Resolve(im.Node)
		if err != nil {
			continue
		}
		s := pageImage{Image: im, width: d.Width, height: d.Height, method: "drawing"}
		if d.Sprite != nil {
			u := *d.Sprite.URL
			u.Fragment = d.Sprite.ID
			s.file, s.part = &u, d.Sprite
			s.method = "drawing in a sprite"
		} else {
			s.file, s.data = c.inPage(d.SVG), d.SVG
		}
		out = append(out, s)
	}
	return out
}

// symbols resolves the symbols named logo that the page defines, whether it shows them or not: a script may. Besides
// words for a logo, a name consists of the brand's name, or of nothing if there is one such symbol: several, or one
// with another word or a number, may be the logos of others.
func (c *collector) symbols() []Candidate {
	var out []Candidate
	resolver := inlinesvg.NewResolver(c.in.Page.Root, c.in.Page.Base, c.in.Style)
	nameless := 0
	for _, id := range c.in.Page.Symbols {
		if symbolSubject(id) == "" {
			nameless++
		}
	}
	for _, id := range c.in.Page.Symbols {
		words, subject := page.SplitWords(id), symbolSubject(id)
		own := subject != "" && c.brand.fit(subject) >= fullFit
		if !own && (subject != "" || nameless > 1) {
			continue
		}
		d, err := resolver.ResolveSymbol(id)
		if err != nil || d.SVG == nil {
			continue
		}
		x := Candidate{URL: c.inPage(d.SVG), Kind: Mark, Method: "symbol named logo", Words: words, Data: d.SVG}
		x.add(x.Method, minMarkScore)
		if own {
			x.add(signBrandFile, brandFileScore)
		}
		out = append(out, x)
	}
	return out
}

// symbolSubject returns the id of a symbol without the words for a logo and its forms.
func symbolSubject(id string) string {
	words := slices.DeleteFunc(page.SplitWords(id), func(w string) bool { return slices.Contains(symbolWords, w) })
	return withoutWords(strings.Join(words, " "))
}

// symbolWords are words of the id of a symbol that do not name a company, besides decoration.
var symbolWords = tables.List("symbolWords")

// inPage returns the URL of an inline SVG. Equal ones have the same URL.
func (c *collector) inPage(data []byte) *url.URL {
	u := url.URL{Scheme: "https", Host: c.in.Site.Domain, Path: "/"}
	if c.in.Page.URL != nil {
		u = *c.in.Page.URL
	}
	sum := sha256.Sum256(data)
	u.Fragment = "drawing-" + hex.EncodeToString(sum[:4])
	return &u
}

// hidden reports whether stylesheets hide an element.
func (c *collector) hidden(n *html.Node) bool {
	if c.in.Style == nil {
		return false
	}
	for i := 0; i < maxAncestors && n != nil && n.Type == html.ElementNode; i, n = i+1, n.Parent {
		if c.in.Style.Value(n, "display") == "none" {
			return true
		}
	}
	return false
}

// weigh adds up the signs that something on the page is its logo. ok is false if it cannot be.
func (c *collector) weigh(s pageImage) (x Candidate, ok bool) {
	if c.banner(s) {
		return x, false
	}
	x = Candidate{
		URL: s.file, Kind: Mark, Scheme: s.Scheme, Words: slices.Clone(s.Own), Side: int(max(s.width, s.height)),
		box: s.Box, Data: s.data, Part: s.part, Crop: s.crop, footer: s.Zone == page.Footer,
		node: s.Node,
	}
	if s.part == nil && s.crop == nil && s.data == nil {
		x.Larger = larger(s.Image)
	}
	edge := s.Zone == page.Header || s.Zone == page.Nav || s.Top
	fileWords := page.SplitWords(fileName(s.URL))
	own, inBox, inFile := says(s.Own), says(s.Tokens), says(fileWords)
	fit := max(c.brand.fit(withoutWords(s.Alt)), c.brand.fit(withoutWords(s.LinkLabel)))
	switch {
	case s.Home:
		x.Method = methodHome + s.method
		x.add(x.Method, homeScore)
	case edge && (inBox || fit >= fullFit):
		x.Method = "header " + s.method + " named logo"
		x.add(x.Method, headerLogoScore)
	case edge:
		x.Method = "header " + s.method
		x.add(x.Method, headerScore)
		switch {
		case s.Linked:
		case fit > 0:
			x.add("in no link", -unlinkedPenalty/2)
		default:
			x.add("in no link", -unlinkedPenalty)
		}
	case !s.Top && fit == 0 && !c.brand.inText(fileName(s.URL)):
		return x, false // text may contain anyone's logo
	case inBox || inFile || strings.Contains(strings.ToLower(s.Alt), "logo"):
		x.Method = s.method + " named logo"
		x.add(x.Method, namedScore)
	case fit >= fullFit && c.brand.inText(fileName(s.URL)):
		x.Method = s.method + " named as the brand"
		x.add(x.Method, namedScore)
	default:
		return x, false
	}
	if s.Sister {
		x.add("leads to another part of the site", -sisterPenalty)
	}
	switch {
	case s.Zone == page.Header, s.Zone == page.Nav:
		if s.Home {
			x.add("in the "+s.Zone.String(), headerPlus)
		}
	case s.Zone == page.Footer:
		x.add("in the footer", -footerPenalty)
	case s.Top:
		x.add("at the top", topPlus)
	default:
		x.add("in the body", -bodyPenalty)
		if !inBox && !inFile && fit == 0 && !c.brand.inText(fileName(s.URL)) {
			x.add("nothing names it", -namelessPenalty)
		}
	}
	c.weighWords(&x, s, fit, own, inBox, inFile)
	c.weighShape(&x, s, own || inBox || inFile || fit > 0)
	x.Words = append(x.Words, fileWords...)
	return x, true
}

// larger returns the files of an element that are better than its URL. A vector is better than any size.
func larger(im page.Image) (out []*url.URL) {
	for _, u := range im.Larger {
		if *u == *im.URL {
			break
		}
		if !page.LastResort(u.Path) && (isVector(u) || !isVector(im.URL)) {
			out = append(out, u)
		}
	}
	return out
}

// weighWords scores its words.
func (c *collector) weighWords(x *Candidate, s pageImage, fit float64, own, inBox, inFile bool) {
	switch {
	case fit >= fullFit:
		x.add(signBrandAlt, brandAltScore)
	case fit > 0:
		x.add(signPartAlt, partAltScore)
	}
	switch name := fileName(s.URL); {
	case c.brand.is(strings.TrimSuffix(name, path.Ext(name))):
		x.add(signBrandFile, 2*brandFileScore)
	case c.brand.inText(name):
		x.add(signBrandFile, brandFileScore)
	}
	if own {
		x.add(signLogoOwn, logoWordScore)
	} else if inBox {
		x.add(signLogoBox, logoBoxScore)
	}
	if inFile {
		x.add(signLogoFile, logoFileScore)
	}
	if strings.Contains(strings.ToLower(s.Alt), "logo") {
		x.add("alt says logo", logoAltScore)
	}
}

// weighShape scores how it is shown.
func (c *collector) weighShape(x *Candidate, s pageImage, named bool) {
	switch {
	case s.Hidden || c.hidden(s.Node):
		x.add("hidden", -hiddenPenalty)
	case s.Narrow:
		x.add("for small screens", -narrowPenalty)
	}
	area := s.width * s.height
	side := max(s.width, s.height)
	switch {
	case area > 0 && side < tinySide && !named:
		x.add("tiny", -iconPenalty)
	case area > 0 && side < tinySide:
		x.add("tiny", -tinyPenalty)
	case area > largeArea && says(s.Own):
		x.add("large for a logo", -largePenalty/2)
	case area > largeArea:
		x.add("large", -largePenalty)
	case area >= minArea:
		x.add("size of a logo", areaScore)
	}
	if photoFile.MatchString(fileName(s.URL)) {
		x.add("file of a photograph", -photoPenalty)
	}
	switch {
	case s.data != nil:
		x.add(signDrawn, vectorScore)
	case isVector(s.file):
		x.add(signVector, vectorScore)
	}
	if s.Scheme == "dark" {
		x.add("for dark pages", -otherSchemeMinus)
	}
	if !says(s.Own) && slices.ContainsFunc(s.Own, isToolWord) {
		x.add("called an icon", -iconPenalty)
	}
}
