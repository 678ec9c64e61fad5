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

const (
	// BurnDays is the number of days over which a burn rate is measured.
	BurnDays = 30
	// maxForecastDays limits how far ahead RunsOut looks.
	maxForecastDays = 3650

	day = 24 * time.Hour
)

// Burn is how fast an account uses its credits.
type Burn struct {
	Spent int64   // credits charged in the last Days, less those that were returned
	Days  float64 // from 1 to BurnDays: fewer if the account is younger
}

// BurnSince returns when the time begins over which a burn rate is measured.
func BurnSince(now time.Time) time.Time { return now.Add(-BurnDays * day) }

// BurnOf returns the burn rate of an account that has spent so many credits since BurnSince.
func BurnOf(spent int64, opened, now time.Time) Burn {
	return Burn{Spent: spent, Days: min(max(now.Sub(opened).Hours()/24, 1), BurnDays)}
}

// PerDay returns the credits that are used in a day; never below zero, although more may have been returned than
// charged.
func (b Burn) PerDay() float64 { return float64(max(b.Spent, 0)) / b.Days }

// RunsOut returns when credits are used up at this rate, and false if that is not within ten years.
func (b Burn) RunsOut(credits int64, now time.Time) (time.Time, bool) {
	days := float64(max(credits, 0)) / b.PerDay() // infinite or not a number if nothing is used
	if !(days <= maxForecastDays) {
		return time.Time{}, false
	}
	return now.Add(time.Duration(days * float64(day))), true
}
