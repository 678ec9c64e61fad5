package books

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"letterhead/eventschemas"
)

// MonthLayout is the form of a month in events, options and reports.
const MonthLayout = "2006-01"

// Errors of Periods.MayEnd.
var (
	// ErrRunning: the month has not ended.
	ErrRunning = errors.New("has not ended")
	// ErrOrder: an earlier month must be closed first.
	ErrOrder = errors.New("must be closed first")
	// ErrTooEarly: the month is before the first event.
	ErrTooEarly = errors.New("is before the first event of the books")
)

// MonthOf returns the beginning of the month of t (UTC).
func MonthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// IsWhole reports whether a time is the beginning of a month, or zero.
func IsWhole(t time.Time) bool { return t.IsZero() || t.Equal(MonthOf(t)) }

// Period is a month that has ended in the books.
type Period struct {
	Month    time.Time // its beginning
	Position uint64    // of PeriodEnded in the log
	ClosedAt time.Time // zero if the month is not closed
	Closing  eventschemas.PeriodClosed
}

// Closed reports whether the books of the month are recorded.
func (p *Period) Closed() bool { return !p.ClosedAt.IsZero() }

// Periods are the months that have ended in the books. They have no gaps, and all but the last are closed.
type Periods struct{ all []Period }

// Apply folds an event of the books. Errors: an event that does not follow the ones before.
func (p *Periods) Apply(ev eventschemas.Event, position uint64, at time.Time) error {
	switch ev := ev.(type) {
	case eventschemas.PeriodEnded:
		month, err := time.Parse(MonthLayout, ev.Month)
		if err != nil {
			return err
		}
		if n := len(p.all); n > 0 && (!p.all[n-1].Closed() || !p.all[n-1].Month.AddDate(0, 1, 0).Equal(month)) {
			return fmt.Errorf("%s ends, but the month before is not closed", ev.Month)
		}
		p.all = append(p.all, Period{Month: month, Position: position})
	case eventschemas.PeriodClosed:
		if n := len(p.all); n == 0 || p.all[n-1].Month.Format(MonthLayout) != ev.Month || p.all[n-1].Closed() {
			return fmt.Errorf("%s is closed, but it has not ended or was closed before", ev.Month)
		}
		last := &p.all[len(p.all)-1]
		last.Closing, last.ClosedAt = ev, at
	}
	return nil
}

// All returns the months in order. The slice must not be changed.
func (p *Periods) All() []Period { return p.all }

// Find returns a month that has ended, or nil.
func (p *Periods) Find(month time.Time) *Period {
	for i := range p.all {
		if p.all[i].Month.Equal(month) {
			return &p.all[i]
		}
	}
	return nil
}

// MayEnd returns nil if a month can end at now; first is the month of the first event. The month must not have ended
// already. Errors: ErrRunning, ErrOrder and ErrTooEarly, with the month that they are about.
func (p *Periods) MayEnd(month, first, now time.Time) error {
	next := first
	if n := len(p.all); n > 0 {
		if next = p.all[n-1].Month; p.all[n-1].Closed() {
			next = next.AddDate(0, 1, 0)
		}
	}
	switch {
	case month.AddDate(0, 1, 0).After(now):
		return fmt.Errorf("%s %w", month.Format(MonthLayout), ErrRunning)
	case month.Before(next):
		return fmt.Errorf("%s %w", month.Format(MonthLayout), ErrTooEarly)
	case month.After(next):
		return fmt.Errorf("%s %w", next.Format(MonthLayout), ErrOrder)
	}
	return nil
}

// Booked returns the time to which an event belongs in the books: the time at which it occurred, or, if its month had
// ended before it was appended, the beginning of the next month that had not. In a stream these times never decrease.
func (p *Periods) Booked(occurred time.Time, position uint64) time.Time {
	for _, v := range slices.Backward(p.all) {
		if v.Position < position {
			if open := v.Month.AddDate(0, 1, 0); occurred.Before(open) {
				return open
			}
			break
		}
	}
	return occurred
}
