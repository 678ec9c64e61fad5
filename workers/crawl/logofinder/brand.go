package logofinder

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("logofinder")

// brand holds the names of the site, to identify its images.
type brand struct {
	in    extract.Input
	names []string // folded
}

// Thresholds for the fit of a text with the brand, as returned by
// extract.Input.Fits, from which it is the name and not a coincidence.
const (
	fullFit = 0.9
	partFit = 0.6
	minName = 3 // the number of letters from which a name within a text is not a coincidence
)

func newBrand(in extract.Input) brand {
	b := brand{in: in}
	add := func(name string) {
		if f := site.Letters(name); len(f) >= 2 && len(f) <= 60 && !slices.Contains(b.names, f) {
			b.names = append(b.names, f)
		}
	}
	for _, label := range in.Site.Labels() {
		add(label)
	}
	for _, key := range []string{"og:site_name", "application-name", "apple-mobile-web-app-title"} {
		add(in.Page.Meta(key))
	}
	if in.Manifest != nil {
		add(in.Manifest.Name)
		add(in.Manifest.ShortName)
	}
	// A name that only an image gives would prove that image right.
	if name, agreed := extract.Name(in); name.Value != "" && (agreed || !strings.Contains(name.Method, "alt")) {
		add(name.Value)
	}
	return b
}

// fit returns how well a text names the brand: 1 if it is its name, 0 if it is unrelated.
func (b brand) fit(text string) float64 {
	f := site.Letters(text)
	if f == "" {
		return 0
	}
	if slices.Contains(b.names, f) {
		return 1
	}
	best := b.in.Fits(text)
	for _, name := range b.names {
		if len(name) >= minName && strings.Contains(f, name) {
			best = max(best, partFit)
		}
	}
	if best < partFit {
		return 0
	}
	return best
}

// is reports whether a text is exactly one of the brand's names.
func (b brand) is(text string) bool {
	f := site.Letters(text)
	return len(f) >= minName && slices.Contains(b.names, f)
}

// inText reports whether a file name contains one of the brand's names.
func (b brand) inText(text string) bool {
	f := site.Letters(text)
	return slices.ContainsFunc(b.names,
		func(name string) bool { return len(name) >= minName && strings.Contains(f, name) })
}

// decoration matches words of an alt text or a file name other than the brand.
var decoration = lazyregexp.New(`(?i)\b(` + tables.Any("decoration") + `)\b`)

func withoutWords(alt string) string {
	return page.Clean(strings.Trim(decoration.ReplaceAllString(alt, " "), " -–|:·,.'’"), 80)
}

// fileTalk matches words of a file name other than the subject: size, kind, colors.
var fileTalk = lazyregexp.New(`(?i)\b(` + tables.Any("fileTalk") + `)\b`)

const maxStrangerWords = 3 // the maximum number of words of a name; a longer text is a sentence

// surely reports whether an image is certainly the brand's own: in a link home
// at the head of the page, with the brand's full name.
func (b brand) surely(im page.Image) bool {
	return im.Home && atHead(im) && b.fit(withoutWords(im.Alt)) >= fullFit
}

// placed reports whether an image has the place and the names of the site's own logo: a file named logo, in the header,
// and in a link home or an element named logo. Such an image may have an alt that was copied from another page. The
// files of a row of customers in a header are named logo-1 or logo-eu.
func placed(im page.Image, name string) bool {
	return says(page.SplitWords(name)) && (im.Zone == page.Header || im.Zone == page.Nav) &&
		(im.Home || says(im.Tokens) && withoutWords(strings.ReplaceAll(name, "_", " ")) == "")
}

func atHead(im page.Image) bool { return im.Zone == page.Header || im.Zone == page.Nav || im.Top }

