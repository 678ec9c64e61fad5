// Package text has the rules for texts that people type: which characters a name has, and what an event keeps.
package text

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// ErrHidden means that a text has a character that is not shown. The error that CheckShown returns names the character.
var ErrHidden = errors.New("has a control or bidirectional character")

// ErrNotText means that a text is not UTF-8.
var ErrNotText = errors.New("is not UTF-8 text")

// IsHidden reports whether a character changes how the text around it is shown without being shown itself, so that one name
// can look like another: control characters (general category Cc), separators of lines and paragraphs (Zl, Zp), and the
// characters with the property Bidi_Control (UAX #9; UTS #39 excludes all of these from identifiers). Joiners (U+200C, U+200D)
// are not hidden, because Persian, Indic scripts and emoji need them.
func IsHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// CheckShown returns an error that names the first hidden character of a text. It reads well after the name of a field.
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
