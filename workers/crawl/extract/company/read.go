package company

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/postal"
)

// Confidences of facts read in prose.
const (
	fromLegalName    = 0.6  // the kind implied by a legal form
	fromCharity      = 0.65 // a registration as a charity
	fromHeadcount    = 0.5  // "over 500 employees"
	fromBoilerplate  = 0.7  // "Acme Inc. (NASDAQ: ACME)"
	fromImprint      = 0.75
	fromAddressTag   = 0.6
	fromAddressText  = 0.5
	fromSeat         = 0.5 // "headquartered in Berlin, Germany"
	fromSoleTrader   = 0.5
	fromRegistration = 0.35 // less than an address
	fromOwner        = 0.45 // an owner is named, and no legal form
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

// policyWords are the parts of the paths of policies, in several languages.
var policyWords = extract.FoldedSet(tables.List("policyWords")...)

// roleOf determines the purpose of a page by its path, or else by its title or the first heading that has one.
func roleOf(p *page.Page) pageRole {
	if p.URL == nil {
		return atAbout
	}
	parts := strings.FieldsFunc(p.URL.Path, func(r rune) bool { return strings.ContainsRune("/-_.", r) })
	if slices.ContainsFunc(parts, func(part string) bool { return policyWords[extract.Folded(part)] }) {
		return atPolicy
	}
	topic, ok := TopicOf(p.URL, "")
	for _, text := range append([]string{p.Title}, p.Headings...) {
		if ok {
			break
		}
		topic, ok = TopicOf(nil, text)
		ok = ok && topic != Press
	}
	switch {
	case ok && topic == Imprint:
		return atImprint
	case ok && topic == Contact:
		return atContact
	}
	return atAbout
}

// prose is one page in lines.
type prose struct {
	role   pageRole
	source string
	lines  []postal.Line
}

// claimed returns a claim that a page makes in its text, or a data set.
func claimed[T any](x prose, value T, method string, confidence float64) claim[T] {
	return claim[T]{value: value, source: x.source, method: method, confidence: confidence}
}

// readPages adds the facts in the text of the pages.
func (d *dossier) readPages() {
	brand := d.brandWords()
	for i, p := range d.in.pages() {
		if i >= maxReadPages || p.Root == nil {
			continue
		}
		x := prose{role: atHome, source: evidenceOf(p), lines: d.in.lines(p)}
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
		for i := range x.lines {
			x.lines[i].Text = westernYears(x.lines[i].Text)
		}
		if i == 0 {
			x.lines = d.unhidden(x.lines)
		}
		d.read = append(d.read, x)
	}
	d.registered(brand)
	for _, x := range d.read {
		if x.role == atHome {
			d.slogans(x, brand)
		}
		d.prose(x, brand)
		d.addresses(x, brand)
		d.labelled(x, brand)
	}
}

// lines returns the lines of a page, which the caller may change.
func (in input) lines(p *page.Page) []postal.Line {
	if p != in.Page {
		return postal.Lines(p.Root)
	}
	return slices.Clone(extract.Once(in.Input, "lines", func() []postal.Line { return postal.Lines(p.Root) }))
}

// unhidden returns the lines without those that may state a fact and that the
// style sheets hide. Only the style sheets of the home page are known.
func (d *dossier) unhidden(lines []postal.Line) []postal.Line {
	if d.in.Style.Empty() {
		return lines
	}
	hidden := map[*html.Node]bool{}
	hides := func(n *html.Node) bool {
		for ; n != nil; n = n.Parent {
			if n.Type != html.ElementNode {
				continue
			}
			is, known := hidden[n]
			if !known {
				is = d.in.Style.Value(n, "display") == "none" || d.in.Style.Value(n, "visibility") == "hidden"
				hidden[n] = is
			}
			if is {
				return true
			}
		}
		return false
	}
	checked := 0
	drop := make([]bool, len(lines))
	for rank := range unstated { // a shop has hundreds of prices before its footer
		for i, l := range lines {
			if factRank(l) != rank {
				continue
			}
			checked++
			drop[i] = checked > maxStyled || hides(l.Node)
		}
	}
	kept := lines[:0]
	for i, l := range lines {
		if !drop[i] {
			kept = append(kept, l)
		}
	}
	return kept
}

const unstated = 3 // the rank of lines of a home page that state no fact

// factRank ranks a line of a home page by how likely it states a fact, 0 first.
func factRank(l postal.Line) int {
	digits, legal := strings.ContainsFunc(l.Text, unicode.IsDigit), l.Footer || l.Address // of any script
	switch {
	case legal && (digits || hasAny(l.Text, formMarks)):
		return 0
	case legal:
		return 1
	case digits:
		return 2
	}
	return unstated
}

// maxStyled limits the lines whose visibility is computed, in footers and
// addresses first. Lines beyond the limit are dropped.
const maxStyled = 400

// prose reads founding years, headcounts, legal forms and tickers line by line.
func (d *dossier) prose(x prose, brand []string) {
	years, numbers, owners := 0, 0, len(d.owners)
	for i, l := range x.lines {
		text := proseOf(l)
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
			if i > 0 {
				d.countedIn(x.lines[i-1], l, x)
			}
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
	if len(d.owners) > owners &&
		slices.ContainsFunc(x.lines, func(l postal.Line) bool { return anyForm.MatchString(proseOf(l)) }) {
		d.owners = d.owners[:owners] // with a legal form on the page, they may be owners of a company
	}
	if !slices.ContainsFunc(d.bare, func(c claim[int]) bool { return c.value != d.bare[0].value }) {
		d.founded = append(d.founded, d.bare...) // all of them are one year
	}
	d.bare = nil
}

// proseOf returns the start of a line, the only part that is read as prose.
func proseOf(l postal.Line) string {
	if len(l.Text) > maxProse {
		return strings.ToValidUTF8(l.Text[:maxProse], "")
	}
	return l.Text
}

// hasAny reports whether a text contains one of the marks: a cheap check before an expensive expression.
func hasAny(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) })
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
	headcountWords = lazyregexp.New(`(?i)(?:^|[^\p{L}\d.,])(\d{1,3}(?:[.,'’  ]\d{3})+|\d+)\s?(k|\+)?\+?\s(?:[\p{L}-]+\s){0,2}?(` + employeeNouns + `)(?:[^\p{L}]|$)`)
	// headcountLabel matches a table cell whose neighbor holds the number, and
	// eastHeadcount a statement in Chinese, Japanese or Korean.
	headcountLabel = lazyregexp.New(`(?i)^(?:` + tables.Any("headcountLabel") + `)\s?[:：]?$`)
	leadingCount   = lazyregexp.New(`^(?:ca\.?|約|约|over|more than|über|plus de|más de|oltre|약)?\s?(\d{1,3}(?:[.,'’ ]\d{3})+|\d+)(?:\s?(?:名|人|명|[\p{L}]+))?(?:\s?[（(+].*)?$`)
	eastHeadcount  = lazyregexp.New(`(?:` + tables.Any("eastHeadcount") +
		`)\s?(?:は|수는?|约|約|近|共|共有|[:：])?\s?(\d{1,3}(?:,\d{3})+|\d+)\s?(?:余|多)?(?:名|人|명)`)
	// theirs matches the employees of customers.
	theirs = lazyregexp.New(`(?i)(` + tables.Any("theirs") +
		`)\s(\p{L}+\s)?(with|from|of|mit|ab|von|de|con|met|avec|between|up to)|(^|\s)(` + tables.Any("theirs behind") +
		`)(\s|$)`)
)

