package postal

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// outwardForms are the shapes of the first half of a British postal code.
var outwardForms = []string{"A9", "A99", "AA9", "AA99", "A9A", "AA9A"}

// codeLast reads the form of English-speaking and some other countries: city, state, then postal code.
func (r *reader) codeLast(i int) (Address, bool) {
	code, form := r.tokens[i].text, r.tokens[i].shape
	next := ""
	if i+1 < len(r.tokens) {
		next = r.tokens[i+1].text
	}
	two := form + " " + r.after(i)
	switch {
	case two == "A9A 9A9":
		return r.withState(i, i+2, "CA", code+" "+next)
	case slices.Contains(outwardForms, form) && r.after(i) == "9AA":
		return r.ofIsles(i, i, code+" "+next, "GB", "JE", "GG", "IM")
	case (form == "A99" || form == "A9A") && len(next) == 4 && strings.ContainsAny(next, "0123456789") &&
		next == strings.ToUpper(next) && r.after(i) != "9999":
		end := i
		if i > 1 && len(r.tokens[i-1].text) <= 2 && strings.ContainsAny(r.tokens[i-1].text, "0123456789") {
			end = i - 1 // Dublin 2
		}
		return r.ofIsles(i, end, code+" "+next, "IE")
	case codesLast[two] != nil:
		return r.behindCity(i, i+2, codesLast[two], code+" "+next)
	case codesLast[form] == nil:
		return Address{}, false
	}
	if country := codesOfStates[form]; country != "" {
		if a, ok := r.withState(i, i+1, country, code); ok {
			return a, true
		}
	}
	return r.behindCity(i, i+1, codesLast[form], code)
}

// codesOfStates are the countries whose addresses have a state before a code of such a shape.
var codesOfStates = map[string]string{"99999": "US", "99999-9999": "US", "9999": "AU"}

const (
	maxStateWords = 3 // District of Columbia
	maxCounties   = 3 // names of counties and kingdoms between a city and its code
	maxStateCode  = 3 // letters of NSW
)

// withState reads "city, state code" of the countries that write states.
func (r *reader) withState(i, end int, country, code string) (Address, bool) {
	if i == 0 ||
		r.tokens[i-1].comma && len(r.tokens[i-1].text) > maxStateCode && State(country, r.tokens[i-1].text) == "" {
		return Address{}, false
	}
	// The state: one to three words before the code, in brackets in French.
	for words := 1; words <= maxStateWords && words <= i; words++ {
		var parts []string
		for _, t := range r.tokens[i-words : i] {
			parts = append(parts, t.text)
		}
		text := strings.Join(parts, " ")
		state := State(country, text)
		if state == "" || words == 1 && len(text) <= maxStateCode && text != strings.ToUpper(text) {
			continue
		}
		if country == "US" && !ZIPOf(text, code) ||
			country == "AU" && !postcodeOf(text, code) && !r.speaksFor("AU", end) {
			return Address{}, false // "SA" is a legal form, "DE" is Germany
		}
		city := r.cityBefore(i - words)
		if city == "" {
			return Address{}, false
		}
		c, _ := ByCode(country)
		a := Address{PostalCode: code, City: city, State: state, Country: c, Named: true,
			Street: r.streetBefore(i - words)}
		if named, ok := r.country(end); ok && named.Code != country {
			return Address{}, false
		}
		return a, true
	}
	return Address{}, false
}

// postcodeOf reports whether a postal code belongs to an Australian state whose
// letters mean other things elsewhere; abbreviations of three letters are unambiguous.
func postcodeOf(state, code string) bool {
	switch strings.ToUpper(strings.ReplaceAll(state, ".", "")) {
	case "SA":
		return code[0] == '5'
	case "WA":
		return code[0] == '6'
	case "NT":
		return code[0] == '0'
	}
	return true
}

// speaksFor reports whether a country is written after token end, or is the source's.
func (r *reader) speaksFor(code string, end int) bool {
	named, ok := r.country(end)
	return ok && named.Code == code || r.near.Code == code
}

var streetEnds = tables.Set("streetEnds") // words after which a city may follow without a comma

// cityBefore reads the city that ends before token i: back to the previous comma, or else to the end of the street. At
// the beginning of a line it reads the end of the line above.
func (r *reader) cityBefore(i int) string {
	words := r.tokens[:i]
	if i == 0 {
		if r.at == 0 || len(r.lines[r.at-1]) > maxAddressLine/2 {
			return ""
		}
		words = tokens(r.lines[r.at-1])
	}
	begin := len(words)
	for begin > 0 && (begin == len(words) || !words[begin-1].comma) {
		begin--
	}
	words = words[begin:]
	for k, word := range slices.Backward(words) { // without a comma the street precedes it
		w := strings.ToLower(strings.TrimRight(word.text, "."))
		if k < len(words)-1 && (streetEnds[w] || strings.ContainsFunc(w, unicode.IsDigit)) {
			words = words[k+1:]
			break
		}
	}
	if len(words) == 0 || len(words) > maxCityWords {
		return ""
	}
	var names []string
	for k, t := range words {
		if !isName(t.text) && !(k > 0 && particles[strings.ToLower(t.text)]) {
			return ""
		}
		names = append(names, t.text)
	}
	city := strings.Join(names, " ")
	if utf8.RuneCountInString(city) < minCityRunes || utf8.RuneCountInString(city) > maxCityRunes || notCity(names) {
		return ""
	}
	return titled(city)
}

var counties = tables.Set("counties") // may be between a British city and its postal code, and are not the city

// ofIsles reads "city, county, code" of the first country, or of another one that is named. The city ends before end.
func (r *reader) ofIsles(i, end int, code string, countries ...string) (Address, bool) {
	c, named := r.country(i + 2)
	if !named {
		c, _ = ByCode(countries[0])
	}
	city := r.cityPast(end, func(name string) bool { return counties[strings.ToLower(name)] })
	if city == "" || !slices.Contains(countries, c.Code) {
		return Address{}, false
	}
	return Address{PostalCode: code, City: city, Country: c, Named: true, Street: r.streetBefore(i)}, true
}

// cityPast returns the same as cityBefore, but skips names of regions between the city and the code.
func (r *reader) cityPast(i int, isRegion func(name string) bool) string {
	at := *r
	for range maxCounties {
		city := at.cityBefore(i)
		if city == "" || !isRegion(city) {
			return city
		}
		words := len(strings.Fields(city))
		switch {
		case i > words:
			i -= words
		case i == words && at.at > 0:
			i = 0
		case at.at > 1: // the county is on a separate line
			at.at--
			at.tokens = tokens(at.lines[at.at])
			i = max(0, len(at.tokens)-words)
		default:
			return ""
		}
	}
	return ""
}

// behindCity reads a code after the city for countries that must be named, or be the source's.
func (r *reader) behindCity(i, end int, countries []string, code string) (Address, bool) {
	c, named := r.country(end)
	if !named {
		c = r.near
	}
	var state string
	city := r.cityPast(i, func(name string) bool {
		found := State(c.Code, name)
		state = cmp.Or(found, state)
		return found != ""
	})
	if city == "Singapore" && len(code) == 6 {
		c, _ = ByCode("SG")
		named = true
	}
	if fits := slices.Contains(countries, c.Code); !fits || city == "" || !named && isYear(code) {
		return Address{}, false
	}
	street := r.streetBefore(i)
	if !named && street == "" {
		return Address{}, false
	}
	return Address{PostalCode: code, City: city, State: cmp.Or(state, r.stateAfter(end, c.Code)), Country: c,
		Named: named, Street: street}, true
}
