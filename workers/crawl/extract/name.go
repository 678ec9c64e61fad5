package extract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

const maxNameRunes = 60 // limits a name: a longer text is a sentence

// nameCandidate is one name that the site offers.
type nameCandidate struct {
	text   string
	method string
	source string
	base   float64 // weight of the place
	fit    float64 // to the domain
	score  float64
	agree  int // number of other places with the same name
	note   string
}

// Weights of the places; the order follows the rules, JSON-LD of the owner first. A name's fit to the domain counts
// more than one step: on home pages the title has the brand at either end.
const (
	ownerBase     = 40.0
	websiteBase   = 36.0
	siteNameBase  = 34.0
	appBase       = 28.0
	knownBase     = 26.0
	publisherBase = 24.0
	manifestBase  = 24.0
	altBase       = 18.0
	homeTextBase  = 13.0
	feedBase      = 15.0
	titleBase     = 14.0
	writtenBase   = 4.0 // the domain's words as written in the page
	copyrightBase = 12.0
	headingBase   = 10.0
	authorBase    = 10.0
	handleBase    = 4.0
	shortBase     = 4.0 // added for a title of one short part: it is a name, not a sentence
	shortWords    = 3
	endBase       = 2.0  // added for the part of a title that usually has the site's name: the last on an inner page
	labelBase     = 16.0 // more than for a title that does not fit the domain at all
	moreFactor    = 0.6  // the weight of a place on a second page relative to the home page

	fitWeight       = 30.0
	unknownFit      = 0.3 // of a script that cannot be compared with a domain
	agreeWeight     = 5.0
	maxAgree        = 3
	longPenalty     = 8.0 // more than four words, and again more than seven
	domainPenalty   = 21.0
	endingPenalty   = 6.0  // Acme.com, if another place has Acme
	articlePenalty  = 12.0 // the name is the topic of the page
	strangerPenalty = 10.0 // the name has nothing of the domain, while another candidate is the domain
	personPlace     = 10.0 // an owner that is also a person, if the site has its own name
	doubtPenalty    = 18.0 // a tagline, or a declaration that the page contradicts
	lonePublisher   = 10.0 // a publisher unrelated to the domain that no other place names
	// mostAgree is how many other places must agree on a name that does not fit
	// the domain for it to compete with the bare domain.
	mostAgree = 2
)

// FromDomain is the method of a name that only the domain gives.
const FromDomain = "domain"

// Name decides the brand's name. Its confidence is low if only the domain gives
// it; agreed reports whether two places give it.
func Name(in Input) (name Found[string], agreed bool) {
	all := Once(in, "names", func() []nameCandidate { return weighNames(in) })
	if len(all) == 0 {
		return Found[string]{}, false
	}
	best := all[0]
	confidence := min(1, 0.3+best.score/120)
	if best.method == FromDomain {
		confidence = 0.2
	}
	return Found[string]{Value: best.text, Source: best.source, Method: best.method, Confidence: Round2(confidence)},
		best.agree > 0
}

// NamesWeighed lists the candidates for the name, best first.
func NamesWeighed(in Input) []Weighed {
	var out []Weighed
	for i, c := range weighNames(in) {
		out = append(out, Weighed{Field: "name", Value: c.text, Source: c.source, Method: c.method,
			Score: Round2(c.score), Won: i == 0, Note: c.note})
	}
	return out
}

