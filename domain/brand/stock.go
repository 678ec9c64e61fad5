package brand

import (
	"slices"
	"strings"
	"unicode"
)

// Sighting is a brand on whose site an icon was found only by convention.
type Sighting struct {
	Domain string
	Name   string   // "" if unknown
	At     string   // the registrable domain that the home page redirects to, or Domain
	Linked []string // registrable domains that the home page links to
}

const (
	// stockBrands is the number of brands with nothing in common whose icon belongs to none of them.
	stockBrands = 5
	// maxTried limits the choices of such brands that are tried; the choices among 64 brands of which none is related to
	// another, or all are, end much earlier.
	maxTried = 100_000
	// sameLetters is the number of letters from which a name within another one is not a coincidence.
	sameLetters = 4
)

// IsStock reports whether an icon is the stock icon of a template: it was seen at five brands at least, none of which
// has the name or the domain of another, in part or as a whole, or links or redirects to it. The icon of a company with
// a domain in each country, or of a group whose sites link to each other, is not.
func IsStock(seen []Sighting) bool {
	related := make([][]bool, len(seen))
	for i := range seen {
		related[i] = make([]bool, len(seen))
		for j := range i {
			related[i][j] = seen[i].related(seen[j])
		}
	}
	tried := 0
	var apart func(chosen []int, from int) bool // reports whether brands from here on complete those that were chosen
	apart = func(chosen []int, from int) bool {
		if len(chosen) == stockBrands {
			return true
		}
		for i := from; i < len(seen) && tried < maxTried; i++ {
			tried++
			if !slices.ContainsFunc(chosen, func(j int) bool { return related[i][j] }) && apart(append(chosen, i), i+1) {
				return true
			}
		}
		return false
	}
	return apart(nil, 0)
}

// related reports whether two brands may be one, or belong together.
func (s Sighting) related(to Sighting) bool {
	if s.Domain == to.Domain || s.At == to.Domain || s.Domain == to.At || s.At == to.At ||
		slices.Contains(s.Linked, to.Domain) || slices.Contains(to.Linked, s.Domain) {
		return true
	}
	for _, a := range s.names() {
		for _, b := range to.names() {
			if a == b || min(len(a), len(b)) >= sameLetters && (strings.Contains(a, b) || strings.Contains(b, a)) {
				return true
			}
		}
	}
	return false
}

// names returns the letters and digits of the name and of the domain's label.
func (s Sighting) names() []string {
	label, _, _ := strings.Cut(s.Domain, ".")
	return slices.DeleteFunc([]string{Letters(s.Name), Letters(label)}, func(name string) bool { return name == "" })
}

// Letters returns a text in the form of a domain label: its letters and digits, in lower case.
func Letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
