package adminapi

import (
	"fmt"
	"time"

	"letterhead/domain/books"
)

// Moment is a past moment; the time is zero if none is given.
type Moment struct {
	time.Time
	Provisional bool // it is now, in a month or a day that has not ended
}

// ParseMoment returns the last microsecond, the precision of events, of a month or a day; now if that has not ended.
func ParseMoment(text string, now time.Time) (Moment, error) {
	if text == "" {
		return Moment{}, nil
	}
	start, end, err := books.ParseSpan(text)
	switch {
	case err != nil:
		return Moment{}, err
	case start.After(now):
		return Moment{}, fmt.Errorf("%s is in the future", text)
	case end.After(now):
		return Moment{now.UTC().Truncate(time.Microsecond), true}, nil
	}
	return Moment{end.Add(-time.Microsecond), false}, nil
}

// Mark adds to an object for JSON that the moment is provisional.
func (m Moment) Mark(object map[string]any) map[string]any {
	if m.Provisional {
		object["provisional"] = true
	}
	return object
}

// markList adds the moment to the answer of a listing.
func (m Moment) markList(object map[string]any) map[string]any {
	if !m.IsZero() {
		object["as_of"] = m.Time
	}
	return m.Mark(object)
}
