package judge

import (
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
)

// headcounts are the floors of the specification's buckets.
var headcounts = []int{1, 2, 11, 51, 201, 501, 1001, 5001, 10001}

const (
	// earliestYear and latestYear bound a founding year that is believed.
	earliestYear = 1000
	latestYear   = 2100
	maxPlace     = 100 // runes of a city, state or country
)

var (
	year     = regexp.MustCompile(`\b(1\d{3}|20\d{2})\b`)
	integer  = regexp.MustCompile(`\d[\d,.' ]*`)
	tickerID = regexp.MustCompile(`^[A-Z]{2,10}:[A-Z0-9.\-]{1,10}$`)
	symbol   = regexp.MustCompile(`^[A-Z0-9.\-]{1,10}$`)
)

// Company decides the facts about the company: what its own site declares, and nothing more. Domain
// endings that only one kind of organization gets tell its kind.
func Company(in Input) (company *eventschemas.Company, evidence []eventschemas.Evidence) {
	company = eventschemas.EmptyCompany()
	note := func(field, method string, confidence float64) {
		evidence = append(evidence, eventschemas.Evidence{Field: "company." + field, Source: in.source(), Method: method, Confidence: confidence})
	}
	if kind := kindOfDomain(in.Site.Domain); kind != "" {
		company.Kind = &kind
		note("kind", "domain ending", 0.9)
	}
	owner := in.owner()
	if owner == nil {
		return company, evidence
	}
	if m := year.FindString(owner.Text("foundingDate")); m != "" {
		if y, err := strconv.Atoi(m); err == nil && y >= earliestYear && y <= latestYear {
			company.FoundedYear = &y
			note("founded_year", "json-ld foundingDate", 0.9)
		}
	}
	if n, ok := employees(owner); ok {
		company.Employees = &n
		note("employees", "json-ld numberOfEmployees", 0.8)
	}
	if place := location(owner); place != nil {
		company.Location = place
		note("location", "json-ld address", 0.9)
	}
	tickers(owner, company)
	if company.Ticker != nil {
		note("ticker", "json-ld tickerSymbol", 0.9)
	}
	if kind := kindOfType(owner, company); kind != "" {
		company.Kind = &kind
		note("kind", "json-ld type", 0.8)
	}
	return company, evidence
}

// employees is the floor of the bucket that the declared headcount falls into.
func employees(owner *linkeddata.Object) (int, bool) {
	text := owner.Text("numberOfEmployees")
	for _, v := range owner.Linked("numberOfEmployees") {
		for _, key := range []string{"value", "minValue"} {
			if text == "" {
				text = v.Text(key)
			}
		}
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, integer.FindString(text))
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 {
		return 0, false
	}
	floor := headcounts[0]
	for _, h := range headcounts {
		if n >= h {
			floor = h
		}
	}
	return floor, true
}

// location reads the first address that names at least a city or a country.
func location(owner *linkeddata.Object) *eventschemas.Location {
	for _, a := range owner.Linked("address") {
		l := &eventschemas.Location{City: place(a.Text("addressLocality")), State: place(a.Text("addressRegion"))}
		country := a.Text("addressCountry")
		for _, c := range a.Linked("addressCountry") {
			country = c.Text("name")
		}
		l.Country, l.CountryCode = countryOf(country)
		if l.City != nil || l.CountryCode != nil {
			return l
		}
	}
	return nil
}

func place(text string) *string {
	text = page.Clean(text, maxPlace)
	if text == "" {
		return nil
	}
	return &text
}

// countryOf reads a country's two-letter code or its English name. A name that is not known is kept
// without a code.
func countryOf(text string) (name, code *string) {
	text = page.Clean(text, maxPlace)
	if text == "" {
		return nil, nil
	}
	region, err := language.ParseRegion(strings.ToUpper(text))
	if err != nil || !region.IsCountry() || len(text) > 3 {
		known, ok := countryNames[folded(text)]
		if !ok {
			return &text, nil
		}
		region = known
	}
	iso, english := region.Canonicalize().String(), display.English.Regions().Name(region)
	return &english, &iso
}

// countryNames finds countries by their English names and a few common others.
var countryNames = func() map[string]language.Region {
	out := map[string]language.Region{}
	names := display.English.Regions()
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			r, err := language.ParseRegion(string(a) + string(b))
			if err == nil && r.IsCountry() && r.Canonicalize() == r {
				out[folded(names.Name(r))] = r
			}
		}
	}
	for name, code := range map[string]string{
		"usa": "US", "us": "US", "unitedstatesofamerica": "US", "uk": "GB", "greatbritain": "GB", "england": "GB", "scotland": "GB", "wales": "GB",
		"deutschland": "DE", "osterreich": "AT", "schweiz": "CH", "suisse": "CH", "espana": "ES", "italia": "IT", "brasil": "BR", "nederland": "NL", "thenetherlands": "NL", "holland": "NL",
		"belgie": "BE", "belgique": "BE", "polska": "PL", "sverige": "SE", "norge": "NO", "danmark": "DK", "suomi": "FI", "turkey": "TR", "czechrepublic": "CZ", "southkorea": "KR", "korea": "KR", "russia": "RU", "vietnam": "VN", "taiwan": "TW", "hongkong": "HK", "macau": "MO", "uae": "AE",
	} {
		out[name] = language.MustParseRegion(code)
	}
	return out
}()

// tickers reads the stock ticker: qualified by its exchange, or bare.
func tickers(owner *linkeddata.Object, company *eventschemas.Company) {
	for _, text := range owner.Texts("tickerSymbol") {
		text = strings.ToUpper(strings.ReplaceAll(page.Clean(text, maxPlace), " ", ""))
		switch {
		case tickerID.MatchString(text):
			if company.Ticker == nil {
				company.Ticker = &text
			}
			_, bare, _ := strings.Cut(text, ":")
			company.Tickers = append(company.Tickers, bare)
		case symbol.MatchString(text):
			company.Tickers = append(company.Tickers, text)
		}
		if len(company.Tickers) >= 4 {
			return
		}
	}
}

// kindOfDomain knows the endings that registries give to one kind of organization only.
func kindOfDomain(domain string) string {
	labels := strings.Split(domain, ".")
	last := labels[len(labels)-1]
	second := ""
	if len(labels) >= 3 && len(last) == 2 {
		second = labels[len(labels)-2]
	}
	switch {
	case last == "gov", last == "mil", second == "gov", second == "gob", second == "gouv", second == "go" && (last == "jp" || last == "kr" || last == "th" || last == "id" || last == "ke" || last == "tz" || last == "ug"):
		return "GOVERNMENT_AGENCY"
	case last == "edu", second == "edu", second == "ac":
		return "EDUCATIONAL"
	}
	return ""
}

func kindOfType(owner *linkeddata.Object, company *eventschemas.Company) string {
	switch {
	case owner.Is("NGO"):
		return "NON_PROFIT"
	case owner.Is("GovernmentOrganization"):
		return "GOVERNMENT_AGENCY"
	case owner.Is("EducationalOrganization", "CollegeOrUniversity", "School", "HighSchool", "ElementarySchool", "MiddleSchool", "Preschool"):
		return "EDUCATIONAL"
	case company.Ticker != nil:
		return "PUBLIC_COMPANY"
	}
	return ""
}
