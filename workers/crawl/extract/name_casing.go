package extract

import (
	"strings"
	"unicode/utf8"
)

const minCased = 4 // how many letters a name in capitals has that is not read as an abbreviation

// casing returns the spelling of a name in capitals that the page itself uses most, or "" if that is the given one, or
// if it is unclear. Menus and headlines are often in capitals, so only a majority for other letters counts.
func (in Input) casing(all []nameCandidate, text string) string {
	same := Folded(text)
	if text != strings.ToUpper(text) || text == strings.ToLower(text) || utf8.RuneCountInString(same) < minCased {
		return ""
	}
	uses := map[string]int{}
	count := func(passage string) {
		for spelling := range spellings(passage, same, Folded) {
			uses[spelling]++
		}
	}
	for _, c := range all {
		if c.method != FromDomain && c.method != "page text" {
			count(c.text)
		}
	}
	count(in.Page.Meta("og:description", "description"))
	count(in.Page.Text)
	best, most, total := "", 0, 0
	for spelling, n := range uses {
		total += n
		if spelling == strings.ToLower(spelling) { // a common word
			total -= n
			continue
		}
		if n > most || n == most && spelling < best {
			best, most = spelling, n
		}
	}
	if best == text || best == strings.ToUpper(best) || 2*most <= total {
		return ""
	}
	return best
}
