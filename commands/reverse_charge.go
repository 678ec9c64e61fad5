package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// ReverseCharge is the command to reverse a charge.
type ReverseCharge struct {
	Request   Request
	AccountID string
	ChargeID  string
	Revision  uint64 // of the charge on the account's stream, from its Receipt or the ledger
	Reason    string // account.ReasonClientGone, account.ReasonOperator
}

// ReverseCharge reverses a charge, once, within account.ReversalWindow. Reversing it again is a
// repeat. It is for operators; for a client that has left use HandBack.
//
// Errors: ErrUnknownCharge, account.ErrTooLate, account.ErrInvalid, account.ErrCreditLimit,
// ErrInvalidRequest, and those of Desk.
func (d *Desk) ReverseCharge(ctx context.Context, in ReverseCharge) error {
	if err := in.Request.Validate(); err != nil {
		return err
	}
	if err := checkAccountID(in.AccountID); err != nil {
		return err
	}
	charge, at, err := d.chargeAt(ctx, in.AccountID, in.ChargeID, in.Revision)
	if err != nil {
		return err
	}
	_, err = d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, now time.Time) (account.Outcome, error) {
		return a.Reverse(account.Reverse{
			ChargeID: charge.ChargeID, Credits: charge.Credits, ChargedAt: at, RequestID: charge.RequestID, Reason: in.Reason,
		}, now)
	})
	return err
}
