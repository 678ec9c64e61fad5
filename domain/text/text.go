// Package text has the rules for texts that people type and that sites publish: which characters they have, and what an
// event keeps.
package text

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrHidden means that a text has a character that is not shown. The error that CheckShown returns names the character.
var ErrHidden = errors.New("has a hidden character")

// ErrNotText means that a text is not UTF-8.
var ErrNotText = errors.New("is not UTF-8 text")

// IsHidden reports whether a character is not shown itself, so that one name can look like another, or contain words
// that only programs read (tag characters, U+E0000 to U+E007F). These are the general categories Cc, Cf (with U+00AD,
// U+200B and all that set a direction), Zl and Zp, and Other_Default_Ignorable_Code_Point (UAX #44). Joiners (U+200C,
// U+200D) are not hidden, because Persian, Indic scripts and emoji need them; signs before numbers
// (Prepended_Concatenation_Mark) are shown.
func IsHidden(r rune) bool {
	return unicode.IsControl(r) || r >= '\u00ad' && r != '\u200c' && r != '\u200d' &&
		unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// CheckShown returns an error that names the first hidden character of a text, worded to follow the name of a field.
// Errors: ErrHidden, ErrNotText.
func CheckShown(s string) error {
	if !utf8.ValidString(s) {
		return ErrNotText
	}
	if at := strings.IndexFunc(s, IsHidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(s[at:])
		return fmt.Errorf("%w, U+%04X", ErrHidden, r)
	}
	return nil
}

// Clean returns a text as it is shown: with single spaces for white space, without hidden characters and invalid UTF-8,
// and truncated to a number of runes.
func Clean(s string, limit int) string {
	var b strings.Builder
	space, count := true, 0
	for _, r := range s {
		if unicode.IsSpace(r) {
			r = ' '
		}
		if r == utf8.RuneError || IsHidden(r) || r == ' ' && space {
			continue
		}
		if count++; count > limit {
			break
		}
		space = r == ' '
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// HoldsEmail is the end of a sentence that begins with the name of a field and explains why its text is refused.
const HoldsEmail = "holds an e-mail address. Events are permanent and cannot be erased: name the person by an id"

// EmailError means that a field whose text would become part of an event contains an e-mail address.
type EmailError struct{ Field string }

func (e *EmailError) Error() string { return "the " + e.Field + " " + HoldsEmail }

// email matches the end of a local part (RFC 5322, also quoted, and with letters of all scripts, RFC 6531), an @ and
// the beginning of a domain with a dot (also an internationalized one) or of an address literal (RFC 5321). The last
// label of the domain must begin with two letters, which excludes versions and prices.
var email = regexp.MustCompile(`(?:[\pL\pM\pN_][-!#$%&'*+=?^_{|}~.` + "`" + `]*|"[^"]+")[@＠﹫]` +
	`(?:(?:[\pL\pN\p{So}][-_\pL\pM\pN\p{So}\x{200c}\x{200d}]*[.。．｡])+\pL[\pL\pM]|` +
	`\[(?:[0-9]+(?:\.[0-9]+){3}|(?i:IPv6:)[0-9A-Fa-f:.]+)\])`)

// CheckKept returns an *EmailError if the text of a field contains an e-mail address. It is for texts that operators
// write and events keep; texts of stored events, and those that the service writes, are not checked.
func CheckKept(field, s string) error {
	if email.MatchString(s) {
		return &EmailError{field}
	}
	return nil
}
