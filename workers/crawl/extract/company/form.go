package company

import (
	"strings"
	"unicode"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/postal"
)

// legalForms are the endings of company names: those that imply the kind, because their shares cannot be listed, or
// because they are partnerships, sole traders or non-profits; and those that may be public or private.
var legalForms = []struct {
	kind    string // "" for forms that imply none
	pattern string
}{
	{"NON_PROFIT", tables.Any("non-profit forms")},
	{"PRIVATELY_HELD", tables.Any("private forms")},
	{"PARTNERSHIP", tables.Any("forms of partnerships")},
	{"SELF_EMPLOYED", `e\. ?[KU]\.|e\. ?Kfm\.|e\. ?Kfr\.`},
	{"", tables.Any("other forms") + `|` + limited},
}

const limited = `Ltd\.?|Limited` // the form that is private by law in the United Kingdom and Ireland only

// formMarks are substrings of everything that the expressions of this file match, except for sentences in unusual case.
var formMarks = tables.List("formMarks")

// formPattern returns an expression for some forms after a name.
func formPattern(forms string) *lazyregexp.Regexp {
	return lazyregexp.New(`[\s,](?:` + forms + `)(?:[\s,.;:)|–-]|$)`)
}

// formPatterns match the table's rows, anyForm matches the whole
// table, and commercial the forms not available to non-profits.
var formPatterns, anyForm, commercial = func() ([]*lazyregexp.Regexp, *lazyregexp.Regexp, *lazyregexp.Regexp) {
	var rows []*lazyregexp.Regexp
	var all, trading []string
	for _, f := range legalForms {
		rows, all = append(rows, formPattern(f.pattern)), append(all, f.pattern)
		if f.kind != "NON_PROFIT" {
			trading = append(trading, f.pattern)
		}
	}
	return rows, formPattern(strings.Join(all, "|")), formPattern(strings.Join(trading, "|"))
}()

var limitedPattern = formPattern(limited)

const maxLegalName = 5 // the number of words of a company's name before its legal form

// kindOfForm returns the kind implied by a text's legal form, if the name before it is the brand's.
func (d *dossier) kindOfForm(text string) string {
	for i, f := range legalForms {
		if f.kind == "" {
			continue
		}
		if at := formPatterns[i].FindStringIndex(text); at != nil && d.isOwn(text[:at[0]]) {
			return f.kind
		}
	}
	for _, f := range foreignForms {
		m := f.pattern.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		name, abroad := text[m[2]:m[3]], f.country != "" && d.near.Code != f.country
		if d.speaksOf(name, d.brandWords()) && (!abroad || !hasDigit(text[:m[2]]) && d.beginsWithBrand(name)) {
			return f.kind
		}
	}
	if at := limitedPattern.FindStringIndex(text); at != nil && d.isOwn(text[:at[0]]) {
		if c, ok := postal.OfDomain(d.in.Site.Domain); ok && (c.Code == "GB" || c.Code == "IE") {
			return "PRIVATELY_HELD"
		}
	}
	return ""
}

// foreignForms are the legal forms that precede a name, and the forms of languages without spaces.
var foreignForms = []struct {
	kind    string
	pattern *lazyregexp.Regexp // its group is the name
	country string             // the only one in which the letters mean a legal form; "" for any
}{
	{"PRIVATELY_HELD", lazyregexp.New(`(?:^|[\s(,:])(?:ООО|ТОВ|ТОО)\s?[«"“„]?([^»"”“]{2,60})`), ""},
	{"SELF_EMPLOYED", lazyregexp.New(`(?:^|[\s(,:])(?:ИП|ФОП)\s([^,;]{2,60})`), ""},
	{"PRIVATELY_HELD", lazyregexp.New(`(?:^|[\s©,:])PT\.?\s(\p{Lu}[^,;|]{2,60})`), "ID"}, // PT is also Pacific Time
	{"PRIVATELY_HELD", lazyregexp.New(`(?i:công ty) (?:TNHH|Tnhh|tnhh)\s([^,;|]{2,60})`), ""},
	{"PRIVATELY_HELD", lazyregexp.New(`บริษัท\s?([^,;|]{2,60}?)\s?จำกัด(?:$|[^ (])`), ""},
	{"PRIVATELY_HELD", lazyregexp.New(`(?:有限会社|合同会社)\s?([^\s　、，,。（(]{2,30})`), ""},
	{"PRIVATELY_HELD", lazyregexp.New(`([^\s　、，,。：:©）)]{2,30})(?:有限会社|合同会社|유한회사)`), ""},
	{"PRIVATELY_HELD", lazyregexp.New(`([^\s　，,。:：©]{2,30}?[^份\s])有限(?:责任|責任)?公司`), ""},
}

// beginsWithBrand reports whether the first words of a text are the brand's name.
func (d *dossier) beginsWithBrand(text string) bool {
	words := spokenWords(text)
	return len(words) > 0 && d.mentionAt(text, words, 0, d.brandWords()) > 0
}

// eastForm matches legal forms around Chinese, Japanese and Korean names.
var eastForm = lazyregexp.New(`株式会社|有限会社|合同会社|股份有限公司|有限责任公司|有限公司|주식회사|유한회사|\(주\)|㈜`)

