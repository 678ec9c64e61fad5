package postal

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
)

// Address is a postal address in a text.
type Address struct {
	Street, PostalCode, City string
	State                    string  // name, or ""
	Country                  Country // never zero
	// Named is set if the country is written or implied by the form of the
	// address alone; otherwise it is derived from the place of the text.
	Named bool
	Line  int // the index of the line with the postal code
}

// Limits of one line and of the search in it.
const (
	maxAddressLine  = 300 // bytes; lines of addresses are short
	maxTokens       = 60
	maxCityWords    = 4
	maxAddresses    = 20
	countryDistance = 2 // lines below the postal code that may contain the country
	minCityRunes    = 2
	maxCityRunes    = 40
	maxStreetTokens = 8 // before a postal code
	linesOfStreet   = 2 // above it
	minNameBytes    = 4 // of a country's name; shorter ones are words of other languages
)

// token is one word of a line.
type token struct {
	text  string // without surrounding punctuation
	comma bool   // followed by a comma, semicolon, bar or dash
	stop  bool   // followed by a full stop that does not belong to an abbreviation
	shape string // digits as 9, capitals as A, other letters as a
}

// Addresses finds postal addresses in lines of text. near is the country implied by the source, such as the domain's
// ending; it decides if the form of an address matches several countries. Addresses with an ambiguous country are
// omitted, as are a number and a word without a street near them.
func Addresses(lines []string, near Country) []Address {
	var out []Address
	for i, line := range lines {
		if len(out) >= maxAddresses {
			break
		}
		if len(line) > maxAddressLine {
			continue
		}
		for _, read := range []func([]string, int, Country) (Address, bool){eastAsian, brazilian, turkish, russian} {
			if a, ok := read(lines, i, near); ok {
				a.Line = i
				out = append(out, a)
				line = ""
				break
			}
		}
		if line == "" || !strings.ContainsAny(line, "0123456789") {
			continue
		}
		r := reader{lines: lines, at: i, tokens: tokens(line), near: near}
		if a, ok := r.read(); ok {
			if before, _, _ := strings.Cut(line, a.PostalCode); clock.MatchString(before) {
				continue // "12:47, 9102 Visitor wrote"
			}
			if isCopyright(line) && (len(a.PostalCode) <= len("2024") || a.Street == "" && !a.Named) {
				continue
			}
			a.Line = i
			out = append(out, a)
		}
	}
	return out
}

// clock matches a time of day, which precedes a number in comments and lists of news, but not in addresses.
var clock = lazyregexp.New(`(?:^|\D)\d{1,2}:\d{2}(?:\D|$)`)

// isCopyright reports whether a line is a copyright notice, with a year as its number and the holder as its words. An
// address in it counts if its code cannot be a year, and it has a street or names its country.
func isCopyright(line string) bool {
	lower := strings.ToLower(line)
	return strings.ContainsRune(line, '©') || strings.Contains(lower, "(c)") || strings.Contains(lower, "copyright") ||
		strings.Contains(lower, "all rights reserved") || strings.Contains(lower, "alle rechte vorbehalten")
}

// isYear reports whether a postal code may be a recent year.
func isYear(code string) bool {
	return len(code) == len("2000") && (strings.HasPrefix(code, "19") || strings.HasPrefix(code, "20"))
}

// cityless are words with which no city begins: units and countable things, days, and phrases of footers. As the last
// word of a city they belong to the text after it.
var cityless = tables.Set("cityless")
var companyEnds = tables.Set("companyEnds") // the last words of company names, with which no city ends

// notCity reports whether words at the position of a city are something else.
func notCity(words []string) bool {
	return cityless[strings.ToLower(words[0])] || companyEnds[strings.ToLower(words[len(words)-1])]
}

