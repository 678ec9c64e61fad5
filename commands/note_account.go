package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/account"
)

// NoteAccount is the command to add a note of an operator to an account.
type NoteAccount struct {
	Request   Request
	AccountID string
	Text      string // at most account.MaxNoteBytes; kept forever
}

// Note adds a note to an account. A note that the same request has added is a repeat. Errors: account.ErrInvalid,
// account.ErrNotFound, ErrInvalidRequest, eventschemas.ErrNotYet, and the errors of AccountWriter.
func (d *AccountWriter) Note(ctx context.Context, in NoteAccount) (Done, error) {
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Note(in.Request.ID, in.Text)
	})
	var invalid *account.InvalidError
	if errors.As(err, &invalid) && invalid.Field == "text" && invalid.Unwrap() == nil {
		err = &FieldError{"text", fmt.Sprintf("takes 1 to %d bytes of text. Events keep it forever: name no person",
			account.MaxNoteBytes)}
	}
	return done, err
}
