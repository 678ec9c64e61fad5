package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/tools/accuracy/match"
)

// sameAccent is the maximum CIEDE2000 distance at which a color counts as the brand's.
const sameAccent = 10.0

// scorer collects the verdicts of one page.
type scorer struct {
	crawled
	out []Verdict
}

// score compares the result of a crawl with its label, field by field.
func score(c crawled) []Verdict {
	s := &scorer{crawled: c}
	l := c.label
	s.equal("outcome", c.outcome, accepted{cmp.Or(codes[l.Outcome], l.Outcome)})
	if l.NSFW != nil {
		word := map[bool]string{true: "nsfw"}
		truth := accepted{word[true]}
		if !*l.NSFW {
			truth = nil
		}
		s.equal("nsfw", word[c.result != nil && c.result.Record.NSFW], truth)
	}
	if c.result == nil && l.Outcome != outcomeOK || c.result != nil && c.result.Record.NSFW {
		return s.out
	}
	var r eventschemas.Record
	if c.result != nil {
		r = c.result.Record
	}
	s.texts(r.Name, r.Description, r.OGImage)
	s.logos()
	s.links(r.Links)
	s.looks(r)
	s.company(r.Company)
	return s.out
}

// codes are the outcomes in the words of the API, which labels may use as well as the crawl's own.
var codes = map[string]string{"fetch_blocked": brand.Blocked, "no_brand_data": brand.NoData,
	"domain_not_found": brand.DNS, "fetch_timeout": brand.Timeout}

func (s *scorer) add(field string, kind Kind, ours, truth string) {
	s.out = append(s.out,
		Verdict{Group: s.label.Group, ID: s.label.ID, Field: field, Kind: kind, Ours: ours, Truth: truth})
}

// texts judges the fields that the page declares.
func (s *scorer) texts(name, description, image *string) {
	if s.label.Name != nil {
		s.one("name", name, *s.label.Name, match.Name)
	}
	if s.label.Description != nil {
		s.one("description", description, *s.label.Description, match.Text)
	}
	if s.label.ShareImage != nil {
		s.one("share image", image, *s.label.ShareImage, sameAddress)
	}
}

// one judges a field that has one value or none.
func (s *scorer) one(field string, ours *string, truth []string, same func(ours, truth string) bool) {
	switch {
	case ours == nil && len(truth) == 0:
		s.add(field, None, "", "")
	case ours == nil:
		s.add(field, Missing, "", truth[0])
	case slices.ContainsFunc(truth, func(t string) bool { return same(*ours, t) }):
		s.add(field, Right, *ours, "")
	default:
		s.add(field, Wrong, *ours, first(truth, "none"))
	}
}

// equal judges a value that must equal one of the accepted ones exactly.
func (s *scorer) equal(field, ours string, truth accepted) {
	var given *string
	if ours != "" {
		given = &ours
	}
	s.one(field, given, truth, strings.EqualFold)
}

// links judges each profile in the result, and each missing network.
func (s *scorer) links(given []eventschemas.Link) {
	if s.label.Links == nil {
		return
	}
	truth := *s.label.Links
	found := map[string]bool{}
	for _, l := range given {
		found[l.Name] = true
		if slices.ContainsFunc(truth[l.Name], func(t string) bool { return match.Profile(l.URL, t) }) {
			s.add("links", Right, l.URL, "")
			continue
		}
		s.add("links", Wrong, l.URL, first(truth[l.Name], "none on "+l.Name))
	}
	for _, network := range slices.Sorted(maps.Keys(truth)) {
		if !found[network] && len(truth[network]) > 0 {
			s.add("links", Missing, "", truth[network][0])
		}
	}
	if len(given) == 0 && len(truth) == 0 {
		s.add("links", None, "", "")
	}
}

