// Package fonts decides a brand's fonts: which typefaces the page's titles and text are set in (fonts.go), and where they
// are loaded from (sources.go, url.go).
package fonts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
)

// How sure a font is, by what says it.
const (
	shownConfidence   = 0.9 // a sheet says it of the text, and where it is loaded from
	systemConfidence  = 0.8 // a sheet says it, and every computer has it
	namedConfidence   = 0.6 // a sheet says it, but nobody loads it
	onlyConfidence    = 0.7 // one family is asked of a font service
	guessedConfidence = 0.4 // of several, one was guessed
)

// Limits of what is looked at of a page's text.
const (
	maxTitles     = 60  // pieces of headings
	maxTexts      = 250 // pieces of other text
	maxFontNodes  = 60_000
	minTextRunes  = 20  // of a piece of running text
	titleRunes    = 20  // that every heading counts for, however short
	maxTitleRunes = 60  // counted of one heading: a long one is no more typical
	maxTextRunes  = 300 // counted of one piece of text
	unseenRunes   = 5   // what a heading counts that the page does not have, but its sheets describe
	maxStacks     = 40  // families told apart of one kind of text
	chromeShare   = 0.2 // of a heading that is the name of the site, or of a column of links
)

// typeface is a font with what speaks for it.
type typeface struct {
	font       eventschemas.Font
	runes      float64 // of the page's text that it covers; for a guess, its place in the order
	source     string
	method     string
	confidence float64
	note       string
}

// Decide decides the site's typefaces: of its headings, and of its running text.
func Decide(in extract.Input) extract.Found[[]eventschemas.Font] {
	out := extract.Found[[]eventschemas.Font]{Value: []eventschemas.Font{}}
	titles, texts := typefaces(in)
	for _, list := range [][]typeface{titles, texts} {
		if len(list) == 0 {
			continue
		}
		best := list[0]
		if len(out.Value) == 0 || best.confidence < out.Confidence {
			out.Source, out.Method, out.Confidence = best.source, best.method, best.confidence
		}
		out.Value = append(out.Value, best.font)
	}
	return out
}

// Weighed lists the typefaces of headings and of text, each kind by how much of the page it covers.
func Weighed(in extract.Input) []extract.Weighed {
	titles, texts := typefaces(in)
	var out []extract.Weighed
	for _, list := range [][]typeface{titles, texts} {
		for i, f := range list {
			out = append(out, extract.Weighed{
				Field: "fonts", Value: fmt.Sprintf("%s: %s (%s)", f.font.Type, f.font.Name, f.font.Origin), Source: f.source,
				Method: f.method, Score: extract.Round2(f.runes), Won: i == 0, Note: f.note,
			})
		}
	}
	slices.SortStableFunc(out, func(a, b extract.Weighed) int {
		if a.Won != b.Won {
			return map[bool]int{true: -1, false: 1}[a.Won]
		}
		return 0
	})
	return out
}

// typefaces lists the candidates for headings and for text, best first. What the sheets say counts; what the
// page asks of font services fills in where they say nothing.
func typefaces(in extract.Input) (titles, texts []typeface) {
	sources := newFontSources(in)
	if !in.Style.Empty() || hasFontElement(in) {
		titles, texts = shownFonts(in, sources)
	}
	guessedTitles, guessedTexts := guessedFonts(in, sources)
	if len(titles) == 0 {
		titles = without(guessedTitles, texts)
	}
	if len(texts) == 0 {
		texts = without(guessedTexts, titles)
	}
	return titles, texts
}

// without leaves out of a guess what is known to be used for something else, unless it is all there is.
func without(guess, known []typeface) []typeface {
	if len(known) == 0 {
		return guess
	}
	rest := slices.DeleteFunc(slices.Clone(guess), func(f typeface) bool { return f.font.Name == known[0].font.Name })
	if len(guess) == 1 {
		return guess
	}
	return rest
}

