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
	case err != nil || len(link) > maxURLBytes:
		return fmt.Errorf("%.60q is not a URL of at most %d bytes", link, maxURLBytes)
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

// checkRecord returns why the texts and URLs of a field cannot be served.
func checkRecord(r *eventschemas.Record) error {
	for _, shown := range []*string{r.Name, r.Description, r.OGImage} {
		if shown == nil {
			continue
		}
		if err := text.CheckShown(*shown); err != nil {
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
	for _, stored := range []**string{&r.Name, &r.Description} {
		if *stored != nil && strings.ContainsFunc(**stored, text.IsHidden) {
			shown := strings.Map(shownAs, **stored)
			*stored = &shown
		}
	}
	bad := func(l eventschemas.Link) bool { return checkURL(l.URL) != nil }
	if slices.ContainsFunc(r.Links, bad) {
		r.Links = slices.DeleteFunc(slices.Clone(r.Links), bad)
	}
	if r.OGImage != nil && (checkURL(*r.OGImage) != nil || strings.ContainsFunc(*r.OGImage, text.IsHidden)) {
		r.OGImage = nil
	}
	return r
}
