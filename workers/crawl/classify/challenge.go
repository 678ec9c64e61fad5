package classify

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// challengeHeaders are headers that are specific to challenges and refusals, with their values; * is any.
var challengeHeaders = tables.Rows("challengeHeaders", 2)

// challengeHeader returns the sign of a header that is specific to challenges, or "".
func challengeHeader(h http.Header) string {
	for _, row := range challengeHeaders {
		if value := h.Get(row[0]); strings.EqualFold(value, row[1]) || row[1] == "*" && value != "" {
			return row[0] + " header"
		}
	}
	return ""
}

// challengeTitles matches the complete first part of the titles of challenge and refusal pages: "Access Denied"
// matches, "Access Denied Escape Rooms" does not.
var challengeTitles = lazyregexp.New(`(?i)^(` + tables.Any("challengeTitles") + `)[\s.…!?]*$`)

// challengeTitle reports whether a title belongs to a challenge, and not the name of the brand.
func challengeTitle(a Answer) bool {
	said := first(a.Page.Title)
	return challengeTitles.MatchString(said) && !calledSo(a, said) ||
		challengeTitles.MatchString(strings.TrimSpace(a.Page.Title)) && !calledSo(a, a.Page.Title)
}

// challengeWordings are sentences of challenge and refusal pages.
var challengeWordings = lazyregexp.New(`(?i)` + tables.Any("challengeWordings"))
var accessDenied = lazyregexp.New(`(?i)access denied[\s\S]{0,400}reference\s*#`) // matches Akamai's refusal

// challengeScripts are traces in inline scripts that are specific to challenge pages.
var challengeScripts = tables.Rows("challengeScripts", 2)

// challengeSources are parts of URLs of scripts and frames that are specific to challenge pages.
var challengeSources = tables.List("challengeSources")

// commonTraces also occur on good pages: bot detectors and captcha widgets of
// forms. They count only on a page without an owner.
var (
	commonScripts = []string{"window._pxAppId", "AwsWafIntegration", "ddjskey", "KPSDK", "__qrator", "__ddg"}
	commonSources = tables.List("commonSources")
)

var challengeIDs = tables.List("challengeIDs") // ids of elements of challenge pages

// challengeSign returns the strongest trace of a challenge on a page, or "".
// Whether it counts depends on the status and on the rest of the page.
func challengeSign(a Answer) string {
	p := a.Page
	if challengeTitle(a) {
		return "title of a challenge"
	}
	if p.Words < challengeWords*2 &&
		(challengeWordings.MatchString(p.Text) || accessDenied.MatchString(p.Title+" "+p.Text)) {
		return "wording of a challenge"
	}
	for _, c := range challengeScripts {
		if strings.Contains(p.Script, c[0]) {
			return c[1]
		}
	}
	for _, id := range challengeIDs {
		if p.ElementID[id] {
			return "challenge element " + id
		}
	}
	if s := sourceWith(p, challengeSources); s != "" {
		return "challenge script " + s
	}
	if p.Refresh != nil && strings.Contains(p.Refresh.URL.Path, "captcha") {
		return "refresh to a captcha"
	}
	if !anonymous(a) {
		return ""
	}
	if s := sourceWith(p, commonSources); s != "" {
		return "challenge script " + s + " on a page without a brand"
	}
	for _, s := range commonScripts {
		if strings.Contains(p.Script, s) {
			return "challenge script " + s + " on a page without a brand"
		}
	}
	return ""
}

// sourceWith returns the first of the parts that a URL of a script or frame contains.
func sourceWith(p *page.Page, parts []string) string {
	for _, source := range p.Sources {
		text := source.Host + source.Path
		if source.RawQuery != "" {
			text += "?" + source.RawQuery
		}
		for _, part := range parts {
			if strings.Contains(text, part) {
				return part
			}
		}
	}
	return ""
}

// anonymous reports whether a page has no owner: almost no words, and no content that an owner would have written.
func anonymous(a Answer) bool {
	p := a.Page
	if !saysNothing(p, challengeWords/2) || len(p.Icons) > 0 || p.Manifest != nil || len(p.Headings) > 0 ||
		p.Password || p.Meta("description", "og:title", "og:description") != "" {
		return false
	}
	title := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(p.Title), "www."))
	return title == "" || title == a.Site.Domain ||
		p.URL != nil && title == strings.TrimPrefix(p.URL.Hostname(), "www.")
}

var (
	// setsCookie and comesBack match a script whose only work is to pass a
	// wall: it sets a cookie and requests the page again.
	setsCookie = lazyregexp.New(`document\s*(\.cookie|\[["']cookie["']\])\s*=`)
	comesBack  = lazyregexp.New(`location\s*(\.reload|\.href\s*=|\.replace|\.assign|\s*=)|\.submit\(`)
	// needsScripts matches what such a page says to visitors without scripts.
	needsScripts = lazyregexp.New(`(?i)(` + tables.Any("needsScripts") +
		`) ?(js\b|java ?script|scripts)|java ?script .{0,20}(required|disabled|erforderlich|nécessaire)|ad ?blocker`)
)

