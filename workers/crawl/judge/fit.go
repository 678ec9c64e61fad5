package judge

import (
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// How well a name fits a domain label, by how it does.
const (
	exactFit   = 1.0
	pieceFit   = 0.9  // the label is made of the beginnings of the name's words: latimes, sfchronicle
	wordFit    = 0.75 // one word of the name is the label: Internet Archive
	partFit    = 0.7  // the name is the beginning or end of the label
	insideFit  = 0.6  // the label stands inside of the name's letters
	commonFit  = 0.4  // they share a word of some length
	strongFit  = partFit
	minPart    = 3 // letters that a part needs to be no accident
	minCommon  = 4
	maxFitName = 200 // bytes of a name that are compared
)

// folded is a name's letters and digits, lower case, without diacritics.
func folded(text string) string {
	plain, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), text)
	if err != nil {
		plain = text
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, plain)
}

// foldedWords are the folded words of a name; & and + read as and.
func foldedWords(name string) []string {
	var out []string
	for w := range strings.FieldsFuncSeq(name, func(r rune) bool {
		return unicode.IsSpace(r) || r == '-' || r == '/' || r == '_' || r == '.' || r == ',' || r == '(' || r == ')'
	}) {
		if w == "&" || w == "+" {
			w = "and"
		}
		if f := folded(w); f != "" {
			out = append(out, f)
		}
	}
	return out
}

// labelFit says how well a name fits a domain label, 0 to 1.
func labelFit(name, label string) float64 {
	if len(name) > maxFitName {
		return 0
	}
	whole, label := folded(name), folded(label)
	words := foldedWords(name)
	if whole == "" || label == "" {
		return 0
	}
	switch {
	case whole == label:
		return exactFit
	case madeOfPieces(words, label):
		return pieceFit
	}
	for _, w := range words {
		if w == label && len(w) >= 2 {
			return wordFit
		}
	}
	if len(whole) >= minPart && (strings.HasPrefix(label, whole) || strings.HasSuffix(label, whole)) {
		return partFit
	}
	if len(label) >= minPart && strings.Contains(whole, label) {
		return insideFit
	}
	for _, w := range words {
		if len(w) >= minCommon && strings.Contains(label, w) {
			return commonFit
		}
	}
	return 0
}

// fillers are words that a domain usually leaves out.
var fillers = map[string]bool{"the": true, "of": true, "and": true, "a": true, "for": true, "de": true, "der": true, "die": true, "das": true, "la": true, "le": true, "el": true, "los": true}

// maxPieces bounds the words that madeOfPieces looks at.
const maxPieces = 8

// madeOfPieces says whether a label is made of the beginnings of all words of a name, in order, fillers
// optional: "la"+"times" of Los Angeles Times, "aws" of Amazon Web Services.
func madeOfPieces(words []string, label string) bool {
	if len(words) < 2 || len(words) > maxPieces {
		return false
	}
	// at holds the positions in the label that the words so far can reach.
	at := map[int]bool{0: true}
	for _, w := range words {
		next := map[int]bool{}
		for i := range at {
			if fillers[w] {
				next[i] = true
			}
			for n := 1; n <= len(w) && i+n <= len(label) && w[:n] == label[i:i+n]; n++ {
				next[i+n] = true
			}
		}
		at = next
	}
	return at[len(label)]
}
