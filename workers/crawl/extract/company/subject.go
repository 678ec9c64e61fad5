package company

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
)

// A page mentions its owner as well as partners, customers and people. A sentence counts only if its subject is the
// brand or "we": the words directly before the verb, or before words that only link.

const (
	maxBrandWords = 6  // words of a text that may form one spelling of the brand
	maxLinking    = 24 // linking words between a verb and its subject
	minBrand      = 2  // runes of the shortest brand that is searched for, as a whole word
)

// spoken is one word of a text.
type spoken struct {
	text    string
	folded  string
	at, end int
}

// spokenWords returns the words of a text: runs of letters and digits. The part
// after an apostrophe is a separate word, such as the s of a possessive.
func spokenWords(text string) []spoken {
	var out []spoken
	start := -1
	add := func(end int) {
		if start >= 0 {
			out = append(out, spoken{text[start:end], extract.Folded(text[start:end]), start, end})
		}
		start = -1
	}
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		add(i)
	}
	add(len(text))
	return out
}

// brandWords returns the folded forms of the brand in sentences: its name, and the site's labels.
func (d *dossier) brandWords() []string {
	var out []string
	add := func(text string) {
		if w := extract.Folded(text); utf8.RuneCountInString(w) >= minBrand && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	add(d.name)
	add(eastForm.ReplaceAllString(d.name, ""))
	if at := anyForm.FindStringIndex(d.name); at != nil && at[0] > 0 {
		add(d.name[:at[0]])
	}
	for _, label := range d.in.Site.Labels() {
		if utf8.RuneCountInString(label) >= extract.MinPart {
			add(label)
		}
	}
	return out
}

// mentionAt returns the number of words that name the brand from word i on, or
// 0. Only whole words count, so that "marketing" does not mention ING, and a
// capitalized brand does not match a common word.
func (d *dossier) mentionAt(text string, words []spoken, i int, brand []string) int {
	if first, _ := utf8.DecodeRuneInString(words[i].text); unicode.IsLower(first) {
		capital, _ := utf8.DecodeRuneInString(d.name)
		isHost := words[i].end+1 < len(text) && text[words[i].end] == '.' && text[words[i].end+1] >= 'a' &&
			text[words[i].end+1] <= 'z'
		if unicode.IsUpper(capital) && !isHost {
			return 0
		}
	}
	joined, longest := "", 0
	for n := 1; n <= maxBrandWords && i+n <= len(words); n++ {
		joined += words[i+n-1].folded
		if slices.Contains(brand, joined) ||
			len(joined) > 1 && slices.Contains(brand, strings.TrimSuffix(joined, "s")) {
			longest = n
		}
	}
	return longest
}

// speaksOf reports whether a text names the brand in whole words, or in any part of a text without spaces.
func (d *dossier) speaksOf(text string, brand []string) bool {
	words := spokenWords(text)
	for i := range words {
		if d.mentionAt(text, words, i, brand) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(brand,
		func(b string) bool { return withoutSpaces(b) && strings.Contains(extract.Folded(text), b) })
}

// withoutSpaces reports whether a text is written without spaces between its words, as Chinese and Japanese are.
func withoutSpaces(text string) bool {
	return strings.ContainsFunc(text,
		func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) })
}

func wordSet(text string) map[string]bool { return extract.FoldedSet(strings.Fields(text)...) }

var (
	// we are the words for us as a subject, in a dozen languages.
	we = wordSet("we wir nous nosotros noi wij vi мы ми nós kami biz εμείς אנחנו نحن")
	// ours, followed by one of companies, is the company itself.
	ours      = extract.FoldedSet(tables.List("ours")...)
	companies = extract.FoldedSet(tables.List("companies")...)
	definite  = wordSet("the das die der dem la le l el il lo het de a o il η ο το")
	// links are words between a subject and its verb that change neither.
	links     = extract.FoldedSet(tables.List("links")...)
	nameTails = extract.FoldedSet(tables.List("nameTails")...) // words after a name, legal forms or others
	// After prepositions a name is not the subject.
	prepositions = extract.FoldedSet(tables.List("prepositions")...)
	// relatives begin a clause with another subject.
	relatives = wordSet(
		"which who that whose where when whom welche welcher welches deren dessen qui dont que cui quale cuya")
	conjoined = wordSet("and und et y e ed en och og i и")
	leading   = wordSet("the die der das le la l el il lo het de a an") // words that precede a name
)

var parenthesis = lazyregexp.New(`\s*[(\[][^()\[\]]{0,80}[)\]]\s*$`) // an aside at the end of a text

// topic is the subject of a sentence.
type topic int

const (
	aboutOthers topic = iota
	aboutUs           // we, our company
	aboutBrand        // the brand's name
)

