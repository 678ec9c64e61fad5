package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// CloseAccount is the command to close an account.
type CloseAccount struct {
	Request   Request
	AccountID string
	Reason    string
}

// Close permanently closes an account and ends its open holds. Errors: account.ErrInvalid,
// ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) Close(ctx context.Context, in CloseAccount) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Close(in.Reason)
	})
}
