package books

import (
	"errors"
	"fmt"
	"time"
)

// SpanForms describes the forms of a time that ParseSpan reads.
const SpanForms = "2026-11, 2026-11-30 or 2026-11-30T15:04:05Z (UTC)"

// ErrBefore1970 means that a time is before 1970, and so before every event.
var ErrBefore1970 = errors.New("is before 1970")

// ParseSpan returns the beginning of a month, a day or a moment, and the first time after it. Events are stored in
// microseconds, so a moment ends after its microsecond. Errors: a text that has none of the SpanForms;
// ErrBefore1970, along with the times.
func ParseSpan(text string) (start, end time.Time, err error) {
	if start, err = time.Parse(MonthLayout, text); err == nil {
		end = start.AddDate(0, 1, 0)
	} else if start, err = time.Parse(time.DateOnly, text); err == nil {
		end = start.AddDate(0, 0, 1)
	} else if start, err = time.Parse(time.RFC3339, text); err == nil {
		start = start.UTC()
		end = start.Truncate(time.Microsecond).Add(time.Microsecond)
	} else {
		return time.Time{}, time.Time{}, fmt.Errorf("%q is not like %s", text, SpanForms)
	}
	if start.Year() < 1970 {
		return start, end, fmt.Errorf("%q %w", text, ErrBefore1970)
	}
	return start, end, nil
}
