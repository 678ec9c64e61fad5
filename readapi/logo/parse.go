package logo

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// InvalidError says in a sentence what is wrong with a request.
type InvalidError struct{ Sentence string }

func (e *InvalidError) Error() string { return e.Sentence }

func invalid(format string, args ...any) error {
	return &InvalidError{Sentence: fmt.Sprintf(format, args...)}
}

// Parse reads a request for a logo. path is what stands behind /logo/ (or behind the slash of a host of its own),
// still percent-encoded; accept are the request's Accept headers. Other query parameters than those of a logo are
// not looked at. The domain is returned as it was sent, decoded. Errors: *InvalidError.
func Parse(path, rawQuery string, accept []string) (domain string, o Options, err error) {
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	if domain, err = url.PathUnescape(segments[0]); err != nil {
		return "", Options{}, invalid("The domain is not percent-encoded correctly.")
	}
	o = Options{Type: Icon, Size: DefaultSize, Format: imaging.PNG, Negotiated: true, Fallback: Monogram}
	if len(segments) > 1 {
		o.Type = Type(segments[1])
	}
	q, err := url.ParseQuery(rawQuery)
	if err != nil {
		return "", Options{}, invalid("The query is not percent-encoded correctly.")
	}
	if s := q.Get("size"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return "", Options{}, invalid("The parameter size is a whole number of at least 1.")
		}
		o.Size = min(max(n, MinSize), MaxSize)
	}
	if strings.Contains(strings.Join(accept, ","), "image/webp") {
		o.Format = imaging.WebP
	}
	if f := q.Get("format"); f != "" {
		o.Format, o.Negotiated = imaging.Format(f), false
	}
	o.Theme = Theme(q.Get("theme"))
	if f := q.Get("fallback"); f != "" {
		o.Fallback = Fallback(f)
	}
	return domain, o, nil
}
