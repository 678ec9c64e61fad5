package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// RevokeKey is the command to revoke a key.
type RevokeKey struct {
	Request   Request
	AccountID string
	KeyID     string
}

// RevokeKey permanently revokes a key. It takes effect where keys are looked up: wait there for the
// returned position. Errors: account.ErrUnknownKey, account.ErrInvalid, ErrInvalidRequest, and those
// of Desk.
func (d *Desk) RevokeKey(ctx context.Context, in RevokeKey) (Done, error) {
	return d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, _ time.Time) (account.Outcome, error) {
		return a.RevokeKey(in.KeyID)
	})
}
