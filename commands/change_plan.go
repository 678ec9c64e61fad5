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
// account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) ChangePlan(ctx context.Context, in ChangePlan) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.ChangePlan(in.Plan)
	})
}
