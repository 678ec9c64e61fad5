package company

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/postal"
)

var headcounts = []int{1, 2, 11, 51, 201, 501, 1001, 5001, 10001} // the floors of the documented buckets

// Bucket returns the floor of the documented bucket of a number of employees, 0 for less than one.
func Bucket(employees int) int {
	floor := 0
	for _, h := range headcounts {
		if employees >= h {
			floor = h
		}
	}
	return floor
}

const maxTickers = 4

var (
	year     = lazyregexp.New(`\b(1\d{3}|20\d{2})\b`)
	exchange = lazyregexp.New(`^[A-Z]{2,12}$`)
	// of eventschemas.SymbolPattern, without what texts such as "N/A" have
	symbol = lazyregexp.New(`^[A-Z0-9][A-Z0-9.&\-]{0,9}$`)
)

// declared adds the fields of the owner's object.
func (d *dossier) declared(o ownObject) {
	if m := year.FindString(o.Text("foundingDate")); m != "" {
		if y, err := strconv.Atoi(m); err == nil && d.in.believed(y) {
			d.founded = append(d.founded, claim[int]{value: y, source: o.source, method: o.how + " foundingDate",
				confidence: o.confidence, shown: func() bool { return d.showsYear(y) }})
		}
	}
	if n, ok := headcount(o.Object); ok {
		d.employees = append(d.employees, claim[int]{value: n, source: o.source, method: o.how + " numberOfEmployees",
			confidence: o.confidence - 0.1, shown: never})
	}
	if l := d.location(o.Object); l != nil {
		d.places = append(d.places,
			claim[*eventschemas.Location]{value: l, source: o.source, method: o.how + " address",
				confidence: o.confidence, shown: func() bool { return l.City != nil && d.shows(*l.City) }})
	}
	if symbols := tickers(o.Texts("tickerSymbol")); len(symbols) > 0 {
		d.tickers = append(d.tickers, claim[[]string]{value: symbols, source: o.source, method: o.how + " tickerSymbol",
			confidence: o.confidence})
	}
	if kind := kindOfType(o.Object); kind != "" {
		d.kinds = append(d.kinds, claim[string]{value: kind, source: o.source, method: o.how + " type",
			confidence: fromType + o.confidence - fromJSONLD, shown: never})
	}
	for _, key := range []string{"legalName", "name"} {
		if kind := d.kindOfForm(o.Text(key)); kind != "" {
			d.formed = true
			d.kinds = append(d.kinds, claim[string]{value: kind, source: o.source, method: o.how + " " + key,
				confidence: fromLegalName, shown: func() bool { return d.shows(o.Text(key)) }})
			break
		}
	}
	if o.Text("nonprofitStatus") != "" {
		d.kinds = append(d.kinds, claim[string]{value: "NON_PROFIT", source: o.source,
			method: o.how + " nonprofitStatus", confidence: o.confidence, shown: never})
	}
}

// never is for declarations that are not written on pages in the form in which they are declared.
func never() bool { return false }

// shows reports whether a visitor reads a text on one of the pages.
func (d *dossier) shows(text string) bool {
	text = extract.Folded(text)
	return text != "" && slices.ContainsFunc(d.read, func(x prose) bool {
		return slices.ContainsFunc(x.lines,
			func(l postal.Line) bool { return strings.Contains(extract.Folded(l.Text), text) })
	})
}

// showsYear reports whether a visitor reads a year on one of the pages.
func (d *dossier) showsYear(y int) bool {
	digits := strconv.Itoa(y)
	return slices.ContainsFunc(d.read, func(x prose) bool {
		return slices.ContainsFunc(x.lines,
			func(l postal.Line) bool { return slices.Contains(year.FindAllString(l.Text, maxYearLines), digits) })
	})
}

// headcount returns the floor of the bucket of the declared number of employees.
func headcount(owner *linkeddata.Object) (int, bool) {
	text := owner.Text("numberOfEmployees")
	for _, v := range owner.Linked("numberOfEmployees") {
		for _, key := range []string{"value", "minValue"} {
			if text == "" {
				text = v.Text(key)
			}
		}
	}
	return bucket(text)
}

var (
	// amount matches a number with thousands separators, a fraction, and a word that multiplies it.
	amount = lazyregexp.New(`(?i)(\d{1,3}(?:[.,'’\x{00a0}\x{202f} ]\d{3})+|\d+)(?:[.,](\d{1,2}))?(?:\D|$)`)
	scaled = lazyregexp.New(
		`(?i)^\s?(?:(k|tsd|tausend|thousand|mil|mille)|(mio|mn|million\p{L}*|millones|millions|m))(?:[^\p{L}]|$)`)
)

const (
	thousand     = 1_000
	million      = 1_000_000
	mostEmployed = 20_000_000 // no company declares more
)

// bucket returns the floor of the bucket of the first number in a text: 1.500, 1,500 and 1 500 are thousands, 250.5 has
// a fraction, 1,5 Mio is one and a half million.
func bucket(text string) (int, bool) {
	m := amount.FindStringSubmatchIndex(text)
	if m == nil {
		return 0, false
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text[m[2]:m[3]])
	end := m[3]
	if m[4] >= 0 {
		digits, end = digits+"."+text[m[4]:m[5]], m[5]
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, false
	}
	if unit := scaled.FindStringSubmatch(text[end:]); unit != nil && unit[1] != "" {
		n *= thousand
	} else if unit != nil {
		n *= million
	}
	if n < 1 || n > mostEmployed {
		return 0, false
	}
	return Bucket(int(n)), true
}

