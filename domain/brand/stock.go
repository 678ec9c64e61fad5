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
	maxTried    = 10_000 // limits the choices of such brands that are tried
	// sameLetters is the number of letters from which a name within another one is not a coincidence.
	sameLetters = 4
)

// IsStock reports whether an icon is the stock icon of a template at the first brand: it was seen there and at four more
// at least, none of which has the name or the domain of another, in part or as a whole, or links or redirects to it. The
// icon of a company with a domain in each country, or of a group whose sites link to each other, is not.
func IsStock(seen []Sighting) bool {
	tried := 0
	var apart func(chosen, rest []Sighting) bool // reports whether some of the rest complete those that were chosen
	apart = func(chosen, rest []Sighting) bool {
		for i, s := range rest {
			if tried++; len(chosen) == stockBrands || tried > maxTried {
				break
			}
			if !slices.ContainsFunc(chosen, s.related) && apart(append(chosen, s), rest[i+1:]) {
				return true
			}
		}
		return len(chosen) == stockBrands
	}
	return len(seen) >= stockBrands && apart(seen[:1:1], seen[1:])
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
