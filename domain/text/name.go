// Package text has the rules for texts that people type: which characters names may have, and what events may keep.
package text

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// ErrHidden means that a text has a hidden character, which the error of CheckShown names.
var ErrHidden = errors.New("has a control or bidirectional character")

// ErrNotText means that a text is not UTF-8.
var ErrNotText = errors.New("is not UTF-8 text")

// IsHidden reports whether a character is not shown itself but changes how the text around it is shown, so that one name
// can look like another: control characters (general category Cc), line and paragraph separators (Zl, Zp), and characters
// with the property Bidi_Control (UAX #9; UTS #39 excludes all of these from identifiers). Joiners (U+200C, U+200D) do not
// count as hidden, because Persian, Indic scripts and emoji need them.
func IsHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// CheckShown returns an error that names the first hidden character of a text, worded to follow the name of a field.
// Errors: ErrHidden, ErrNotText.
func CheckShown(s string) error {
	if !utf8.ValidString(s) {
		return ErrNotText
	}
	for _, r := range s {
		if IsHidden(r) {
			return fmt.Errorf("%w, U+%04X", ErrHidden, r)
		}
	}
	return nil
}
