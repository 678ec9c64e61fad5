package brand

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"letterhead/domain/text"
	"letterhead/eventschemas"
)

// maxURLBytes limits a URL of a record, which is as long as those that crawls keep.
const maxURLBytes = 2000

// checkURL returns why a URL cannot be part of a record, which pages show as a link: it must be an absolute one of the web.
func checkURL(link string) error {
	u, err := url.Parse(link)
	switch {
	case err != nil || len(link) > maxURLBytes || text.CheckShown(link) != nil:
		return fmt.Errorf("%.60q is not a URL of at most %d bytes without hidden characters", link, maxURLBytes)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return fmt.Errorf("%.60q is not an absolute http or https URL", link)
	case u.User != nil:
		return fmt.Errorf("the URL of host %.60q has a user name or a password", u.Hostname())
	}
	return nil
}

// shownAs replaces a hidden character: one that separates words by a space, one of direction by nothing.
func shownAs(r rune) rune {
	switch {
	case unicode.Is(unicode.Bidi_Control, r):
		return -1
	case text.IsHidden(r):
		return ' '
	}
	return r
}

// shownAsLines is shownAs for a text that may have several lines.
func shownAsLines(r rune) rune {
	if r == '\n' {
		return r
	}
	return shownAs(r)
}

// texts returns pointers to the texts of a record that pages show, and their longer texts, which may have several lines.
func texts(r *eventschemas.Record) (short, long []*string) {
	short = append(short, r.Name, r.Description)
	for i := range r.Fonts {
		short = append(short, &r.Fonts[i].Name, r.Fonts[i].OriginID)
	}
	if c := r.Company; c != nil {
		short = append(short, c.Kind, c.Ticker)
		if l := c.Location; l != nil {
			short = append(short, l.City, l.State, l.Country, l.CountryCode, l.Region, l.Subregion)
		}
		for i := range c.Industries {
			one := &c.Industries[i]
			short = append(short, &one.ID, &one.Name, &one.Slug, &one.Emoji)
			if one.Parent != nil {
				short = append(short, &one.Parent.ID, &one.Parent.Name, &one.Parent.Slug, &one.Parent.Emoji)
			}
		}
		for i := range c.Tickers {
			short = append(short, &c.Tickers[i])
		}
	}
	return slices.DeleteFunc(short, isNil), slices.DeleteFunc([]*string{r.LongDescription}, isNil)
}

func isNil(s *string) bool { return s == nil }

// checkRecord returns why the texts and URLs of a field cannot be served.
func checkRecord(r *eventschemas.Record) error {
	short, long := texts(r)
	for _, shown := range short {
		if err := text.CheckShown(*shown); err != nil {
			return fmt.Errorf("%.60q %w", *shown, err)
		}
	}
	for _, shown := range long {
		if err := text.CheckShown(strings.ReplaceAll(*shown, "\n", " ")); err != nil {
			return fmt.Errorf("%.60q %w", *shown, err)
		}
	}
	for _, l := range r.Links {
		if err := checkURL(l.URL); err != nil {
			return fmt.Errorf("link %s: %w", l.Name, err)
		}
	}
	if r.OGImage != nil {
		return checkURL(*r.OGImage)
	}
	return nil
}

// clean returns a record without what checkRecord rejects, which earlier releases accepted in overrides and imports. The
// input is not modified.
func clean(r eventschemas.Record) eventschemas.Record {
	if hasHidden(texts(&r)) {
		r = copyOf(r)
		short, long := texts(&r)
		for _, shown := range short {
			*shown = strings.Map(shownAs, *shown)
		}
		for _, shown := range long {
			*shown = strings.Map(shownAsLines, *shown)
		}
	}
	bad := func(l eventschemas.Link) bool { return checkURL(l.URL) != nil }
	if slices.ContainsFunc(r.Links, bad) {
		r.Links = slices.DeleteFunc(slices.Clone(r.Links), bad)
	}
	if r.OGImage != nil && checkURL(*r.OGImage) != nil {
		r.OGImage = nil
	}
	return r
}

func hasHidden(short, long []*string) bool {
	return slices.ContainsFunc(short, func(s *string) bool { return strings.ContainsFunc(*s, text.IsHidden) }) ||
		slices.ContainsFunc(long, func(s *string) bool {
			return strings.ContainsFunc(*s, func(r rune) bool { return r != '\n' && text.IsHidden(r) })
		})
}

// copyOf returns a record whose texts can be changed without changing those of r.
func copyOf(r eventschemas.Record) eventschemas.Record {
	pointer := func(s *string) *string {
		if s == nil {
			return nil
		}
		c := *s
		return &c
	}
	r.Name, r.Description, r.LongDescription = pointer(r.Name), pointer(r.Description), pointer(r.LongDescription)
	r.Fonts = slices.Clone(r.Fonts)
	for i := range r.Fonts {
		r.Fonts[i].OriginID = pointer(r.Fonts[i].OriginID)
	}
	if r.Company == nil {
		return r
	}
	c := *r.Company
	c.Kind, c.Ticker, c.Tickers, c.Industries = pointer(c.Kind), pointer(c.Ticker), slices.Clone(c.Tickers), slices.Clone(c.Industries)
	if c.Location != nil {
		l := *c.Location
		for _, part := range []**string{&l.City, &l.State, &l.Country, &l.CountryCode, &l.Region, &l.Subregion} {
			*part = pointer(*part)
		}
		c.Location = &l
	}
	for i := range c.Industries {
		if parent := c.Industries[i].Parent; parent != nil {
			own := *parent
			c.Industries[i].Parent = &own
		}
	}
	r.Company = &c
	return r
}
