package main

import (
	"fmt"
	"time"

	"letterhead/domain/books"
)

// timeForms describes the forms that every option with a time takes.
const timeForms = books.SpanForms

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

// rangeOf returns the range from --from to the value of another option; a zero time is open.
func rangeOf(from, option, to string) (start, end time.Time, err error) {
	if start, err = startOf("--from", from); err != nil {
		return start, end, err
	}
	if end, err = endOf(option, to); err == nil && !end.IsZero() && !start.Before(end) {
		err = usageError{fmt.Errorf("--from %s is after %s %s", from, option, to)}
	}
	return start, end, err
}

func timeSpan(option, text string) (start, end time.Time, err error) {
	if text == "" {
		return start, end, nil
	}
	start, end, err = books.ParseSpan(text)
	if err != nil {
		err = usageError{fmt.Errorf("%s %w", option, err)}
	}
	return start, end, err
}

// monthOf returns the beginning of the month that an argument or an option names.
func monthOf(name, text string) (time.Time, error) {
	month, err := time.Parse(books.MonthLayout, text)
	if err != nil {
		return month, usageError{fmt.Errorf("%s is like 2026-11, not %q", name, text)}
	}
	return month, nil
}
