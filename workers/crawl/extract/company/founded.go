package company

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/postal"
)

// Confidences of a founding year in prose. A range in a copyright notice is the age of a web site, and is ignored.
const (
	fromFounded     = 0.65 // "Acme was founded in 1998"
	fromFoundedHome = 0.55 // the same on the home page, which also mentions others
	fromSince       = 0.45 // "since 1998"
	fromSinceAlone  = 0.40 // the same in a header or footer without the brand's name
)

// Plausible years.
const (
	earliestYear = 1000
	newestYear   = 2026 // the latest plausible year if the time of the crawl is unknown: when this was written
)

// Verbs of founding in a dozen languages, the nouns used in tables, the verbs that express a founding only directly
// before "in 1998", and the words for since.
var (
	foundingVerbs  = tables.Any("foundingVerbs")
	foundingNouns  = tables.Any("foundingNouns")
	beginningVerbs = tables.Any("beginningVerbs")
	sinceWords     = tables.Any("sinceWords")
	inWords        = `(?:in|en|nel|em|no ano|im jahre?|el año|en el año|в|the year|in the year)`
	yearPattern    = `(1[5-9]\d{2}|20\d{2})`
)

var (
	// The verb, a few words without digits, and the year.
	foundedYear = lazyregexp.New(`(?i)(?:^|[^\p{L}])(` + foundingVerbs +
		`|gründung|gründungsjahr)((?:[^\p{L}\d][^\d.!?;]{0,60})?[^\p{L}\d.!?;])` + yearPattern + `(?:\D|$)`)
	beganYear = lazyregexp.New(`(?i)(?:^|[^\p{L}])(` + beginningVerbs + `)\s(?:back\s)?` + inWords + `\s` +
		yearPattern + `(?:\D|$)`)
	// German and Dutch put the verb last.
	yearFounded = lazyregexp.New(`(?i)(?:^|\D)` + yearPattern +
		`(\s[^\d.!?;]{0,60}?)(gegründet|opgericht|grundades|kuruldu|kurulmuştur|kurulan)(?:[^\p{L}]|$)`)
	sinceYear = lazyregexp.New(`(?:^|[^\p{L}\d])(` + sinceWords +
		`)\s*(?:the year\s|dem Jahre?\s|el año\s|in\s|en\s)?` + yearPattern + `(?:\D|$)`)
	// Chinese and Japanese write no spaces.
	foundedHan = lazyregexp.New(`(?:설립|창립)(?:일|연도)?[\s:：]{0,3}` + yearPattern + `|` + yearPattern +
		`년(?:\s?\d{1,2}월)?(?:\s?\d{1,2}일)?에?\s?(?:\p{L}{0,4}\s)?(?:설립|창립)|(?:` + tables.Any("foundedHan") + `)\D{0,8}` +
		yearPattern + `|` + yearPattern + `年\D{0,12}(?:創業|設立|創立|成立|创立|创办|建立|创建)`)
	// foundingLabel matches a table cell whose neighbor holds the year.
	foundingLabel = lazyregexp.New(`(?i)^(?:` + foundingNouns + `)\s?[:：]?$`)
	leadingYear   = lazyregexp.New(`^(?:` + inWords + `\s)?` + yearPattern + `(?:\D|$)`)
	// behindVerb matches the beginning of the words between "founded" and the year if the subject is passive: a place,
	// a founder, a manner. Anything else is an object, as in "Jane Doe founded Acme in 1998".
	behindVerb = lazyregexp.New(`(?i)^[\s,:(–—-]*(?:$|(?:` + tables.Any("behindVerb") + `)[\s'’])`)
	// whoElse matches words of a clause about another party.
	whoElse = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:who|which|where|whose|when|that|und hat|whom)(?:[^\p{L}]|$)`)
	// sheWas matches the auxiliary of the passive, before or after the year.
	sheWas = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:wurden?|worden|werd|werden|ist|sind|is|zijn|are|was)\s(?:` +
		inWords + `\s|anno\s)?$`)
	turkishYear = lazyregexp.New(`(?i)^\s(?:yılında|senesinde)\s(?:[\p{L}'’]+\s){0,3}$`)
	wasThen     = lazyregexp.New(`(?i)^\s(?:wurde|ist|werd|is)\s(.*)$`)
	yearHas     = lazyregexp.New(`(?i)^\s(?:hat|haben|hebben|heeft)\s`)
	yearIs      = lazyregexp.New(`(?i)^\s(?:wurden?|werd|werden)\s(.*)$`)
	// aCompany matches the subject of a phrase without a verb: "a family business founded in 1976".
	aCompany = lazyregexp.New(`(?i)^\W{0,3}(?:(?:the|a|an|ein|une|la|le|una|un)\s)?(?:` + tables.Any("aCompany") +
		`)[\s,]{1,3}(?:est\s|è\s)?$`)

	// otherFoundings matches words of sentences about the founding of something else.
	otherFoundings = lazyregexp.New(`(?i)(^|[^\p{L}])(` + tables.Any("otherFoundings") + `)([^\p{L}]|$)`)
	// otherSince matches words of sentences about something else that began at a time.
	otherSince = lazyregexp.New(`(?i)(^|[^\p{L}])(` + tables.Any("otherSince") + `)([^\p{L}]|$)`)
	// existed matches "the service has existed", which refers to the site itself.
	existed = lazyregexp.New(`(?i)^\W{0,3}` +
		`(?:the|this|our|das|die|der|unser|unsere|le|la|notre|el|nuestra|nuestro)\s(?:` +
		tables.Any("existed") + `)\s(?:has (?:existed|been in (?:business|operation))|besteht|existiert|existe)\s*$`)
	// yearWord matches a word for year after the number.
	yearWord = lazyregexp.New(`^ ?(?:года|г\.|roku|r\.)`)
	// madeSince matches text such as "we have made", if it follows "since 1998".
	madeSince = lazyregexp.New(`(?i)^[\s,]*(?:(?:we|wir|nous|noi|nosotros|nós|мы|my|vi|wij|we've)\s)?` +
		`(?:(?:have|haben)\s)?(?:been\s)?(?:` + tables.Any("madeSince") + `)(?:[^\p{L}]|$)`)
	// newSince matches text about what an older company has begun to do: offer deliveries, train apprentices.
	newSince = lazyregexp.New(`(?i)` + tables.Any("newSince"))
	// familySince matches the text before "since 1998" that calls a company family-owned.
	familySince = lazyregexp.New(`(?i)^\W{0,3}(?:` + tables.Any("familySince") + `)[\s,–—-]*$`)
	// firstPerson matches a verb at the beginning in the first person plural, in languages that omit the pronoun.
	firstPerson = lazyregexp.New(`(?i)^\W{0,3}\p{L}{2,}(?:ем|ём|им|amos|emos|imos|iamo)\s`)
	// openingWe matches the beginning of a sentence in which a company describes itself.
	openingWe  = lazyregexp.New(`(?i)^\W{0,3}(we|wir|nous|our (company|story|firm|family)|unser (unternehmen|betrieb)|noi|siamo|компания|мы)([^\p{L}]|$)`)
	hanCompany = lazyregexp.New(`^\P{L}*(?:` + tables.Any("hanCompany") + `)?\P{L}*$`)
)

