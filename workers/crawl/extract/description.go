package extract

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"letterhead/domain/brand"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// Limits of descriptions, in runes.
const (
	minDescription = 15
	minDenseText   = 6   // of scripts in which one character may be a word
	longerBy       = 1.2 // how much longer a long description must be than the short one to add anything to it
)

// notices matches texts about the page or its software, not about the brand.
var notices = lazyregexp.New(`(?i)` + tables.Any("notices"))

// builders matches default texts of site builders, themes and frameworks.
var builders = lazyregexp.New(`(?i)^(?:` + tables.Any("builders") + `)$`)

// Places of a description, in the order of the rules; each step is worth a tenth.
const (
	firstDescription = 0.95
	descriptionStep  = 0.08
	moreDescription  = 0.3  // the weight of a description on a second page about the brand
	introDescription = 0.25 // the weight of the front page's own words if nothing is declared
)

// Description decides the short description.
func Description(in Input) (Found[string], bool) {
	all := weighDescriptions(in)
	if len(all) == 0 || all[0].Value == "" {
		return Found[string]{}, false
	}
	d := all[0]
	return Found[string]{Value: d.Value, Source: d.Source, Method: d.Method, Confidence: Round2(d.Score)}, true
}

// DescriptionsWeighed lists the candidates for the description, best first.
func DescriptionsWeighed(in Input) []Weighed {
	out := weighDescriptions(in)
	for i := range out {
		out[i].Score, out[i].Won = Round2(out[i].Score), i == 0 && out[i].Value != ""
	}
	return out
}

// weighDescriptions returns the usable descriptions in the order of the rules,
// followed by the rejected ones with an empty text.
func weighDescriptions(in Input) []Weighed {
	p := in.Page
	var all []Weighed
	score := firstDescription
	add := func(raw, method, source string) {
		if raw != "" {
			d := Weighed{Field: "description", Value: describe(raw, brand.MaxDescriptionRunes, in), Method: method,
				Source: source, Score: score, Note: "in the order of the rules"}
			if d.Value == "" {
				d.Score, d.Note = 0, "says nothing of the brand: "+page.Clean(raw, minDescription*4)
			}
			all = append(all, d)
		}
		score -= descriptionStep
	}
	add(p.Meta("og:description"), "og:description", in.PageURL())
	add(p.Meta("twitter:description"), "twitter:description", in.PageURL())
	add(p.Meta("description"), "meta description", in.PageURL())
	add(p.Meta("dc.description", "dcterms.description", "abstract"), "dublin core description", in.PageURL())
	add(p.Itemprop("description"), "itemprop description", in.PageURL())
	if owner := in.owner(); owner != nil {
		add(owner.Text("description"), "json-ld organization", in.PageURL())
	}
	if w := p.Data.WebSite(in.Site); w != nil {
		add(w.Text("description"), "json-ld website", in.PageURL())
	}
	if o := in.article(); o != nil {
		add(o.Text("description"), "json-ld page", in.PageURL())
	}
	if in.Manifest != nil {
		add(in.Manifest.Description, "manifest description", in.ManifestURL())
	}
	for _, more := range in.More {
		if aboutPage(more.URL) {
			score = moreDescription
			add(more.Meta("og:description", "description"), "about page", more.URL.String())
		}
	}
	if !slices.ContainsFunc(all, func(d Weighed) bool { return d.Value != "" }) && !in.Inner() {
		name, _ := Name(in)
		score = introDescription
		add(in.intro(name.Value), "first paragraph", in.PageURL())
		add(in.tagline(name.Value), "title", in.PageURL())
		if line := in.Page.Meta("og:site_name"); sentenceLike(line) && sameKey(line) != sameKey(name.Value) {
			add(line, "og:site_name", in.PageURL())
		}
	}
	slices.SortStableFunc(all, func(a, b Weighed) int { return cmp.Compare(b.Score, a.Score) })
	return all
}

// maxIntroName is how far into a paragraph, in bytes, the brand may be named for the paragraph to introduce it.
const maxIntroName = 60