// shownFonts asks the sheets what the page's own headings and text look like. It is how much text a family
// covers that counts, not how often sheets name it.
func shownFonts(in extract.Input, sources *fontSources) (titles, texts []typeface) {
	w := &textWalk{in: in, families: map[*html.Node]string{}, titles: map[string]float64{}, texts: map[string]float64{}}
	if in.Page.Root != nil {
		w.walk(in.Page.Root, textPlace{})
	}
	w.unseen()
	return sources.typefaces(w.titles, "title", in), sources.typefaces(w.texts, "body", in)
}

// textWalk gathers how much text stands in which families, as sheets write them.
type textWalk struct {
	in       extract.Input
	body     *html.Node
	families map[*html.Node]string // as inherited
	titles   map[string]float64
	texts    map[string]float64
	nodes    int
	seen     [2]int // pieces of headings and of text
}

// textPlace is where in a page a text stands.
type textPlace struct {
	heading float64 // how much a heading counts; 0 outside of one
	chrome  bool    // navigation, footer, a button: neither title nor text
}

// headingWeight is how much a heading of each level is worth, as the title of the page.
var headingWeight = map[string]float64{"h1": 3, "h2": 2, "h3": 1}

// notText are the elements whose text is not shown, or not as running text.
var notText = extract.FoldedSet("script", "style", "noscript", "template", "svg", "math", "title", "head", "textarea", "select", "option", "code", "pre", "iframe", "object", "video", "audio")

// chromeText are the elements around a page's text.
var chromeText = extract.FoldedSet("nav", "footer", "button", "label", "form", "header")

