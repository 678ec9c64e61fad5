package company

import (
	"slices"
	"strings"
	"unicode/utf8"

	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/postal"
)

// strangersAddress matches words above an address of another party: the host,
// the web agency, an authority, a court, a processor.
var strangersAddress = lazyregexp.New(`(?i)(` + tables.Any("strangersAddress") + `)`)

// ownAddress matches the headings of an address in the middle of the home page that assign it to the site's owner.
var ownAddress = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` + tables.Any("ownAddress") + `)(?:[^\p{L}]|$)`)

const (
	linesAbove       = 4   // in which such a word assigns an address to another party
	maxAddressed     = 5   // addresses of one page that are checked
	maxLineOfAddress = 225 // bytes; a longer line is a paragraph
)

// addresses reads the company's own postal address: the first of an imprint,
// else one in an address element or a footer, else the first of a contact page.
func (d *dossier) addresses(x prose, brand []string) {
	texts := make([]string, 0, len(x.lines))
	from := make([]postal.Line, 0, len(x.lines))
	at := make([]int, 0, len(x.lines)) // the line of each text
	for i, l := range x.lines {
		// a paragraph: each sentence is a line
		if (x.role == atImprint || x.role == atContact) && len(l.Text) > maxLineOfAddress {
			for sentence := range sentencesOf(l.Text) {
				texts, from, at = append(texts, sentence), append(from, l), append(at, i)
			}
			continue
		}
		if x.role == atHome && !l.Footer && !l.Address && (d.in.isArticle() || !postal.IsAddressLine(l.Text)) {
			continue
		}
		texts, from, at = append(texts, l.Text), append(from, l), append(at, i)
	}
	for i, a := range postal.Addresses(texts, d.near) {
		if i == maxAddressed {
			return
		}
		above := slices.Clone(texts[max(0, a.Line-linesAbove):a.Line])
		line := texts[a.Line]
		if a.PostalCode != "" {
			// only the text before an address can assign it to another party
			line, _, _ = strings.Cut(line, a.PostalCode)
		}
		if strangersAddress.MatchString(strings.Join(append(above, line), " \n")) {
			continue
		}
		listed := postal.InCity(a.Country.Code, a.City)
		if d.another(texts[max(0, a.Line-linesOfName):a.Line+1], brand) ||
			a.Street == "" && slices.Contains(brand, extract.Folded(a.City)) || // a town's own site also has a street
			!listed && (a.PostalCode == "" || !d.suits(a.Country)) {
			continue
		}
		method, confidence := "address in text", fromAddressText
		switch {
		case x.role == atHome && !from[a.Line].Footer && !from[a.Line].Address:
			near := strings.Join(textsOf(x.lines[max(0, at[a.Line]-linesOfName):at[a.Line]+1]), " \n")
			if !a.Named || !d.speaksOf(near, brand) && (d.in.Inner() || !ownAddress.MatchString(near)) {
				continue // a number and a word in the middle of a page, or an address of its topic
			}
			confidence -= fromMorePage
		case x.role == atImprint:
			method, confidence = "imprint", fromImprint
		case from[a.Line].Address:
			method, confidence = "address element", fromAddressTag
		}
		if !a.Named { // the country is derived from the domain
			confidence -= fromMorePage
		}
		if !listed {
			confidence -= fromMorePage
		}
		d.places = append(d.places, claimed(x, a.Country.Location(a.City, a.State), method, confidence))
		return
	}
	d.tails(x, brand)
}

// suits reports whether a country is plausible for the site.
func (d *dossier) suits(c postal.Country) bool {
	return c.Suits(d.in.Site.Domain, d.in.Page.Lang, d.in.Page.Text)
}

// placeLabel matches a line that states a place: "Location: Leeds".
var placeLabel = lazyregexp.New(`(?i)^(?:` + tables.Any("placeLabels") + `)\s?[:：]\s?([^:]{2,60})$`)

// occasion matches what is near the place of an event or a job, but not near that of a company.
var occasion = lazyregexp.New(`(?im)` + tables.Any("occasion"))

// occasions are the schema.org types of what takes place somewhere.
var occasions = tables.List("occasions")

// labelled reads the place in the only line of a page that states one. Several such lines list branches, events or
// jobs, and a line with a date belongs to one event.
func (d *dossier) labelled(x prose, brand []string) {
	var found []string
	var near strings.Builder
	near.WriteString(d.in.Page.Title)
	for i, l := range x.lines {
		m := placeLabel.FindStringSubmatch(l.Text)
		if m == nil && i > 0 && placeLabel.MatchString(x.lines[i-1].Text+": x") {
			m = placeLabel.FindStringSubmatch(x.lines[i-1].Text + ": " + l.Text)
		}
		if m != nil {
			found = append(found, strings.Trim(m[len(m)-1], " ."))
			near.WriteString("\n" + strings.Join(textsOf(x.lines[max(0, i-linesAbove):min(len(x.lines), i+linesAbove)]), "\n"))
		}
	}
	if len(found) != 1 || d.in.isArticle() || slices.Contains(brand, extract.Folded(found[0])) ||
		occasion.MatchString(near.String()) || d.in.hasObject(occasions) {
		return
	}
	city, state, country, ok := postal.Seat(found[0])
	if !ok && postal.IsCity(d.near.Code, found[0]) {
		city, country, ok = found[0], d.near, true
	} else if !ok {
		city = found[0]
		country, ok = postal.OnlyCity(city)
		ok = ok && d.suits(country)
	}
	if ok && postal.IsCity(country.Code, city) {
		d.places = append(d.places, claimed(x, country.Location(city, state), "label", fromSeat-fromMorePage))
	}
}

// registered finds the country whose register or tax office assigned the company's number. The company's seat is there
// if no address is read, and ambiguous addresses are read in the forms of that country.
func (d *dossier) registered(brand []string) {
	var ok bool
	var own []claim[postal.Country]
	for _, x := range d.read {
		for i, l := range x.lines {
			if !l.Footer && x.role != atImprint && x.role != atContact || !hasDigit(l.Text) {
				continue
			}
			country, found := postal.RegisteredIn(l.Text)
			if !found || strangersAddress.MatchString(d.above(x, i)) && !d.speaksOf(l.Text, brand) ||
				d.another(textsOf(x.lines[max(0, i-linesOfName):i+1]), brand) {
				continue
			}
			own = append(own, claimed(x, country, "registration", fromRegistration))
		}
	}
	for _, c := range own {
		if c.value.Code != own[0].value.Code {
			own = nil // numbers of several countries
			break
		}
	}
	if d.near, ok = postal.OfDomain(d.in.Site.Domain); ok {
		if len(own) > 0 && own[0].value.Code != d.near.Code {
			own = nil
		}
	} else if len(own) > 0 {
		d.near = own[0].value
	} else {
		d.near, _ = postal.OfLanguage(d.in.Page.Lang)
	}
	if len(own) > 0 {
		d.places = append(d.places, claim[*eventschemas.Location]{value: own[0].value.Location("", ""),
			source: own[0].source, method: own[0].method, confidence: own[0].confidence})
	}
}

// above returns the lines above line i that may assign it to another party.
func (d *dossier) above(x prose, i int) string {
	return strings.Join(textsOf(x.lines[max(0, i-linesAbove):i]), " \n")
}

func textsOf(lines []postal.Line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Text
	}
	return out
}

// tails reads footers such as "Acme Ltd, West Harbour, Leeds, United Kingdom".
func (d *dossier) tails(x prose, brand []string) {
	for i, l := range x.lines {
		if !l.Footer && !l.Address && x.role != atImprint && x.role != atContact ||
			!strings.ContainsRune(l.Text, ',') || strangersAddress.MatchString(d.above(x, i)) {
			continue
		}
		named := d.speaksOf(l.Text, brand) ||
			hasDigit(l.Text) && d.speaksOf(strings.Join(textsOf(x.lines[max(0, i-linesOfName):i]), "\n"), brand)
		city, country, ok := postal.Tail(l.Text)
		if ok && named && (postal.InCity(country.Code, city) || d.suits(country)) &&
			!slices.Contains(brand, extract.Folded(city)) {
			d.places = append(d.places, claimed(x, country.Location(city, ""), "footer", fromAddressText-fromMorePage))
			return
		}
	}
}

const linesOfName = 3 // the number of lines above the city in which the addressee's name may be

// another reports whether an address is headed by a company of another name: a publisher in the footer of its magazine,
// a processor. Associations use their initials and count as the owner.
func (d *dossier) another(lines []string, brand []string) bool {
	for _, l := range slices.Backward(lines) { // the nearest counts
		// "Levee Street SE", "Las Vegas, NV 89101" and "Adelaide SA 5000" are not companies.
		if at := commercial.FindStringIndex(l); at != nil && !isQuarter(l, at) {
			return !d.isOwn(l[:at[0]]) && !d.speaksOf(l, brand) && !d.halfOfLabel(l[:at[0]])
		}
	}
	return false
}

const minHalf = 6 // the number of letters from which a name that is half of the domain's label is not a coincidence

// halfOfLabel reports whether the word before a legal form is the beginning or the end of the domain's label.
func (d *dossier) halfOfLabel(before string) bool {
	words := spokenWords(before)
	return len(words) > 0 && utf8.RuneCountInString(words[len(words)-1].text) >= minHalf &&
		d.in.Fits(words[len(words)-1].text) >= extract.StrongFit
}

// isQuarter reports whether two capitals that look like a legal form are part
// of a city or state: a number precedes them, or a postal code follows.
func isQuarter(line string, at []int) bool {
	if len(strings.Trim(line[at[0]:at[1]], " ,.;:)|–-")) != len("SE") {
		return false
	}
	return hasDigit(line[:at[0]]) || leadingCode.MatchString(line[at[1]:])
}

var leadingCode = lazyregexp.New(`^[\s,]*\d{4,5}(?:\D|$)`)
var seatMarks = tables.List("seatMarks") // substrings without which the expression does not match
var seat = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` + tables.Any("seat") + `)\s+`)

