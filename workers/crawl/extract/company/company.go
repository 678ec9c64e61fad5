// Package company decides the fields about the company behind a site: founding
// year, employees, kind, location, ticker and industries.
package company

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/industry"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/microdata"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/postal"
	"letterhead/workers/crawl/sp500"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("company")

// Confidences of the facts, by source. The site's declarations come before the data set, and the data set before prose.
const (
	fromJSONLD    = 0.9
	fromMicrodata = 0.85
	fromMorePage  = 0.05 // less if the declaration is not on the home page
	fromDataSet   = 0.75
	tickerDataSet = 0.95 // sites rarely declare their ticker, and the data set is specific to tickers
	fromEnding    = 0.9
	fromType      = 0.8
)

// claim is a fact and its source.
type claim[T any] struct {
	value      T
	source     string // URL or data set
	method     string
	confidence float64
	// shown reports whether a visitor reads the value on a page, for values that are declared; nil for other claims.
	shown func() bool
}

// settled returns the claims without the declarations that no page shows and
// that a page contradicts: data may be injected, or be the sample of a plug-in.
func settled[T any](claims []claim[T], contradicts func(a, b T) bool) []claim[T] {
	var out []claim[T]
	for _, c := range claims {
		contradicted := c.shown != nil && slices.ContainsFunc(claims, func(read claim[T]) bool {
			return read.shown == nil && read.method != dataSet && contradicts(c.value, read.value)
		})
		if !contradicted || c.shown() {
			out = append(out, c)
		}
	}
	return out
}

// leastSure is the confidence below which no fact is returned.
const leastSure = 0.35

// surest returns the claim with the highest confidence, the first of equals, or nil if none has leastSure.
func surest[T any](claims []claim[T]) *claim[T] {
	var out *claim[T]
	for i := range claims {
		if claims[i].confidence >= leastSure && (out == nil || claims[i].confidence > out.confidence) {
			out = &claims[i]
		}
	}
	return out
}

// dossier holds all claims about a company.
type dossier struct {
	in        input
	name      string // the brand's
	kinds     []claim[string]
	founded   []claim[int]
	employees []claim[int]
	places    []claim[*eventschemas.Location]
	tickers   []claim[[]string] // qualified or bare
	bare      []claim[int]      // founding years without a subject on the current page
	owners    []claim[string]   // the kind of a sole trader, if no legal form is read
	formed    bool              // a legal form of the brand was read
	near      postal.Country    // the country whose forms of addresses are assumed if one is ambiguous
	read      []prose           // the pages
}

// input is the gathered data of one site, with queries for facts about the company.
type input struct{ extract.Input }

// facts are what Decide returns.
type facts struct {
	company  *eventschemas.Company
	evidence []eventschemas.Evidence
}

// Decide decides the facts about the company: the declarations and statements of its own site, and the data set's entry
// for its domain. Domain endings that are reserved for one kind of organization decide its kind.
func Decide(of extract.Input) (*eventschemas.Company, []eventschemas.Evidence) {
	out := extract.Once(of, "company", func() facts { return decide(of) })
	return out.company, out.evidence
}

