package books

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxTurnover limits the sum of the absolute amounts that are moved in one commodity. No sum of them can overflow.
const maxTurnover = 1 << 62

// ErrSum means that the events move more money or credits than the sums of the books can hold.
var ErrSum = errors.New("the amounts are too large to be summed up")

// Turnover is the sum of the absolute amounts that events move, by commodity. Whoever sums up their amounts adds them
// to it too, and returns its error: earlier releases did not limit amounts. The zero value is ready to use.
type Turnover struct {
	sums map[string]uint64 // at most maxTurnover
	err  error
}

// Add adds an amount that an event moves.
func (t *Turnover) Add(commodity string, amount int64, accountID string, revision uint64) {
	if amount == 0 || t.err != nil {
		return
	}
	moved := uint64(amount)
	if amount < 0 {
		moved = -moved
	}
	if moved > maxTurnover-t.sums[commodity] {
		t.err = fmt.Errorf("%s, at revision %d of account %s: %w", commodity, revision, accountID, ErrSum)
		return
	}
	if t.sums == nil {
		t.sums = map[string]uint64{}
	}
	t.sums[commodity] += moved
}

// Err returns an error that wraps ErrSum and names the event from which on sums may be wrong, or nil.
func (t *Turnover) Err() error { return t.err }

// SafeCell keeps spreadsheets from reading a text, or a part of it after a separator, as a formula
// (https://owasp.org/www-community/attacks/CSV_Injection): it puts an apostrophe before what could be one.
func SafeCell(text string) string {
	safe := 0 // bytes of text that are in b
	var b []byte
	for i := range len(text) {
		if beginsFormula(text, i) {
			b = append(append(b, text[safe:i]...), '\'')
			safe = i
		}
	}
	if b == nil {
		return text
	}
	return string(append(b, text[safe:]...))
}

// beginsFormula reports whether a spreadsheet could read what begins at i as a formula.
func beginsFormula(text string, i int) bool {
	switch text[i] {
	case '=', '+', '-', '@':
		return i == 0 || strings.IndexByte(";,\t\r\n", text[i-1]) >= 0
	case '\t', '\r', '\n':
		return i == 0
	}
	return false
}

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
