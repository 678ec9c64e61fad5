package extract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"letterhead/workers/crawl/site"
)

// How well a name fits a domain label, by the kind of match.
const (
	exactFit   = 1.0
	affixFit   = 0.9  // the label is the name with get, my, app, hq, …
	soundsFit  = 0.9  // the name in Latin letters sounds like the label
	PieceFit   = 0.9  // the label is made of the beginnings of the name's words: latimes, sfchronicle
	wordFit    = 0.75 // one word of the name is the label: Internet Archive
	partFit    = 0.7  // the name is the beginning or end of the label
	insideFit  = 0.6  // the label is inside the name's letters
	commonFit  = 0.4  // they share a longer word
	shortFit   = 0.35 // the label is the name with letters omitted: qz of Quartz
	StrongFit  = partFit
	MinPart    = 3 // letters from which a shared part is not a coincidence
	minCommon  = 4
	MaxFitName = 200 // bytes of a name that are compared
)

// Folded returns a name's letters and digits in lower case, without diacritics.
func Folded(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.Map(asciiFold, text)
	}
	return norm.NFC.String(site.Letters(norm.NFKD.String(text))) // drops the combining marks, which NFKD has separated
}

// FoldedSet returns a set of folded names.
func FoldedSet(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[Folded(n)] = true
	}
	return out
}

// asciiFold is Folded for one ASCII character, the common case.
func asciiFold(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return r
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	}
	return -1
}

// FoldedWords returns the folded words of a name; & and + read as and.
func FoldedWords(name string) []string {
	var out []string
	for w := range strings.FieldsFuncSeq(name, func(r rune) bool {
		return unicode.IsSpace(r) || r == '-' || r == '/' || r == '_' || r == '.' || r == ',' || r == '(' || r == ')'
	}) {
		if w == "&" || w == "+" {
			w = "and"
		}
		if f := Folded(w); f != "" {
			out = append(out, f)
		}
	}
	return out
}

// labelFit returns how well a name fits a domain label, from 0 to 1. Labels write umlauts as two letters and other
// scripts in Latin letters; the best reading counts.
func labelFit(name, label string) float64 {
	if len(name) > MaxFitName {
		return 0
	}
	best := plainFit(name, label)
	if long := umlauts.Replace(name); long != name {
		best = max(best, plainFit(long, label))
	}
	if latin, ok := latinized(name); ok {
		best = max(best, soundFit(latin, label))
	}
	return best
}

// umlauts are letters that domains often write as two, although some drop the mark instead.
var umlauts = strings.NewReplacer(
	"ä", "ae", "ö", "oe", "ü", "ue", "Ä", "Ae", "Ö", "Oe", "Ü", "Ue", "ß", "ss", "ø", "oe", "Ø", "Oe", "å", "aa",
	"Å", "Aa", "æ", "ae", "Æ", "Ae", "œ", "oe", "þ", "th", "ð", "d", "đ", "d", "ł", "l", "Ł", "L", "ı", "i")

func plainFit(name, label string) float64 {
	whole, label := Folded(name), Folded(label)
	words := FoldedWords(name)
	if whole == "" || label == "" || fillers[whole] && whole != label {
		return 0
	}
	switch {
	case whole == label, strings.Join(words, "") == label: // & read as and
		return exactFit
	case withAffix(whole, label):
		return affixFit
	case madeOfPieces(words, label):
		return PieceFit
	case len(label) >= 2 && slices.Contains(words, label):
		return wordFit
	}
	if (len(whole) > MinPart || len(whole) == MinPart && len(label) <= 2*MinPart) &&
		(strings.HasPrefix(label, whole) || strings.HasSuffix(label, whole)) {
		return partFit
	}
	if len(label) >= MinPart && strings.Contains(whole, label) {
		return insideFit
	}
	for _, w := range words {
		if len(w) >= minCommon && !fillers[w] && strings.Contains(label, w) {
			return commonFit
		}
	}
	if len(words) == 1 && shortOf(label, whole) {
		return shortFit
	}
	return 0
}

// affixes are additions that brands put before or after their name if the name itself is taken.
var (
	prefixes = tables.List("prefixes")
	suffixes = tables.List("suffixes")
)

// withAffix reports whether a label is a name with one customary affix.
func withAffix(whole, label string) bool {
	if len(whole) < MinPart {
		return false
	}
	if rest, ok := strings.CutSuffix(label, whole); ok {
		return slices.Contains(prefixes, rest)
	}
	if rest, ok := strings.CutPrefix(label, whole); ok {
		return slices.Contains(suffixes, rest)
	}
	return false
}

const maxShort = 4 // the longest label that can be a word with letters omitted

// shortOf reports whether a label is a word with inner letters omitted: qz of Quartz.
func shortOf(label, word string) bool {
	if len(label) < 2 || len(label) > maxShort || len(word) <= len(label) || label[0] != word[0] ||
		label[len(label)-1] != word[len(word)-1] {
		return false
	}
	at := 0
	for i := 0; i < len(word) && at < len(label); i++ {
		if word[i] == label[at] {
			at++
		}
	}
	return at == len(label)
}

var fillers = tables.Set("fillers") // words that domains usually omit

const maxPieces = 8 // limits the number of words of a name

// madeOfPieces reports whether a label consists of the beginnings of all words of a name, in order, fillers optional:
// "la"+"times" of Los Angeles Times, "aws" of Amazon Web Services.
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

// fit returns how well a name fits the site: one of its labels, or its whole
// host. Inc.com is inc.com, and The Flip Africa theflip.africa.
func (in Input) fit(name string) float64 {
	best := in.Fits(name)
	if best >= affixFit || len(name) > MaxFitName {
		return best
	}
	whole := Folded(name)
	if whole == "" {
		return 0
	}
	if whole == Folded(in.Site.Domain) {
		return exactFit
	}
	if in.Page.URL != nil {
		host := strings.TrimPrefix(strings.ToLower(in.Page.URL.Hostname()), "www.")
		if in.Site.OwnHost(host) && strings.HasSuffix(host, "."+in.Site.Domain) &&
			whole == Folded(strings.TrimSuffix(host, in.Site.Domain)+in.Site.Label) {
			return exactFit
		}
	}
	return best
}
