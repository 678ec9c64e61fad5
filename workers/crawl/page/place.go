package page

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/site"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("page")

// Words of class and id that identify containers.
var (
	headerWords   = tables.List("headerWords")
	footerWords   = []string{"footer", "sitefooter", "pagefooter", "colophon"}
	logoWords     = tables.List("logoWords")     // mark an element that is or contains a logo
	strangerWords = tables.List("strangerWords") // containers of images of others
	// toolWords are parts of a header with their own images. A logo among them is named as such.
	toolWords    = tables.List("toolWords")
	partWords    = tables.List("partWords")    // mark a header that belongs to a part of the page
	overlayWords = tables.List("overlayWords") // consent platforms and their layers over the page
	layerWords   = tables.List("layerWords")   // layers over the page, of the site or of others
)

// isOverlay reports whether an element is a third-party layer over the page: one that is named after a consent platform,
// or a dialog or layer that asks for consent. Content management systems use "cmp" for any component.
func (g *gatherer) isOverlay(n *html.Node, words []string) bool {
	role := strings.ToLower(Attr(n, "role"))
	dialog := n.DataAtom == atom.Dialog || role == "dialog" || role == "alertdialog" || Attr(n, "aria-modal") == "true"
	return (has(words, g.overlays) || slices.Contains(words, "cmp") && slices.Contains(words, "qc") ||
		(dialog || has(words, layerWords)) && g.asksConsent(n)) && !framesPage(n, dialog)
}

const (
	maxConsentNodes = 400 // limits the nodes within which a layer asks for consent
	maxConsentBytes = 600 // limits the text within which it does
	maxLayers       = 200 // limits the layers of a page that are searched for such a request
)

// consentText matches the sentence with which a layer asks for consent, in lower case, but not a bakery's cookies. Each
// such sentence contains one of consentStems, which are faster to find.
var (
	consentText  = lazyregexp.New(tables.Any("consentText"))
	consentStems = tables.List("consentStems")
)

// asksConsent reports whether the text of an element, without its links, begins with a request for consent.
func (g *gatherer) asksConsent(n *html.Node) bool {
	var text strings.Builder
	left := maxConsentNodes
	for c := range n.Descendants() {
		if left--; left < 0 || text.Len() >= maxConsentBytes {
			break
		}
		if c.Type == html.TextNode && c.Parent.DataAtom != atom.A && c.Parent.DataAtom != atom.Script {
			text.WriteString(c.Data[:min(len(c.Data), maxConsentBytes)] + " ")
		}
	}
	said := strings.Join(strings.Fields(strings.ToLower(text.String())), " ")
	if !slices.ContainsFunc(consentStems, func(s string) bool { return strings.Contains(said, s) }) {
		return false
	}
	g.layers++
	return g.layers <= maxLayers && consentText.MatchString(said)
}

// foreignTo removes from a list the words of the site's own name: a review site's header may be named review.
func foreignTo(of site.Site, list []string) []string {
	const minWord = 4
	return slices.DeleteFunc(slices.Clone(list), func(w string) bool {
		return len(w) >= minWord &&
			slices.ContainsFunc(of.Labels(), func(label string) bool { return strings.Contains(label, w) })
	})
}

// wallWords are arrangements of many items: of logos if that word is adjacent.
var wallWords = []string{"cloud", "wall", "strip", "grid", "carousel", "slider", "ticker", "marquee", "parade"}

// isLogoWall reports whether words name a place with the logos of several brands.
func isLogoWall(words []string) bool {
	return slices.Contains(words, "logos") || slices.Contains(words, "brands") ||
		slices.Contains(words, "logo") && has(words, wallWords)
}

// within updates a place for an element's name, role and words.
func (g *gatherer) within(at place, n *html.Node, words []string) place {
	// The page's own header would have come before: a header in an article or a list belongs to that part.
	late := g.banners || g.page.Words >= topWords
	role := strings.ToLower(Attr(n, "role"))
	own := false // it is the page's header: its words describe its form and state
	switch {
	case n.DataAtom == atom.Header || role == "banner" || has(words, headerWords) && !has(words, partWords):
		if at.zone == Body && !(at.inner && late) {
			at.zone = Header
			at.excluded = false // an element around the whole page does not classify its header
			at.soft = false
			own = true
		}
	case n.DataAtom == atom.Nav || role == "navigation":
		if at.zone != Footer {
			at.zone = Nav
		}
	case n.DataAtom == atom.Footer || role == "contentinfo" || has(words, footerWords):
		at.zone = Footer
	case n.DataAtom == atom.Main || n.DataAtom == atom.Article || role == "main":
		if at.zone == Header || at.zone == Nav {
			at.zone = Body
		}
	}
	switch n.DataAtom {
	case atom.Article, atom.Aside, atom.Li, atom.Main, atom.Section:
		at.inner = true
	}
	if n.DataAtom == atom.Dialog || role == "dialog" {
		at.hidden = true
	}
	says := has(words, logoWords)
	stranger := !own && has(words, g.strangers)
	if n.DataAtom != atom.Img && n.DataAtom != atom.Svg && n.DataAtom != atom.A || !says {
		at.excluded = at.excluded || stranger
	}
	at.named = says && !slices.Contains(words, "logos") || at.named && !stranger
	switch {
	case says:
		at.soft = false
		at.logoNode = n
	case !own && has(words, g.tools):
		at.soft = true
	}
	at.logoWall = !own && (at.logoWall || isLogoWall(words))
	return at.shown(n)
}