// seatIn reads "headquartered in Berlin, Germany" if the company is the subject of the sentence.
func (d *dossier) seatIn(line string, x prose, brand []string) {
	for sentence := range sentencesOf(line) {
		at := seat.FindStringIndex(sentence)
		if at == nil || !d.ownSeat(sentence[:at[0]], brand) {
			continue
		}
		if city, state, country, ok := postal.Seat(sentence[at[1]:]); ok && postal.InCity(country.Code, city) {
			d.places = append(d.places, claimed(x, country.Location(city, state), "headquartered in", fromSeat))
		}
	}
}

// seatOf ends the text before "headquarters": its owner.
var seatOf = wordSet("its their our unser unsere unseren ihren seinen mit con su with notre votre sua hun zijn sitt")

// ownSeat reports whether the text before "headquartered in" or "headquarters are in" refers to the company.
func (d *dossier) ownSeat(before string, brand []string) bool {
	if isLabel(before) {
		return true
	}
	words := spokenWords(before)
	last := len(words) - 1
	if words[last].folded == "s" && last > 0 && words[last-1].end < words[last].at { // Acme's
		return d.named(before[:words[last-1].end], brand)
	}
	if ours[words[last].folded] && last == 0 { // Our headquarters are in
		return true
	}
	for last >= 0 && seatOf[words[last].folded] {
		last--
	}
	return last >= 0 && d.subject(before[:words[last].end], brand, true) != aboutOthers ||
		d.subject(before, brand, true) != aboutOthers
}
