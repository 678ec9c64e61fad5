package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// RecordFee is the command to record what the payment processor took from a payment.
type RecordFee struct {
	Request   Request
	AccountID string
	FeeID     string // the request id when empty
	PaymentID string
	Money     eventschemas.Money // below zero if the processor returned it
}

// RecordFee records a fee of the payment processor. The same fee is a repeat. Errors: account.ErrUnknownPayment,
// *account.PaymentMismatchError, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) RecordFee(ctx context.Context, in RecordFee) (Done, error) {
	if in.FeeID == "" {
		in.FeeID = in.Request.ID
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.RecordFee(account.Fee{FeeID: in.FeeID, PaymentID: in.PaymentID, Money: in.Money})
	})
}
