package brand

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"letterhead/domain/text"
	"letterhead/eventschemas"
)

// Limits of the values of a record, whether a crawl, an import or an override sets them. The JSON Schema of records has
// the rules of numbers and of texts from a list: colors, weights, years, tickers, ids of files.
const (
	MaxTextRunes            = 100 // of a name, a city, a tag and other short texts
	MaxDescriptionRunes     = 1000
	MaxLongDescriptionRunes = 2500
	MaxFontNameRunes        = 60
	MaxURLBytes             = 2048

	Markup     = "<>{}" // of pages and templates, which short texts do not have
	styleMarks = Markup + `"();@/\*`
)

// HTMLTag matches a tag or a comment of HTML, which descriptions do not have. A less-than sign in a sentence is
// followed by a space or a number. A comment without an end hides the rest of a text, as in browsers; otherwise the
// search for its end would begin again after each match. It is compiled at its first use, which takes a millisecond.
var HTMLTag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)<!--.*?(?:-->|$)|</?(?:a|abbr|article|b|big|blockquote|br|center|cite|code|dd|div|dl|dt|em|figure|figcaption|font|footer|h[1-6]|header|hr|i|iframe|img|input|label|li|link|main|mark|meta|nav|noscript|ol|p|picture|pre|s|script|section|small|span|strike|strong|style|sub|sup|svg|table|tbody|td|th|tr|u|ul|video)(?:\s[^<>]*)?/?>`)
})

// IsWebURL reports whether a URL is an absolute one of the web, without a user name.
func IsWebURL(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// ParseURL parses a URL of a record, which pages show as a link or an image. The error says why it cannot be one.
func ParseURL(link string) (*url.URL, error) {
	u, err := url.Parse(link)
	switch {
	case err == nil && !IsWebURL(u):
		return nil, fmt.Errorf("%.60q is not an absolute http or https URL without a user name", u.Redacted())
	case err != nil || len(link) > MaxURLBytes || text.CheckShown(link) != nil:
		return nil, fmt.Errorf("%.60q is not a URL of at most %d bytes without hidden characters", link, MaxURLBytes)
	}
	return u, nil
}

// CheckFontName returns why a text cannot be the name of a font, which style sheets contain: "." and "4" are mistakes.
func CheckFontName(name string) error {
	if !strings.ContainsFunc(name, unicode.IsLetter) || utf8.RuneCountInString(name) > MaxFontNameRunes ||
		strings.ContainsAny(name, styleMarks) {
		return fmt.Errorf("%.60q is not the name of a font", name)
	}
	return nil
}

func checkLink(l eventschemas.Link) error {
	u, err := ParseURL(l.URL)
	if err == nil && NetworkOf(u.Hostname()) != l.Name {
		return fmt.Errorf("%.60q is not a URL of the network %.60q", l.URL, l.Name)
	}
	return err
}

// checkText returns an error if a record may not contain the text: it has hidden characters, markup or more runes than
// the limit, or nothing in it is visible. A record has null instead of an invisible text.
func checkText(s string, limit int) error {
	switch err := text.CheckShown(s); {
	case err != nil:
		return fmt.Errorf("%.60q %w", s, err)
	case utf8.RuneCountInString(s) > limit:
		return fmt.Errorf("%.60q has more than %d characters", s, limit)
	case !strings.ContainsFunc(s, isShown):
		return fmt.Errorf("%.60q shows nothing", s)
	case limit <= MaxTextRunes && strings.ContainsAny(s, Markup), strings.Contains(s, "<") && HTMLTag().MatchString(s):
		return fmt.Errorf("%.60q has markup", s)
	}
	return nil
}

func isShown(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) }

// cleanText returns a text without what checkText rejects.
func cleanText(s string, limit int) string {
	s = HTMLTag().ReplaceAllString(text.Clean(s, len(s)), " ")
	if limit <= MaxTextRunes {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(Markup, r) }), " ")
	}
	return text.Clean(s, limit)
}

// otherTexts are the values of a record whose texts have other rules.
var otherTexts = []reflect.Type{reflect.TypeFor[[]eventschemas.Link](), reflect.TypeFor[[]eventschemas.Asset]()}

// eachText calls visit with each text in a part of a record, unless it is empty and not optional. It sets an optional
// one to null if visit returns false.
func eachText(part reflect.Value, visit func(*string) (keep bool)) {
	switch part.Kind() {
	case reflect.String:
		if part.Len() > 0 {
			visit(part.Addr().Interface().(*string))
		}
	case reflect.Pointer:
		if s, ok := part.Interface().(*string); ok && s != nil && !visit(s) {
			part.SetZero()
		} else if !ok && !part.IsNil() {
			eachText(part.Elem(), visit)
		}
	case reflect.Struct:
		for _, field := range part.Fields() {
			eachText(field, visit)
		}
	case reflect.Slice:
		for i := 0; i < part.Len() && !slices.Contains(otherTexts, part.Type()); i++ {
			eachText(part.Index(i), visit)
		}
	}
}

// check returns why the values of a record cannot be served: the first reason. With repair it removes all of them.
func check(r *eventschemas.Record, repair bool) (reason error) {
	fails := func(err error) bool {
		reason = cmp.Or(reason, err)
		return err != nil && repair
	}
	eachText(reflect.ValueOf(r).Elem(), func(s *string) bool {
		limit := MaxTextRunes
		switch {
		case s == r.OGImage:
			_, err := ParseURL(*s)
			return !fails(err)
		case s == r.Description, r.Restriction != nil && s == &r.Restriction.Message:
			limit = MaxDescriptionRunes
		case s == r.LongDescription:
			limit = MaxLongDescriptionRunes
		}
		if !fails(checkText(*s, limit)) {
			return true
		}
		*s = cleanText(*s, limit)
		return checkText(*s, limit) == nil
	})
	r.Links = slices.DeleteFunc(r.Links, func(l eventschemas.Link) bool { return fails(checkLink(l)) })
	r.Fonts = slices.DeleteFunc(r.Fonts, func(f eventschemas.Font) bool { return fails(CheckFontName(f.Name)) })
	return reason
}

// clean returns a record without what check rejects, which earlier releases accepted in overrides and imports. The
// input is not modified.
func clean(r eventschemas.Record) eventschemas.Record {
	if check(&r, false) == nil {
		return r
	}
	var own eventschemas.Record // shares no memory with r
	if data, err := json.Marshal(r); err != nil || json.Unmarshal(data, &own) != nil {
		return r // cannot be appended or served, either
	}
	check(&own, true)
	return own
}
