package company

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/industry"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/sp500"
)

// Weights of a site's texts for its industry. Its self-description counts more than the content of its pages: a
// publisher that writes about airlines is not one.
const (
	nameCounts        = 1.5
	titleCounts       = 1.5
	descriptionCounts = 2.0
	keywordsCount     = 0.8
	declaredCounts    = 1.0
	headingCounts     = 1.0
	subheadingsCount  = 0.5
	menuCounts        = 0.6
	aboutCounts       = 1.0
	bodyCounts        = 0.3

	maxIndustryText = 4000 // bytes of one text
	maxMenuItems    = 60
	maxMenuItem     = 40 // bytes; longer ones are headlines

	softwareScore = 0.6 // the score of a page that describes a program with the brand's name
	newsScore     = 0.6 // the score of a page with news articles: some companies mark their press releases as such
	// guessFactor is the factor of a guess if a class is declared or known: the guess may be a second trade, or a
	// mistake.
	guessFactor    = 0.5
	loneGuessScore = 0.45 // limits a guess from one place of an inner page, whose words are about its topic
	// minGuess is the minimum score of a record's first industry, if it is a guess. Below it the record has none. On
	// the labels of tools/accuracy and the pages of its groups facts and heldout, 29 of 33 guesses (88 %) of 0.3 or
	// more were right, and 4 of 5 below; at 0.55, 21 of 23 (91 %) were.
	minGuess = 0.3
	// domainScore is the score of the industry that a domain ending implies. The
	// endings are reserved for governments, but shared by agencies and cities.
	domainScore           = 0.7
	declaredIndustryScore = 0.85 // the score of a class that the field industry of linked data names
	pressScore            = 0.6  // the score of a name that contains newspaper or magazine
)

// Places of the texts. All parts of one page about its topic count as one witness.
const (
	inName  = "name"
	inOwner = "owner"
	inMenu  = "menu"
	inAbout = "about"
	inPage  = "page"
)

// weighedIndustry is a class with its score and source.
type weighedIndustry struct {
	class  *industry.Class
	score  float64
	source string
	method string
	note   string
}

// IndustriesWeighed lists the industries that were considered, best first. Those in the record have won.
func IndustriesWeighed(of extract.Input) []extract.Weighed {
	in := input{of}
	var out []extract.Weighed
	all := in.weighIndustries(in.ownName(), in.declared())
	won := len(inRecord(all))
	for i, w := range all {
		out = append(out, extract.Weighed{
			Field: "industries", Value: w.class.Name, Source: w.source, Method: w.method, Score: w.score, Won: i < won,
			Note: w.note,
		})
	}
	return out
}

// inRecord returns the classes that are kept: none if the best is a weak guess.
func inRecord(all []weighedIndustry) []weighedIndustry {
	if len(all) == 0 || all[0].method == guessed && all[0].score < minGuess {
		return nil
	}
	return all[:min(len(all), industry.MaxClasses)]
}

const guessed = "words" // the method of a guess from the words of pages

// agencies and municipalities are the classes of domains that are reserved for governments.
const (
	agencies       = "government-agencies"
	municipalities = "cities-and-municipalities"
)

// weighIndustries lists the classes with any evidence, best first. name is the
// brand's; owners are the objects in which the pages declare the owner.
func (in input) weighIndustries(name string, owners []ownObject) []weighedIndustry {
	var all []weighedIndustry
	add := func(w weighedIndustry) {
		if w.class == nil {
			return
		}
		for i, have := range all {
			if have.class == w.class {
				if w.score > have.score {
					all[i] = w
				}
				return
			}
		}
		all = append(all, w)
	}
	if f, ok := sp500.Of(in.Site.Domain); ok {
		class, score := industry.BySubIndustry(f.SubIndustry)
		add(weighedIndustry{class, score, sp500.Source, "GICS sub-industry", f.SubIndustry})
	}
	for _, o := range owners {
		for _, t := range o.Types {
			add(weighedIndustry{industry.ByType(t), industry.TypeScore, o.source, o.how + " type", t})
		}
		if text := o.Text("industry"); text != "" && len(text) <= maxMenuItem {
			add(weighedIndustry{industry.ByName(text), declaredIndustryScore, o.source, o.how + " industry", text})
		}
	}
	for _, o := range in.Page.Data.All() {
		if o.Parent == nil && o.Is("SoftwareApplication", "WebApplication", "MobileApplication") &&
			in.Fits(o.Text("name")) >= extract.StrongFit {
			add(weighedIndustry{industry.ByType("SoftwareApplication"), softwareScore, evidenceOf(in.Page),
				"json-ld type", "SoftwareApplication"})
			break
		}
	}
	if in.hasObject(newsArticles) {
		add(weighedIndustry{industry.ByType("NewsMediaOrganization"), newsScore, evidenceOf(in.Page),
			"json-ld type", "NewsArticle"})
	}
	if in.isPress(name) {
		add(weighedIndustry{industry.ByType("NewsMediaOrganization"), pressScore, evidenceOf(in.Page), "name", name})
	}
	if kindOfDomain(in.Site.Domain) == "GOVERNMENT_AGENCY" && len(all) == 0 {
		add(weighedIndustry{industry.BySlug(agencies), domainScore, evidenceOf(in.Page),
			"domain ending", in.Site.Domain})
	}
	declared := len(all) > 0
	for _, g := range industry.Classify(in.industryTexts(name, owners)) {
		score := g.Score
		if in.Inner() && g.Places < 2 {
			score = min(score, loneGuessScore)
		}
		if declared && !slices.ContainsFunc(all, func(w weighedIndustry) bool {
			return w.class == g.Class || w.class.Slug == agencies && g.Class.Slug == municipalities
		}) {
			score = extract.Round2(score * guessFactor)
		}
		if score >= industry.MinScore {
			add(weighedIndustry{g.Class, score, evidenceOf(in.Page), guessed, strings.Join(g.Terms, ", ")})
		}
	}
	slices.SortStableFunc(all, func(a, b weighedIndustry) int { return cmp.Compare(b.score, a.score) })
	return all
}

