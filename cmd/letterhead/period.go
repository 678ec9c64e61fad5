package main

import (
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
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
		err = misuse("--from %s is after %s %s", from, option, to)
	}
	return start, end, err
}

func timeSpan(option, text string) (start, end time.Time, err error) {
	if text == "" {
		return start, end, nil
	}
	start, end, err = books.ParseSpan(text)
	if err != nil {
		err = misuse("%s %w", option, err)
	}
	return start, end, err
}

// monthOf returns the beginning of the month that an argument or an option names.
func monthOf(name, text string) (time.Time, error) {
	month, err := time.Parse(books.MonthLayout, text)
	if err != nil {
		return month, misuse("%s is like 2026-11, not %q", name, text)
	}
	return month, nil
}

// parsePast is adminapi.ParseMoment for the option --as-of.
func parsePast(text string, now time.Time) (adminapi.Moment, error) {
	at, err := adminapi.ParseMoment(text, now)
	if err != nil {
		err = misuse("--as-of %w", err)
	}
	return at, err
}

// formatMoney formats minor units as a decimal number with its currency, and no money as an empty string.
func formatMoney(minor int64, currency string) string {
	if currency == "" {
		return ""
	}
	return string(books.AppendAmount(nil, minor, currency)) + " " + currency
}

// moneyFlags adds the options of an amount of money.
func moneyFlags(c *cobra.Command) {
	c.Flags().Int64("money", 0, "amount of money in minor units (cents)")
	c.Flags().String("currency", "", "ISO 4217 code, such as EUR")
}