func decide(of extract.Input) facts {
	var evidence []eventschemas.Evidence
	in := input{of}
	d := &dossier{in: in, name: in.ownName()}
	d.known()
	d.ending()
	owners := in.declared()
	d.readPages()
	for _, o := range owners {
		d.declared(o)
	}
	if !d.formed {
		d.kinds = append(d.kinds, d.owners...)
	}
	d.settle()
	company := eventschemas.EmptyCompany()
	note := func(field, source, method string, confidence float64) {
		evidence = append(evidence, eventschemas.Evidence{Field: "company." + field, Source: source, Method: method,
			Confidence: extract.Round2(confidence)})
	}
	// the earliest of equals
	slices.SortStableFunc(d.founded, func(a, b claim[int]) int { return cmp.Compare(a.value, b.value) })
	if c := surest(d.founded); c != nil {
		company.FoundedYear = &c.value
		note("founded_year", c.source, c.method, c.confidence)
	}
	if c := surest(d.employees); c != nil {
		company.Employees = &c.value
		note("employees", c.source, c.method, c.confidence)
	}
	if c := surest(d.places); c != nil {
		company.Location = c.value
		note("location", c.source, c.method, c.confidence)
	}
	if c := surest(d.tickers); c != nil {
		company.Ticker, company.Tickers = listed(c.value)
		if company.Ticker != nil {
			note("ticker", c.source, c.method, c.confidence)
			d.kinds = append(d.kinds, claim[string]{value: "PUBLIC_COMPANY", source: c.source, method: c.method,
				confidence: c.confidence - fromMorePage})
		}
	}
	if c := surest(d.kinds); c != nil {
		company.Kind = &c.value
		note("kind", c.source, c.method, c.confidence)
	}
	for _, w := range inRecord(in.weighIndustries(d.name, owners)) {
		company.Industries = append(company.Industries, w.class.Industry(w.score))
		note("industries", w.source, w.method, w.score)
	}
	return facts{company, evidence}
}

// known adds the data set's entry for the domain.
func (d *dossier) known() {
	f, ok := sp500.Of(d.in.Site.Domain)
	if !ok {
		return
	}
	data := prose{source: sp500.Source}
	d.kinds = append(d.kinds, claimed(data, "PUBLIC_COMPANY", dataSet, tickerDataSet))
	if f.FoundedYear != 0 {
		d.founded = append(d.founded, claimed(data, f.FoundedYear, dataSet, fromDataSet))
	}
	if l := f.Location(); l != nil {
		d.places = append(d.places, claimed(data, l, dataSet, fromDataSet))
	}
	if symbols := slices.Clone(f.Symbols); len(symbols) > 0 {
		symbols[0] = cmp.Or(f.Ticker(), symbols[0])
		d.tickers = append(d.tickers, claimed(data, symbols, dataSet, tickerDataSet))
	}
}

const dataSet = "data set" // the method of claims from a data set

// settle drops declarations that the pages contradict.
func (d *dossier) settle() {
	differ := func(a, b int) bool { return a != b }
	d.founded, d.employees = settled(d.founded, differ), settled(d.employees, differ)
	d.kinds = settled(d.kinds, func(a, b string) bool { return a != b })
	d.places = settled(d.places, func(a, b *eventschemas.Location) bool {
		return different(a.CountryCode, b.CountryCode) || different(a.City, b.City)
	})
}

// different reports whether both texts are known and differ in more than case and accents.
func different(a, b *string) bool {
	return a != nil && b != nil && extract.Folded(*a) != extract.Folded(*b)
}

func (d *dossier) ending() {
	if kind := kindOfDomain(d.in.Site.Domain); kind != "" {
		d.kinds = append(d.kinds,
			claim[string]{value: kind, source: evidenceOf(d.in.Page), method: "domain ending", confidence: fromEnding})
	}
}

// goCountries are the domains whose registries reserve go for the government.
var goCountries = []string{"jp", "kr", "th", "id", "ke", "tz", "ug"}

// kindOfDomain returns the kind for endings that registries reserve for one kind of organization.
func kindOfDomain(domain string) string {
	labels := strings.Split(domain, ".")
	last := labels[len(labels)-1]
	second := ""
	if len(labels) >= 3 && len(last) == 2 {
		second = labels[len(labels)-2]
	}
	switch {
	case last == "gov", last == "mil", second == "gov", second == "gob", second == "gouv",
		second == "go" && slices.Contains(goCountries, last):
		return "GOVERNMENT_AGENCY"
	case last == "edu", second == "edu", second == "ac":
		return "EDUCATIONAL"
	}
	return ""
}

// ownObject is an object in which a page declares the site's owner.
type ownObject struct {
	*linkeddata.Object
	source     string
	how        string // json-ld or microdata
	confidence float64
}

