package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// RevokeKey asks to end a key.
type RevokeKey struct {
	Request   Request
	AccountID string
	KeyID     string
}

// RevokeKey ends a key, for ever. It is enforced where keys are looked up: wait for the returned position
// there. Errors: account.ErrUnknownKey, account.ErrInvalid, ErrInvalidRequest, and those of Desk.
func (d *Desk) RevokeKey(ctx context.Context, in RevokeKey) (Done, error) {
	return d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, _ time.Time) (account.Outcome, error) {
		return a.RevokeKey(in.KeyID)
	})
}
