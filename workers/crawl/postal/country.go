package postal

import (
	_ "embed"
	"strings"
	"sync"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract"
)

// Country is a country or territory of ISO 3166-1.
type Country struct {
	Code string // alpha-2
	Name string // English, as in common use
	// Region and Subregion follow UN M49; "" for Antarctica, which has none.
	Region, Subregion string
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

//go:embed countries.txt
var countriesText string

// subregions maps the sub-regions of UN M49 to their regions. Taiwan, which M49
// does not list, is grouped with its neighbors.
var subregions = map[string][2]string{
	"000": {"", ""},
	"015": {"Africa", "Northern Africa"},
	"202": {"Africa", "Sub-Saharan Africa"},
	"021": {"Americas", "Northern America"},
	"419": {"Americas", "Latin America and the Caribbean"},
	"030": {"Asia", "Eastern Asia"},
	"034": {"Asia", "Southern Asia"},
	"035": {"Asia", "South-eastern Asia"},
	"143": {"Asia", "Central Asia"},
	"145": {"Asia", "Western Asia"},
	"039": {"Europe", "Southern Europe"},
	"151": {"Europe", "Eastern Europe"},
	"154": {"Europe", "Northern Europe"},
	"155": {"Europe", "Western Europe"},
	"053": {"Oceania", "Australia and New Zealand"},
	"054": {"Oceania", "Melanesia"},
	"057": {"Oceania", "Micronesia"},
	"061": {"Oceania", "Polynesia"},
}

// gazetteer is an index of countries.
type gazetteer struct {
	all    []Country
	byCode map[string]Country // alpha-2 and alpha-3
	byName map[string]Country // folded, in several languages
}

// nameLanguages are the languages of country names, the likelier first: if a
// word means different countries in two languages, the earlier one wins.
var nameLanguages = []string{"en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "fi", "pl", "cs", "tr", "hu", "ro", "el", "ru", "uk", "ja", "zh", "ko"}

// otherNames are common names that are missing in the tables of languages.
var otherNames = map[string]string{
	"united states of america": "US", "usa": "US", "u.s.a.": "US", "u.s.": "US", "america": "US", "uk": "GB", "u.k.": "GB",
	"great britain": "GB", "england": "GB", "scotland": "GB", "wales": "GB", "northern ireland": "GB", "großbritannien": "GB", "grossbritannien": "GB",
	"holland": "NL", "the netherlands": "NL", "czech republic": "CZ", "turkey": "TR", "korea": "KR", "republic of korea": "KR",
	"russian federation": "RU", "uae": "AE", "republic of ireland": "IE", "eire": "IE", "macedonia": "MK", "burma": "MM",
	"ivory coast": "CI", "cote d'ivoire": "CI", "swaziland": "SZ", "hong kong sar": "HK", "macau": "MO", "viet nam": "VN",
	"people's republic of china": "CN", "pr china": "CN", "p.r. china": "CN", "brunei darussalam": "BN", "cabo verde": "CV",
	"bundesrepublik deutschland": "DE", "brd": "DE", "republik österreich": "AT", "schweizerische eidgenossenschaft": "CH", "bosnia": "BA",
	"česká republika": "CZ", "slovenská republika": "SK", "российская федерация": "RU", "中华人民共和国": "CN", "日本国": "JP", "대한민국": "KR", "المملكة العربية السعودية": "SA", "الإمارات": "AE", "مصر": "EG",
	"trinidad": "TT", "vatican": "VA", "holy see": "VA", "east timor": "TL", "congo-kinshasa": "CD", "dr congo": "CD", "palestinian territories": "PS",
}

var gazette = sync.OnceValue(func() *gazetteer {
	g := &gazetteer{byCode: map[string]Country{"UK": {}}, byName: map[string]Country{}}
	for line := range strings.Lines(countriesText) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(fields) < 4 || fields[0] == "#" {
			continue
		}
		where := subregions[fields[2]]
		c := Country{Code: fields[0], Name: fields[3], Region: where[0], Subregion: where[1]}
		g.all = append(g.all, c)
		g.byCode[c.Code], g.byCode[fields[1]] = c, c
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

// maxNameBytes limits the names that are looked up.
const maxNameBytes = 100

// soldEndings are country domains that are mostly used for the meaning of their letters.
var soldEndings = set(`io, co, ai, tv, me, cc, ws, fm, ly, gg, to, so, sh, la, ac, vc, im, is, st, tk, ml, cf, ga,
	gq, eu, nu, bz, gl, lc, mn, pw, sc, vg, ag, am, as, cx, dj, fo, gs, hn, ms, tc, tl`)

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
var languageCountries = map[string]string{
	"pl": "PL", "ja": "JP", "cs": "CZ", "hu": "HU", "fi": "FI", "da": "DK", "nb": "NO", "no": "NO", "nn": "NO", "sv": "SE", "it": "IT", "tr": "TR", "ro": "RO", "el": "GR",
	"uk": "UA", "ru": "RU", "ko": "KR", "he": "IL", "et": "EE", "lv": "LV", "lt": "LT", "sk": "SK", "sl": "SI", "hr": "HR", "bg": "BG", "is": "IS", "de": "DE", "fr": "FR", "es": "ES",
}

// OfLanguage returns the country implied by a page's language: its region, as in pt-BR, or that of a language of hardly
// more than one country. It is a hint for an ambiguous address.
func OfLanguage(tag string) (Country, bool) {
	code, region, _ := strings.Cut(strings.ReplaceAll(tag, "_", "-"), "-")
	if len(region) == 2 {
		return ByCode(region)
	}
	return ByCode(languageCountries[strings.ToLower(code)])
}

// folded returns a text's letters and digits, lower case, without diacritics; ß is s.
func folded(text string) string { return strings.ReplaceAll(extract.Folded(text), "ß", "s") }
