package company

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/postal"
)

// Confidences of facts read in prose.
const (
	fromLegalName   = 0.6  // the kind implied by a legal form
	fromCharity     = 0.65 // a registration as a charity
	fromHeadcount   = 0.5  // "over 500 employees"
	fromBoilerplate = 0.7  // "Acme Inc. (NASDAQ: ACME)"
	fromImprint     = 0.75
	fromAddressTag  = 0.6
	fromAddressText = 0.5
	fromSeat        = 0.5 // "headquartered in Berlin, Germany"
	fromSoleTrader  = 0.5
)

// Limits for reading prose.
const (
	maxHomeLines   = 1500
	maxOtherLines  = 800
	maxProse       = 600 // bytes of a line that is read as prose
	maxSlogan      = 45  // runes of a line such as "Since 1898"
	maxReadPages   = 4
	maxYearLines   = 80  // lines of one page with a year or a number that are parsed
	maxFooterLegal = 200 // bytes of a line that is searched for a legal form
	maxAside       = 12  // words between a subject and the number of its employees
)

// pageRole is the purpose of a page of the site.
type pageRole int

const (
	atHome pageRole = iota
	atAbout
	atImprint
	atContact
	atPolicy // privacy, terms, cookies: it mentions processors and authorities
)

// roleWords are parts of paths, in several languages. The first match wins.
var roleWords = []struct {
	word string
	role pageRole
}{
	{"privacy", atPolicy}, {"datenschutz", atPolicy}, {"terms", atPolicy}, {"cookie", atPolicy}, {"confidentialite", atPolicy}, {"privacidad", atPolicy}, {"agb", atPolicy}, {"gdpr", atPolicy}, {"dsgvo", atPolicy},
	{"imprint", atImprint}, {"impressum", atImprint}, {"mentions-legales", atImprint}, {"mentions_legales", atImprint}, {"aviso-legal", atImprint}, {"note-legali", atImprint},
	{"legal-notice", atImprint}, {"legal", atImprint}, {"colofon", atImprint}, {"colophon", atImprint}, {"anbieterkennzeichnung", atImprint},
	{"contact", atContact}, {"kontakt", atContact}, {"contatti", atContact}, {"contatt", atContact}, {"location", atContact}, {"standort", atContact}, {"anfahrt", atContact},
}

func roleOf(p *page.Page) pageRole {
	if p.URL == nil {
		return atAbout
	}
	path := strings.ToLower(p.URL.Path)
	for _, w := range roleWords {
		if strings.Contains(path, w.word) {
			return w.role
		}
	}
	return atAbout
}

// prose is one page in lines.
type prose struct {
	role   pageRole
	source string
	lines  []postal.Line
}

// read adds the facts in the text of the pages.
func (d *dossier) read() {
	brand := d.brandWords()
	for i, p := range d.in.pages() {
		if i >= maxReadPages || p.Root == nil {
			continue
		}
		x := prose{role: atHome, source: pageAddress(p), lines: postal.Lines(p.Root)}
		limit := maxHomeLines
		if i > 0 {
			x.role, limit = roleOf(p), maxOtherLines
		}
		if x.role == atPolicy {
			continue
		}
		if len(x.lines) > limit { // the footer is at the end
			x.lines = append(x.lines[:limit/2:limit/2], x.lines[len(x.lines)-limit/2:]...)
		}
		if i == 0 {
			d.slogans(x, brand)
		}
		d.prose(x, brand)
		d.addresses(x, brand)
	}
}

// prose reads founding years, headcounts, legal forms and tickers line by line.
func (d *dossier) prose(x prose, brand []string) {
	years, numbers := 0, 0
	for i, l := range x.lines {
		text := l.Text
		if len(text) > maxProse {
			text = strings.ToValidUTF8(text[:maxProse], "")
		}
		if years < maxYearLines && hasYear(text) {
			years++
			d.foundedIn(text, l, x, brand)
			if i > 0 {
				d.tabled(x.lines[i-1], l, x)
			}
		}
		if x.role != atHome && numbers < maxYearLines && hasDigit(text) {
			numbers++
			d.headcountIn(text, x, brand)
		}
		if (x.role != atHome || l.Footer) && hasAny(text, formMarks) {
			d.formIn(text, x, brand)
		}
		if strings.ContainsRune(text, ':') && (x.role == atAbout || l.Footer) {
			d.tickerIn(text, x, brand)
		}
		if x.role == atAbout && hasAny(text, seatMarks) {
			d.seatIn(text, x, brand)
		}
	}
	d.bareYears()
}

// hasAny reports whether a text contains one of the marks: a cheap check before
// an expensive expression.
func hasAny(text string, marks []string) bool {
	for _, m := range marks {
		if strings.Contains(text, m) {
			return true
		}
	}
	return false
}

func hasDigit(text string) bool { return strings.ContainsAny(text, "0123456789") }

// hasYear reports whether a text has four consecutive digits, as a year does.
func hasYear(text string) bool {
	run := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			run = 0
			continue
		}
		if run++; run == 4 {
			return true
		}
	}
	return false
}

