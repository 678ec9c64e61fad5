package classify

import (
	"slices"
	"strings"
	"unicode"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits of the signs that a page has an owner.
const (
	ownLinks         = 4 // links within the site that a real page has
	ownWords         = 4 // words of a real description
	minCalledLetters = 3 // letters and digits from which the words of a name are not a coincidence
)

// saysNothing reports whether a page has few words and no sign of an owner.
func saysNothing(p *page.Page, words int) bool { return p.Words < words && !hasOwner(p) }

// hasOwner reports whether a page declares its owner, or has its own icon and description.
func hasOwner(p *page.Page) bool { return speaks(p) || presents(p) }

// speaks reports whether a page declares a name, an organization or a share image, or has links into the site.
func speaks(p *page.Page) bool { return declaresOwner(p) || innerLinks(p) >= ownLinks }

// declaresOwner reports whether a page's head declares its owner.
func declaresOwner(p *page.Page) bool {
	return p.Meta("og:site_name", "og:image", "application-name") != "" ||
		slices.ContainsFunc(p.Data.All(), func(o *linkeddata.Object) bool {
			return o.IsOrganization() || o.Is("WebSite")
		})
}

// madeWith matches descriptions that frameworks write into new sites.
var madeWith = lazyregexp.New(`(?i)^(` + tables.Any("madeWith") + `)`)

// presents reports whether a page has an icon and a real description. Walls and
// default pages have at most one of the two, or a description of themselves.
func presents(p *page.Page) bool {
	text := p.Meta("description")
	if len(p.Icons) == 0 || len(strings.Fields(text)) < ownWords && !wide(text) {
		return false
	}
	return !madeWith.MatchString(text) && !challengeWordings.MatchString(text) && !offers.MatchString(text) &&
		!offersElsewhere.MatchString(text) &&
		!elsewhere.MatchString(text) && !soonSays.MatchString(text) && !emptyTexts.MatchString(text)
}

// wide reports whether a text is in a script without spaces, and longer than a name.
func wide(text string) bool {
	const letters = 8
	n := 0
	for _, r := range text {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
			n++
		}
	}
	return n >= letters
}

// innerLinks counts the distinct links to other pages of the same host.
func innerLinks(p *page.Page) int {
	if p.URL == nil {
		return 0
	}
	seen := map[string]bool{}
	for _, a := range p.Anchors {
		if a.URL != nil && a.URL.Hostname() == p.URL.Hostname() && strings.Trim(a.URL.Path, "/") != "" {
			seen[a.URL.Path] = true
		}
	}
	return len(seen)
}

// calledSo reports whether words are the brand's name: they are in the domain, or in the logo at the head of the page.
// "Be Right Back" on berightback.com is the bar of that name.
func calledSo(a Answer, words string) bool {
	name := site.Letters(words)
	if len(name) < minCalledLetters {
		return false
	}
	return inLabels(a.Site, name) || slices.ContainsFunc(a.Page.Images, func(im page.Image) bool {
		return (im.Zone == page.Header || im.Zone == page.Nav) && !im.Foreign &&
			strings.HasPrefix(site.Letters(im.Alt), name)
	})
}

func inLabels(of site.Site, name string) bool {
	return slices.ContainsFunc(of.Labels(), func(l string) bool { return strings.Contains(site.Letters(l), name) })
}

// says reports whether a text matches a pattern outside of the brand's name.
func says(a Answer, pattern *lazyregexp.Regexp, text string) bool {
	return slices.ContainsFunc(pattern.FindAllStringIndex(text, maxMatches), func(at []int) bool {
		return !calledSo(a, text[at[0]:at[1]])
	})
}

const maxMatches = 8 // limits the matches of a pattern that are checked

var borders = lazyregexp.New(`\s+[-–—:]\s+|\s*[|·•»]\s*|\s+::\s+`) // separate the parts of a title

// parts returns the parts of a title, or of a heading.
func parts(title string) []string { return borders.Split(title, -1) }

// first returns the first part of a title, which names the page.
func first(title string) string { return strings.TrimSpace(parts(title)[0]) }
