package account

import (
	"strings"
	"unicode/utf8"

	"letterhead/eventschemas"
)

// MaxNoteBytes limits the text of a note.
const MaxNoteBytes = 500

// Note records a note of an operator, even about a closed account. A note that was recorded under the id is a repeat.
// Errors: ErrInvalid, ErrNotFound.
func (a *Account) Note(id, text string) (Outcome, error) {
	switch {
	case id == "":
		return Outcome{}, &InvalidError{Field: "note_id", Reason: "is missing"}
	case strings.TrimSpace(text) == "":
		return Outcome{}, &InvalidError{Field: "text", Reason: "is missing"}
	case len(text) > MaxNoteBytes:
		return Outcome{}, &InvalidError{Field: "text", Reason: "is too long"}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return Outcome{}, &InvalidError{Field: "text", Reason: "is not text"}
	}
	if err := a.exists(); err != nil {
		return Outcome{}, err
	}
	if _, ok := a.notes[id]; ok {
		return repeated(), nil
	}
	if err := kept("text", text); err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.AccountNoted{NoteID: id, Text: text}), nil
}