// intro returns the first paragraph of a front page that begins by naming the brand, or "" if there is none.
func (in Input) intro(name string) string {
	for _, text := range paragraphs(in.Page.Root) {
		for _, n := range []string{Folded(name), Folded(in.Site.Label)} {
			if len(n) >= MinPart && strings.Contains(Folded(text[:min(len(text), maxIntroName)]), n) {
				return text
			}
		}
	}
	return ""
}

const minTagline = 4 // the number of words from which the other part of a title is more than a page's name

// tagline returns the part of a front page's title that is not the brand's
// name, or "" if it is only the name of a page.
func (in Input) tagline(name string) string {
	var others []string
	named := false
	for _, s := range titleSegments(in.Page.Title) {
		s = strings.TrimSpace(s)
		switch {
		case sameKey(s) == sameKey(name) || sameKey(tidyName(s, in)) == sameKey(name):
			named = true
		case !generic(s):
			others = append(others, s)
		}
	}
	if !named || len(others) != 1 || len(strings.Fields(others[0])) < minTagline && !Dense(others[0]) {
		return ""
	}
	return others[0]
}

// LongDescription decides the long description: the owner's own declaration, else the first paragraphs of its about
// page, provided that it says more than the short description. Nothing is repeated or invented.
func LongDescription(in Input, short string) (Found[string], bool) {
	more := func(text string) bool {
		return text != "" && Folded(text) != Folded(short) &&
			float64(utf8.RuneCountInString(text)) >= longerBy*float64(utf8.RuneCountInString(short))
	}
	if owner := in.owner(); owner != nil {
		for _, key := range []string{"description", "disambiguatingDescription"} {
			if text := describe(owner.Text(key), brand.MaxLongDescriptionRunes, in); more(text) {
				return Found[string]{Value: text, Source: in.PageURL(), Method: "json-ld organization",
					Confidence: 0.9}, true
			}
		}
	}
	for _, p := range in.More {
		if !aboutPage(p.URL) {
			continue
		}
		if text := describe(strings.Join(paragraphs(p.Root), " "), brand.MaxLongDescriptionRunes, in); more(text) {
			return Found[string]{Value: text, Source: p.URL.String(), Method: "about page", Confidence: 0.7}, true
		}
	}
	return Found[string]{}, false
}