// believed reports whether a year is plausible for the founding of a company.
func (in input) believed(year int) bool {
	newest := in.Now.Year()
	if in.Now.IsZero() {
		newest = newestYear
	}
	return year >= earliestYear && year <= newest
}

// yearIn parses four digits at the beginning of a text; it returns 0 if they are not a plausible year.
func (d *dossier) yearIn(text string) int {
	if len(text) < 4 {
		return 0
	}
	y, err := strconv.Atoi(text[:4])
	if err != nil || !d.in.believed(y) {
		return 0
	}
	return y
}

// founding is the year in a sentence, and its subject.
type founding struct {
	year int
	who  topic
	bare bool // the sentence has no subject: "Founded 1998"
	verb string
}

// foundingIn reads the founding year in one sentence. whole reports whether "the company" is the brand.
func (d *dossier) foundingIn(sentence string, brand []string, whole bool) (founding, bool) {
	for _, read := range []func(string, []string, bool) (founding, bool){d.verbThenYear, d.yearThenVerb,
		d.beganIn, d.hanFounding} {
		f, ok := read(sentence, brand, whole)
		if ok && f.year != 0 && !otherFoundings.MatchString(d.withoutBrand(sentence)) {
			return f, true
		}
	}
	return founding{}, false
}

// verbThenYear reads "Acme was founded in Lisbon in 1998", "Founded in 1998, Acme …" and "Jane Doe founded Acme in
// 1998".
func (d *dossier) verbThenYear(sentence string, brand []string, whole bool) (founding, bool) {
	m := foundedYear.FindStringSubmatchIndex(sentence)
	if m == nil {
		return founding{}, false
	}
	before, between, after := sentence[:m[2]], sentence[m[4]:m[5]], sentence[m[7]:]
	f := founding{year: d.yearIn(sentence[m[6]:]), verb: "founded"}
	if whoElse.MatchString(between) {
		return f, false
	}
	if m := wasThen.FindStringSubmatch(between); m != nil && isLabel(before) { // Gegründet wurde Acme im Jahr
		f.who = d.beginsWith(m[1], spokenWords(m[1]), brand)
		return f, f.who != aboutOthers
	}
	if !behindVerb.MatchString(between) { // an object: it must be the brand
		f.who = d.object(between, brand)
		return f, f.who != aboutOthers
	}
	return d.passive(f, before, after, brand, whole)
}

