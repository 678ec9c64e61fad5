package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// SuspendAccount is the command to stop an account's spending.
type SuspendAccount struct {
	Request   Request
	AccountID string
	Reason    string
}

// Suspend blocks all new spending of an account; holds whose work was accepted before may still be
// captured. Errors: account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) Suspend(ctx context.Context, in SuspendAccount) (Done, error) {
	if err := checkReason(in.Reason); err != nil {
		return Done{}, err
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Suspend(in.Reason)
	})
}

// ReinstateAccount is the command to end a suspension.
type ReinstateAccount struct {
	Request   Request
	AccountID string
}

// Reinstate ends a suspension. Errors: account.ErrClosed, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) Reinstate(ctx context.Context, in ReinstateAccount) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Reinstate()
	})
}
