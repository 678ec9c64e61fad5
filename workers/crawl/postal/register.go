package postal

import "letterhead/internal/lazyregexp"

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