var (
	headcountWords = regexp.MustCompile(`(?i)(?:^|[^\p{L}\d.,])(\d{1,3}(?:[,.'’  ]\d{3})+|\d+)\s?(k|\+)?\+?\s(?:[\p{L}-]+\s){0,2}?(employees|team members|staff members|colleagues|people work|mitarbeiter\p{L}*|mitarbeitende\p{L}*|beschäftigte\p{L}*|salariés|collaborateurs|collaboratrices|empleados|trabajadores|dipendenti|collaboratori|medewerkers|anställda|medarbetare|medarbejdere|ansatte|funcionários|colaboradores|pracowników|työntekijää)(?:[^\p{L}]|$)`)
	// theirs matches the employees of customers.
	theirs = regexp.MustCompile(`(?i)(companies|businesses|organi[sz]ations|teams|employers|customers|clients|firms|unternehmen|firmen|betriebe|entreprises|empresas|aziende|imprese|bedrijven)\s(\p{L}+\s)?(with|from|of|mit|ab|von|de|con|met|avec|between|up to)|(^|\s)(up to|bis zu|jusqu'à|hasta|fino a|per employee|pro mitarbeiter|for every|laid off|layoffs|entlassen)(\s|$)`)
)

// counts are the words allowed between a company and the number of its
// employees.
var counts = wordSet("employ employs employed employing have has had with is are now today a an the team of over more than about around some approximately nearly almost currently to up roughly people staff count headcount employees and family workforce beschäftigt beschäftigen hat haben sind mit mehr als über rund etwa ca circa derzeit heute insgesamt weltweit zählt aktuell knapp sommes compte emploie employons avons une équipe de plus environ aujourd hui más cuenta cuentan con contamos tiene tenemos emplea somos un equipo unos conta ha abbiamo impiega impieghiamo oltre squadra di telt heeft hebben ruim meer dan ongeveer har över over mer än mere end cerca temos mais do que en")

// headcountIn reads the number of employees in one line of an about page: in a
// sentence whose subject is the company, or in a short line with nothing else.
func (d *dossier) headcountIn(line string, x prose, brand []string) {
	if theirs.MatchString(line) {
		return
	}
	for sentence := range sentencesOf(line) {
		m := headcountWords.FindStringSubmatchIndex(sentence)
		if m == nil || !d.ownHeadcount(sentence[:m[2]], sentence[m[7]:], utf8.RuneCountInString(line) <= maxSlogan, brand) {
			continue
		}
		number := sentence[m[2]:m[3]]
		if m[4] >= 0 && strings.EqualFold(sentence[m[4]:m[5]], "k") {
			number += "k"
		}
		if n, ok := bucket(number); ok {
			d.employees = append(d.employees, claim[int]{n, x.source, "employees", fromHeadcount})
		}
	}
}

// ownHeadcount reports whether the text around a number of employees refers to
// the company.
func (d *dossier) ownHeadcount(before, after string, short bool, brand []string) bool {
	words := spokenWords(before)
	end := len(words)
	for end > 0 && len(words)-end < maxAside && counts[words[end-1].folded] && !we[words[end-1].folded] {
		end--
	}
	switch {
	case end == 0 && verbOfOurs[firstFolded(words)]: // "Nous sommes", "Somos más de": the verb implies the subject
		return true
	case end == 0 && short && isLabel(after):
		return true
	case end == 1 && short && isLabel(after) && ours[words[0].folded]:
		return true
	case end == 1 && ours[words[0].folded] && len(words) > 1 && teams[words[1].folded]:
		return true
	case end == 0:
		return false
	}
	return d.endsWith(before, words[:end], brand, true) != aboutOthers
}

var (
	// verbOfOurs are verbs of the first person in languages that omit "we".
	verbOfOurs = wordSet("somos contamos tenemos abbiamo siamo impieghiamo temos employons")
	teams      = wordSet("team staff workforce équipe equipo squadra")
)

func firstFolded(words []spoken) string {
	if len(words) == 0 {
		return ""
	}
	return words[0].folded
}

var tickerText = regexp.MustCompile(`(?:^|[^\p{L}])(NASDAQ|Nasdaq|NYSE|NYSE American|LSE|AIM|XETRA|TSX|ASX|HKEX|SEHK|TSE|NSE|BSE|SIX|STO|OSE|EPA|Euronext Paris)\s?:\s?([A-Z][A-Z0-9.]{0,5}|\d{3,6})(?:[^\p{L}\d]|$)`)

// tickerIn reads "Acme Inc. (NASDAQ: ACME)", with the name directly before the
// ticker.
func (d *dossier) tickerIn(line string, x prose, brand []string) {
	m := tickerText.FindStringSubmatchIndex(line)
	if m == nil {
		return
	}
	before := strings.TrimRight(line[:m[2]], " ([")
	if cut := len(before) - maxTickerDistance; cut > 0 {
		before = strings.ToValidUTF8(before[cut:], "")
	}
	if !d.named(before, brand) {
		return
	}
	exchange := strings.ReplaceAll(line[m[2]:m[3]], "Euronext Paris", "EPA")
	if symbols := tickers([]string{exchange + ":" + strings.TrimRight(line[m[4]:m[5]], ".")}); len(symbols) > 0 {
		d.tickers = append(d.tickers, claim[[]string]{symbols, x.source, "ticker in text", fromBoilerplate})
	}
}

// maxTickerDistance is the largest distance, in bytes, between a company's name
// and its ticker.
const maxTickerDistance = 60

// named reports whether a text ends with the brand's name, with or without its
// legal form.
func (d *dossier) named(text string, brand []string) bool {
	words := spokenWords(text)
	for end := len(words); end > 0; end-- {
		for n := 1; n <= min(maxBrandWords, end); n++ {
			if d.mentionAt(text, words[:end], end-n, brand) == n {
				return true
			}
		}
		if !nameTails[words[end-1].folded] {
			return false
		}
	}
	return false
}
