package extract

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"letterhead/domain/brand"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// fitting returns the part of a name that fits the domain best if the name is written as a title: "PR Newswire: news
// distribution". If no part fits, it returns the short part next to a sentence, or the whole.
func fitting(text string, in Input) string {
	text = poweredBy.ReplaceAllString(webHost.ReplaceAllString(text, "$1"), "")
	bare := slices.IndexFunc(titleSegments(text), func(s string) bool { return isDomain(strings.TrimSpace(s), in) })
	if bare >= 0 && !slices.ContainsFunc(titleSegments(text), func(s string) bool {
		return in.fit(s) >= wordFit && !isDomain(strings.TrimSpace(s), in) || beyondASCII(s) > 0 && !hasLatin(s)
	}) {
		return strings.TrimSpace(titleSegments(text)[bare])
	}
	parts := slices.DeleteFunc(titleSegments(text),
		func(s string) bool { return isDomain(strings.TrimSpace(s), in) || generic(s) && in.fit(s) < exactFit })
	if len(parts) < 2 && len(titleSegments(text)) < 2 || in.fit(text) >= PieceFit {
		return sentence(text, in)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	if len(parts) == 0 {
		return text
	}
	best := slices.MaxFunc(parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(in.fit(a), in.fit(b)), cmp.Compare(len(a), len(b)))
	})
	if in.fit(best) >= commonFit {
		return sentence(best, in)
	}
	for _, end := range []string{parts[0], parts[len(parts)-1]} {
		if len(strings.Fields(end)) <= shortWords && utf8.RuneCountInString(text) > 3*utf8.RuneCountInString(end) {
			return end
		}
	}
	return text
}

// webHost is the prefix www. of a domain.
var webHost = lazyregexp.New(`(?i)(^|\s)www\.`)

// sentenceEnd separates the sentences of a slogan: "Acme.com. Spend less. Smile more."
var sentenceEnd = lazyregexp.New(`[.,!?:]\s+|[，。！？、]`)

// partners matches a name that lists persons: Baker, Hill & Moss.
var partners = lazyregexp.New(`,\s\p{Lu}\S*\s&\s\p{Lu}`)

// hostedOn is the end of a title that has the site last: "Say Why on Acme".
var hostedOn = lazyregexp.New(`(?i)^.+?\s(?:` + tables.Any("hostedOn") + `)\s+(\S+(?:\s\S+){0,3})$`)

// sentence returns the part of a slogan that is the domain, else the whole.
// Short texts are names, where a period belongs to an abbreviation: Dr. Oetker.
func sentence(text string, in Input) string {
	if m := hostedOn.FindStringSubmatch(text); m != nil && in.fit(text) < exactFit && in.fit(m[1]) >= exactFit {
		return m[1]
	}
	if (len(strings.Fields(text)) > shortWords || beyondASCII(text) > 0) && !partners.MatchString(text) {
		for part := range strings.SplitSeq(sentenceEnd.ReplaceAllString(text, "\n"), "\n") {
			if in.fit(part) >= exactFit {
				return part
			}
		}
	}
	return text
}

var allForms = tables.Any("legalForm") + "|" + tables.Any("legalHead") + "|" + tables.Any("legalHead words") + "|" +
	tables.Any("legalForm with quotes")

