package extract

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// credit matches a text that names the maker of the site, its theme or its images: such a link is the maker's.
var credit = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` + tables.Any("credit") + `)|^by\s|(?:制作|デザイン|撮影|设计|技术支持)\s*[:：]`)

// Limits of the search around a link.
const (
	maxBefore  = 60 // bytes of the text before a link
	maxParents = 6  // elements above it
)

var personWords = tables.List("personWords") // words of class and id around an author's or a member's profiles

// around describes the text around the links to one URL.
type around struct {
	credited bool // all of them are credits
	personal bool // one of them is among a person's profiles
}

// surroundings examines the text around the links to profiles.
func surroundings(p *page.Page) map[string]around {
	out := map[string]around{}
	left := maxMentions
	visit(p.Root, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "a" || left == 0 {
			return left > 0
		}
		u := p.Resolve(page.Attr(n, "href"))
		if _, _, ok := Profile(u); !ok {
			return true
		}
		left--
		key := u.String()
		have, again := out[key]
		credited := credit.MatchString(before(n) + " " + page.Clean(innerText(n, maxLinkWords), maxLinkWords))
		out[key] = around{credited: credited && (!again || have.credited), personal: have.personal || amongPersons(n)}
		return true
	})
	return out
}

// before returns the end of the text before a link in its paragraph.
func before(n *html.Node) string {
	text := ""
	for at := n; at.Parent != nil && (at == n || inlineElements[at.Data]); at = at.Parent {
		for s := at.PrevSibling; s != nil && len(text) < maxBefore; s = s.PrevSibling {
			if s.Type == html.ElementNode && (s.Data == "a" || s.Data == "br") {
				return page.Clean(text, maxLinkWords) // belongs to another link
			}
			text = innerText(s, maxBefore) + text
		}
	}
	text = page.Clean(text, maxLine)
	return strings.ToValidUTF8(text[max(0, len(text)-maxBefore):], "")
}

// inlineElements are elements that may wrap a link within a credit.
var inlineElements = map[string]bool{"span": true, "strong": true, "b": true, "em": true, "i": true, "small": true}

// amongPersons reports whether a link is among the profiles of an author, a member or a guest.
func amongPersons(n *html.Node) bool {
	left := maxParents
	for at := n; at != nil && left > 0; at = at.Parent {
		if at.Data == "body" {
			return false
		}
		left--
		text := page.Attr(at, "class") + " " + page.Attr(at, "id") + " " + page.Attr(at, "rel")
		if at.Data == "article" || slices.ContainsFunc(page.SplitWords(text[:min(len(text), maxClassBytes)]),
			func(w string) bool { return slices.Contains(personWords, w) }) {
			return true
		}
	}
	return false
}

// otherNetworks matches hosts of networks without a field, and other hosts that are common in a row of profiles.
var otherNetworks = lazyregexp.New(`(?i)^(?:www\.)?(?:` + tables.Any("otherNetworks") + `)$`)