func tokens(line string) []token {
	var out []token
	for word := range strings.FieldsFuncSeq(strings.ReplaceAll(line, ",", ", "), unicode.IsSpace) {
		if len(out) >= maxTokens {
			break
		}
		bare := strings.TrimFunc(word,
			func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '(' && r != ')' })
		if bare == "" {
			if len(out) > 0 { // a separate dash or bar
				out[len(out)-1].comma = true
			}
			continue
		}
		t := token{text: bare, comma: strings.ContainsAny(word[len(word)-1:], ",;|") || strings.HasSuffix(word, "·") ||
			strings.HasSuffix(word, "•")}
		t.stop = strings.HasSuffix(word, ".") && utf8.RuneCountInString(bare) > maxAbbreviation
		t.shape = shape(bare)
		out = append(out, t)
	}
	return out
}

const maxShape = 10 // limits the tokens that have a shape; longer ones are words

func shape(text string) string {
	if len(text) > maxShape {
		return ""
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9':
			return '9'
		case unicode.IsUpper(r):
			return 'A'
		case unicode.IsLetter(r):
			return 'a'
		}
		return r
	}, text)
}

// reader reads one line.
type reader struct {
	lines  []string
	at     int
	tokens []token
	near   Country
}

// read tries each word of the line as the beginning of a postal code. It returns the first address.
func (r *reader) read() (Address, bool) {
	for i, t := range r.tokens {
		if t.shape == "" || !strings.ContainsRune(t.shape, '9') {
			continue
		}
		for _, try := range []func(int) (Address, bool){r.codeLast, r.codeFirst} {
			if a, ok := try(i); ok {
				return a, true
			}
		}
	}
	return Address{}, false
}

// after returns the shape of the token after i, or "".
func (r *reader) after(i int) string {
	if i+1 < len(r.tokens) {
		return r.tokens[i+1].shape
	}
	return ""
}

var prefixes = tables.Map("prefixes") // the country letters before postal codes on the continent

// codesFirst and codesLast are the countries by the shapes of their postal codes, before and after the city. A code of
// two words has a space.
var codesFirst, codesLast = countriesOf("codesFirst"), countriesOf("codesLast")

func countriesOf(section string) map[string][]string {
	out := map[string][]string{}
	for form, countries := range tables.Map(section) {
		out[form] = strings.Fields(countries)
	}
	return out
}

// codeFirst reads the continental European form: postal code, then city.
func (r *reader) codeFirst(i int) (Address, bool) {
	code, form := r.tokens[i].text, r.tokens[i].shape
	a := Address{}
	if letters, digits, ok := strings.Cut(code, "-"); ok && prefixes[letters] != "" {
		a.Country, _ = ByCode(prefixes[letters])
		a.Named = true
		code, form = digits, shape(digits)
	} else if i > 0 && prefixes[r.tokens[i-1].text] != "" && len(r.tokens[i-1].text) > 1 && i == 1 {
		a.Country, _ = ByCode(prefixes[r.tokens[i-1].text])
		a.Named = true
	}
	next, countries := i+1, codesFirst[form]
	if two := codesFirst[form+" "+r.after(i)]; two != nil && i+2 < len(r.tokens) && len(r.tokens[i+1].text) == 2 {
		next, countries = i+2, two
		code += " " + r.tokens[i+1].text
	}
	if countries == nil || form[0] == 'A' && strings.IndexByte(argentine, code[0]) < 0 {
		return Address{}, false
	}
	if next >= len(r.tokens) || next > i+1 && r.tokens[i].comma {
		return Address{}, false
	}
	if form == "999999" && next+1 < len(r.tokens) && (r.tokens[next].text == "г" || r.tokens[next].text == "город") {
		next++ // "city" in Russian
	}
	city, end := r.cityFrom(next)
	if city == "" {
		return Address{}, false
	}
	a.PostalCode, a.City = code, city
	if !a.Named {
		a.Country, a.Named = r.country(end)
	}
	if a.Named && !slices.Contains(countries, a.Country.Code) {
		return Address{}, false
	}
	a.Street = r.streetBefore(i)
	if a.Named || r.near.Code != "" {
		a.State = r.stateAfter(end, cmp.Or(a.Country.Code, r.near.Code))
	}
	if !a.Named {
		switch {
		case a.Street == "", isYear(code):
			return Address{}, false
		case len(countries) == 1:
			a.Country, _ = ByCode(countries[0])
		case slices.Contains(countries, r.near.Code):
			a.Country = r.near
		default:
			guess := streetCountry(a.Street)
			if !slices.Contains(countries, guess) {
				return Address{}, false
			}
			a.Country, _ = ByCode(guess)
		}
	}
	return a, true
}