// weighNames scores every candidate and returns the best first, in the spelling that the brand uses.
func weighNames(in Input) []nameCandidate {
	all := nameCandidates(in)
	shorten(all)
	isDomainGiven := slices.ContainsFunc(all, func(c nameCandidate) bool {
		// in lower case it may be the name of a file or template
		return c.method != FromDomain && c.fit >= affixFit && c.text != in.Site.Label
	})
	inContext := newNameContext(all, in)
	for i := range all {
		c := &all[i]
		c.agree = agreement(all, c, in.Inner())
		c.score = c.base + fitWeight*c.fit + agreeWeight*float64(min(c.agree, maxAgree))
		notes := []string{fmt.Sprintf("place %.3g", c.base), fmt.Sprintf("fits the domain %.2g", c.fit)}
		if c.agree > 0 {
			notes = append(notes, fmt.Sprintf("%d agree", c.agree))
		}
		less := func(by float64, why string) {
			c.score -= by
			notes = append(notes, why)
		}
		if n := nameWords(c.text); n > 7 {
			less(3*longPenalty, "very long")
		} else if n > 4 && c.method != "og:site_name" { // a long og:site_name is intentional
			less(longPenalty, "long")
		}
		if c.fit < wordFit && slogan.MatchString(c.text) {
			less(2*longPenalty+fitWeight*c.fit, "a slogan") // its words match by coincidence
		}
		if reason := inContext.doubt(c); reason != "" {
			less(doubtPenalty+fitWeight*c.fit, reason)
		}
		if isDomain(c.text, in) {
			less(domainPenalty, "only the domain")
		} else if strings.EqualFold(c.text, in.Site.Domain) && slices.ContainsFunc(all,
			func(o nameCandidate) bool { return o.method != FromDomain && sameKey(o.text) == Folded(in.Site.Label) }) {
			less(endingPenalty, "with the domain's ending")
		}
		switch {
		case !in.Inner() || isDomain(c.text, in) || c.fit > 0 && namesSite(all, c) && c.agree > 1:
		case slices.Contains(atHeadline, c.method) && in.isHeadline(c):
			less(articlePenalty+fitWeight*c.fit, "part of the headline") // its words match by coincidence
		case c.fit < StrongFit && in.pageIsAbout(c.text):
			less(articlePenalty, "the topic of the page")
		}
		if isDomainGiven && c.fit == 0 && c.method != FromDomain {
			less(strangerPenalty, "nothing of the domain")
		}
		// often a person
		if c.method == "publisher meta" && c.fit == 0 && c.agree == 0 && len(strings.Fields(c.text)) <= shortWords {
			less(lonePublisher, "no other place names it")
		}
		c.note = strings.Join(notes, ", ")
	}
	yieldToDomain(all, in)
	inContext.yieldToSite()
	slices.SortStableFunc(all, func(a, b nameCandidate) int {
		return cmp.Compare(b.score, a.score) // ties keep the order of the rules
	})
	if len(all) > 0 {
		all[0].text = spelled(in, all)
	}
	return all
}

const maxFrontPath = 6 // the longest path of one segment that may be a front page's: /en, /de-de, /home

// Inner reports whether the page is not the site's front page.
func (in Input) Inner() bool {
	if in.Page.URL == nil {
		return false
	}
	path := strings.ToLower(strings.Trim(in.Page.URL.Path, "/"))
	return strings.ContainsRune(path, '/') ||
		len(path) > maxFrontPath && !strings.HasPrefix(path, "index.") && !strings.HasPrefix(path, "default.")
}

// pageIsAbout reports whether a text is the page's own headline.
func (in Input) pageIsAbout(text string) bool {
	f := Folded(text)
	for _, h := range append(slices.Clone(in.Page.Headings), in.Page.Meta("og:title", "twitter:title")) {
		headline := Folded(h)
		if headline == f || len(f) > len(headline)/2 && headline != "" && strings.Contains(headline, f) {
			return true
		}
	}
	return false
}

// sameKey returns the part that two spellings of one name have in common.
func sameKey(text string) string {
	f := Folded(text)
	if words := FoldedWords(text); len(words) > 1 && words[0] == "the" {
		return strings.TrimPrefix(f, "the")
	}
	return f
}

// agreement counts the other places that give the same name. On an inner page,
// title, shared title and heading are one place: the headline.
func agreement(all []nameCandidate, c *nameCandidate, inner bool) int {
	place := func(method string) string {
		if inner && (method == "og:title" || method == "heading") {
			return "title"
		}
		return method
	}
	same := sameKey(c.text)
	methods := map[string]bool{}
	for i := range all {
		other := &all[i]
		if place(other.method) != place(c.method) && other.method != FromDomain && sameKey(other.text) == same {
			methods[place(other.method)] = true
		}
	}
	return len(methods)
}

// spelled returns the best name as the brand itself spells it: with its diacritics, because an alt text may have Citta
// and the title Città; and with its capitals, if other places have them.
func spelled(in Input, all []nameCandidate) string {
	text, same := in.apart(all), Folded(all[0].text)
	for _, c := range all {
		if c.method == FromDomain {
			continue
		}
		for part := range spellings(c.text, same, Folded) {
			if beyondASCII(part) > beyondASCII(text) {
				text = part
			}
		}
	}
	if most := in.casing(all, text); most != "" {
		return most
	}
	if text != strings.ToLower(text) || text == strings.ToUpper(text) {
		return text
	}
	if all[0].method != FromDomain {
		capital, plain := "", 0.0
		asked := map[string]bool{} // each place once, and each of its spellings
		for _, c := range all {
			key := c.method + " " + c.text
			switch {
			case c.method == FromDomain || Folded(c.text) != same || asked[key]:
			case c.text == strings.ToLower(c.text):
				plain += c.base
			case capital == "":
				capital = c.text
				plain -= c.base
			default:
				plain -= c.base
			}
			asked[key] = true
		}
		if capital != "" && plain < 0 {
			return capital
		}
		if written := in.written(same); strings.EqualFold(written, text) {
			return written
		}
	}
	return text
}

