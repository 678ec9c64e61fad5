package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
)

// SettlePayment is the command to make the refunds of a payment match the claims of a payment processor.
type SettlePayment struct {
	Request   Request
	AccountID string
	PaymentID string
	Claims    []account.Claim
	Subject   string // as in account.Settle
}

// SettlePayment refunds what the claims take from a payment, even below a balance of zero, and returns what void claims
// took. The same claims again are a repeat. Errors: as account.SettlePayment, ErrInvalidRequest, and the errors of
// AccountWriter.
func (d *AccountWriter) SettlePayment(ctx context.Context, in SettlePayment) (Done, error) {
	var decided account.Outcome
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		out, err := s.SettlePayment(account.Settle{PaymentID: in.PaymentID, Claims: in.Claims, Subject: in.Subject})
		decided = out
		return out, err
	})
	if err == nil { // otherwise the decision may still run
		done.TookNothing, done.Short = decided.TookNothing, decided.Short
	}
	return done, err
}
