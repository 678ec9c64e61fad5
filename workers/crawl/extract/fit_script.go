package extract

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/levenshtein"
)

// romanized maps the letters of other scripts to their usual spelling in
// domains. Where customs differ, sound normalizes them.
var romanized = tables.Map("romanized")

// kana are the Japanese syllables, in the order of Unicode's hiragana from U+3041; katakana follow the same
// order 0x60 above.
var kana = strings.Fields("a a i i u u e e o o ka ga ki gi ku gu ke ge ko go sa za shi ji su zu se ze so zo ta da chi di _ tsu du te de to do na ni nu ne no ha ba pa hi bi pi fu bu pu he be pe ho bo po ma mi mu me mo ya ya yu yu yo yo ra ri ru re ro wa wa i e o n vu")

// latinized writes a name of Cyrillic, Greek or kana letters in Latin ones. ok
// is false if it has none of them, or also letters of other scripts.
func latinized(name string) (latin string, ok bool) {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch s, known := romanized[string(r)]; {
		case known:
			b.WriteString(strings.Trim(s, "_"))
			ok = true
		case r >= 0x3041 && r < 0x3041+rune(len(kana)), r >= 0x30a1 && r < 0x30a1+rune(len(kana)):
			i := int(r - 0x3041)
			if r >= 0x30a1 {
				i = int(r - 0x30a1)
			}
			b.WriteString(strings.Trim(kana[i], "_"))
			ok = true
		case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case r == 'ー' || !unicode.IsLetter(r):
		default:
			return "", false
		}
	}
	return b.String(), ok
}

// sound normalizes the different ways of writing a sound in Latin letters:
// yandex and iandeks, habr and khabr, merukari and mercari become similar.
var sound = strings.NewReplacer(
	"x", "ks", "kh", "h", "zh", "j", "sch", "sh", "shch", "sh", "ts", "c", "tz", "c", "ck", "k", "yo", "e",
	"yu", "u", "ju", "u", "ya", "ia", "ja", "ia", "ye", "e", "je", "e", "y", "i", "w", "v", "ph", "f", "q", "k",
	"l", "r", "c", "k")

// soundFit compares a name in Latin letters with a label by sound: they must be equal, or differ in one letter of five.
func soundFit(latin, label string) float64 {
	a, b := sound.Replace(Folded(latin)), sound.Replace(Folded(label))
	if len(a) < MinPart || len(b) < MinPart || len(a) > MaxFitName || len(b) > MaxFitName {
		return 0
	}
	switch d := levenshtein.Distance(a, b); {
	case d == 0:
		return soundsFit
	case d*5 <= max(len(a), len(b)):
		return insideFit
	case strings.HasPrefix(a, b), strings.HasPrefix(b, a):
		return insideFit
	}
	return 0
}
