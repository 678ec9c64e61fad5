// Package fonts decides a brand's fonts: the typefaces of the page's titles and
// text (fonts.go), and their sources (sources.go, url.go).
package fonts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
)

// Confidences of a font, by evidence.
const (
	shownConfidence   = 0.9 // used by a sheet for the text, and with a known source
	systemConfidence  = 0.8 // used by a sheet, and installed on every computer
	namedConfidence   = 0.6 // used by a sheet, but not loaded
	onlyConfidence    = 0.7 // the only family requested from a font service
	guessedConfidence = 0.4 // guessed among several
)

// Limits for reading a page's text.
const (
	maxTitles     = 60  // pieces of headings
	maxTexts      = 250 // pieces of other text
	maxFontNodes  = 60_000
	minTextRunes  = 20  // of a piece of running text
	titleRunes    = 20  // minimum for each heading, however short
	maxTitleRunes = 60  // maximum for one heading: a long one is not more typical
	maxTextRunes  = 300 // maximum for one piece of text
	unseenRunes   = 5   // for a heading that the page lacks but its sheets describe
	maxStacks     = 40  // different families of one kind of text
	chromeShare   = 0.2 // factor of a heading that is the name of the site, or of a column of links
)

// typeface is a font and its evidence.
type typeface struct {
	font       eventschemas.Font
	runes      float64 // amount of the page's text; for a guess, its place in the order
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
				Field: "fonts", Value: fmt.Sprintf("%s: %s (%s)", f.font.Type, f.font.Name, f.font.Origin),
				Source: f.source, Method: f.method, Score: extract.Round2(f.runes), Won: i == 0, Note: f.note,
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

// typefaces lists the candidates for headings and for text, best first. The
// sheets decide; requests to font services fill gaps.
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

// without removes from a guess the families known to be used for something else, unless nothing else remains.
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

// shownFonts determines from the sheets the fonts of the page's own headings and text. The amount of text in a family
// counts, not how often sheets name it.
func shownFonts(in extract.Input, sources *fontSources) (titles, texts []typeface) {
	w := &textWalk{in: in, families: map[*html.Node]string{}, titles: map[string]float64{}, texts: map[string]float64{}}
	if in.Page.Root != nil {
		w.walk(in.Page.Root, textPlace{})
	}
	w.unseen()
	return sources.typefaces(w.titles, "title", in), sources.typefaces(w.texts, "body", in)
}

// textWalk measures the amount of text in each stack of families, as written in the sheets.
type textWalk struct {
	in       extract.Input
	body     *html.Node
	families map[*html.Node]string // including inherited ones
	titles   map[string]float64
	texts    map[string]float64
	nodes    int
	seen     [2]int // pieces of headings and of text
}

// textPlace is the place of a text in a page.
type textPlace struct {
	heading float64 // weight of a heading; 0 outside of one
	chrome  bool    // navigation, footer, a button: neither title nor text
}

var headingWeight = map[string]float64{"h1": 3, "h2": 2, "h3": 1} // the weight of each level of heading

// notText are the elements whose text is hidden, or is not running text.
var notText = extract.FoldedSet(tables.List("notText")...)

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

// unseenName matches names of blocks for screen readers only.
var unseenName = lazyregexp.New(`(?i)^(` + tables.Any("unseenName") + `)$`)

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

// family returns the font-family that an element has or inherits.
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

// unseen looks up the headings and the paragraph that a page might have: an app
// shell has no text, but its sheets style some. They have a low weight.
func (w *textWalk) unseen() {
	if w.body == nil {
		return
	}
	for name, weight := range headingWeight {
		n := &html.Node{Type: html.ElementNode, Data: name, Parent: w.body} // not part of the tree
		w.count(w.titles, n, weight*unseenRunes)
	}
	w.count(w.texts, &html.Node{Type: html.ElementNode, Data: "p", Parent: w.body}, unseenRunes)
}

// hasFontElement reports whether a page without sheets names fonts in font elements.
func hasFontElement(in extract.Input) bool {
	if in.Page.Root == nil {
		return false
	}
	nodes := 1
	for n := range in.Page.Root.Descendants() {
		if nodes++; nodes > maxFontNodes {
			break
		}
		if n.Type == html.ElementNode && n.Data == "font" && page.Attr(n, "face") != "" {
			return true
		}
	}
	return false
}

// typefaces turns stacks of families into fonts, by amount of text, largest first.
func (s *fontSources) typefaces(stacks map[string]float64, kind string, in extract.Input) []typeface {
	var out []typeface
	for stack, runes := range stacks {
		f, ok := s.resolve(stack)
		if !ok {
			continue
		}
		f.runes, f.font.Type, f.method = runes, kind, "css font-family"
		f.source = cmp.Or(f.source, in.PageURL())
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

var titleWords = tables.List("titleWords") // words in the names of display faces

// guessedFonts distinguishes titles from text by the requests to font services: running text needs an italic and a
// regular weight, titles a bold one. A single family is used for everything.
func guessedFonts(in extract.Input, sources *fontSources) (titles, texts []typeface) {
	families := slices.DeleteFunc(slices.Clone(sources.asked),
		func(f askedFamily) bool { return subsetName.MatchString(f.Name) })
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
		return typeface{font: f.font(kind), runes: score, source: f.source, method: "google fonts link",
			confidence: confidence, note: "guessed from what is asked for"}
	}
	for i, f := range families {
		order := float64(len(families)-i) / float64(len(families)) // the first requested is used most
		titles = append(titles, guess(f, "title", order-textual(f.Family)))
		texts = append(texts, guess(f, "body", -order/2+textual(f.Family)))
	}
	if len(families) == 1 {
		if textual(families[0].Family) < 0 {
			texts = nil // unsuitable for running text
		}
		return titles, texts
	}
	byScore := func(a, b typeface) int { return cmp.Compare(b.runes, a.runes) }
	slices.SortStableFunc(titles, byScore)
	slices.SortStableFunc(texts, byScore)
	return titles, texts
}

// textual returns how suitable a family looks for running text, from -1 to 1.
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