// looks judges colors and fonts.
func (s *scorer) looks(r eventschemas.Record) {
	if c := s.label.Colors; c != nil {
		var accent *string
		for _, x := range r.Colors {
			if x.Type == "accent" {
				accent = &x.Hex
				break
			}
		}
		s.one("accent", accent, c.Accent, sameColor)
	}
	if s.label.Fonts == nil {
		return
	}
	for _, kind := range []struct {
		name  string
		truth []FontName
	}{{"title", s.label.Fonts.Title}, {"body", s.label.Fonts.Body}} {
		if kind.truth == nil {
			continue
		}
		var ours *string
		for _, f := range r.Fonts {
			if f.Type == kind.name {
				text := f.Name + " (" + f.Origin + ")"
				ours = &text
				break
			}
		}
		var truth []string
		for _, t := range kind.truth {
			truth = append(truth, t.Name+" ("+t.Origin+")")
		}
		s.one(kind.name+" font", ours, truth, sameFont)
	}
}

// sameFont compares a font with its origin in brackets; without an origin any origin matches.
func sameFont(ours, truth string) bool {
	name, origin, _ := strings.Cut(truth, " (")
	ourName, ourOrigin, _ := strings.Cut(ours, " (")
	return match.Font(ourName, name) && (origin == ")" || origin == ourOrigin)
}

// company judges the facts. A result that a label with company facts does not contain is wrong.
func (s *scorer) company(ours *eventschemas.Company) {
	truth := s.label.Company
	if truth == nil {
		return
	}
	ours = cmp.Or(ours, &eventschemas.Company{})
	place := cmp.Or(ours.Location, &eventschemas.Location{})
	if ours.FoundedYear == nil || truth.FoundedYear != nil || *ours.FoundedYear != truth.CopyrightFrom {
		s.fact("founded", year(ours.FoundedYear), list(truth.FoundedYear), true)
	}
	s.fact("employees", year(ours.Employees), list(truth.Employees), true)
	s.fact("country", place.CountryCode, truth.CountryCode, true)
	s.fact("city", place.City, truth.City, true)
	s.fact("state", place.State, truth.State, false)
	s.fact("kind", ours.Kind, truth.Kind, s.label.Group == facts || s.label.Group == heldOut)
	s.fact("ticker", ours.Ticker, truth.Ticker, true)
	if len(truth.Industries) > 0 {
		var slug *string
		if len(ours.Industries) > 0 {
			slug = &ours.Industries[0].Slug
		}
		s.one("industry", slug, truth.Industries, strings.EqualFold)
	}
}

// fact judges one fact; a fact that is neither stated nor in the result has no verdict.
func (s *scorer) fact(field string, ours *string, truth []string, mustBeStated bool) {
	if len(truth) == 0 && (ours == nil || !mustBeStated) {
		return
	}
	s.one(field, ours, truth, strings.EqualFold)
}

func year(n *int) *string {
	if n == nil {
		return nil
	}
	text := strconv.Itoa(*n)
	return &text
}

func list(n *int) []string {
	if n == nil {
		return nil
	}
	return []string{strconv.Itoa(*n)}
}

func first(list []string, otherwise string) string {
	if len(list) == 0 {
		return otherwise
	}
	return list[0]
}

// sameAddress compares host and path, and the query if the truth has one; * matches anything.
func sameAddress(ours, truth string) bool {
	if matches(truth, ours) {
		return true
	}
	a, err1 := url.Parse(ours)
	b, err2 := url.Parse(truth)
	return err1 == nil && err2 == nil && strings.EqualFold(a.Host, b.Host) && a.EscapedPath() == b.EscapedPath() &&
		(b.RawQuery == "" || a.RawQuery == b.RawQuery)
}

func sameColor(ours, truth string) bool {
	a, _, ok1 := imaging.ParseColor(ours)
	b, _, ok2 := imaging.ParseColor(truth)
	return ok1 && ok2 && imaging.DeltaE(a, b) <= sameAccent
}

// matches compares a URL with a pattern in which * matches anything, regardless of escapes.
func matches(pattern, address string) bool {
	pattern, address = plain(pattern), plain(address)
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == address
	}
	rest, ok := strings.CutPrefix(address, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

func plain(address string) string {
	if text, err := url.PathUnescape(address); err == nil {
		return text
	}
	return address
}

func quote(text string) string { return fmt.Sprintf("%.110q", text) }
