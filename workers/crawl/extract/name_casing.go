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
		fields := strings.Fields(passage)
		if len(fields) > maxWritten {
			fields = fields[:maxWritten]
		}
		for i := range fields {
			if first := Folded(fields[i]); first == "" || !strings.HasPrefix(same, first) {
				continue
			}
			whole := ""
			for n := i; n < len(fields) && len(whole) < len(same); n++ {
				if whole += Folded(fields[n]); whole == same {
					uses[strings.Trim(strings.Join(fields[i:n+1], " "), wrapping)]++
				}
			}
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
