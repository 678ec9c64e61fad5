package extract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"letterhead/internal/lazyregexp"
)

// script is a script other than Latin, with the languages that are written in it.
type script struct {
	table     *unicode.RangeTable
	languages []string
}

var scripts = func() (out []script) {
	for _, row := range tables.Rows("scripts", 2) {
		out = append(out, script{unicode.Scripts[row[0]], strings.Fields(row[1])})
	}
	return out
}()

const (
	// minConfidence is the confidence in a detected encoding that letters beyond ASCII require. Of single words in the
	// texts of package page, two of three below it are decoded wrongly, and one of fifty above it.
	minConfidence = 0.65

	minLatin    = 4        // the least number of Latin letters that may be another text, decoded wrongly
	vietnamese  = '\u1e00' // the first letter of a block that no wrong encoding yields
	scriptWords = 30       // the least number of visible words that show in which scripts a page is written
)

// misread reports whether a text was decoded wrongly: most of its Latin letters have marks, or signs between them, or
// it has a letter of a script in which neither the page's language is written nor its visible text. If the encoding was
// detected, signs that names do not have and words in two alphabets show it as well; if that is doubtful, any letter
// beyond ASCII does.
func (in Input) misread(text string) bool {
	latin, marked, signs := 0, 0, 0
	var seen *unicode.RangeTable
	encoding := in.Page.Detected
	doubtful := encoding.Name != "" && encoding.Confidence < minConfidence
	var last rune
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			if unicode.IsLetter(r) {
				latin++
			}
		case doubtful && unicode.IsLetter(r), encoding.Name != "" && (isStrange(r) ||
			unicode.In(r, unicode.Cyrillic, unicode.Greek) && unicode.Is(unicode.Latin, last)):
			return true
		case unicode.Is(unicode.Latin, r):
			latin++
			if r < vietnamese {
				marked++
			}
		case !unicode.IsLetter(r):
			if unicode.Is(unicode.Latin, last) {
				signs++
			}
		case isStrange(last):
			return true
		case seen != nil && unicode.Is(seen, r):
		default:
			if seen = scriptOf(r); seen != nil && !in.uses(seen) {
				return true
			}
		}
		last = r
	}
	return marked > 0 && latin >= minLatin && 3*(marked+signs) >= 2*(latin+2)
}

// isStrange reports whether a character beyond ASCII is an accent, a currency, a fraction or another sign that names do
// not have.
func isStrange(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Sk, unicode.Sc, unicode.Sm, unicode.No) || r == '¿'
}

func scriptOf(r rune) *unicode.RangeTable {
	for _, s := range scripts {
		if unicode.Is(s.table, r) {
			return s.table
		}
	}
	return nil
}

// uses reports whether the page is written in a script. If its encoding was detected, only the declared language
// counts.
func (in Input) uses(table *unicode.RangeTable) bool {
	language, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(in.Page.Lang), "_", "-"), "-")
	known, own := false, false
	for _, s := range scripts {
		if slices.Contains(s.languages, language) {
			known, own = true, own || s.table == table
		}
	}
	of := func(r rune) bool { return unicode.Is(table, r) }
	return own || !(known && in.Page.Detected.Name != "") && (in.Page.Words < scriptWords ||
		strings.ContainsFunc(in.Page.Title, of) || strings.ContainsFunc(in.Page.Text, of))
}

// unlikely matches texts whose bytes were UTF-8 by accident: JOSÉ’S contains the bytes of ɒ, and CAFFÈ™ of ș.
var unlikely = lazyregexp.New(`[\x{250}-\x{36f}]|\p{Lu}{2}[^\x00-\x7fß\p{Lu}\p{P}\p{S}\p{Z}\p{N}]`)

// repaired restores a text whose UTF-8 was decoded as windows-1252 or windows-1251 before it was stored. It returns
// other texts unchanged.
func repaired(text string) string {
	for _, c := range []*charmap.Charmap{charmap.Windows1252, charmap.Windows1251} {
		out, err := c.NewEncoder().String(text)
		n := utf8.RuneCountInString(out)
		if err == nil && utf8.ValidString(out) && n > 1 && n < utf8.RuneCountInString(text) && !unlikely.MatchString(out) {
			return out
		}
	}
	return text
}