// isOwn reports whether the words that a text ends with are the brand's name.
func (d *dossier) isOwn(before string) bool {
	if d.named(before, d.brandWords()) {
		return true
	}
	words := strings.FieldsFunc(before, func(r rune) bool {
		return unicode.IsSpace(r) || r == ',' || r == '|' || r == '©' || r == ':' || r == ';' || r == '(' || r == ')'
	})
	for n := 1; n <= min(len(words), maxLegalName); n++ {
		if d.in.Fits(strings.Join(words[len(words)-n:], " ")) >= extract.PieceFit {
			return true
		}
	}
	return false
}

var (
	charity    = lazyregexp.New(`(?i)\b(` + tables.Any("charity") + `)`)
	isCharity  = lazyregexp.New(`(?i)\b(?:is|are) (?:an?|the) (?:[\p{L}-]+ ){0,3}(?:charity|non-?profit|not-for-profit)\b|\bist (?:ein|eine) (?:[\p{L}-]+ ){0,2}gemeinnützige[rs]? |\best une association (?:loi 1901|à but non lucratif)|\bes una (?:organización|asociación|entidad) sin (?:ánimo|fines) de lucro`)
	soleTrader = lazyregexp.New(`(?i)(^|[^\p{L}])(` + tables.Any("soleTrader") + `)([^\p{L}]|$)`)
	supported  = lazyregexp.New(`(?i)(donat(e|ed|ion|ions) to|support(s|ed|ing)?|partner(s|ed|ing)? with|proceeds|benefit(s|ing)?|discount|spende(n)? an|unterstütz\p{L}*)`)
)

// formIn reads the kind of organization in a line of an imprint or a footer.
func (d *dossier) formIn(line string, x prose, brand []string) {
	if len(line) > maxFooterLegal && x.role == atHome {
		return
	}
	if x.role == atImprint && len(line) > maxFooterLegal { // a paragraph
		for sentence := range sentencesOf(line) {
			d.formIn(strings.ToValidUTF8(sentence[:min(len(sentence), maxFooterLegal)], ""), x, brand)
		}
		return
	}
	if len(line) <= maxFooterLegal {
		if at := anyForm.FindStringIndex(line); at != nil && d.isOwn(line[:at[0]]) {
			d.formed = true
		}
		if kind := d.kindOfForm(line); kind != "" {
			d.formed = true
			d.kinds = append(d.kinds, claimed(x, kind, "legal form", fromLegalName))
			return
		}
	}
	for sentence := range sentencesOf(line) {
		switch {
		case supported.MatchString(sentence):
		case d.isOwnCharity(sentence, charity, x, brand):
			d.kinds = append(d.kinds, claimed(x, "NON_PROFIT", "charity registration", fromCharity))
		case d.isOwnCharity(sentence, isCharity, x, brand):
			d.kinds = append(d.kinds, claimed(x, "NON_PROFIT", "charity", fromLegalName))
		case x.role == atImprint && soleTrader.MatchString(sentence):
			d.kinds = append(d.kinds, claimed(x, "SELF_EMPLOYED", "sole trader", fromSoleTrader))
		case x.role == atImprint && ownedByOne(sentence):
			d.owners = append(d.owners, claimed(x, "SELF_EMPLOYED", "owner", fromOwner))
		case x.role != atImprint && d.isFamilyOwned(sentence, brand):
			d.kinds = append(d.kinds, claimed(x, "PRIVATELY_HELD", "family-owned", fromOwner))
		}
	}
}

var (
	// owner matches the line of an imprint that names its owners.
	owner = lazyregexp.New(
		`(?i)^(?:[^:]{0,40}[\s,])?(?:inhaber|inhaberin|eigentümer|eigentümerin)\s?:\s?([^\pN&/,+]{3,40})$`)
	// severalOwners matches a conjunction between the names of two owners, who are a partnership.
	severalOwners = lazyregexp.New(`(?i)\s(?:und|u\.|and)\s`)
	// familyOwned matches the predicate of a sentence about a company that a family or few owners hold.
	familyOwned = lazyregexp.New(`(?i)(?:^|\s)(?:is|are|remains?)\s(?:an?\s|still\s|proudly\s)?(?:[\p{L}-]+\s){0,3}?(?:family|privately|independently)[- ](?:owned|held)(?:[^\p{L}]|$)`)
)

// ownedByOne reports whether a line of an imprint names exactly one owner.
func ownedByOne(line string) bool {
	m := owner.FindStringSubmatch(line)
	return m != nil && !severalOwners.MatchString(m[1])
}

// isFamilyOwned reports whether a sentence states that the company is held by a family or privately.
func (d *dossier) isFamilyOwned(sentence string, brand []string) bool {
	at := familyOwned.FindStringIndex(sentence)
	return at != nil && d.endsWith(sentence[:at[0]], spokenWords(sentence[:at[0]]), brand, true) != aboutOthers
}

// charityWords are words between a name and the statement that it is a charity.
var charityWords = extract.FoldedSet(tables.List("charityWords")...)

// isOwnCharity reports whether a sentence states that the brand, we, or an unnamed subject is a charity. A page may
// also list numbers of other charities.
func (d *dossier) isOwnCharity(sentence string, pattern *lazyregexp.Regexp, x prose, brand []string) bool {
	at := pattern.FindStringIndex(sentence)
	if at == nil {
		return false
	}
	before := sentence[:at[0]]
	words := spokenWords(before)
	end := len(words)
	for end > 0 && charityWords[words[end-1].folded] && !we[words[end-1].folded] {
		end--
	}
	if end == 0 { // "Registered charity number 123456" has no subject
		return pattern == charity && x.role != atAbout
	}
	return d.endsWith(before, words[:end], brand, true) != aboutOthers
}
