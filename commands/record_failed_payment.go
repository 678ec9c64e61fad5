package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/notices"
	"letterhead/eventschemas"
)

// RecordFailedPayment is the command to record that a payment of an account was attempted and failed.
type RecordFailedPayment struct {
	Request   Request
	AccountID string
	Failed    eventschemas.PaymentFailed
}

// RecordFailedPayment records that a payment failed, which raises a notice, once for each attempt. If the notice would
// be of no use, it records nothing and returns why: the account is closed, it was granted the payment, or a later
// attempt was recorded. Attempts that are not counted are told apart by their times.
//
// Errors: account.ErrNotFound, eventschemas.ErrNotYet, ErrInvalidRequest, ErrBusy, and the errors of AccountWriter and
// the log.
func (n *Notices) RecordFailedPayment(ctx context.Context, in RecordFailedPayment) (useless string, err error) {
	_, err = n.accounts.decide(ctx, in.Request,
		in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
			switch {
			case s.Status() == "":
				return account.Outcome{}, account.ErrNotFound
			case s.Status() == account.Closed:
				useless = billing.AccountClosed
			case s.HasPayment(in.Failed.PaymentID):
				useless = billing.GrantedBefore
			}
			return account.Outcome{Repeated: true}, nil
		})
	if err != nil || useless != "" {
		return useless, err
	}
	_, err = n.decide(ctx, in.Request, in.AccountID, func() (func(eventschemas.Event), func() eventschemas.Event) {
		same, later := false, false
		fold := func(ev eventschemas.Event) {
			if known, ok := ev.(eventschemas.PaymentFailed); ok && known.PaymentID == in.Failed.PaymentID {
				order := notices.CompareAttempts(known, in.Failed)
				same, later = same || order == 0, later || order > 0
			}
		}
		return fold, func() eventschemas.Event {
			switch useless = ""; {
			case same:
				return nil
			case later:
				useless = billing.LaterAttempt
				return nil
			}
			return in.Failed
		}
	})
	return useless, err
}
