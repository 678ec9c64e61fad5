package brand

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"letterhead/eventschemas"
)

// maxURLBytes limits a URL of a record, which is as long as those that crawls keep.
const maxURLBytes = 2000

// checkURL returns why a URL cannot be part of a record, which pages show as a link: it must be an absolute one of the web.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURLBytes:
		return fmt.Errorf("%.60q is not a URL of at most %d bytes", text, maxURLBytes)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return fmt.Errorf("%.60q is not an absolute http or https URL", text)
	case u.User != nil:
		return fmt.Errorf("the URL of host %.60q has a user name or a password", u.Hostname())
	}
	return nil
}

// isHidden reports whether a character changes how the text around it is shown without being shown itself: control
// characters (Cc), separators of lines and paragraphs, and the Bidi_Control characters of Unicode (UAX #9).
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// shownAs replaces a hidden character: one that separates words by a space, one of direction by nothing.
func shownAs(r rune) rune {
	switch {
	case unicode.Is(unicode.Bidi_Control, r):
		return -1
	case isHidden(r):
		return ' '
	}
	return r
}

// checkRecord returns why the texts and URLs of a field cannot be served.
func checkRecord(r *eventschemas.Record) error {
	for _, text := range []*string{r.Name, r.Description, r.OGImage} {
		if text != nil && strings.ContainsFunc(*text, isHidden) {
			return fmt.Errorf("%.60q has a control or bidirectional character", *text)
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
	for _, text := range []**string{&r.Name, &r.Description} {
		if *text != nil && strings.ContainsFunc(**text, isHidden) {
			shown := strings.Map(shownAs, **text)
			*text = &shown
		}
	}
	bad := func(l eventschemas.Link) bool { return checkURL(l.URL) != nil }
	if slices.ContainsFunc(r.Links, bad) {
		r.Links = slices.DeleteFunc(slices.Clone(r.Links), bad)
	}
	if r.OGImage != nil && (checkURL(*r.OGImage) != nil || strings.ContainsFunc(*r.OGImage, isHidden)) {
		r.OGImage = nil
	}
	return r
}
