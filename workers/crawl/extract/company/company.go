// Package company decides what a record says of the company behind a site: founding year, employees, kind, location,
// ticker and industries.
package company

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/industry"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/microdata"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/postal"
	"letterhead/workers/crawl/sp500"
)

// How sure a fact is, by where it stands. What the site declares comes before the data set, and that before
// what is read out of prose.
const (
	fromJSONLD    = 0.9
	fromMicrodata = 0.85
	fromMorePage  = 0.05 // less when the declaration stands on another page than the home page
	fromDataSet   = 0.75
	tickerDataSet = 0.95 // a site hardly ever declares its ticker, and the data set is about nothing else
	fromEnding    = 0.9
	fromType      = 0.8
)

// claim is a fact and where it comes from.
type claim[T any] struct {
	value      T
	source     string // URL or data set
	method     string
	confidence float64
}

// surest is the surest claim, the first of equals; nil when there is none.
func surest[T any](claims []claim[T]) *claim[T] {
	var out *claim[T]
	for i := range claims {
		if out == nil || claims[i].confidence > out.confidence {
			out = &claims[i]
		}
	}
	return out
}

// dossier is all that is claimed about a company.
type dossier struct {
	in        input
	name      string // the brand's
	kinds     []claim[string]
	founded   []claim[int]
	employees []claim[int]
	places    []claim[*eventschemas.Location]
	tickers   []claim[[]string] // qualified or bare
	bare      []claim[int]      // founding years of the page that is being read, that name nobody
}

// input is what was gathered of one site, with what the company's facts ask of it.
type input struct{ extract.Input }

// Decide decides the facts about the company: what its own site declares or says of itself, what a data set
// knows about its domain, and nothing more. Domain endings that only one kind of organization gets tell its
// kind.
func Decide(of extract.Input) (company *eventschemas.Company, evidence []eventschemas.Evidence) {
	in := input{of}
	d := &dossier{in: in, name: in.ownName()}
	d.known()
	d.ending()
	owners := in.declared()
	for _, o := range owners {
		d.declared(o)
	}
	d.read()
	company = eventschemas.EmptyCompany()
	note := func(field, source, method string, confidence float64) {
		evidence = append(evidence, eventschemas.Evidence{Field: "company." + field, Source: source, Method: method, Confidence: extract.Round2(confidence)})
	}
	slices.SortStableFunc(d.founded, func(a, b claim[int]) int { return cmp.Compare(a.value, b.value) }) // of equals the earliest
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
			d.kinds = append(d.kinds, claim[string]{"PUBLIC_COMPANY", c.source, c.method, c.confidence - fromMorePage})
		}
	}
	if c := surest(d.kinds); c != nil {
		company.Kind = &c.value
		note("kind", c.source, c.method, c.confidence)
	}
	for _, w := range in.industries(d.name, owners) {
		company.Industries = append(company.Industries, w.class.Industry(w.score))
		note("industries", w.source, w.method, w.score)
	}
	return company, evidence
}

// known takes in what the data set knows about the domain.
func (d *dossier) known() {
	f, ok := sp500.Of(d.in.Site.Domain)
	if !ok {
		return
	}
	const method = "data set"
	d.kinds = append(d.kinds, claim[string]{"PUBLIC_COMPANY", sp500.Source, method, tickerDataSet})
	if f.FoundedYear != 0 {
		d.founded = append(d.founded, claim[int]{f.FoundedYear, sp500.Source, method, fromDataSet})
	}
	if f.City != "" {
		if country, ok := postal.ByCode(f.Country); ok {
			state := postal.State(f.Country, f.State)
			d.places = append(d.places, claim[*eventschemas.Location]{locationIn(f.City, state, country), sp500.Source, method, fromDataSet})
		}
	}
	var symbols []string
	for i, s := range f.Symbols {
		if i == 0 && f.Exchange != "" {
			s = f.Ticker()
		}
		symbols = append(symbols, s)
	}
	if len(symbols) > 0 {
		d.tickers = append(d.tickers, claim[[]string]{symbols, sp500.Source, method, tickerDataSet})
	}
}

func (d *dossier) ending() {
	if kind := kindOfDomain(d.in.Site.Domain); kind != "" {
		d.kinds = append(d.kinds, claim[string]{kind, d.in.PageURL(), "domain ending", fromEnding})
	}
}

// goCountries are the domains whose registries give go to the government.
var goCountries = []string{"jp", "kr", "th", "id", "ke", "tz", "ug"}

// kindOfDomain knows the endings that registries give to one kind of organization only.
func kindOfDomain(domain string) string {
	labels := strings.Split(domain, ".")
	last := labels[len(labels)-1]
	second := ""
	if len(labels) >= 3 && len(last) == 2 {
		second = labels[len(labels)-2]
	}
	switch {
	case last == "gov", last == "mil", second == "gov", second == "gob", second == "gouv", second == "go" && slices.Contains(goCountries, last):
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

// declared lists the objects in which the pages declare the owner, the surest first.
func (in input) declared() []ownObject {
	var out []ownObject
	add := func(g *linkeddata.Graph, p *page.Page, how string, confidence float64) {
		if g == nil {
			return
		}
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
		out = append(out, ownObject{o, pageAddress(p), how, confidence})
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

// claims says whether an object itself says that it is the brand: by a name that fits, or by the address of the
// site's front page. A lone organization in microdata is as often a partner's or a branch's.
func (in input) claims(o *linkeddata.Object) bool {
	for _, key := range []string{"name", "legalName", "alternateName"} {
		if in.Fits(o.Text(key)) >= extract.StrongFit {
			return true
		}
	}
	return slices.ContainsFunc(o.URLs("url"), func(text string) bool { return in.isFront(in.Page.Resolve(text)) })
}

// isFront says whether an address is that of the site's front page.
func (in input) isFront(u *url.URL) bool {
	if u == nil || !in.Site.Own(u) {
		return false
	}
	return !extract.Input{Page: &page.Page{URL: u}}.Inner()
}

// ownPlace finds the object of a place that is the brand's: a type of our taxonomy, or something with an address,
// whose address or name is the brand's. Schema.org has many kinds of places that are not called organizations.
func (in input) ownPlace(g *linkeddata.Graph) *linkeddata.Object {
	for _, o := range g.Objects {
		if o.Parent != nil || !in.claims(o) {
			continue
		}
		if len(o.Linked("address")) > 0 || slices.ContainsFunc(o.Types, func(t string) bool { return industry.ByType(t) != nil }) && !o.Is("SoftwareApplication", "WebApplication") {
			return o
		}
	}
	return nil
}

// ownName is the brand's name.
func (in input) ownName() string {
	name, _ := extract.Name(in.Input)
	return name.Value
}

// pages are the home page and those read besides it.
func (in input) pages() []*page.Page {
	return append([]*page.Page{in.Page}, in.More...)
}

// pageAddress is where a page was found, "" when that is not known.
func pageAddress(p *page.Page) string {
	if p == nil || p.URL == nil {
		return ""
	}
	return p.URL.String()
}

// locationIn is a location in a known country, with its region and sub-region.
func locationIn(city, state string, country postal.Country) *eventschemas.Location {
	return &eventschemas.Location{
		City: optional(city), State: optional(state), Country: optional(country.Name), CountryCode: optional(country.Code),
		Region: optional(country.Region), Subregion: optional(country.Subregion),
	}
}

// optional is nil for an empty text.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