var (
	marks = strings.NewReplacer("®", "", "™", "", "℠", "", "©", "")
	// legalForm is a company's legal form at the end of its name, or at the beginning where that is the custom.
	legalForm = lazyregexp.New(`(?i)[,\s]+\(?(` + tables.Any("legalForm") + `)\.?\)?$`)
	legalHead = lazyregexp.New(`(?i)^(?:(?:` + tables.Any("legalHead") + `)\s*|(?:` + tables.Any("legalHead words") +
		`)\.?\s+)`)
	// legalPair is a form that has parts on both sides: Oy … Ab, S.C. … S.R.L.
	legalPair = lazyregexp.New(`(?i)^(?:oy|ab|s\.?\s?c|soc|sté)\.?\s+(\S.*?),?\s+` +
		`(?:oy|ab|s\.?\s?a(?:\.?\s?r\.?\s?l)?|s\.?\s?r\.?\s?l)\.?$`)
	onlyForm = lazyregexp.New(`(?i)^(?:` + allForms + `)\.?$`)
	// legalQuoted is a name in quotation marks with its legal form before or behind it.
	legalQuoted = lazyregexp.New(`(?i)^(?:(?:` + allForms + `)[\s.,]*){0,2}["«„“”]([^"«»„“”]+)["»“”](?:[\s,]*\(?(?:` +
		allForms + `)\.?\)?){0,2}$`)
	legalTail = lazyregexp.New(`(?:株式会社|有限公司|股份有限公司|有限责任公司|集团|주식회사)$`)
	// inBrackets is the text in brackets after a name: Amazon Web Services (AWS), X (formerly Twitter).
	inBrackets = lazyregexp.New(`^(.+?)\s*[\(（\[]([^()（）\[\]]{2,})[\)）\]]$`)
	// frontPage matches words for a front or official page around a name: "ARD
	// Startseite", "Acme Home Page", "Sito ufficiale Acme".
	frontPage = lazyregexp.New(`(?i)^(?:` + tables.Any("frontPage") + `)\s+|\s+(?:` + tables.Any("frontPage behind") +
		`)$|\s*(?:` + tables.Any("frontPage behind in Asia") + `)$|^(?:【?公式】?)\s*`)
)

// tidyName cleans a candidate for the name, or returns "" if it cannot be one.
func tidyName(text string, in Input) string {
	text = trimmed(page.Clean(marks.Replace(unescaped(text)), page.MaxValueRunes))
	if m := legalQuoted.FindStringSubmatch(text); m != nil {
		text = strings.TrimSpace(m[1])
	}
	if !strings.HasSuffix(text, "!") || in.fit(text) < StrongFit && strings.ContainsRune(text, ' ') {
		text = strings.TrimRight(text, "!")
	}
	if m := inBrackets.FindStringSubmatch(text); m != nil && (initials(m[1], m[2]) ||
		!hasLatin(m[1]) && in.fit(m[2]) >= exactFit || in.fit(m[1]) >= in.fit(text) && in.fit(m[1]) > 0) {
		text = m[1]
	}
	for range 2 { // "Acme Official Home Page"
		short := frontPage.ReplaceAllString(text, "")
		if short == text {
			break
		}
		if short = strings.Trim(short, wrapping); short != "" && in.nameFit(short) >= in.nameFit(text) {
			text = short
		}
	}
	for i := range 2 { // "Acme Co., Ltd."
		short := legalForm.ReplaceAllString(legalPair.ReplaceAllString(text, "$1"), "")
		short = strings.TrimRight(legalTail.ReplaceAllString(legalHead.ReplaceAllString(short, ""), ""), " ,")
		if short == text || dangling.MatchString(short) || theCompany.MatchString(text) || !said(short, in) ||
			i == 0 && company.MatchString(strings.TrimPrefix(text, short)) && !in.writes(short, text) ||
			in.nameFit(short) < in.nameFit(text) && !isDomain(short, in) {
			break
		}
		text = short
	}
	if text = trimmed(text); !abbreviated.MatchString(text) {
		text = lastDot.ReplaceAllString(text, "$1")
	}
	for _, pair := range []string{"()", "«»", "„“"} {
		opening, closing := pair[:len(pair)/2], pair[len(pair)/2:]
		switch opened, closed := strings.Count(text, opening), strings.Count(text, closing); {
		case opened > closed && !strings.Contains(text, "”"):
			text += closing // trimmed above
		case closed > opened && !strings.Contains(text, "”"):
			text = strings.TrimRight(text, closing)
		}
	}
	if utf8.RuneCountInString(legalForm.ReplaceAllString(text, "")) > maxNameRunes ||
		strings.ContainsAny(text, brand.Markup) || Folded(text) == "" {
		return ""
	}
	if strings.Contains(text, "://") || strings.Contains(text, "@") && !strings.Contains(text, " ") ||
		notName.MatchString(text) || onlyForm.MatchString(text) && in.fit(text) < exactFit ||
		(!strings.ContainsFunc(text, unicode.IsLetter) || isAddress(text)) && in.fit(text) < exactFit &&
			!isDomain(text, in) {
		return ""
	}
	return text
}

