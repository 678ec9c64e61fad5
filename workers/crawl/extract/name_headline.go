package extract

import (
	"slices"
	"strings"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
)

// atHeadline are the places that show the page's headline as often as the site's name.
var atHeadline = []string{"title", "og:title", "heading", "feed title"}

const minHeadline = 10 // how many letters of a headline make a text that contains them a headline too

// isHeadline reports whether a candidate from a title, heading or feed is a part of an inner page's headline: "Folge
// 70" of "Folge 70: Star Trek", or a headline followed by more text.
func (in Input) isHeadline(c *nameCandidate) bool {
	if c.fit >= affixFit {
		return false
	}
	f := Folded(c.text)
	for _, h := range in.headlines(c.fit == 0) {
		headline := Folded(h)
		switch {
		case headline == "" || c.method == "heading" && headline == f && c.fit >= StrongFit:
		case headline == f:
			if c.fit < StrongFit {
				return true
			}
		case strings.Contains(headline, f),
			strings.Contains(f, headline) && utf8.RuneCountInString(headline) >= minHeadline:
			return true
		}
	}
	// A title of one long part is entirely headline.
	return c.method == "title" && c.fit < StrongFit && c.agree == 0 && len(titleSegments(in.Page.Title)) == 1 &&
		len(strings.Fields(c.text)) > shortWords
}

var atTheSite = tables.List("atTheSite") // places that name the site, not the page

// namesSite reports whether a place about the site gives the same name.
func namesSite(all []nameCandidate, c *nameCandidate) bool {
	same := sameKey(c.text)
	return slices.ContainsFunc(all,
		func(o nameCandidate) bool { return slices.Contains(atTheSite, o.method) && sameKey(o.text) == same })
}

// headlines lists the page's headings and its shared title, without the site's name at the end. A shared title equal to
// the title adds nothing, so it counts only if same is set.
func (in Input) headlines(same bool) []string {
	out := slices.Clone(in.Page.Headings)
	for _, h := range in.Page.Headings {
		for _, part := range titleSegments(h) {
			if part != h && utf8.RuneCountInString(part) >= minHeadline {
				out = append(out, part)
			}
		}
	}
	title, shared := titleSegments(in.Page.Title), titleSegments(in.Page.Meta("og:title", "twitter:title"))
	if !same && slices.Equal(title, shared) {
		return out
	}
	if n := len(shared); n > 1 && len(title) > 1 && Folded(shared[n-1]) == Folded(title[len(title)-1]) {
		shared = shared[:n-1]
	}
	return append(out, strings.Join(shared, " "))
}

// yieldToDomain moves names that fit the domain badly, and those that are the domain with additions, behind the bare
// domain if the page uses it as its name. A name that several places give, or one in a script that domains do not use,
// stays.
func yieldToDomain(all []nameCandidate, in Input) {
	bare := -1
	for i := range all {
		if all[i].method != FromDomain && isDomain(all[i].text, in) && (bare < 0 || all[i].score > all[bare].score) {
			bare = i
		}
	}
	if bare < 0 {
		return
	}
	d := all[bare]
	domain := Folded(in.Site.Domain)
	for i := range all {
		c := &all[i]
		switch f := Folded(c.text); {
		case isDomain(c.text, in) || c.score < d.score:
			continue
		case c.method == FromDomain:
			if d.agree == 0 && d.base < appBase {
				continue
			}
		case f != domain && strings.Contains(f, domain):
		// declared, compared with one image's alt text
		case c.base >= siteNameBase && c.fit >= commonFit && d.agree == 0 && d.base < appBase:
			continue
		case c.fit >= wordFit, c.agree >= mostAgree, c.fit >= partFit && c.agree > 0,
			beyondASCII(c.text) > 0 && !hasLatin(c.text):
			continue
		}
		c.score = d.score - 1
		c.note += ", the site calls itself by its domain"
	}
}

// countryTail is the code of a country after a brand's name.
var countryTail = lazyregexp.New(`\s+\(?(?:` + tables.Any("countryTail") + `)\)?$`)

// shorten removes the company or the country from a declared name if another
// place gives the name without it: Acme for Acme Media.
func shorten(all []nameCandidate) {
	for i := range all {
		c := &all[i]
		if !strings.HasPrefix(c.method, "json-ld") && c.method != "og:site_name" {
			continue
		}
		for _, tail := range []*lazyregexp.Regexp{holding, countryTail} {
			short := tail.ReplaceAllString(c.text, "")
			if same := Folded(short); short != c.text && !dangling.MatchString(short) && slices.ContainsFunc(all, func(o nameCandidate) bool {
				return o.method != FromDomain && o.fit >= exactFit && Folded(o.text) == same
			}) {
				c.text, c.fit = short, exactFit
			}
		}
	}
}
