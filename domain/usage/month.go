package usage

import (
	"errors"
	"fmt"
	"time"
)

// ErrInvalidMonth means that a string is not a month of the form YYYY-MM.
var ErrInvalidMonth = errors.New("not a month of the form YYYY-MM")

const monthLayout = "2006-01"

// Month is a calendar month, UTC. The zero Month is not valid.
type Month struct {
	year  int
	month time.Month
}

func MonthOf(t time.Time) Month {
	t = t.UTC()
	return Month{t.Year(), t.Month()}
}

// ParseMonth parses YYYY-MM, the form used in events and answers. Errors: ErrInvalidMonth.
func ParseMonth(s string) (Month, error) {
	t, err := time.Parse(monthLayout, s)
	if err != nil {
		return Month{}, fmt.Errorf("%q: %w", s, ErrInvalidMonth)
	}
	return MonthOf(t), nil
}

// String returns YYYY-MM.
func (m Month) String() string { return m.Start().Format(monthLayout) }

// Start returns the first moment of the month.
func (m Month) Start() time.Time { return time.Date(m.year, m.month, 1, 0, 0, 0, 0, time.UTC) }

// End returns the first moment after the month, when counts restart.
func (m Month) End() time.Time { return m.Next().Start() }

// Next returns the following month.
func (m Month) Next() Month { return MonthOf(m.Start().AddDate(0, 1, 0)) }