var (
	// dangling is the end of a name whose second half was removed.
	dangling = lazyregexp.New(`(?i)(?:^|\s)(?:` + tables.Any("dangling") + `)$`)
	// theCompany is a name of which Company is a part.
	theCompany = lazyregexp.New(`(?i)^the\s.*\s(?:company|co\.?|corporation)$`)
	// company matches the words at the end of a name that are its legal form, or a part of it: Abercrombie & Fitch Co.
	company = lazyregexp.New(`(?i)^\s(?:company|co\.?)$`)
	// lastDot is a period at the end that belongs to no abbreviation.
	lastDot     = lazyregexp.New(`^(.*\pL\pL\pL)\s*\.$`)
	abbreviated = lazyregexp.New(`(?i)\s(?:` + tables.Any("abbreviation") + `)\.$`)
	entity      = lazyregexp.New(`&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});`)
)

const maxEscapes = 3 // limits how often a text is unescaped

// unescaped decodes the entities of a text that was escaped more than once.
func unescaped(text string) string {
	for i := 0; i < maxEscapes && entity.MatchString(text); i++ {
		text = html.UnescapeString(text)
	}
	return text
}

// closing has the marks that end a quotation, by the mark that begins it.
var closing = map[rune]string{'"': `"`, '«': "»", '»': "«", '„': "“”\"", '“': "”“", '”': "”", '‘': "’", '‚': "‘’",
	'‹': "›", '›': "‹", '「': "」", '『': "』", '【': "】", '\'': "'", '’': "’", '」': "", '』': "", '】': ""}

// trimmed returns a name without separators and pictograms around it, and without quotation marks that belong to all of
// it or to nothing.
func trimmed(text string) string {
	for before := "\x00"; text != before; {
		before = text
		text = strings.TrimFunc(text,
			func(r rune) bool {
				return strings.ContainsRune(" |-–—·•∙:,;，；。、→←", r) || isPictogram(r)
			})
		first, n := utf8.DecodeRuneInString(text)
		if ends, quote := closing[first]; quote {
			at := strings.IndexAny(text[n:], ends)
			_, size := utf8.DecodeRuneInString(text[n+max(at, 0):])
			switch apostrophe := first == '\'' || first == '’'; {
			case apostrophe && len(text) > n+2 && text[n+1] == ' ': // 't Hof
			case at < 0:
				text = text[n:]
			case n+at+size == len(text):
				text = text[n : n+at]
			}
		}
		last, m := utf8.DecodeLastRuneInString(text)
		opened := func(r rune) bool { return strings.ContainsRune(closing[r], last) }
		for _, ends := range closing {
			if strings.ContainsRune(ends, last) && !strings.ContainsFunc(text[:len(text)-m], opened) {
				text = text[:len(text)-m]
				break
			}
		}
	}
	return text
}

// notName matches text that no name contains: a mail address, a template's variable or key.
var notName = lazyregexp.New(`[^\s@]@[^\s@]+\.[a-zA-Z]{2,}|\$\w|\b[a-z]+(?:\.[a-z_]+){3,}\b|\b[a-z]+_[a-z]+\.[a-z]+\.`)

// addressName matches a file's name, a path or a program's identifier: "logo-2.png", "acme.com/en", "site_title".
var addressName = lazyregexp.New(`(?i)` + tables.Any("addressName"))

// isAddress reports whether a text is a URL, a file's name or an identifier.
func isAddress(text string) bool { return addressName.MatchString(text) }

// isPictogram reports whether a character is an emoji, a star or another ornament, or a part of one.
func isPictogram(r rune) bool {
	return r >= 0x2600 && r <= 0x27bf || r >= 0x2b00 && r <= 0x2bff || r >= 0x1f000 && r <= 0x1faff || r == 0xfe0f ||
		r == 0x200d || r == '★' || r == '►' || r == '▶'
}

