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
	Credits   int64               // 0 for all that remain of the payment
	Money     *eventschemas.Money // nil for the share of the credits in the remaining money
	ByMoney   bool                // remove the money's share of the remaining credits, in place of Credits
	AtMost    bool                // take what is left if it is less than Credits and Money
}

// Refunded is the result of RefundPayment.
type Refunded struct {
	Done
	Refund *eventschemas.PaymentRefunded // nil if nothing was left to refund
}

// RefundPayment removes credits, even below zero, but never more than the payment granted, and records the money that
// is returned, never more than was paid. The same refund, or a refund of the rest when nothing is left, is a repeat.
// Money that is left without credits is returned with a credit of the largest refund, which is recorded again with one
// less. Errors: account.ErrUnknownPayment, account.ErrRefundTooLarge, *account.PaymentMismatchError,
// account.ErrCreditLimit, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) RefundPayment(ctx context.Context, in RefundPayment) (Refunded, error) {
	if in.RefundID == "" {
		in.RefundID = in.Request.ID
	}
	var made *eventschemas.PaymentRefunded // by the last decision, if the append was tried again
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		out, err := s.RefundPayment(account.Refund{RefundID: in.RefundID, PaymentID: in.PaymentID, Credits: in.Credits,
			Money: in.Money, ByMoney: in.ByMoney, AtMost: in.AtMost})
		made = nil
		if recorded, ok := s.RefundOf(in.RefundID); ok {
			made = &recorded
		}
		for _, ev := range out.Events {
			if refund, ok := ev.(eventschemas.PaymentRefunded); ok {
				made = &refund
			}
		}
		return out, err
	})
	if err != nil {
		return Refunded{}, err
	}
	return Refunded{Done: done, Refund: made}, nil
}