var particles = tables.Set("particles") // the small words within names of cities
var labels = tables.Set("labels")       // words after an address without a comma

// cityFrom reads the words of a city from token i on, and returns their end.
func (r *reader) cityFrom(i int) (city string, end int) {
	var words []string
	for end = i; end < len(r.tokens) && len(words) < maxCityWords; end++ {
		t := r.tokens[end]
		if !isName(t.text) && !(len(words) > 0 && particles[t.text]) || labels[strings.ToLower(t.text)] {
			break
		}
		if len(words) > 0 && !particles[words[len(words)-1]] { // Ciudad de México
			if _, ok := byName(t.text); ok {
				break
			}
		}
		words = append(words, t.text)
		if t.comma || t.stop {
			end++
			break
		}
	}
	for len(words) > 0 && particles[words[len(words)-1]] {
		words, end = words[:len(words)-1], end-1
	}
	// After the city: a province in brackets or as two letters, Cedex and its number.
	for end < len(r.tokens) && (strings.HasPrefix(r.tokens[end].text, "(") ||
		strings.EqualFold(r.tokens[end].text, "cedex") || r.tokens[end].shape == "99" || r.tokens[end].shape == "9") {
		end++
	}
	for len(words) > 1 && cityless[strings.ToLower(words[len(words)-1])] {
		words = words[:len(words)-1]
	}
	if len(words) > 0 && notCity(words) {
		return "", i
	}
	// Or as a last word of two capitals.
	if last := len(words) - 1; last > 0 && len(words[last]) == 2 && words[last] == strings.ToUpper(words[last]) {
		words = words[:last]
	}
	city = strings.Trim(strings.Join(words, " "), "()")
	if utf8.RuneCountInString(city) < minCityRunes || utf8.RuneCountInString(city) > maxCityRunes {
		return "", i
	}
	if c, ok := byName(city); ok && c.Code != "SG" && c.Code != "LU" && c.Code != "MC" && c.Code != "MX" {
		return "", i
	}
	return titled(city), end
}

// isName reports whether a word can begin a name: a capital, then letters, hyphens, dots or apostrophes.
func isName(word string) bool {
	if first, _ := utf8.DecodeRuneInString(word); !unicode.IsUpper(first) && !unicode.Is(unicode.Lo, first) {
		return false
	}
	return strings.IndexFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '-' && r != '.' && r != '\'' && r != '’' &&
			r != '/' && r != 'ʼ'
	}) < 0
}

// titled capitalizes a city written in all capitals.
func titled(city string) string {
	if len(city) <= 3 || city != strings.ToUpper(city) {
		return city
	}
	previous := ' '
	return strings.Map(func(r rune) rune {
		p := previous
		previous = r
		if p == ' ' || p == '-' || p == '\'' || p == '’' {
			return r
		}
		return unicode.ToLower(r)
	}, city)
}

// country reads the name of a country in the rest of the line after token end, or in one of the next lines.
func (r *reader) country(end int) (Country, bool) {
	var words []string
	for i := end; i < len(r.tokens) && i < end+2*maxCityWords; i++ {
		words = append(words, strings.Trim(r.tokens[i].text, "()"))
		if c, ok := countryName(strings.Join(words, " ")); ok {
			return c, true
		}
		if r.tokens[i].comma || strings.ContainsFunc(r.tokens[i].text, unicode.IsDigit) {
			words = nil
		}
	}
	for i := r.at + 1; i < len(r.lines) && i <= r.at+countryDistance; i++ {
		line := strings.Trim(r.lines[i], " .,;()")
		if c, ok := countryName(line); ok {
			return c, true
		}
		if strings.ContainsAny(line, "0123456789@:") {
			break // telephone, mail: the address ends
		}
	}
	return Country{}, false
}

