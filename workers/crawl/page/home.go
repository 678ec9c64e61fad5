package page

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/site"
)

var (
	// homeWords are the names of home pages in the URLs of content management systems, in several languages.
	homeWords   = tables.List("homeWords")
	homeFolders = []string{"web", "guest", "portal"} // in the URLs of portals, before homeWords
	pageFile    = lazyregexp.New(`^(html?|php[0-9]?|aspx?|jsp|jsf|shtml|xhtml|cfm|do)$`)
	language    = lazyregexp.New(`^[a-z]{2}([-_][a-z]{2})?$`)
)

const maxHomePath = 4 // the maximum number of segments in the path of a home page: /web/guest/de/home

// homePath reports whether a path leads to a home page, in any language and content management system: empty, /en,
// /de-de/, /home, /index.php, /DE/Home/home_node.html, /web/de/start.
func homePath(path string) bool {
	parts := strings.Split(strings.Trim(strings.ToLower(path), "/"), "/")
	if len(parts) > maxHomePath {
		return false
	}
	for i, part := range parts {
		if last := i == len(parts)-1; !homePart(part, last) && !(!last && slices.Contains(homeFolders, part)) {
			return false
		}
	}
	return true
}

// homePart reports whether a segment of a path names a home page or a language. The last one may be a file.
func homePart(part string, last bool) bool {
	part, _, _ = strings.Cut(part, ";") // a session
	if stem, ext, ok := strings.Cut(part, "."); ok {
		if !last || !pageFile.MatchString(ext) {
			return false
		}
		part = stem
	}
	return part == "" || language.MatchString(part) || slices.Contains(homeWords, strings.TrimSuffix(part, "_node"))
}

// home reports whether a link leads to the site's home page.
func (g *gatherer) home(u *url.URL, rels []string) bool {
	if slices.Contains(rels, "home") {
		return true
	}
	if !g.homeHost(u) || !onlyTracks(u) {
		return false
	}
	return homePath(u.EscapedPath()) || g.itself(u) && g.front()
}

// homeHost reports whether the root of a link's host is the site's home: the host of the page and its parents, the
// domain itself, its www and its languages, or the same name under another public suffix. Another host of the site is
// another section: classifieds.acme.com.
func (g *gatherer) homeHost(u *url.URL) bool {
	if u == nil || !g.own(u) {
		return false
	}
	host := u.Hostname()
	if at := g.page.URL; at != nil && (host == at.Hostname() || strings.HasSuffix(at.Hostname(), "."+host)) {
		return true
	}
	sub, whole := strings.CutSuffix(host, site.Registrable(host))
	sub = strings.TrimSuffix(sub, ".")
	return whole && (sub == "" || sub == "www" || language.MatchString(sub))
}

// itself reports whether a link leads to its own page.
func (g *gatherer) itself(u *url.URL) bool {
	at := g.page.URL
	return at != nil && u.Hostname() == at.Hostname() && u.EscapedPath() == at.EscapedPath() && u.Fragment == ""
}

// maxFrontName is the maximum number of letters in a path to which a home page is redirected: /store, /personal.
const maxFrontName = 12

// front reports whether the page itself may be the home page, which may be at
// any path: articles are marked as such, or have a URL of many words.
func (g *gatherer) front() bool {
	at := g.page.URL
	if at == nil || strings.EqualFold(g.page.Meta("og:type"), "article") {
		return false
	}
	path := strings.Trim(strings.ToLower(at.EscapedPath()), "/")
	if last := path[strings.LastIndexByte(path, '/')+1:]; homePath(path) || homePart(last, true) {
		return true
	}
	return len(path) <= maxFrontName && !strings.ContainsAny(path, "/0123456789") && strings.Count(path, "-") <= 1
}

var (
	// homeLabels are the complete texts of menu entries that lead home; homePhrases are phrases with that meaning.
	homeLabels  = tables.List("homeLabels")
	homePhrases = tables.List("homePhrases")
)

// maxHomeLabel is the maximum number of words in a text about the target of a
// link; a longer one is about something else.
const maxHomeLabel = 7

// saysHome reports whether a text says that a link leads to the home page. A
// word such as "Start" alone may be any button.
func saysHome(text string) bool {
	text = strings.ToLower(text)
	return len(strings.Fields(text)) <= maxHomeLabel &&
		slices.ContainsFunc(homePhrases, func(p string) bool { return strings.Contains(text, p) })
}

// describedAsHome reports whether a link in the page's head is described as leading home,
// by its own text or its content's.
func (g *gatherer) describedAsHome(at place, text string) bool {
	return at.link != nil && (at.zone == Header || at.zone == Nav) && g.homeHost(at.link.URL) &&
		onlyTracks(at.link.URL) && saysHome(text)
}

var tracks = tables.List("tracks") // query keys for the origin of a user, or the language of the response

// onlyTracks reports whether a query leads to the same page as the URL without it.
func onlyTracks(u *url.URL) bool {
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		key, _, _ := strings.Cut(strings.ToLower(pair), "=")
		if key != "" && !slices.Contains(tracks, key) && !strings.HasPrefix(key, "utm_") {
			return false
		}
	}
	return true
}

const minLabel = 5 // the number of letters from which the same label of two domains is not a coincidence

// own reports whether a link leads to the site, or to the same name under another public suffix: acme.co.uk links
// its logo to acme.com.
func (g *gatherer) own(u *url.URL) bool {
	if g.site.Own(u) {
		return true
	}
	label := site.New(site.Registrable(u.Hostname())).Label
	return len(label) >= minLabel && slices.Contains(g.site.Labels(), label)
}

// sister reports whether a link leads to a host of the site that is neither the page's host nor the domain.
func (g *gatherer) sister(u *url.URL) bool {
	if u == nil || g.page.URL == nil || !g.site.Own(u) {
		return false
	}
	bare := func(u *url.URL) string { return strings.TrimPrefix(u.Hostname(), "www.") }
	return bare(u) != bare(g.page.URL) && bare(u) != g.site.Domain && !slices.Contains(g.site.Others, bare(u))
}