// location returns the first address that has at least a city or a country.
func (d *dossier) location(owner *linkeddata.Object) *eventschemas.Location {
	for _, a := range owner.Linked("address") {
		country := a.Text("addressCountry")
		for _, c := range a.Linked("addressCountry") {
			country = c.Text("name")
		}
		city, state := a.Text("addressLocality"), a.Text("addressRegion")
		near, ok := postal.OfDomain(d.in.Site.Domain)
		switch {
		case country != "":
		case ok && strings.EqualFold(state, near.Code): // the country's code instead of a region's
			country, state = near.Code, ""
		default:
			country = countryOfState(state, a.Text("postalCode"))
		}
		if l := located(city, state, country); l != nil {
			return l
		}
	}
	for _, text := range owner.Texts("address") { // the whole address in one text
		near, _ := postal.OfDomain(d.in.Site.Domain)
		if found := postal.Addresses(strings.Split(text, "\n"), near); len(found) > 0 {
			return found[0].Country.Location(found[0].City, found[0].State)
		}
	}
	return nil
}

var (
	zipCode      = lazyregexp.New(`^\d{5}(-\d{4})?$`)
	districtCode = lazyregexp.New(`^(\p{L}{3,}) \d{1,2}$`)
	canadianCode = lazyregexp.New(`^[A-Z]\d[A-Z] ?\d[A-Z]\d$`)
)

// countryOfState returns the country of an address that names none, if it has a
// state of North America and a matching postal code.
func countryOfState(state, code string) string {
	switch {
	case zipCode.MatchString(code) && postal.ZIPOf(state, code):
		return "US"
	case canadianCode.MatchString(code) && postal.State("CA", state) != "":
		return "CA"
	}
	return ""
}

// isPlaceName reports whether a text can be the name of a city or a region:
// words without digits and signs, not a street.
func isPlaceName(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsDigit(r) || strings.ContainsRune("@:;/\\<>{}=+_#*|?!\"", r)
	}) &&
		len(strings.Fields(text)) <= maxPlaceNames && !postal.IsStreet(text)
}

const maxPlaceNames = 6 // the largest number of words in a city's name

// located returns a location made of declared parts, or nil if they contain
// neither a city nor a known country. An unknown country is left out.
func located(city, state, country string) *eventschemas.Location {
	for _, part := range []*string{&city, &state, &country} {
		*part = page.Clean(*part, brand.MaxTextRunes)
	}
	if name, rest, found := strings.Cut(city, ","); found { // "Weßling, Germany" as the city
		c, ok := postal.Find(rest)
		if ok && (country == "" || strings.EqualFold(country, c.Code) || strings.EqualFold(country, c.Name)) {
			city, country = strings.TrimSpace(name), c.Code
		}
	}
	if m := districtCode.FindStringSubmatch(city); m != nil { // Bern 14
		city = m[1]
	}
	if !isPlaceName(city) { // a street, a mail address, a telephone number
		city = ""
	}
	if !isPlaceName(state) {
		state = ""
	}
	c, ok := postal.Find(country)
	if !ok && city == "" {
		return nil
	}
	if name := postal.State(c.Code, state); name != "" {
		state = name
	}
	return c.Location(city, state)
}

var exchanges = tables.Map("exchanges") // maps the spellings of stock exchanges to ours

// tickers parses stock tickers, with or without their exchange, which a colon follows, or a space as schema.org
// recommends (XNAS AAPL).
func tickers(texts []string) []string {
	var out []string
	for _, text := range texts {
		text = strings.ToUpper(page.Clean(text, brand.MaxTextRunes))
		at, rest, qualified := strings.Cut(text, ":")
		if !qualified {
			at, rest, qualified = strings.Cut(text, " ")
			if qualified = qualified && exchanges[at] != ""; !qualified {
				at, rest = "", text
			}
		}
		bare, ok := eventschemas.BareSymbol(rest)
		at = strings.ReplaceAll(at, " ", "")
		if !ok || !symbol.MatchString(bare) || qualified && !exchange.MatchString(cmp.Or(exchanges[at], at)) ||
			len(out) == maxTickers {
			continue
		}
		if qualified {
			bare = cmp.Or(exchanges[at], at) + ":" + bare
		}
		out = append(out, bare)
	}
	return out
}

// listed splits tickers into the first qualified one and all bare symbols.
func listed(all []string) (ticker *string, symbols []string) {
	if i := slices.IndexFunc(all, func(t string) bool { return strings.Contains(t, ":") }); i >= 0 {
		ticker = &all[i]
	}
	return ticker, eventschemas.BareSymbols(all)
}

// kindOfType returns the kind for schema.org types that imply one. A corporation may be private or public.
func kindOfType(owner *linkeddata.Object) string {
	switch {
	case owner.Is("NGO"):
		return "NON_PROFIT"
	case owner.Is("GovernmentOrganization", "GovernmentOffice", "CityHall", "Embassy", "FireStation", "PoliceStation"):
		return "GOVERNMENT_AGENCY"
	case owner.Is("EducationalOrganization", "CollegeOrUniversity", "School", "HighSchool", "ElementarySchool",
		"MiddleSchool", "Preschool"):
		return "EDUCATIONAL"
	}
	return ""
}