// passive finds the subject of a verb before it, or after the year if nothing precedes the verb.
func (d *dossier) passive(f founding, before, after string, brand []string, whole bool) (founding, bool) {
	if !isLabel(before) {
		f.who = d.subject(before, brand, whole)
		if f.who == aboutOthers && aCompany.MatchString(before) {
			f.bare = true
		}
		if words, _ := d.linked(before); f.who == aboutOthers && whole && isOurs(words) {
			f.who = aboutUs
		}
		return f, f.bare || f.who != aboutOthers
	}
	rest := spokenWords(after)
	_, main, _ := strings.Cut(after, ",") // "Founded in 1898 as a mill, Acme …", "Established in 1919, the firm …"
	mainWords := spokenWords(main)
	switch f.who = max(d.beginsWith(after, rest, brand), d.beginsWith(main, mainWords, brand)); {
	case f.who != aboutOthers:
		return f, true
	case len(mainWords) > 1 && definite[mainWords[0].folded] && companies[mainWords[1].folded]:
		f.who = aboutUs
		return f, whole
	case len(rest) == 0 || len(rest) <= maxPlaceWords && strings.HasPrefix(after, " ") && behindVerb.MatchString(after):
		f.bare = true
		return f, true
	}
	return f, false
}

// isOurs reports whether words are "our" and a noun, with or without an article: our mill, la nostra cantina.
func isOurs(words []spoken) bool {
	if len(words) > 0 && definite[words[0].folded] {
		words = words[1:]
	}
	return len(words) == 2 && ours[words[0].folded]
}

const maxPlaceWords = 6 // limits the words after "Founded in 1998" without a subject: a place, a founder

// object reports whether the words between a verb and its year are only the brand.
func (d *dossier) object(between string, brand []string) topic {
	words := spokenWords(between)
	for len(words) > 0 && links[words[len(words)-1].folded] {
		words = words[:len(words)-1]
	}
	if n := d.mentionLength(between, words, brand); n > 0 && n == len(words) {
		return aboutBrand
	}
	if len(words) == 2 && ours[words[0].folded] && companies[words[1].folded] {
		return aboutUs
	}
	return aboutOthers
}

// yearThenVerb reads "Acme wurde 1954 in Köln gegründet" and "1954 wurde Acme gegründet".
func (d *dossier) yearThenVerb(sentence string, brand []string, whole bool) (founding, bool) {
	m := yearFounded.FindStringSubmatchIndex(sentence)
	if m == nil {
		return founding{}, false
	}
	before, between := sentence[:m[2]], sentence[m[4]:m[5]]
	f := founding{year: d.yearIn(sentence[m[2]:]), verb: "founded"}
	switch blank := isLabel(between); {
	case turkishYear.MatchString(between):
		if f.who = d.subject(before, brand, whole); isLabel(before) {
			f.bare = true
		}
	case sheWas.MatchString(before) && behindVerb.MatchString(between):
		f.who = d.subject(before, brand, whole)
	case len(spokenWords(before)) <= 2 && yearIs.MatchString(between): // in the year
		rest := yearIs.FindStringSubmatch(between)[1]
		words := spokenWords(rest)
		f.who = d.beginsWith(rest, words, brand)
		n := d.mentionLength(rest, words, brand)
		if n > 0 && n < len(words) && !behindVerb.MatchString(rest[words[n-1].end:]) {
			f.who = aboutOthers
		}
	case isLabel(before) && blank:
		f.bare = true
	case yearHas.MatchString(between): // 1974 hat Maria die Tischlerei gegründet
		words := spokenWords(between)
		if f.who = d.endsWith(between, words, brand, whole); f.who == aboutOthers && len(words) > 1 &&
			definite[words[len(words)-2].folded] && d.isPartOfName(words[len(words)-1:]) {
			f.who = aboutBrand
		}
	}
	return f, f.bare || f.who != aboutOthers
}

