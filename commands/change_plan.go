package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
)

// ChangePlan is the command to move an account to another plan.
type ChangePlan struct {
	Request   Request
	AccountID string
	Plan      plan.ID
}

// ChangePlan moves an account to another plan immediately; its credits are kept. Errors:
// account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and those of Desk.
func (d *Desk) ChangePlan(ctx context.Context, in ChangePlan) (Done, error) {
	return d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, _ time.Time) (account.Outcome, error) {
		return a.ChangePlan(in.Plan)
	})
}