// nameWords counts the words of a name, without its legal form, separators and pictograms.
func nameWords(text string) int {
	n := 0
	for w := range strings.FieldsSeq(legalForm.ReplaceAllString(text, "")) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

var poweredBy = lazyregexp.New(`(?i)\s+(?:powered|hosted) by\s.+$`) // matches the mention of the platform in a name

// said reports whether another place of the page agrees with a name without its legal form.
func said(short string, in Input) bool {
	if in.fit(short) >= StrongFit {
		return true
	}
	f := Folded(short)
	return f != "" && (strings.Contains(Folded(in.Page.Title), f) ||
		strings.Contains(Folded(in.Page.Meta("og:title", "og:site_name")), f))
}

// writes reports whether the page writes a name without its legal form.
func (in Input) writes(short, whole string) bool {
	text := strings.ToLower(in.Page.Title + "\n" + in.Page.Meta("og:site_name") + "\n" + in.Page.Text)
	whole = strings.ToLower(strings.TrimRight(whole, "."))
	return strings.Count(text, strings.ToLower(short)) > strings.Count(text, whole)
}

// initials reports whether an abbreviation consists of a name's initials.
func initials(name, short string) bool {
	var b strings.Builder
	for w := range strings.FieldsSeq(name) {
		r, _ := utf8.DecodeRuneInString(w)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String() == strings.ToLower(short)
}

// isDomain reports whether a name is only the domain in lower case, such as
// ard.de. RANDOM.ORG and Booking.com are names.
func isDomain(name string, in Input) bool {
	lower := strings.ToLower(name)
	return name == lower &&
		(lower == in.Site.Domain || lower == "www."+in.Site.Domain || slices.Contains(in.Site.Others, lower))
}

// titleSeparators separate the parts of a title: a bar, a dash or a colon with
// space around it, brackets of East Asian titles, …
var titleSeparators = lazyregexp.New(tables.Any("titleSeparators"))

// openCompound is a compound that its second word completes: Lesben- und
// Schwulenverband. Its hyphen does not separate parts of a title.
var openCompound = lazyregexp.New(`(?i)(\pL)- ((?:und|oder|bzw\.|sowie|u\.|&|and|or|et|ou|y|e|o|en|of|och|og|eller)\s)`)

// guillemets are a quotation, not separators.
var guillemets = lazyregexp.New(`«([^\s«»](?:[^«»]*[^\s«»])?)»|»([^\s«»](?:[^«»]*[^\s«»])?)«`)

// quoted replaces guillemets by characters that no text has, and unquoted restores them.
var (
	quoted   = strings.NewReplacer("«", "\x01", "»", "\x02")
	unquoted = strings.NewReplacer("\x01", "«", "\x02", "»")
)

const maxSegments = 8 // limits the parts of a title

// titleSegments splits a title.
func titleSegments(title string) []string {
	title = unescaped(title)
	if strings.ContainsFunc(title,
		func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }) {
		title = strings.NewReplacer("_", " | ", "-", " | ", "—", " | ", "－", " | ").Replace(title)
	}
	title = guillemets.ReplaceAllStringFunc(openCompound.ReplaceAllString(title, "${1}‑ ${2}"), quoted.Replace)
	parts := titleSeparators.Split(title, maxSegments)
	for i := range parts {
		parts[i] = unquoted.Replace(strings.ReplaceAll(parts[i], "‑ ", "- "))
	}
	// If nothing fits the domain the first part is the best guess, so the order is kept.
	return slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// logoWords are words of an alt text other than the name.
var logoWords = lazyregexp.New(`(?i)\b(` + tables.Any("logoWords") + `)\b|(?:ロゴ|标志|標誌|로고|логотип)`)

func withoutLogoWords(alt string) string {
	return trimmed(unpunctuated(page.Clean(logoWords.ReplaceAllString(alt, " "), maxNameRunes+1)))
}

func mentionsLogo(im page.Image) bool {
	return strings.Contains(strings.ToLower(im.Alt), "logo") || slices.ContainsFunc(im.Tokens,
		func(w string) bool { return strings.HasPrefix(w, "logo") || w == "brand" || w == "wordmark" })
}

// titleCase writes a domain label as a name.
func titleCase(label string) string {
	words := strings.FieldsFunc(label, func(r rune) bool { return r == '-' || r == '_' })
	for i, w := range words {
		r, n := utf8.DecodeRuneInString(w)
		words[i] = string(unicode.ToTitle(r)) + w[n:]
	}
	return strings.Join(words, " ")
}
