package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// RefundPayment is the command to remove the credits of a refunded payment.
type RefundPayment struct {
	Request   Request
	AccountID string
	RefundID  string // the request id when empty
	PaymentID string
	Credits   int64 // 0 for all that remain of the payment
	Money     *eventschemas.Money
}

// RefundPayment removes credits, even below zero, but never more than the payment granted. The same
// refund, or a full refund when nothing is left, is a repeat. Errors: account.ErrUnknownPayment,
// account.ErrRefundTooLarge, *account.PaymentMismatchError, account.ErrCreditLimit,
// account.ErrInvalid, ErrInvalidRequest, and those of AccountWriter.
func (d *AccountWriter) RefundPayment(ctx context.Context, in RefundPayment) (Done, error) {
	if in.RefundID == "" {
		in.RefundID = in.Request.ID
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.RefundPayment(account.Refund{RefundID: in.RefundID, PaymentID: in.PaymentID, Credits: in.Credits, Money: in.Money})
	})
}