// beganIn reads "Acme started in 1998".
func (d *dossier) beganIn(sentence string, brand []string, whole bool) (founding, bool) {
	m := beganYear.FindStringSubmatchIndex(sentence)
	if m == nil {
		return founding{}, false
	}
	f := founding{year: d.yearIn(sentence[m[4]:]), verb: "founded", who: d.subject(sentence[:m[2]], brand, whole)}
	return f, f.who != aboutOthers
}

// hanFounding reads Chinese and Japanese, where the subject is in the same clause.
func (d *dossier) hanFounding(sentence string, brand []string, _ bool) (founding, bool) {
	for clause := range strings.FieldsFuncSeq(sentence,
		func(r rune) bool { return strings.ContainsRune("，。；、,;", r) }) {
		m := foundedHan.FindStringSubmatchIndex(clause)
		if m == nil {
			continue
		}
		f := founding{year: d.yearIn(clause[max(m[2], m[4], m[6], m[8]):]), verb: "founded"}
		before := clause[:m[0]]
		f.bare = isLabel(before)
		switch {
		case f.bare:
		case hanCompany.MatchString(before):
			f.who = aboutUs
		case slices.ContainsFunc(brand, func(b string) bool {
			return withoutSpaces(b) && strings.HasSuffix(extract.Folded(eastForm.ReplaceAllString(before, "")), b)
		}), d.speaksOf(before, brand) && !withoutSpaces(before):
			f.who = aboutBrand
		}
		return f, f.bare || f.who != aboutOthers
	}
	return founding{}, false
}

// withoutBrand returns a sentence without the brand's name, whose words could look like the words of others.
func (d *dossier) withoutBrand(sentence string) string {
	if d.name == "" {
		return sentence
	}
	return strings.ReplaceAll(sentence, d.name, " ")
}

// sinceIn reads "Acme has made anvils since 1898", if nothing follows the year, and "Since 1898" itself.
func (d *dossier) sinceIn(sentence string, brand []string) (founding, bool) {
	m := sinceYear.FindStringSubmatchIndex(sentence)
	if m == nil || otherSince.MatchString(d.withoutBrand(sentence)) ||
		otherFoundings.MatchString(d.withoutBrand(sentence)) {
		return founding{}, false
	}
	if existed.MatchString(sentence[:m[2]]) {
		f := founding{year: d.yearIn(sentence[m[4]:]), verb: "since", who: aboutUs}
		return f, f.year != 0
	}
	before, after := sentence[:m[2]], yearWord.ReplaceAllString(sentence[m[5]:], "")
	f := founding{year: d.yearIn(sentence[m[4]:]), verb: "since", bare: isLabel(before)}
	if f.bare && madeSince.MatchString(after) && !newSince.MatchString(after) {
		f.bare, f.who = false, aboutUs
		return f, f.year != 0
	}
	if strings.Trim(after, " .,!)]»”\"|·–—-") != "" {
		return founding{}, false
	}
	if f.bare = f.bare || familySince.MatchString(before); f.bare {
		return f, f.year != 0
	}
	words := spokenWords(before)
	switch f.who = d.beginsWith(before, words, brand); {
	case f.who != aboutOthers:
	case firstPerson.MatchString(before):
		f.who = aboutUs
	case d.endsWith(before, words, brand, false) == aboutBrand:
		f.who = aboutBrand
	}
	return f, f.year != 0
}

