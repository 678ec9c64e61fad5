package extract

import (
	"slices"
	"strings"
	"unicode"

	"letterhead/internal/lazyregexp"
)

// placeGroups joins the places that repeat each other: generators copy a title
// to og:title, and one field of a form to all of linked data.
var placeGroups = tables.Map("placeGroups")

// nameContext is the evidence of all candidates of a page for each of them.
type nameContext struct {
	in      Input
	all     []nameCandidate
	groups  map[string]map[string]bool // by sameKey
	names   []likelyName
	visible string // what a visitor reads, folded
}

// likelyName is a candidate that the domain or several places support.
type likelyName struct {
	key   string // sameKey
	words int
}

func newNameContext(all []nameCandidate, in Input) *nameContext {
	c := &nameContext{in: in, all: all, groups: map[string]map[string]bool{}}
	for i := range all {
		group := placeGroups[all[i].method]
		if group == "heading" && in.Inner() {
			group = "title"
		}
		if group == "" {
			continue
		}
		key := sameKey(legalForm.ReplaceAllString(all[i].text, ""))
		if c.groups[key] == nil {
			c.groups[key] = map[string]bool{}
		}
		c.groups[key][group] = true
	}
	for i := range all {
		n := &all[i]
		if n.method != FromDomain && n.method != "page text" && !sentenceLike(n.text) &&
			(n.fit >= StrongFit && !isDomain(n.text, in) || len(c.groupsOf(n.text)) >= minVouchers) {
			c.names = append(c.names, likelyName{sameKey(n.text), nameWords(n.text)})
		}
	}
	return c
}

func (c *nameContext) groupsOf(text string) map[string]bool {
	return c.groups[sameKey(legalForm.ReplaceAllString(text, ""))]
}

const (
	minVouchers     = 2 // how many independent places make a name the site's own
	maxVouchedWords = 5 // limits the words of a name that a title and a heading give; longer ones are headlines
	taglineWords    = 3 // the least number of words of a tagline
)

// vouched reports whether independent places of the site give a name. If no
// place but titles and headings does, it must also look like a name.
func (c *nameContext) vouched(n *nameCandidate) bool {
	groups := c.groupsOf(n.text)
	if len(groups) < minVouchers || isDomain(n.text, c.in) || sentenceLike(n.text) {
		return false
	}
	return namesSite(c.all, n) || groups["feed"] || nameWords(n.text) <= maxVouchedWords
}

// doubt returns why a candidate is not the site's name in spite of its place, or "".
func (c *nameContext) doubt(n *nameCandidate) string {
	if n.method == FromDomain || n.fit >= StrongFit || isDomain(n.text, c.in) {
		return ""
	}
	key, words := sameKey(n.text), nameWords(n.text)
	better := slices.ContainsFunc(c.names, func(o likelyName) bool { return o.key != key && o.words <= words })
	switch {
	case nameWords(n.text) > taglineWords && c.in.describes(n.text), sentenceLike(n.text) && better:
		return "a tagline"
	case better && slices.Contains(invisible, n.method) && len(c.groupsOf(n.text)) < minVouchers &&
		n.fit == 0 && !c.shows(n.text):
		return "the page does not show it"
	}
	return ""
}

var invisible = tables.List("invisible") // places that only programs read

// shows reports whether a visitor reads a name on the page.
func (c *nameContext) shows(text string) bool {
	if c.visible == "" {
		c.visible = Folded(c.in.Page.Title + " " + c.in.Page.Text)
	}
	return strings.Contains(c.visible, sameKey(text))
}

// yieldToSite moves the names that only the domain gives behind a name that the site gives in several places.
func (c *nameContext) yieldToSite() {
	var best *nameCandidate
	for i := range c.all {
		if n := &c.all[i]; c.vouched(n) && (best == nil || n.score > best.score) {
			best = n
		}
	}
	if best == nil {
		return
	}
	for i := range c.all {
		n := &c.all[i]
		made := n.method == FromDomain ||
			n.method == "page text" && namesSite(c.all, best) && len(c.groupsOf(n.text)) == 0
		if made && n.score >= best.score && sameKey(n.text) != sameKey(best.text) {
			n.score = best.score - 1
			n.note += ", the site gives another name in several places"
		}
	}
}

// describes reports whether a text is the page's description.
func (in Input) describes(text string) bool {
	f := Folded(text)
	return f != "" &&
		slices.ContainsFunc([]string{"og:description", "description", "twitter:description"}, func(key string) bool {
			return Folded(in.Page.Meta(key)) == f
		})
}

// sentenceWords are words of a sentence, in lower case, that names rarely contain.
var sentenceWords = lazyregexp.New(`(?:^|\s)(?:` + tables.Any("sentenceWords") + `)(?:\s|$)`)

// sentenceLike reports whether a text says something instead of naming somebody: several words, most of them in lower
// case or with words of a sentence between them, or a period at the end.
func sentenceLike(text string) bool {
	n := nameWords(text)
	if n < taglineWords {
		return false
	}
	if slogan.MatchString(text) || n > taglineWords && strings.HasSuffix(text, ".") {
		return true
	}
	lower := 0
	for w := range strings.FieldsSeq(text) {
		if strings.IndexFunc(w, unicode.IsLower) == 0 {
			lower++
		}
	}
	return sentenceWords.MatchString(text) && 2*lower >= n || 3*lower >= 2*n && n > taglineWords
}
