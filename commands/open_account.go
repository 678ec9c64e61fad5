package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
)

// OpenAccount is the command to open an account.
type OpenAccount struct {
	Request   Request
	AccountID string // a new UUID, lower case
	Holder    string // opaque id of the holder's personal data
	Plan      plan.ID
}

// OpenAccount opens an account and grants plan.FreeCredits, in one append. Opening it again for the same holder is a
// repeat. Errors: account.ErrExists, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) OpenAccount(ctx context.Context, in OpenAccount) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Open(account.Open{Holder: in.Holder, Plan: in.Plan, Free: plan.FreeCredits})
	})
}