// apart returns the best name, as separate words if at least as many places write it so as glue it together: Blue Harbor
// instead of BlueHarbor.
func (in Input) apart(all []nameCandidate) string {
	text, spaced := all[0].text, ""
	if strings.ContainsRune(text, ' ') || all[0].method == FromDomain {
		return text
	}
	same, places := Folded(text), map[string]int{} // 1 for a place that writes words, -1 for one that does not
	for _, c := range all {
		switch {
		case c.method == FromDomain || c.method == "page text" || Folded(c.text) != same:
		case strings.ContainsRune(c.text, ' '):
			places[c.method] = 1
			spaced = cmp.Or(spaced, c.text)
		case places[c.method] == 0 && !strings.HasPrefix(c.method, "twitter"):
			places[c.method] = -1
		}
	}
	sum := 0
	for _, n := range places {
		sum += n
	}
	if spaced == "" || sum < 0 {
		return text
	}
	return spaced
}

func beyondASCII(text string) int {
	n := 0
	for _, r := range text {
		if r >= utf8.RuneSelf && unicode.IsLetter(r) {
			n++
		}
	}
	return n
}

// nameFit returns how well a candidate fits the site, leniently for scripts that cannot be compared with a domain.
func (in Input) nameFit(text string) float64 {
	if isDomain(text, in) {
		return insideFit
	}
	if fit := in.fit(text); fit > 0 {
		return fit
	}
	_, comparable := latinized(text)
	if !comparable && beyondASCII(text) > 0 && !hasLatin(text) && hasOnlyLatin(in.Site.Label) {
		return unknownFit
	}
	return 0
}

func hasLatin(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
}

func hasOnlyLatin(text string) bool {
	return !strings.ContainsFunc(text,
		func(r rune) bool { return unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) })
}

const minCased = 4 // how many letters a name in capitals has that is not read as an abbreviation

// casing returns the spelling of a name in capitals that the page itself uses most, or "" if that is the given one, or
// if it is unclear. Menus and headlines are often in capitals, so only a majority for other letters counts.
func (in Input) casing(all []nameCandidate, text string) string {
	same := Folded(text)
	if text != strings.ToUpper(text) || text == strings.ToLower(text) || utf8.RuneCountInString(same) < minCased {
		return ""
	}
	uses := map[string]int{}
	count := func(passage string) {
		for spelling := range spellings(passage, same, Folded) {
			uses[spelling]++
		}
	}
	for _, c := range all {
		if c.method != FromDomain && c.method != "page text" {
			count(c.text)
		}
	}
	count(in.Page.Meta("og:description", "description"))
	count(in.Page.Text)
	best, most, total := "", 0, 0
	for spelling, n := range uses {
		total += n
		if spelling == strings.ToLower(spelling) { // a common word
			total -= n
			continue
		}
		if n > most || n == most && spelling < best {
			best, most = spelling, n
		}
	}
	if best == text || best == strings.ToUpper(best) || 2*most <= total {
		return ""
	}
	return best
}

// Limits of a walk through a document.
const (
	maxNodes = 200_000 // visited elements and texts
	maxWalk  = 1500    // depth
)

// visit calls enter for the nodes of a document in order, and skips the content
// of a node for which enter returns false. A nil document has no nodes.
func visit(root *html.Node, enter func(*html.Node) bool) {
	left := maxNodes
	var walk func(*html.Node, int)
	walk = func(n *html.Node, depth int) {
		if left--; left < 0 || depth > maxWalk || !enter(n) {
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, depth+1)
		}
	}
	if root != nil {
		walk(root, 0)
	}
}

// innerText returns the visible text of an element, up to about limit bytes.
func innerText(n *html.Node, limit int) string {
	var b strings.Builder
	visit(n, func(n *html.Node) bool {
		switch {
		case b.Len() >= limit:
			return false
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style" || n.Data == "svg" ||
			n.Data == "noscript" || n.Data == "template"):
			return false
		case n.Type == html.ElementNode && n.Data == "br":
			b.WriteByte(' ')
		}
		return true
	})
	return b.String()
}
