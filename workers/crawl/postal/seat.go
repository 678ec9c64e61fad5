package postal

import "strings"

// Seat reads "city, state" or "city, country" or both at the beginning of a text, such as the text after "headquartered
// in". ok is false if neither a known state nor a country follows the city.
func Seat(text string) (city, state string, country Country, ok bool) {
	if len(text) > maxAddressLine {
		text = strings.ToValidUTF8(text[:maxAddressLine], "")
	}
	segments := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '(' || r == ')' || r == ';' })
	if len(segments) < 2 {
		return "", "", Country{}, false
	}
	words := strings.Fields(segments[0])
	if !nameCity(words) {
		return "", "", Country{}, false
	}
	city = strings.Join(words, " ")
	if _, isCountry := byName(city); isCountry && city != "Singapore" && city != "Luxembourg" && city != "Monaco" {
		return "", "", Country{}, false
	}
	for _, segment := range segments[1:min(len(segments), 3)] {
		name := beginning(segment)
		if state == "" {
			for _, code := range []string{"US", "CA", "AU"} {
				if s := State(code, name); s != "" && (len(name) > 3 || name == strings.ToUpper(name)) {
					state = s
					country, _ = ByCode(code)
					break
				}
			}
			if state != "" {
				continue
			}
		}
		if c, found := countryName(name); found {
			if state != "" && c.Code != country.Code { // Tbilisi, Georgia is not in an American state
				state = ""
			}
			return city, state, c, true
		}
	}
	return city, state, country, state != ""
}

// beginning returns the capitalized words at the beginning of a text, without the rest of the sentence.
func beginning(text string) string {
	var words []string
	for w := range strings.FieldsSeq(text) {
		if strings.EqualFold(w, "the") && len(words) == 0 {
			continue
		}
		ended := strings.HasSuffix(w, ".") && len(w) > 3
		w = strings.TrimRight(w, ".:!?")
		if !isName(w) && !particles[strings.ToLower(w)] {
			break
		}
		words = append(words, w)
		if ended || len(words) == maxCityWords {
			break
		}
	}
	return strings.Join(words, " ")
}

// Tail reads the city and the country at the end of a line such as a footer's, "Acme Ltd, West Harbour, Leeds, United
// Kingdom". It skips parts of the United Kingdom between them.
func Tail(line string) (city string, country Country, ok bool) {
	segments := strings.Split(strings.TrimRight(line, " ."), ",")
	if len(line) > maxAddressLine || len(segments) < 3 {
		return "", Country{}, false
	}
	last := len(segments) - 1
	country, ok = countryName(strings.TrimSpace(segments[last]))
	if !ok {
		return "", Country{}, false
	}
	for last--; last > 0; last-- {
		city = strings.TrimSpace(segments[last])
		if country.Code == "GB" && counties[strings.ToLower(city)] {
			continue
		}
		if _, isCountry := byName(city); isCountry || !nameCity(strings.Fields(city)) { // or a list of countries
			break
		}
		return city, country, true
	}
	return "", Country{}, false
}

// nameCity reports whether words can be the name of a city.
func nameCity(words []string) bool {
	for i, w := range words {
		if !isName(w) && !(i > 0 && particles[strings.ToLower(w)]) {
			return false
		}
	}
	return len(words) > 0 && len(words) <= maxCityWords
}
