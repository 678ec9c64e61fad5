// Package adult decides whether a site is adult content, by explicit
// declarations (adult.go) or by its words (words.go).
package adult

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
)

// Certain signs: explicit declarations of adult content.

const rtaLabel = "rta-5042-1996-1400-1577-rta" // the label of rtalabel.org with which adult sites mark themselves
const rtaHost = "rtalabel.org"                 // the host of the label's own page, to which its badge links

var endings = []string{"xxx", "porn", "adult", "sex", "sexy"} // top-level domains for adult content only

var ratingKeys = []string{"rating", "rta", "voluntary content rating", "content-rating"}

// Confidences of the signs.
const (
	certain  = 1.0
	badge    = 0.95
	probable = 0.8
)

// Sign reports whether the site is adult content, by a certain sign or by its words. Method names the sign. Words of a
// single kind, as on pages about health, fashion or wine, never suffice.
func Sign(in extract.Input) (extract.Found[bool], bool) {
	if method, confidence := certainSign(in); method != "" {
		return extract.Found[bool]{Value: true, Source: in.PageURL(), Method: method, Confidence: confidence}, true
	}
	if method := wordSign(in); method != "" {
		return extract.Found[bool]{Value: true, Source: in.PageURL(), Method: method, Confidence: probable}, true
	}
	return extract.Found[bool]{Source: in.PageURL()}, false
}

// certainSign returns a certain sign, or "" if there is none.
func certainSign(in extract.Input) (method string, confidence float64) {
	for _, domain := range append([]string{in.Site.Domain}, in.Site.Others...) {
		if slices.Contains(endings, domain[strings.LastIndexByte(domain, '.')+1:]) {
			return "domain ending", certain
		}
	}
	for _, m := range in.Page.Metas {
		if slices.Contains(ratingKeys, m.Key) && ratedAdult(m.Content) ||
			strings.Contains(strings.ToLower(m.Content), rtaLabel) {
			return "rating meta", certain
		}
	}
	for name, values := range in.Header {
		if strings.EqualFold(name, "Rating") && slices.ContainsFunc(values, ratedAdult) ||
			slices.ContainsFunc(values, func(v string) bool { return strings.Contains(strings.ToLower(v), rtaLabel) }) {
			return "rating header", certain
		}
	}
	for _, a := range in.Page.Anchors {
		if a.URL == nil {
			continue
		}
		if keepsRecords(a.URL, a.Text, in) {
			return "2257 notice", certain
		}
		host := strings.TrimPrefix(a.URL.Hostname(), "www.")
		// A badge is an image, or at the edge of the page. Parents' pages link to the label in running text.
		if host == rtaHost && (a.Text == "" || a.Zone != page.Body || strings.EqualFold(a.Text, "RTA")) {
			return "RTA link", badge
		}
	}
	if recordNotice.MatchString(in.Page.Text) {
		return "2257 notice", certain
	}
	return "", 0
}

// ratedAdult reads a rating, which may be a list: "adult, RTA-5042-1996-1400-1577-RTA".
func ratedAdult(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	if strings.Contains(value, rtaLabel) {
		return true
	}
	return slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool {
		return r == ',' || r == ';' || r == ' ' || r == '|'
	}), func(word string) bool {
		return word == "adult" || word == "mature" || word == "restricted" || word == "x-rated"
	})
}

// recordNotice matches the notice that United States law (18 U.S.C. § 2257) requires of producers of sexual content. A
// text about the law has no statement of compliance.
var recordNotice = lazyregexp.New(`(?i)(?:18\s*u\.?\s?s\.?\s?c\.?\s*(?:§|sec(?:tion|\.)?)?\s*2257(?:\(?[a-h]\)?)?[^.]{0,40}(?:compliance|statement|record[- ]?keeping|exempt)|(?:in compliance with|records? required (?:to be \w+ )?(?:by|under|pursuant to))(?: the)?.{0,60}\b2257\b|custodian of records.{0,120}\b2257\b|\b2257 (?:compliance|statement|exemption|notice)\b)`)

// recordLink matches the text of a link to such a notice, recordPath its URL.
var (
	recordLink = lazyregexp.New(`(?i)^(?:18\s*u\.?\s?s\.?\s?c\.?\s*(?:§|sec(?:tion|\.)?)?\s*)?§?2257(?:[ -](?:compliance|statement|exemption|notice|record.{0,20}|info(?:rmation)?|policy|regulations?))*(?: statement)?$`)
	recordPath = lazyregexp.New(`(?i)(?:^|[/_-])(?:usc-?)?2257(?:[/_.-]|$)`)
)

func keepsRecords(u *url.URL, text string, in extract.Input) bool {
	text = strings.TrimSpace(text)
	return recordLink.MatchString(text) || in.Site.Own(u) && recordPath.MatchString(u.Path) &&
		(recordNotice.MatchString(text) || strings.Contains(text, "2257"))
}

// Restricted returns the record of a site that intentionally carries no data.
func Restricted() eventschemas.Record {
	return eventschemas.Record{NSFW: true, Restriction: &eventschemas.Restriction{Code: "nsfw",
		Message: "The site is adult content, so no brand data is kept for it."}}.Normalized()
}
