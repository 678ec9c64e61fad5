package main

import (
	"fmt"
	"time"
)

// timeForms describes the forms that every option with a time takes.
const timeForms = "2026-11, 2026-11-30 or 2026-11-30T15:04:05Z (UTC)"

// startOf returns the beginning of a month or a day, or the given moment; zero for an empty text.
func startOf(option, text string) (time.Time, error) {
	start, _, err := timeSpan(option, text)
	return start, err
}

// endOf returns the first moment after a month, a day or a moment: as an end, all of them are inclusive. It is zero
// for an empty text.
func endOf(option, text string) (time.Time, error) {
	_, end, err := timeSpan(option, text)
	return end, err
}

func timeSpan(option, text string) (start, end time.Time, err error) {
	if text == "" {
		return start, end, nil
	}
	if t, err := time.Parse("2006-01", text); err == nil {
		return t, t.AddDate(0, 1, 0), nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, t.AddDate(0, 0, 1), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return start, end, usageError{fmt.Errorf("%s %q is not like %s", option, text, timeForms)}
	}
	return t.UTC(), t.UTC().Truncate(time.Microsecond).Add(time.Microsecond), nil // events are stored in microseconds
}