// declared lists the objects in which the pages declare the owner, the most certain first.
func (in input) declared() []ownObject {
	var out []ownObject
	add := func(g *linkeddata.Graph, p *page.Page, how string, confidence float64) {
		o := g.Owner(in.Site, in.Fits)
		if how == "microdata" && o != nil && !in.claims(o) {
			o = nil
		}
		if o == nil {
			o = in.ownPlace(g)
		}
		if o == nil {
			return
		}
		out = append(out, ownObject{o, evidenceOf(p), how, confidence})
	}
	for i, p := range in.pages() {
		less := 0.0
		if i > 0 {
			less = fromMorePage
		}
		add(p.Data, p, "json-ld", fromJSONLD-less)
		add(microdata.Parse(p.Root, p.Base), p, "microdata", fromMicrodata-less)
	}
	return out
}

// claims reports whether an object identifies itself as the brand: by a name that fits, or by the URL of the site's
// front page. A single organization in microdata is often a partner or a branch.
func (in input) claims(o *linkeddata.Object) bool {
	for _, key := range []string{"name", "legalName", "alternateName"} {
		if in.Fits(o.Text(key)) >= extract.StrongFit ||
			o.Text(key) != "" && extract.Folded(o.Text(key)) == extract.Folded(in.ownName()) {
			return true
		}
	}
	return slices.ContainsFunc(o.URLs("url"), func(text string) bool {
		u := in.Page.Resolve(text)
		return u != nil && in.Site.Own(u) && !extract.Input{Page: &page.Page{URL: u}}.Inner()
	})
}

// ownPlace returns the object of a place that is the brand's: of a type in our taxonomy, or with a postal address,
// whose URL or name is the brand's. Schema.org has many kinds of places that are not organizations.
func (in input) ownPlace(g *linkeddata.Graph) *linkeddata.Object {
	for _, o := range g.All() {
		if o.Parent != nil || !in.claims(o) {
			continue
		}
		if len(o.Linked("address")) > 0 ||
			slices.ContainsFunc(o.Types, func(t string) bool { return industry.ByType(t) != nil }) &&
				!o.Is("SoftwareApplication", "WebApplication") {
			return o
		}
	}
	return nil
}

// ownName returns the brand's name.
func (in input) ownName() string {
	name, _ := extract.Name(in.Input)
	return name.Value
}

// pages returns the home page and the other pages that were read.
func (in input) pages() []*page.Page { return append([]*page.Page{in.Page}, in.More...) }

// eras maps each Japanese era, and the calendar of Taiwan, to the year before its first.
var eras = map[string]int{"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "民國": 1911, "民国": 1911}

var (
	eraYear      = lazyregexp.New(`(明治|大正|昭和|平成|令和|民國|民国)\s?(元|\d{1,3})\s?年`)
	buddhistYear = lazyregexp.New(`(พ\.?ศ\.?)\s?(2[45]\d{2})`)
)

const buddhistBefore = 543 // the number of years by which the Thai calendar is ahead of the western one

// westernYears converts years of Japanese eras, of the calendar of Taiwan and
// of the Thai calendar to the western calendar, and wide digits to ASCII.
func westernYears(text string) string {
	if strings.ContainsAny(text, "年０１２３４５６７８９") {
		text = strings.Map(func(r rune) rune {
			if r >= '０' && r <= '９' {
				return r - '０' + '0'
			}
			return r
		}, text)
		text = eraYear.ReplaceAllStringFunc(text, func(found string) string {
			m := eraYear.FindStringSubmatch(found)
			n, err := strconv.Atoi(m[2])
			if err != nil { // 元, the first year
				n = 1
			}
			return strconv.Itoa(eras[m[1]]+n) + "年"
		})
	}
	if !strings.Contains(text, "ศ") {
		return text
	}
	return buddhistYear.ReplaceAllStringFunc(text, func(found string) string {
		n, err := strconv.Atoi(buddhistYear.FindStringSubmatch(found)[2])
		if err != nil {
			return found
		}
		return strconv.Itoa(n - buddhistBefore)
	})
}
