package adminapi

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/brand"
	"letterhead/internal/web"
)

// Limits of listings.
const (
	defaultLimit = 100
	maxLimit     = 500
	// maxQuery limits the query of a URL, and maxCursor a cursor in it.
	maxQuery  = 8 << 10
	maxCursor = 4 << 10
)

var errQuery = invalid("The query of the URL is not encoded correctly.")

const timeLayout = time.RFC3339Nano

// parameters are the query of a request. An error is kept until it is asked for.
type parameters struct {
	values url.Values
	local  bool // pages may have any size
	err    error
}

// reject keeps an error if something is wrong, and none was kept before.
func (q *parameters) reject(wrong bool, format string, args ...any) {
	if wrong && q.err == nil {
		q.err = invalid(format, args...)
	}
}

// query parses the query, whose parameters must be among the named ones.
func (x *exchange) query(names ...string) *parameters {
	q := parseQuery(x.request.URL.RawQuery, names...)
	q.local = x.local || x.anyLimit
	return q
}

// read checks the parameters of a request, and waits until read models have folded what the log has now.
func (x *exchange) read(q *parameters, models ...string) error {
	if q.err != nil {
		return q.err
	}
	return x.folded(models...)
}

func parseQuery(raw string, names ...string) *parameters {
	q := &parameters{}
	if len(raw) > maxQuery {
		q.err = invalid("The query of the URL has more than %d bytes.", maxQuery)
		return q
	}
	var err error
	if q.values, err = url.ParseQuery(raw); err != nil {
		q.err = errQuery
		return q
	}
	for name, values := range q.values {
		switch {
		case !slices.Contains(names, name):
			q.err = invalid("There is no parameter %q. Parameters of this path are: %s.",
				name, strings.Join(names, ", "))
		case len(values) > 1:
			q.err = invalid("The parameter %s is given more than once. Send it once.", name)
		case values[0] == "":
			q.err = invalid("The parameter %s is empty. Leave it out, or send a value.", name)
		case !web.IsText(values[0]):
			q.err = invalid("The parameter %s is not UTF-8 text.", name)
		}
	}
	return q
}

func (q *parameters) text(name string) string { return q.values.Get(name) }

// oneOf returns a value that must be one of the known ones.
func (q *parameters) oneOf(name string, known ...string) string {
	value := q.values.Get(name)
	q.reject(value != "" && !slices.Contains(known, value), "The parameter %s is one of %s, not %q.", name,
		strings.Join(known, ", "), value)
	return value
}

// order returns the value of sort, which begins with a minus sign for the descending order.
func (q *parameters) order(known []string) (by string, descending bool) {
	by, descending = strings.CutPrefix(q.values.Get("sort"), "-")
	q.reject((by != "" || descending) && !slices.Contains(known, by),
		"The parameter sort is one of %s, with a minus sign in front for the descending order.", strings.Join(known, ", "))
	return by, descending
}

func (q *parameters) limit() int { return q.limitOf(defaultLimit, maxLimit) }

func (q *parameters) limitOf(byDefault, largest int) int {
	text := q.values.Get("limit")
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	q.reject(err != nil || n < 1 || n > largest && !q.local, "The parameter limit is a number from 1 to %d.", largest)
	return n
}

func (q *parameters) flag(name string) bool { return q.oneOf(name, "true", "false") == "true" }

// span returns the beginning and the end of a month, a day or a moment.
func (q *parameters) span(name string) (start, end time.Time) {
	text := q.values.Get(name)
	if text == "" {
		return start, end
	}
	start, end, err := books.ParseSpan(text)
	q.reject(err != nil, "The parameter %s: %s.", name, err)
	return start, end
}

// period returns the time from the beginning of from to the end of to; a zero time is open.
func (q *parameters) period() (from, until time.Time) {
	from, _ = q.span("from")
	_, until = q.span("to")
	q.reject(!until.IsZero() && !from.Before(until), "The parameter from is after the parameter to.")
	return from, until
}

// domain returns the parameter domain as brand.WholeOrPart does.
func (q *parameters) domain() (whole, part string) {
	whole, part = brand.WholeOrPart(q.text("domain"))
	q.reject(q.values.Has("domain") && whole+part == "", "The parameter domain is blank. Send a domain or a part of one.")
	return whole, part
}

func (q *parameters) moment(now time.Time) Moment {
	at, err := ParseMoment(q.values.Get("as_of"), now)
	q.reject(err != nil, "The parameter as_of: %s.", err)
	return at
}

// reportEnd returns the first moment after the month, the day or the moment at which a report of balances ends; zero
// without one, which is the present. The report is provisional unless that has passed.
func (q *parameters) reportEnd(now time.Time) (until time.Time, provisional bool) {
	at, err := ParseMoment(q.values.Get("at"), now)
	q.reject(err != nil, "The parameter at: %s.", err)
	_, until = q.span("at")
	return until, at.IsZero() || at.Provisional
}

// cursor is the place where a page of a listing begins: the last row of the page before, with the order of the listing.
type cursor[T any] struct {
	Sort string `json:"s"`
	Last *T     `json:"l"`
}

func encodeCursor[T any](sort string, last *T) (string, error) {
	text, err := json.Marshal(cursor[T]{sort, last})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// after returns the row after which the page begins; nil for the first page.
func after[T any](q *parameters) *T {
	text := q.values.Get("cursor")
	if text == "" {
		return nil
	}
	last, err := decodeCursor[T](text, q.values.Get("sort"))
	if err != nil && q.err == nil {
		q.err = err
	}
	return last
}

const notCursor = "The parameter cursor is not a next_cursor of an answer."

func decodeCursor[T any](text, sort string) (*T, error) {
	if len(text) > maxCursor {
		return nil, invalid(notCursor)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var c cursor[T]
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Last == nil {
		return nil, invalid(notCursor)
	}
	if c.Sort != sort {
		return nil, invalid("The cursor belongs to a listing in another order. Send the same sort as before.")
	}
	return c.Last, nil
}

// page returns the answer for a page. rows has one more row than the limit if there are more.
func page[T any](name string, q *parameters, rows []T, limit int, show func(*T) any) (map[string]any, error) {
	out := map[string]any{}
	var err error
	if len(rows) > limit {
		rows = rows[:limit]
		out["next_cursor"], err = encodeCursor(q.values.Get("sort"), &rows[limit-1])
	}
	shown := make([]any, len(rows))
	for i := range rows {
		shown[i] = show(&rows[i])
	}
	out[name] = shown
	return out, err
}

// asItIs shows a row of a listing that has the form of the API.
func asItIs[T any](row *T) any { return row }
