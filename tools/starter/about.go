package main

import (
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/searchindex"
	"letterhead/starter"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/industry"
	"letterhead/workers/crawl/sp500"
)

// statement is the entry of one source about the owner of one domain. Empty fields are unknown.
type statement struct {
	Source      string // name and version
	Method      string // name of the rule, for the evidence
	Confidence  float64
	Domain      string
	Name        string // of the company, in the source
	Description string
	Links       []string // URLs of profiles
	Founded     int
	Employees   int
	Kind        string
	Location    *eventschemas.Location
	Tickers     []string // the main one first, qualified by its exchange
	Industry    *industry.Class
}

// library holds the statements of all sources by domain. Earlier sources have priority.
type library map[string][]statement

func (l library) add(all []statement) {
	for _, s := range all {
		l[s.Domain] = append(l[s.Domain], s)
	}
}

// companyWords are words that do not distinguish a company from its brand. Words of products, branches and
// countries are not among them: the market of a brand is not the brand.
var companyWords = extract.FoldedSet(strings.Fields(`
	ag air airlines airways automobiles brand cars co company corp corporation electronics gaming gmbh group holding
	holdings hotels inc international limited lines llc ltd markets motor motors nv oyj platforms plc resorts rooms sa sas se
	semiconductors software spa technologies technology the worldwide
`)...)

// plainName folds a name to its distinguishing words.
func plainName(name string) string {
	name = displayName(strings.NewReplacer(".", "", ",", " ").Replace(name))
	var kept []string
	for _, w := range strings.Fields(searchindex.Fold(name)) {
		if !companyWords[w] {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, "")
}

// namesOwner grades how certainly a statement is about the brand, and not about a product or a branch with pages
// on its domain. A grade of 0 means that it is not.
func (s statement) namesOwner(brand string) int {
	switch {
	case flat(s.Name) == flat(brand):
		return 3
	case plainName(s.Name) != "" && plainName(s.Name) == plainName(brand):
		return 2
	case fitOf(s.Name, s.Domain) >= initialed:
		return 1
	}
	return 0
}

// describe fills the record's description, links and company from the statements about its domain, each
// field from the first source that has it. Of several entries of a source it uses the one with the nearest
// name, and none if two are equally near.
func (l library) describe(b *starter.Brand) {
	links := map[string]string{}
	for _, s := range nearest(l[b.Domain], *b.Record.Name) {
		s.fill(b, links)
	}
	for _, n := range brand.Networks {
		if links[n.Name] != "" {
			b.Record.Links = append(b.Record.Links, eventschemas.Link{Name: n.Name, URL: links[n.Name]})
		}
	}
	sort.SliceStable(b.Evidence, func(i, j int) bool { return b.Evidence[i].Field < b.Evidence[j].Field })
}

// nearest returns the statement of each source whose name is nearest to the brand's.
func nearest(all []statement, brand string) []statement {
	var out []statement
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(s statement) bool { return s.Source != all[0].Source })
		if n < 0 {
			n = len(all)
		}
		best, grade, equal := statement{}, 0, false
		for _, s := range all[:n] {
			switch g := s.namesOwner(brand); {
			case g > grade:
				best, grade, equal = s, g, false
			case g == grade && g > 0:
				equal = true
			}
		}
		if grade > 0 && !equal {
			out = append(out, best)
		}
		all = all[n:]
	}
	return out
}

// fill adds the statement's fields to those that the record lacks, and its profiles to links.
func (s statement) fill(b *starter.Brand, links map[string]string) {
	r, c := &b.Record, b.Record.Company
	note := func(field string) {
		b.Evidence = append(b.Evidence,
			eventschemas.Evidence{Field: field, Source: s.Source, Method: s.Method, Confidence: s.Confidence})
	}
	if r.Description == nil && s.Description != "" {
		r.Description = &s.Description
		note("description")
	}
	added := false
	for _, link := range s.Links {
		u, err := url.Parse(link)
		if err != nil {
			continue
		}
		name, canonical, ok := extract.Profile(u)
		if ok && links[name] == "" {
			links[name], added = canonical, true
		}
	}
	if added {
		note("links")
	}
	if c.FoundedYear == nil && s.Founded != 0 {
		c.FoundedYear = &s.Founded
		note("company.founded_year")
	}
	if c.Employees == nil && s.Employees != 0 {
		c.Employees = &s.Employees
		note("company.employees")
	}
	if c.Kind == nil && s.Kind != "" {
		c.Kind = &s.Kind
		note("company.kind")
	}
	if c.Location == nil && s.Location != nil {
		c.Location = s.Location
		note("company.location")
	}
	if c.Ticker == nil && len(s.Tickers) > 0 {
		c.Ticker, c.Tickers = &s.Tickers[0], eventschemas.BareSymbols(s.Tickers)
		note("company.ticker")
	}
	if len(c.Industries) == 0 && s.Industry != nil {
		c.Industries = []eventschemas.Industry{s.Industry.Industry(s.Confidence)}
		note("company.industries")
	}
}

// constituents returns the facts about companies of the S&P 500 that the crawler uses too.
func constituents(domains []string) []statement {
	var out []statement
	for _, domain := range domains {
		f, ok := sp500.Of(domain)
		if !ok {
			continue
		}
		s := statement{
			Source: sp500.Source, Method: "data set", Confidence: 0.9, Domain: domain, Name: f.Name,
			Founded: f.FoundedYear, Kind: publicCompany, Location: f.Location(),
		}
		if f.Ticker() != "" {
			s.Tickers = append([]string{f.Ticker()}, f.Symbols[1:]...)
		}
		s.Industry, _ = industry.BySubIndustry(f.SubIndustry)
		out = append(out, s)
	}
	return out
}

// ownProfiles returns the profiles in the links of a brand's own products in the icon packages. The link of
// an icon often leads to somebody else's page, so the profile's handle must be the name.
func ownProfiles(o owned) []statement {
	var out []statement
	for _, c := range o.Claims {
		s := statement{
			Source: sourceName(c.Product), Method: "profile link", Confidence: 0.85, Domain: o.Domain,
			Name: o.Claims[0].Product.Name,
		}
		for _, l := range c.Product.Links {
			u, err := url.Parse(l.URL)
			if err != nil {
				continue
			}
			if _, canonical, ok := extract.Profile(u); ok && ownHandle(canonical, o) {
				s.Links = append(s.Links, canonical)
			}
		}
		if len(s.Links) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func ownHandle(profile string, o owned) bool {
	u, err := url.Parse(profile)
	if err != nil {
		return false
	}
	label, _ := labels(o.Domain)
	handle := flat(u.Path[strings.LastIndexByte(strings.TrimSuffix(u.Path, "/"), '/')+1:])
	return handle == label || handle == flat(o.Claims[0].Product.Name)
}

// Limits of descriptions, in runes. Shorter texts are uninformative, and longer ones are not short descriptions.
const (
	minDescription = 12
	maxDescription = 300
)

// sentence puts a description on one line. It returns "" for a text that is too short or too long.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if n := utf8.RuneCountInString(text); n < minDescription || n > maxDescription {
		return ""
	}
	return text
}

// capital returns a text with a capital letter at its beginning.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// missing returns the error for a source without its main content.
func missing(path, what string) error { return fmt.Errorf("read source %s: no %s", path, what) }