var employeeNouns = tables.Any("employeeNouns") // the words for employees

// peopleNouns are nouns that also mean visitors or customers. Their sentence
// must also have a word for a team or for working.
var peopleNouns = lazyregexp.New(`(?i)^(?:people|personas|mensen|osób|человек|staff|technicians)$`)
var workingTeam = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` + tables.Any("workingTeam") + `)(?:[^\p{L}]|$)`)

// counts are the words allowed between a company and the number of its employees.
var counts = extract.FoldedSet(tables.List("counts")...)

// headcountIn reads the number of employees in one line of an about page: in a
// sentence whose subject is the company, or in a short line with nothing else.
func (d *dossier) headcountIn(line string, x prose, brand []string) {
	if theirs.MatchString(line) {
		return
	}
	for sentence := range sentencesOf(line) {
		if m := eastHeadcount.FindStringSubmatch(sentence); m != nil && !strangersHan.MatchString(sentence) {
			if n, ok := bucket(m[1]); ok {
				d.employees = append(d.employees, claimed(x, n, "employees", fromHeadcount))
			}
			continue
		}
		m := headcountWords.FindStringSubmatchIndex(sentence)
		if m == nil || peopleNouns.MatchString(sentence[m[6]:m[7]]) && !workingTeam.MatchString(sentence) ||
			!d.ownHeadcount(sentence[:m[2]], sentence[m[7]:], utf8.RuneCountInString(line) <= maxSlogan, brand) &&
				!ourNoun.MatchString(sentence[m[6]:m[7]]) &&
				!(x.role == atAbout && isLabel(withoutCounts(sentence[:m[2]])) && atWork.MatchString(sentence)) {
			continue
		}
		number := sentence[m[2]:m[3]]
		if m[4] >= 0 && strings.EqualFold(sentence[m[4]:m[5]], "k") {
			number += "k"
		}
		if n, ok := bucket(number); ok {
			d.employees = append(d.employees, claimed(x, n, "employees", fromHeadcount))
		}
	}
}

// strangersHan matches words for other companies in Chinese, Japanese and Korean.
var strangersHan = lazyregexp.New(`子公司|分公司|客户|客戶|取引先|お客様|グループ全体|고객|협력사`)

// countedIn reads the cell after one with the label "Employees".
func (d *dossier) countedIn(label, value postal.Line, x prose) {
	if !headcountLabel.MatchString(label.Text) || utf8.RuneCountInString(value.Text) > maxSlogan {
		return
	}
	if m := leadingCount.FindStringSubmatch(strings.TrimSpace(value.Text)); m != nil {
		if n, ok := bucket(m[1]); ok {
			d.employees = append(d.employees, claimed(x, n, "employees", fromHeadcount))
		}
	}
}

var (
	// ourNoun matches "our employees" in languages that write it as one word.
	ourNoun = lazyregexp.New(`(?i)(?:ımız|imiz|umuz|ümüz)\p{L}{0,3}$`)
	// atWork matches verbs that need no other subject than the employees on a
	// page about the company: "Today 7 people work in the shop".
	atWork = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` + tables.Any("atWork") + `)(?:[^\p{L}]|$)`)
)

