package postal

import (
	"strings"
	"sync"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("postal")

// Country is a country or territory of ISO 3166-1.
type Country struct {
	Code              string // alpha-2
	Name              string // English, as in common use
	Region, Subregion string // follow UN M49; "" for Antarctica, which has none
}

// Location returns a place in the country with its region and sub-region. Parts that are "" are left out.
func (c Country) Location(city, state string) *eventschemas.Location {
	return &eventschemas.Location{
		City: optional(city), State: optional(state), Country: optional(c.Name), CountryCode: optional(c.Code),
		Region: optional(c.Region), Subregion: optional(c.Subregion),
	}
}

// optional returns nil for an empty text.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// gazetteer is an index of countries.
type gazetteer struct {
	all    []Country
	byCode map[string]Country // alpha-2 and alpha-3
	byName map[string]Country // folded, in several languages
}

// nameLanguages are the languages of country names, the likelier first: if a
// word means different countries in two languages, the earlier one wins.
var nameLanguages = tables.List("nameLanguages")
var otherNames = tables.Map("otherNames") // common names that are missing in the tables of languages

var gazette = sync.OnceValue(func() *gazetteer {
	g := &gazetteer{byCode: map[string]Country{"UK": {}}, byName: map[string]Country{}}
	regions := map[string][]string{"000": {"", "", ""}}
	for _, row := range tables.Rows("subregions", 3) {
		regions[row[0]] = row
	}
	for _, row := range tables.Rows("countries", 4) {
		c := Country{Code: row[0], Name: row[3], Region: regions[row[2]][1], Subregion: regions[row[2]][2]}
		g.all = append(g.all, c)
		g.byCode[c.Code], g.byCode[row[1]] = c, c
		g.byName[folded(c.Name)] = c
	}
	g.byCode["UK"] = g.byCode["GB"] // not ISO's code, but used by the British; .uk is also its domain
	for name, code := range otherNames {
		g.byName[folded(name)] = g.byCode[code]
	}
	for _, tag := range nameLanguages {
		names := display.Regions(language.MustParse(tag))
		for _, c := range g.all {
			name := folded(names.Name(language.MustParseRegion(c.Code)))
			if _, taken := g.byName[name]; !taken && len(name) > 3 {
				g.byName[name] = c
			}
		}
	}
	delete(g.byName, "")
	return g
})

// ByCode returns the country with a two- or three-letter code, in any case; UK counts as GB.
func ByCode(code string) (Country, bool) {
	c, ok := gazette().byCode[strings.ToUpper(code)]
	return c, ok
}

// Find returns the country with a code or a name in one of some twenty languages.
func Find(text string) (Country, bool) {
	text = strings.Trim(strings.TrimSpace(text), ".,;")
	if len(text) <= 3 {
		if c, ok := ByCode(text); ok {
			return c, true
		}
	}
	return byName(text)
}

func byName(text string) (Country, bool) {
	if len(text) > maxNameBytes {
		return Country{}, false
	}
	c, ok := gazette().byName[folded(text)]
	return c, ok
}

const maxNameBytes = 100 // limits the names that are looked up

var soldEndings = tables.Set("soldEndings") // country domains that are mostly used for the meaning of their letters

// OfDomain returns the country of a domain's ending; none for endings that are sold worldwide.
func OfDomain(domain string) (Country, bool) {
	ending := domain[strings.LastIndexByte(domain, '.')+1:]
	if len(ending) != 2 || soldEndings[ending] {
		return Country{}, false
	}
	return ByCode(ending)
}

// languageCountries are the countries of languages that are official in hardly more than one; German, French and
// Spanish also imply theirs if the form of a postal code excludes the others.
var languageCountries = tables.Map("languageCountries")

// OfLanguage returns the country implied by a page's language: its region, as in pt-BR, or the only country, or
// almost, of its language. It is a hint for an ambiguous address.
func OfLanguage(tag string) (Country, bool) {
	code, region, _ := strings.Cut(strings.ReplaceAll(tag, "_", "-"), "-")
	if len(region) == 2 {
		return ByCode(region)
	}
	return ByCode(languageCountries[strings.ToLower(code)])
}

// folded returns a text's letters and digits, lower case, without diacritics; ß is s.
func folded(text string) string { return strings.ReplaceAll(extract.Folded(text), "ß", "s") }