// The lower-case words allowed in a line of an address, except those within names.
const (
	maxSmallWords   = 1
	maxAbbreviation = 4 // runes of "ul." and similar, with the period
)

// IsAddressLine reports whether a line can be part of an address rather than a sentence that mentions one: it is short,
// and its words begin with capitals or digits.
func IsAddressLine(line string) bool {
	if len(line) > maxAddressLine/2 {
		return false
	}
	small := 0
	for w := range strings.FieldsSeq(line) {
		w = strings.TrimRight(w, ",;")
		abbreviated := strings.HasSuffix(w, ".") && utf8.RuneCountInString(w) <= maxAbbreviation
		if r, _ := utf8.DecodeRuneInString(w); unicode.IsLower(r) && !particles[w] && !abbreviated {
			small++
		}
	}
	return small <= maxSmallWords
}

// countryName finds a country by its name or by the few codes used as names.
func countryName(text string) (Country, bool) {
	switch text {
	case "USA", "US", "U.S.A.", "U.S.A", "U.S.", "UK", "U.K.", "UAE", "GB":
		return Find(text)
	}
	if utf8.RuneCountInString(text) < minCityRunes || len(text) < minNameBytes {
		return Country{}, false
	}
	return byName(text)
}

// streetBefore returns the text before token i in the line, or the line above, if that can be a street.
func (r *reader) streetBefore(i int) string {
	if i > 0 {
		var words []string
		for _, t := range r.tokens[max(0, i-maxStreetTokens):i] {
			word := t.text
			if t.comma {
				word += ","
			}
			words = append(words, word)
		}
		for begin := range words { // a sentence may precede the street
			if text := strings.TrimRight(strings.Join(words[begin:], " "), ","); isStreet(text) {
				return text
			}
		}
	}
	for k := r.at - 1; k >= 0 && k >= r.at-linesOfStreet; k-- {
		if len(r.lines[k]) <= maxAddressLine/2 && isStreet(r.lines[k]) {
			return r.lines[k]
		}
	}
	return ""
}

// streetWords identify streets, and some of them the countries of their language.
var streetWords = func() [][]string {
	rows := tables.Rows("streetWords", 2)
	for _, row := range rows {
		row[0] = strings.ReplaceAll(row[0], "_", " ")
	}
	return rows
}()

const maxHouseNumber = 4 // limits the digits of a house number

// IsStreet reports whether a text names a kind of street in one of the languages whose words for it are known.
func IsStreet(text string) bool { return streetCountry(text) != "" }

// isStreet reports whether a text can be a street with a house number: one of its parts begins or ends with the
// number, or it names a kind of street.
func isStreet(text string) bool {
	if strings.ContainsAny(text, "@©") || strings.Contains(text, "://") {
		return false
	}
	if streetCountry(text) != "" || thoroughfare.MatchString(text) {
		return true
	}
	for part := range strings.FieldsFuncSeq(text,
		func(r rune) bool { return r == ',' || r == '·' || r == '|' || r == ';' || r == '•' }) {
		words := strings.Fields(part)
		if len(words) < 2 || len(words) > maxStreetTokens {
			continue
		}
		first, last := words[0], words[len(words)-1]
		if isHouseNumber(last) && isName(words[0]) || isHouseNumber(first) && !strings.HasSuffix(first, ".") &&
			isName(words[1]) && (len(words[1]) >= 2 || len(words) > 2 && strings.Contains("NESW", words[1])) {
			return true
		}
	}
	return false
}

func isHouseNumber(word string) bool {
	digits := 0
	for _, r := range word {
		if unicode.IsDigit(r) {
			digits++
		}
	}
	return digits >= 1 && digits <= maxHouseNumber && unicode.IsDigit(rune(word[0])) && len(word) <= digits+4
}

// streetCountry returns the country of the language of a street, or "" if that is ambiguous.
func streetCountry(street string) string {
	lower := " " + strings.ToLower(street) + " "
	for _, w := range streetWords {
		if strings.Contains(lower, w[0]) {
			return w[1]
		}
	}
	return ""
}
