package postal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
)

// This file reads addresses for which a postal code and a city are not enough.

const argentine = "ABCDEFGHJKLMNPQRSTUVWXYZ" // the letters of the provinces in Argentine postal codes

// thoroughfare matches the words for streets and buildings in addresses without a house number of their own, and in
// languages whose words imply no country.
var thoroughfare = lazyregexp.New(`(?i)(?:^|[\s,.])(?:` + tables.Any("thoroughfare") + `)(?:[\s,.\d:]|$)`)

// stateAfter reads the state in the words after token end, up to the next comma.
func (r *reader) stateAfter(end int, country string) string {
	if states[country] == nil {
		return ""
	}
	var words []string
	for i := end; i < len(r.tokens) && i < end+maxStateWords; i++ {
		words = append(words, r.tokens[i].text)
		state := State(country, strings.Join(words, " "))
		if state != "" && len(state) > maxStateCode && len(strings.Join(words, "")) > maxStateCode {
			return state
		}
		if r.tokens[i].comma {
			return ""
		}
	}
	return ""
}

var (
	cep         = lazyregexp.New(`(?:^|\D)(\d{2}\.?\d{3}-\d{3})(?:\D|$)`)
	cityOfState = lazyregexp.New(`([\p{Lu}][\p{L}'’. ]{1,38}?)\s*[-–—/,(]\s*(` + tables.Any("cityOfState") +
		`)(?:[\s,.;)|–—-]|$)`)
)

// brazilian reads "city - state" or "city/state" beside a postal code of Brazil in the same line or the next two.
func brazilian(lines []string, i int, _ Country) (Address, bool) {
	if !strings.ContainsAny(lines[i], "-/–—,(") { // cheaper than the expression
		return Address{}, false
	}
	m := lastMatch(cityOfState, lines[i])
	if m == nil {
		return Address{}, false
	}
	code := cep.FindStringSubmatch(strings.Join(lines[max(0, i-1):min(len(lines), i+countryDistance+1)], " \n"))
	if code == nil {
		return Address{}, false
	}
	city := m[1]
	if at := strings.LastIndexAny(city, ".,"); at >= 0 {
		city = city[at+1:]
	}
	city = strings.TrimSpace(city)
	words := strings.Fields(city)
	if len(words) == 0 || len(words) > maxCityWords+1 || notCity(words) || streetCountry(city) != "" {
		return Address{}, false
	}
	c, _ := ByCode("BR")
	return Address{Street: lines[i], PostalCode: code[1], City: titled(city), State: states["BR"][m[2]], Country: c,
		Named: true}, true
}

// lastMatch returns the last match of an expression: the largest parts of an address are at its end.
func lastMatch(pattern *lazyregexp.Regexp, text string) []string {
	all := pattern.FindAllStringSubmatch(text, maxAddresses)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

var turkishProvinces = tables.Set("turkishProvinces") // the provinces of Turkey, folded

// districtOf matches a district and a province of Turkey.
var districtOf = lazyregexp.New(`(\p{Lu}\p{L}{1,25})\s*[/-]\s*(\p{Lu}\p{L}{2,15})(?:[\s,.;)|]|$)`)

// turkish reads "district / province" if the domain, the language or a register number is Turkish.
func turkish(lines []string, i int, near Country) (Address, bool) {
	if near.Code != "TR" || !strings.ContainsAny(lines[i], "/-") {
		return Address{}, false
	}
	m := lastMatch(districtOf, lines[i])
	if m == nil || !turkishProvinces[strings.ReplaceAll(folded(m[2]), "ı", "i")] {
		return Address{}, false
	}
	if !isStreet(lines[i]) && (i == 0 || !isStreet(lines[i-1])) && !turkishCode.MatchString(lines[i]) {
		return Address{}, false
	}
	c, _ := ByCode("TR")
	code := turkishCode.FindString(lines[i])
	return Address{Street: lines[i], PostalCode: strings.TrimSpace(code), City: titledTurkish(m[1]),
		State: titledTurkish(m[2]), Country: c, Named: true}, true
}

var turkishCode = lazyregexp.New(`(?:^|\s)\d{5}(?:\s|$)`)

// titledTurkish does the same as titled for Turkish, which has a dotted and a dotless i.
func titledTurkish(name string) string {
	if name != strings.ToUpper(name) {
		return name
	}
	_, first := utf8.DecodeRuneInString(name)
	return name[:first] + strings.ToLowerSpecial(unicode.TurkishCase, name[first:])
}

// russianCity matches "г. Томск, ул. Ленина, 1", with or without a postal code.
var russianCity = lazyregexp.New(`(?:^|[\s,])(?:г\.?|город)\s?(\p{Lu}[\p{L}-]+(?:\s\p{Lu}[\p{L}-]+)?)\s*,\s*` +
	`(?:[\p{L}. -]{0,30}\s)?(?:` +
	tables.Any("russianCity") + `)[.\s]`)

var russianCode = lazyregexp.New(`\b\d{6}\b`)

// russian reads an address in which the street follows the city. near must be a
// country that writes Russian, and is the address's country if it names none.
func russian(lines []string, i int, near Country) (Address, bool) {
	if !strings.Contains(lines[i], "г") {
		return Address{}, false
	}
	m := russianCity.FindStringSubmatch(lines[i])
	if m == nil {
		return Address{}, false
	}
	r := reader{lines: lines, at: i, tokens: tokens(lines[i]), near: near}
	c, named := r.country(max(0, len(r.tokens)-2))
	if !named {
		c = near
	}
	switch c.Code {
	case "RU", "BY", "KZ", "KG":
		return Address{Street: lines[i], PostalCode: russianCode.FindString(lines[i]), City: m[1], Country: c,
			Named: named}, true
	}
	return Address{}, false
}