// withoutCounts returns a text without the words that may precede a number of employees.
func withoutCounts(text string) string {
	words := spokenWords(text)
	for len(words) > 0 && counts[words[len(words)-1].folded] {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return ""
	}
	return text[:words[len(words)-1].end]
}

// ownHeadcount reports whether the text around a number of employees refers to the company.
func (d *dossier) ownHeadcount(before, after string, short bool, brand []string) bool {
	words := spokenWords(before)
	end := len(words)
	for end > 0 && len(words)-end < maxAside && counts[words[end-1].folded] && !we[words[end-1].folded] {
		end--
	}
	switch {
	// "Nous sommes", "Somos más de": the verb implies the subject
	case end == 0 && slices.ContainsFunc(words, func(w spoken) bool { return verbOfOurs[w.folded] }):
		return true
	case end == 0 && short && isLabel(after):
		return true
	case end == 1 && short && isLabel(after) && ours[words[0].folded]:
		return true
	case end == 1 && ours[words[0].folded] && len(words) > 1 && teams[words[1].folded]:
		return true
	case end == 0:
		return d.speaksOf(after, brand)
	}
	return d.endsWith(before, words[:end], brand, true) != aboutOthers
}

var (
	// verbOfOurs are verbs of the first person in languages that omit "we".
	verbOfOurs = wordSet(
		"somos contamos tenemos empleamos abbiamo siamo impieghiamo temos empregamos employons zatrudniamy")
	teams = wordSet("team staff workforce équipe equipo squadra")
)

var tickerText = lazyregexp.New(`(?:^|[^\p{L}])(` + tables.Any("tickerText") +
	`)\s?:\s?([A-Z][A-Z0-9.]{0,5}|\d{3,6})(?:[^\p{L}\d]|$)`)

// tickerIn reads "Acme Inc. (NASDAQ: ACME)", with the name directly before the ticker.
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
		d.tickers = append(d.tickers, claimed(x, symbols, "ticker in text", fromBoilerplate))
	}
}

const maxTickerDistance = 60 // the largest distance, in bytes, between a company's name and its ticker

// named reports whether a text ends with the brand's name, with or without its legal form.
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