// industryTexts returns the texts from which the industry is guessed.
func (in input) industryTexts(name string, owners []ownObject) []industry.Text {
	var out []industry.Text
	seen := map[string]bool{}
	own := in.nameAlone(name)
	add := func(place, text string, weight float64) {
		if own != nil {
			text = own.ReplaceAllString(text, "$1 $2")
		}
		if len(text) > maxIndustryText {
			text = strings.ToValidUTF8(text[:maxIndustryText], "")
		}
		if text != "" && !seen[text] {
			seen[text] = true
			out = append(out, industry.Text{Body: text, Weight: weight, Place: place})
		}
	}
	add(inName, name, nameCounts)
	for _, o := range owners {
		add(inOwner, o.Text("description"), declaredCounts)
		add(inOwner, o.Text("slogan"), declaredCounts)
	}
	add(inMenu, menuText(in.Page), menuCounts)
	for _, p := range in.More[:min(len(in.More), maxReadPages)] {
		if roleOf(p) == atAbout {
			add(inAbout, p.Title+" . "+p.Text, aboutCounts)
		}
	}
	if in.isArticle() { // it is about its topic, not the site
		return out
	}
	add(inPage, in.Page.Title, titleCounts)
	if d, ok := extract.Description(in.Input); ok {
		add(inPage, d.Value, descriptionCounts)
	}
	add(inPage, in.Page.Meta("keywords", "news_keywords"), keywordsCount)
	add(inPage, strings.Join(in.Page.Headings, " . "), headingCounts)
	add(inPage, in.subheadings(), subheadingsCount)
	add(inPage, in.Page.Text, bodyCounts)
	return out
}

// pressName matches a name that contains newspaper, magazine or news.
var pressName = lazyregexp.New(`(?i)(?:^|[^\p{L}])\p{L}*?(` + tables.Any("pressName") + `)(?:[^\p{L}]|$)`)

// isPress reports whether both the name and the domain contain newspaper or magazine: many shops have a magazine.
func (in input) isPress(name string) bool {
	m := pressName.FindStringSubmatch(name)
	return m != nil && slices.ContainsFunc(in.Site.Labels(),
		func(label string) bool { return strings.Contains(extract.Folded(label), extract.Folded(m[1])) })
}

// nameAlone returns an expression for a brand's name of one word, or nil for a name of several. Part of such a word is
// weak evidence: a site for cooks may begin with cyber.
func (in input) nameAlone(name string) *regexp.Regexp {
	words := extract.FoldedWords(name)
	if len(words) != 1 || len(name) > extract.MaxFitName || in.Fits(name) < extract.StrongFit {
		return nil
	}
	return regexp.MustCompile(`(?i)(^|[^\p{L}\d])` + regexp.QuoteMeta(strings.TrimSpace(name)) + `([^\p{L}\d]|$)`)
}

// articles are the schema.org types of single articles, and newsArticles those used only by news media.
var (
	articles     = tables.List("articles")
	newsArticles = []string{"NewsArticle", "ReportageNewsArticle", "AnalysisNewsArticle", "OpinionNewsArticle"}
)

// isArticle reports whether the page is a single article, not the site's front page.
func (in input) isArticle() bool {
	if in.Page.URL == nil || in.Page.URL.Path == "" || in.Page.URL.Path == "/" {
		return false
	}
	switch kind := in.Page.Meta("og:type"); {
	case strings.HasPrefix(kind, "article"), strings.HasPrefix(kind, "video"), strings.HasPrefix(kind, "music"),
		strings.HasPrefix(kind, "product"):
		return true
	}
	return in.hasObject(articles)
}

// hasObject reports whether the page's linked data has an object of one of the types.
func (in input) hasObject(types []string) bool {
	return slices.ContainsFunc(in.Page.Data.All(), func(o *linkeddata.Object) bool { return o.Is(types...) })
}

// menuText returns the text of the short links in a page's header and navigation: the sections of the site.
func menuText(p *page.Page) string {
	var items []string
	for _, a := range p.Anchors {
		if (a.Zone == page.Nav || a.Zone == page.Header) && a.Text != "" && len(a.Text) <= maxMenuItem &&
			len(items) < maxMenuItems {
			items = append(items, a.Text)
		}
	}
	return strings.Join(items, " . ")
}

// subheadings returns the headings of a page below the first level.
func (in input) subheadings() string {
	var all []string
	for _, l := range in.lines(in.Page) {
		if l.Heading && !slices.Contains(in.Page.Headings, l.Text) {
			all = append(all, l.Text)
		}
	}
	return strings.Join(all, " . ")
}