// foundedIn reads a founding year in one line.
func (d *dossier) foundedIn(line string, at postal.Line, x prose, brand []string) {
	atHome := x.role == atHome
	framed := at.Footer || at.Header
	if atHome && d.in.isArticle() && !framed { // it is about its topic
		return
	}
	front := !atHome || !d.in.Inner()
	short := utf8.RuneCountInString(line) <= maxSlogan
	for sentence := range sentencesOf(line) {
		if !hasYear(sentence) {
			continue
		}
		if f, ok := d.foundingIn(sentence, brand, !atHome); ok {
			sure := fromFounded
			if atHome {
				sure = fromFoundedHome
			}
			switch {
			case f.who == aboutBrand, f.who == aboutUs && !atHome:
				d.addYear(f, x, sure)
			case f.who == aboutUs && front && openingWe.MatchString(sentence):
				d.addYear(f, x, fromSince)
			case f.bare && front && (framed || short || d.speaksOf(line, brand)):
				d.addBareYear(f, x, min(sure, fromFounded), atHome)
			}
			continue
		}
		f, ok := d.sinceIn(sentence, brand)
		if !ok || x.role == atImprint {
			continue
		}
		alone := strings.TrimSpace(sentence) == strings.TrimSpace(line)
		switch {
		case f.who == aboutBrand, f.who == aboutUs && front:
			d.addYear(f, x, fromSince)
		case f.bare && front && (framed || alone || d.mentionLength(line, spokenWords(line), brand) > 0):
			d.addBareYear(f, x, fromSince, false)
		case front && atHome && framed && short:
			d.addYear(f, x, fromSinceAlone)
		}
	}
}

func (d *dossier) addYear(f founding, x prose, confidence float64) {
	d.founded = append(d.founded, claimed(x, f.year, f.verb, confidence))
}

// addBareYear adds a year without a name. A page with several of them lists companies.
func (d *dossier) addBareYear(f founding, x prose, confidence float64, weak bool) {
	if weak {
		confidence = fromSince
	}
	d.bare = append(d.bare, claimed(x, f.year, f.verb, confidence))
}

// tabled reads the cell after one with the label "Founded".
func (d *dossier) tabled(label, value postal.Line, x prose) {
	if x.role == atHome && (d.in.isArticle() || d.in.Inner()) || !foundingLabel.MatchString(label.Text) ||
		utf8.RuneCountInString(value.Text) > maxSlogan {
		return
	}
	if m := leadingYear.FindStringSubmatchIndex(strings.TrimSpace(value.Text)); m != nil {
		if y := d.yearIn(value.Text[m[2]:]); y != 0 {
			d.addBareYear(founding{year: y, verb: "founded"}, x, fromFounded, x.role == atHome)
		}
	}
}

// slogans reads "making anvils since 1987" in the title and the description of
// the front page, which are about the brand.
func (d *dossier) slogans(x prose, brand []string) {
	if d.in.isArticle() || d.in.Inner() {
		return
	}
	for _, text := range []string{d.in.Page.Title, d.in.Page.Meta("og:description", "description")} {
		if len(text) > maxProse || !hasYear(text) {
			continue
		}
		for sentence := range sentencesOf(text) {
			f, ok := d.foundingIn(sentence, brand, true)
			if !ok {
				f, ok = d.sinceIn(sentence, brand)
			}
			if ok {
				f.verb = "description"
				d.addYear(f, x, fromSince)
			}
		}
	}
}

// isLabel reports whether a text before a word has no letters or digits, so that the word is the first.
func isLabel(before string) bool {
	return strings.IndexFunc(before, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) < 0
}

// sentencesOf splits a line after full stops that are followed by a space and a capital, or that follow a year.
func sentencesOf(line string) func(func(string) bool) {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i+2 < len(line); i++ {
			if (line[i] == '.' || line[i] == '!' || line[i] == '?') && line[i+1] == ' ' && i-start >= minSentence {
				r, _ := utf8.DecodeRuneInString(line[i+2:])
				if unicode.IsUpper(r) || unicode.IsDigit(r) && hasYear(line[max(0, i-4):i]) {
					if !yield(line[start : i+1]) {
						return
					}
					start = i + 2
				}
			}
		}
		yield(line[start:])
	}
}

const minSentence = 4 // the length in bytes of the shortest sentence: a shorter text ends with an abbreviation