// stranger reports whether an image on the page is marked as something other than the brand's logo: "Visa logo" on a
// page of Acme, a search icon, a network's button.
func (b brand) stranger(im page.Image) bool {
	file := fileName(im.URL)
	name := strings.TrimSuffix(file, path.Ext(file))
	fileWords := page.SplitWords(name)
	if !says(im.Own) && !says(fileWords) && (isSign(im.Own) || isSignFile(fileWords) && !b.inText(file)) {
		return true
	}
	if im.URL != nil && !says(im.Own) && !b.surely(im) &&
		(foreignFolder.MatchString(im.URL.Path) || pluginFolder.MatchString(im.URL.Path) && !says(fileWords)) {
		return true
	}
	rest := withoutWords(im.Alt)
	if rest == "" || b.fit(rest) > 0 || b.fit(withoutWords(im.LinkLabel)) >= fullFit ||
		placed(im, name) && !strings.Contains(site.Letters(file), site.Letters(rest)) {
		return false
	}
	words := page.SplitWords(rest)
	if len(words) > 0 && len(words) <= maxStrangerWords &&
		slices.ContainsFunc(words, func(w string) bool { return isTool(w) || slices.Contains(networks, w) }) {
		return true
	}
	// Below the page's head and outside of links home, a name belongs to another party even without a word such as
	// logo.
	below := !im.Home && im.Zone != page.Header && im.Zone != page.Nav
	if !below && !strings.Contains(strings.ToLower(im.Alt), "logo") || len(strings.Fields(rest)) > maxStrangerWords {
		return false
	}
	if im.Home && atHead(im) {
		return false // the name of a logo at the head of the page that links home is the brand's
	}
	if rest = fileTalk.ReplaceAllString(rest, " "); !strings.ContainsFunc(rest, unicode.IsLetter) {
		return false
	}
	// A name different from the domain's may still be the brand's own: the page may give it elsewhere.
	own := strings.ToLower(b.in.Page.Meta("og:site_name", "application-name") + " " + b.in.Page.Title)
	return b.in.Fits(rest) == 0 && !strings.Contains(own, strings.ToLower(rest))
}

// foreignFolder matches folders of images that are not the site's own marks. A folder called client may also be the
// source of the browser code, with all of the site's images below it.
var foreignFolder = lazyregexp.New(`(?i)/(` + tables.Any("foreignFolder") + `)/|/client/[^/]+$`)

// pluginFolder matches files of an extension of the content management system.
var pluginFolder = lazyregexp.New(`(?i)/wp-content/plugins/`)

// isSign reports whether words name an icon of a header: a tool, or the house of a link home.
func isSign(words []string) bool {
	return slices.ContainsFunc(words, isTool) ||
		slices.Contains(words, "home") && slices.ContainsFunc(words, isToolWord)
}

// isSignFile reports whether all words of a file name are words of an icon.
func isSignFile(words []string) bool {
	return isSign(words) && !slices.ContainsFunc(words, func(w string) bool {
		return !isTool(w) && !isToolWord(w) && w != "home" && !slices.Contains(lightInk, w) &&
			!slices.Contains(darkInk, w)
	})
}

// tools are images in headers other than a logo. networks are names of other sites.
var (
	tools    = tables.List("tools")
	networks = tables.List("networks")
	// toolWords are words of a class that mark an image as an icon, not a mark.
	toolWords = []string{"icon", "icons", "ico", "glyph", "btn", "button", "symbol"}
)

func isTool(w string) bool     { return slices.Contains(tools, w) }
func isToolWord(w string) bool { return slices.Contains(toolWords, w) }

// says reports whether words name a logo.
func says(words []string) bool { return slices.ContainsFunc(words, isLogoWord) }

var notLogos = tables.List("notLogos") // words that begin or end like logo but do not mean it

func isLogoWord(w string) bool {
	switch {
	case slices.Contains(notLogos, w):
		return false
	case strings.HasPrefix(w, "logo"), strings.HasSuffix(w, "logo"):
		return true
	}
	return w == "wordmark" || w == "brand" || w == "branding" || w == "brandmark"
}
