package postal

import (
	"strings"

	"letterhead/internal/lazyregexp"
)

// states are the names of states and provinces by country and code, and namesOfStates by country and folded name.
var states, namesOfStates = func() (byCode, byName map[string]map[string]string) {
	byCode, byName = map[string]map[string]string{}, map[string]map[string]string{}
	for _, row := range tables.Rows("states", 3) {
		country, code, name := row[0], row[1], row[2]
		if byCode[country] == nil {
			byCode[country], byName[country] = map[string]string{}, map[string]string{}
		}
		byCode[country][code], byName[country][folded(name)] = name, name
	}
	return byCode, byName
}()

var hindiStates = tables.Map("hindiStates") // the states of India in Hindi

// State returns the name of a country's state by its code, or by its name in any case and with or without accents; ""
// if the country's states are unknown or it has none of that name. "para", which is also a preposition, needs its
// capital or its accent.
func State(country, text string) string {
	if states[country] == nil {
		return ""
	}
	text = strings.Trim(text, " .,()")
	if name := states[country][strings.ToUpper(strings.ReplaceAll(text, ".", ""))]; name != "" {
		return name
	}
	if name := hindiStates[text]; name != "" && country == "IN" {
		return name
	}
	if text == "para" {
		return ""
	}
	return namesOfStates[country][folded(text)]
}

// zips are the first digits of the postal codes of the states of the United States, as assigned by its postal service.
// Delaware, whose code is also Germany's, has two digits.
var zips = tables.Map("zips")

// ZIPOf reports whether a postal code can belong to a state of the United States, given by its code or name. The codes
// of the states mean other things elsewhere, but with a matching postal code they mean the states.
func ZIPOf(state, code string) bool {
	name := State("US", state)
	for short, digits := range zips {
		if states["US"][short] == name && name != "" {
			return strings.HasPrefix(code, digits)
		}
	}
	return false
}

// registers matches, by country, the numbers of companies in registers and tax offices, each with the word for it.
// Foreign traders also have tax numbers, so only the kinds that residents alone receive are listed. VR and FN with
// digits also name products, so the word for the register or its court must be beside them.
var registers = func() map[string]*lazyregexp.Regexp {
	out := map[string]*lazyregexp.Regexp{}
	for country, number := range tables.Map("registers") {
		out[country] = lazyregexp.New(`(?:^|[^\p{L}\d])(?:` + number + `)`)
	}
	return out
}()

// RegisteredIn returns the country whose register or tax office assigned a number in a text. ok is false if the text
// has no such number, or numbers of several countries.
func RegisteredIn(text string) (country Country, ok bool) {
	for code, number := range registers {
		if !number.MatchString(text) {
			continue
		}
		if ok {
			return Country{}, false
		}
		country, ok = ByCode(code)
	}
	return country, ok
}