// wallSign recognizes a wall that no trace of a vendor gives away: a page without an owner that consists of scripts,
// and either sets a cookie and comes back, or asks for scripts.
func wallSign(a Answer) string {
	p := a.Page
	if !anonymous(a) || len(p.Images)+len(p.InlineSVGs)+len(p.Anchors) > 0 ||
		len(p.Sources) == 0 && p.Script == "" || p.Onward() != nil {
		return ""
	}
	switch scripts, text := onlyScripts(p.Root); {
	case !scripts:
		return ""
	case setsCookie.MatchString(p.Script) && comesBack.MatchString(p.Script):
		return "a script that sets a cookie and comes back"
	case needsScripts.MatchString(text):
		return "scripts without a page"
	}
	return ""
}

// onlyScripts reports whether a body has no element in which an app could be
// shown, and returns its text, including that for browsers without scripts.
func onlyScripts(root *html.Node) (only bool, text string) {
	only = true
	var b strings.Builder
	left := maxWallNodes
	var walk func(*html.Node, bool)
	walk = func(n *html.Node, inBody bool) {
		if left--; left < 0 {
			only = false
			return
		}
		switch {
		case n.Type == html.TextNode && inBody:
			b.WriteString(n.Data + " ")
		case n.Type == html.ElementNode && n.DataAtom == atom.Body:
			inBody = true
		case n.Type == html.ElementNode && (n.DataAtom == atom.Script || n.DataAtom == atom.Style):
			return
		case n.Type == html.ElementNode && inBody && !slices.Contains(inWalls, n.DataAtom):
			only = false
		}
		for c := n.FirstChild; c != nil && only; c = c.NextSibling {
			walk(c, inBody)
		}
	}
	if root != nil {
		walk(root, false)
	}
	return only, b.String()
}

// inWalls are the elements of walls, besides scripts: words for visitors without scripts, and a form that a script
// sends.
var inWalls = []atom.Atom{atom.Noscript, atom.P, atom.Br, atom.Form, atom.Input}

const maxWallNodes = 300 // limits the elements and texts of a wall

// refusalWords limits the words of a refusal with both a typical title and typical wording; some explain themselves.
const refusalWords = 300

// refuses reports whether a page with status 200 is a refusal: it has a sign of one, and no content of its owner.
func refuses(a Answer, sign string) bool {
	if sign == "" {
		return false
	}
	if saysNothing(a.Page, challengeWords) {
		return true
	}
	return a.Page.Words < refusalWords && !hasOwner(a.Page) && challengeTitle(a) &&
		challengeWordings.MatchString(a.Page.Text)
}

// elsewhere matches wordings of pages for visitors from the wrong country.
var elsewhere = lazyregexp.New(`(?i)` + tables.Any("elsewhere"))

// delivery matches wordings of shops about their area of delivery, which are not a refusal on a page with an owner.
var delivery = lazyregexp.New(`(?i)(in|to|for|within) (your|this) (current )?(area|location|state)`)

// geoSign recognizes a page that rejects visitors because of their location. It may carry the brand's name.
func geoSign(a Answer) string {
	p := a.Page
	if p.Words >= placeholderWords || innerLinks(p) >= ownLinks {
		return ""
	}
	head := strings.Join(append([]string{p.Title}, p.Headings...), ". ")
	inHead, inText := turnsAway(p, head), turnsAway(p, p.Text)
	if inHead || inText && (p.Words < challengeWords || !speaks(p)) {
		return "not for visitors from here"
	}
	return ""
}

// turnsAway reports whether a text rejects visitors. A question does not: "Not
// available in your area yet? Leave your address."
func turnsAway(p *page.Page, text string) bool {
	for _, at := range elsewhere.FindAllStringIndex(text, maxMatches) {
		rest := text[at[1]:]
		if end := strings.IndexAny(rest, ".!?。"); end >= 0 && end < maxRest && rest[end] == '?' {
			continue
		}
		if delivery.MatchString(text[at[0]:at[1]]) && hasOwner(p) {
			continue
		}
		return true
	}
	return false
}

const maxRest = 40 // how many bytes of its sentence may follow a wording

// providers are login services for other sites: their page does not belong to the site that redirected to them.
var providers = tables.List("providers")

// Foreign reports whether a page belongs to a login service that the site uses.
func Foreign(host string, own func(string) bool) bool {
	return !own(host) &&
		slices.ContainsFunc(providers, func(p string) bool { return host == p || strings.HasSuffix(host, "."+p) })
}