func (w *textWalk) walk(n *html.Node, at textPlace) {
	if w.nodes++; w.nodes > maxFontNodes {
		return
	}
	switch n.Type {
	case html.TextNode:
		w.text(n, at)
		return
	case html.ElementNode:
		if notText[n.Data] || extract.ForeignBlock(n) || unseenBlock(n) {
			return
		}
		if n.Data == "body" && w.body == nil {
			w.body = n
		}
		at.chrome = at.chrome || chromeText[n.Data]
		if weight := headingWeight[n.Data]; weight > 0 {
			at.heading = weight
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		w.walk(c, at)
	}
}

// unseenName is what blocks are called that only screen readers get.
var unseenName = regexp.MustCompile(`(?i)^(sr-only|visually-?hidden|screen-reader-text|screenreader|assistive-text|a11y-hidden|hidden-visually|element-invisible)$`)

func unseenBlock(n *html.Node) bool {
	return slices.ContainsFunc(strings.Fields(page.Attr(n, "class")), unseenName.MatchString) ||
		slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" })
}

// text counts one piece of text.
func (w *textWalk) text(n *html.Node, at textPlace) {
	runes := len([]rune(strings.TrimSpace(n.Data)))
	if n.Parent == nil || runes == 0 {
		return
	}
	switch {
	case at.heading > 0 && w.seen[0] < maxTitles:
		weight := at.heading
		if at.chrome {
			weight *= chromeShare
		}
		if w.count(w.titles, n.Parent, weight*float64(titleRunes+min(runes, maxTitleRunes))) {
			w.seen[0]++
		}
	case at.heading == 0 && !at.chrome && runes >= minTextRunes && w.seen[1] < maxTexts:
		w.count(w.texts, n.Parent, float64(min(runes, maxTextRunes)))
		w.seen[1]++
	}
}

func (w *textWalk) count(into map[string]float64, n *html.Node, weight float64) bool {
	family := w.family(n)
	if _, have := into[family]; family == "" || !have && len(into) >= maxStacks {
		return false
	}
	into[family] += weight
	return true
}

// family is the font-family that an element has or inherits.
func (w *textWalk) family(n *html.Node) string {
	if n == nil || n.Type != html.ElementNode {
		return ""
	}
	if have, ok := w.families[n]; ok {
		return have
	}
	family := w.in.Style.Value(n, "font-family")
	if family == "" && n.Data == "font" && w.in.Style == nil {
		family = page.Attr(n, "face")
	}
	if family == "" {
		family = w.family(n.Parent)
	}
	w.families[n] = family
	return family
}

// unseen asks for the headings and the paragraph that a page might have: an app shell has no text of its
// own, but its sheets are written for some. They count for little.
func (w *textWalk) unseen() {
	if w.body == nil {
		return
	}
	for name, weight := range headingWeight {
		n := &html.Node{Type: html.ElementNode, Data: name, Parent: w.body} // the tree does not know of it
		w.count(w.titles, n, weight*unseenRunes)
	}
	w.count(w.texts, &html.Node{Type: html.ElementNode, Data: "p", Parent: w.body}, unseenRunes)
}

// hasFontElement says that a page without sheets names fonts in the old way.
func hasFontElement(in extract.Input) bool {
	nodes := 0
	var find func(n *html.Node) bool
	find = func(n *html.Node) bool {
		if nodes++; nodes > maxFontNodes {
			return false
		}
		if n.Type == html.ElementNode && n.Data == "font" && page.Attr(n, "face") != "" {
			return true
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if find(c) {
				return true
			}
		}
		return false
	}
	return in.Page.Root != nil && find(in.Page.Root)
}

// typefaces turns stacks of families into fonts, what covers most first.
func (s *fontSources) typefaces(stacks map[string]float64, kind string, in extract.Input) []typeface {
	var out []typeface
	for stack, runes := range stacks {
		f, ok := s.resolve(stack)
		if !ok {
			continue
		}
		f.runes, f.font.Type, f.method = runes, kind, "css font-family"
		if f.source == "" {
			f.source = in.PageURL()
		}
		if at := slices.IndexFunc(out, func(have typeface) bool { return have.font.Name == f.font.Name }); at >= 0 {
			out[at].runes += runes
			continue
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b typeface) int {
		return cmp.Or(cmp.Compare(b.runes, a.runes), cmp.Compare(a.font.Name, b.font.Name))
	})
	return out
}

// titleWords are what display faces are called.
var titleWords = []string{"condensed", "slab", "display", "headline", "oswald", "playfair", "bebas", "anton", "narrow", "caps", "bevan", "lobster", "abril"}

// guessedFonts tells titles from text by what is asked of the font services: running text needs an italic
// and a regular weight, titles a bold one. One family is used for everything.
func guessedFonts(in extract.Input, sources *fontSources) (titles, texts []typeface) {
	families := slices.DeleteFunc(slices.Clone(sources.asked), func(f askedFamily) bool { return special(f.Name) })
	if len(families) == 0 {
		families = sources.asked
	}
	if len(families) == 0 {
		return nil, nil
	}
	confidence := onlyConfidence
	if len(families) > 1 {
		confidence = guessedConfidence
	}
	guess := func(f askedFamily, kind string, score float64) typeface {
		return typeface{font: f.font(kind), runes: score, source: f.source, method: "google fonts link", confidence: confidence, note: "guessed from what is asked for"}
	}
	for i, f := range families {
		order := float64(len(families)-i) / float64(len(families)) // what is asked for first is used most
		titles = append(titles, guess(f, "title", order-textual(f.Family)))
		texts = append(texts, guess(f, "body", -order/2+textual(f.Family)))
	}
	if len(families) == 1 {
		if textual(families[0].Family) < 0 {
			texts = nil // nobody sets running text in it
		}
		return titles, texts
	}
	byScore := func(a, b typeface) int { return cmp.Compare(b.runes, a.runes) }
	slices.SortStableFunc(titles, byScore)
	slices.SortStableFunc(texts, byScore)
	return titles, texts
}

// textual is how much a family looks like one for running text, -1 to 1.
func textual(f Family) float64 {
	score := 0.0
	if f.Italic {
		score += 0.4
	}
	if slices.Contains(f.Weights, 400) {
		score += 0.2
	} else if len(f.Weights) > 0 && f.Weights[0] > 500 {
		score -= 0.4
	}
	name := strings.ToLower(f.Name)
	if slices.ContainsFunc(titleWords, func(word string) bool { return strings.Contains(name, word) }) {
		score -= 0.4
	}
	return score
}