// describe cleans a description, or returns "" if the text is not one.
func describe(text string, limit int, in Input) string {
	text = page.Clean(withoutTags(repaired(text)), page.MaxValueRunes)
	shortest := minDescription
	if Dense(text) {
		shortest = minDenseText
	}
	if utf8.RuneCountInString(text) < shortest || in.misread(text) || isNotice(text) || builders.MatchString(text) ||
		!strings.ContainsFunc(text, unicode.IsLetter) {
		return ""
	}
	if len(strings.Fields(text)) <= shortWords && generic(text) || in.isName(text) {
		return ""
	}
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	cut := string([]rune(text)[:limit-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:-") + "…"
}

// tagPiece is the remains of an HTML tag that was cut off.
var (
	tagPiece   = lazyregexp.New(`</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?$`)
	unreadable = lazyregexp.New(`(?is)<(?:script|style|noscript)\b[^<>]*>.*?</(?:script|style|noscript)\s*>|<a\s[^<>]*\bmore\b[^<>]*>[^<>]*</a\s*>`)
	softTag    = lazyregexp.New(`(?i)</?(?:abbr|b|big|em|font|i|mark|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?>`)
)

// withoutTags drops the markup from a text whose template escaped it, and decodes its content.
func withoutTags(text string) string {
	if !strings.ContainsAny(text, "<&") {
		return text
	}
	text = unescaped(text)
	if !brand.HTMLTag().MatchString(text) {
		return tagPiece.ReplaceAllString(text, "")
	}
	text = softTag.ReplaceAllString(unreadable.ReplaceAllString(text, " "), "")
	return html.UnescapeString(tagPiece.ReplaceAllString(brand.HTMLTag().ReplaceAllString(text, " "), ""))
}

// Positions at which a notice must begin for a text to be one: at the beginning, or anywhere in a short text. A longer
// text that mentions cookies or challenge pages later is a real description.
const (
	maxNoticeStart = 30 // bytes
	maxNoticeWords = 8
)

func isNotice(text string) bool {
	at := notices.FindStringIndex(text)
	return at != nil && (at[0] <= maxNoticeStart || len(strings.Fields(text)) <= maxNoticeWords)
}

// isName reports whether a text is only the site's name or URL.
func (in Input) isName(text string) bool {
	f := Folded(text)
	siteName := in.Page.Meta("og:site_name")
	return f == Folded(siteName) && !sentenceLike(siteName) || f == Folded(in.Site.Domain) ||
		f == "www"+Folded(in.Site.Domain)
}

// Dense reports whether a text consists mostly of characters that represent whole words or syllables.
func Dense(text string) bool {
	n, all := 0, 0
	for _, r := range text {
		all++
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
			n++
		}
	}
	return 2*n > all
}

// aboutPaths matches URLs of pages about the brand.
var aboutPaths = lazyregexp.New(`(?i)(?:^|[/_.-])(?:` + tables.Any("aboutPaths") + `)(?:[/_.-]|$)`)

func aboutPage(u *url.URL) bool { return u != nil && aboutPaths.MatchString(u.Path) }

// Conditions for a paragraph to be real prose.
const (
	maxParagraphs      = 3
	minParagraphRunes  = 60
	minParagraphWords  = 8
	maxParagraphLinks  = 0.4 // proportion of letters within links
	maxParagraphsTried = 200
)

// paragraphs returns the first real paragraphs of a page's content.
func paragraphs(root *html.Node) []string {
	var out []string
	tried := 0
	visit(root, func(n *html.Node) bool {
		switch {
		case len(out) >= maxParagraphs || tried >= maxParagraphsTried:
			return false
		case n.Type != html.ElementNode:
			return true
		}
		switch n.Data {
		case "head", "header", "nav", "footer", "aside", "form", "script", "style", "noscript", "template", "svg",
			"dialog", "blockquote", "figcaption", "address":
			return false
		case "p":
			tried++
			if text, ok := paragraph(n); ok && !slices.Contains(out, text) {
				out = append(out, text)
			}
			return false
		}
		return !overlay(n)
	})
	return out
}

// paragraph returns the text of a paragraph if it consists of sentences and is neither a notice nor a list of links.
func paragraph(n *html.Node) (string, bool) {
	text := page.Clean(innerText(n, 4*brand.MaxLongDescriptionRunes), brand.MaxLongDescriptionRunes)
	size := utf8.RuneCountInString(text)
	if Dense(text) {
		size *= 3
	} else if len(strings.Fields(text)) < minParagraphWords {
		return "", false
	}
	if size < minParagraphRunes || notices.MatchString(text) || builders.MatchString(text) ||
		copyrightSign.MatchString(text) || !strings.ContainsAny(text, ".!?。！？।؟…") {
		return "", false
	}
	linked := 0
	visit(n, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "a" {
			return true
		}
		linked += len(innerText(n, brand.MaxLongDescriptionRunes))
		return false
	})
	return text, float64(linked) <= maxParagraphLinks*float64(len(text))
}

// overlayRoles and overlayWords are roles, and words of class and id, of elements over or next to a page's own text.
var (
	overlayRoles = []string{"navigation", "banner", "contentinfo", "dialog", "alertdialog", "search", "alert"}
	overlayWords = tables.List("overlayWords")
)

const maxClassBytes = 300 // limits the class and id that are split into words

// overlay reports whether an element is hidden, a layer over the page, or part of the page's frame.
func overlay(n *html.Node) bool {
	if page.Attr(n, "aria-hidden") == "true" || slices.Contains(overlayRoles, page.Attr(n, "role")) ||
		slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" }) {
		return true
	}
	if n.Data == "body" || n.Data == "html" || n.Data == "main" {
		return false // the class describes the state of the page
	}
	text := page.Attr(n, "class") + " " + page.Attr(n, "id")
	return slices.ContainsFunc(page.SplitWords(text[:min(len(text), maxClassBytes)]),
		func(w string) bool { return slices.Contains(overlayWords, w) })
}
