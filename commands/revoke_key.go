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

// RevokeKey permanently revokes a key. It takes effect where keys are looked up: wait there for the returned position.
// Errors: account.ErrUnknownKey, account.ErrInvalid, ErrInvalidRequest, and those of AccountWriter.
func (d *AccountWriter) RevokeKey(ctx context.Context, in RevokeKey) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.RevokeKey(in.KeyID)
	})
}