// IsAbsent reports whether an attribute keeps an element from being shown.
func IsAbsent(n *html.Node) bool {
	_, hidden := lookup(n, "hidden")
	return hidden || strings.Contains(strings.ReplaceAll(strings.ToLower(Attr(n, "style")), " ", ""), "display:none")
}

// shown updates a place for the attributes that control visibility.
func (at place) shown(n *html.Node) place {
	if IsAbsent(n) {
		at.hidden, at.absent = true, true
	}
	class := Attr(n, "class")
	if class == "" || n.DataAtom == atom.Body || n.DataAtom == atom.Html {
		return at
	}
	hide, show, dark := false, false, ""
	for i, c := range strings.Fields(class[:min(len(class), maxClassBytes)]) {
		if i >= maxClasses {
			break
		}
		c = strings.ToLower(c)
		prefix, utility, responsive := strings.Cut(c, ":")
		switch {
		case responsive && prefix == "dark":
			dark = utility
		case responsive && slices.Contains(wideScreens, prefix) && slices.Contains(displays, utility),
			slices.Contains(displays, bootstrapDisplay(c)):
			show = true
		case responsive && slices.Contains(wideScreens, prefix) && utility == "hidden", bootstrapDisplay(c) == "none",
			slices.Contains(narrowClasses, c):
			at.narrow = true
		case slices.Contains(hiddenClasses, c):
			hide = true
		}
	}
	switch {
	case dark == "hidden":
		at.scheme = "light"
	case hide && slices.Contains(displays, dark):
		at.scheme = "dark"
	case hide && !show:
		at.hidden = true
	}
	return at
}

// IsHidden reports whether an element hides its content by an attribute: hidden, a class of a common framework, or a
// style that hides it or moves it off the screen.
func IsHidden(n *html.Node) bool {
	if len(n.Attr) == 0 {
		return false
	}
	return place{}.shown(n).hidden || hidesByStyle(Attr(n, "style"))
}

// IsFooter reports whether the class or the id of an element names the footer of the page.
func IsFooter(n *html.Node) bool { return len(n.Attr) > 0 && has(tokens(n), footerWords) }

var (
	hidingStyle = styled(`visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?:px|r?em|%)?\s*(?:;|!|$)|(?:text-indent|margin-left)\s*:\s*` + offScreen + `|clip\s*:\s*rect\(0|(?:max-)?height\s*:\s*0(?:px)?\s*(?:;|$)`)
	transparent = styled(`opacity\s*:\s*0(?:\.0+)?\s*(?:;|!|$)`)
	// animated marks the start of an animation: scripts show the element when it is scrolled into view.
	animated   = styled(`(?:-webkit-)?(?:transform|transition)(?:-\w+)?\s*:`)
	movedAway  = styled(`(?:left|top|right)\s*:\s*` + offScreen)
	positioned = styled(`position\s*:\s*(?:absolute|fixed)`)
)

// offScreen matches an offset of more than a screen. Smaller negative ones align elements.
const offScreen = `-(?:\d{4,}|\d{3,}r?em)`

// styled returns an expression for declarations in a style attribute.
func styled(declaration string) *lazyregexp.Regexp {
	return lazyregexp.New(`(?i)(?:^|[;\s])(?:` + declaration + `)`)
}

func hidesByStyle(style string) bool {
	return style != "" && (hidingStyle.MatchString(style) ||
		transparent.MatchString(style) && !animated.MatchString(style) ||
		movedAway.MatchString(style) && positioned.MatchString(style))
}

const (
	maxClassBytes = 2000
	maxClasses    = 80
)

// Class names of common style frameworks (Tailwind, Bootstrap, Foundation, WordPress, Bulma).
var (
	hiddenClasses = []string{"hidden", "d-none", "hide", "is-hidden", "sr-only", "visually-hidden",
		"screen-reader-text", "invisible", "visuallyhidden"}
	narrowClasses = tables.List("narrowClasses")
	displays      = []string{"block", "flex", "inline", "inline-block", "inline-flex", "grid", "table", "contents"}
	wideScreens   = []string{"sm", "md", "lg", "xl", "2xl", "tablet", "desktop", "laptop", "tablet-and-up"}
)

// bootstrapDisplay returns how a class displays an element on wider screens, such as block for d-md-block, or "".
func bootstrapDisplay(class string) string {
	rest, _ := strings.CutPrefix(class, "d-")
	if screen, display, ok := strings.Cut(rest, "-"); ok && rest != class && slices.Contains(wideScreens, screen) {
		return display
	}
	return ""
}
