package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// CloseAccount asks to end an account.
type CloseAccount struct {
	Request   Request
	AccountID string
	Reason    string
}

// Close ends an account and its open holds, for ever. Errors: account.ErrInvalid, ErrInvalidRequest, and
// those of Desk.
func (d *Desk) Close(ctx context.Context, in CloseAccount) (Done, error) {
	return d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, _ time.Time) (account.Outcome, error) {
		return a.Close(in.Reason)
	})
}