// subject returns the subject in the text before a verb. whole reports whether
// "the company" also counts, as it does where the site presents itself.
func (d *dossier) subject(before string, brand []string, whole bool) topic {
	words, text := d.linked(before)
	if who := d.endsWith(text, words, brand, whole); who != aboutOthers {
		return who
	}
	if len(words) == 0 {
		return aboutOthers
	}
	if d.isPartOfName(words) {
		return aboutBrand
	}
	// Somos una empresa familiar
	if verbOfOurs[words[0].folded] &&
		slices.ContainsFunc(words[1:min(len(words), maxWeAre)], func(w spoken) bool { return companies[w.folded] }) {
		return aboutUs
	}
	// "Acme makes anvils and was founded", "Acme, a maker of anvils, was founded".
	first := d.beginsWith(text, words, brand)
	if first == aboutOthers || slices.ContainsFunc(words, func(w spoken) bool { return relatives[w.folded] }) {
		return aboutOthers
	}
	if conjoined[words[len(words)-1].folded] && len(spokenWords(before)) > len(words) {
		return first
	}
	if n := d.mentionLength(text, words, brand); n > 0 && n < len(words) {
		opens, closes := strings.TrimSpace(text[words[n-1].end:words[n].at]), strings.TrimSpace(
			text[words[len(words)-1].end:])
		if opens == "," && strings.HasPrefix(closes, ",") && apposition[words[n].folded] {
			return first
		}
	}
	return aboutOthers
}

const maxWeAre = 6      // limits the words between "we are" and "company" in languages that omit the pronoun
const minPartOfName = 5 // the minimum number of letters in a part of the brand's name that may refer to the brand

// isPartOfName reports whether the words before a verb are, after an article, the beginning or the end of the brand's
// name: Montesol for Clínica Montesol, the trust for Fellside Trust.
func (d *dossier) isPartOfName(words []spoken) bool {
	if leading[words[0].folded] || definite[words[0].folded] {
		words = words[1:]
	}
	name := spokenWords(d.name)
	if len(words) == 0 || len(words) >= len(name) {
		return false
	}
	letters := 0
	for _, w := range words {
		letters += utf8.RuneCountInString(w.folded)
	}
	same := func(part []spoken) bool {
		return slices.EqualFunc(words, part, func(a, b spoken) bool { return a.folded == b.folded })
	}
	return letters >= minPartOfName && (same(name[:len(words)]) || same(name[len(name)-len(words):]))
}

// apposition begins with an article.
var apposition = wordSet("a an the ein eine der die das un une le la una uno el il en ett et")

// linked returns the words of a text without the links at its end, and the text.
func (d *dossier) linked(before string) ([]spoken, string) {
	before = parenthesis.ReplaceAllString(before, "")
	words := spokenWords(before)
	for i := 0; i < maxLinking && len(words) > 0 && links[words[len(words)-1].folded]; i++ {
		words = words[:len(words)-1]
	}
	return words, before
}

// endsWith reports whether the words end with the brand, we or our company.
func (d *dossier) endsWith(text string, words []spoken, brand []string, whole bool) topic {
	if len(words) == 0 {
		return aboutOthers
	}
	last := len(words) - 1
	switch {
	case we[words[last].folded]:
		return aboutUs
	case last > 0 && companies[words[last].folded] &&
		(ours[words[last-1].folded] || whole && definite[words[last-1].folded]):
		return aboutUs
	case last > 1 && companies[words[last].folded] && ours[words[last-2].folded]: // our family business
		return aboutUs
	}
	for end := len(words); end > 0; end-- {
		for n := 1; n <= min(maxBrandWords, end); n++ {
			if d.mentionAt(text, words[:end], end-n, brand) != n {
				continue
			}
			before := end - n - 1
			for before >= 0 && leading[words[before].folded] {
				before--
			}
			if before >= 0 && prepositions[words[before].folded] {
				return aboutOthers
			}
			return aboutBrand
		}
		if !nameTails[words[end-1].folded] {
			break
		}
	}
	return aboutOthers
}

// beginsWith reports whether the words begin with the brand or we.
func (d *dossier) beginsWith(text string, words []spoken, brand []string) topic {
	if len(words) > 0 && we[words[0].folded] {
		return aboutUs
	}
	if len(words) > 1 && ours[words[0].folded] && companies[words[1].folded] {
		return aboutUs
	}
	if d.mentionLength(text, words, brand) > 0 {
		return aboutBrand
	}
	return aboutOthers
}

// mentionLength returns the number of words at the beginning that name the
// brand, including an article and the legal form, or 0.
func (d *dossier) mentionLength(text string, words []spoken, brand []string) int {
	for i := 0; i < min(2, len(words)); i++ {
		if n := d.mentionAt(text, words, i, brand); n > 0 {
			n += i
			for n < len(words) && nameTails[words[n].folded] {
				n++
			}
			return n
		}
		if !leading[words[i].folded] {
			break
		}
	}
	return 0
}
