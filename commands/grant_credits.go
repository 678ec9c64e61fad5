package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// GrantCredits asks to add credits.
type GrantCredits struct {
	Request   Request
	AccountID string
	GrantID   string // the payment id, or the request id, when empty
	Kind      string // account.KindTopup …
	Credits   int64
	PaymentID string              // optional; one payment grants once, for ever
	Money     *eventschemas.Money // where money was paid
	Reason    string
}

// GrantCredits adds credits. A payment that was granted before is a repeat.
// Errors: *account.PaymentMismatchError, account.ErrClosed, account.ErrCreditLimit, account.ErrInvalid,
// ErrInvalidRequest, and those of Desk.
func (d *Desk) GrantCredits(ctx context.Context, in GrantCredits) (Done, error) {
	if in.GrantID == "" && in.PaymentID == "" {
		in.GrantID = in.Request.ID
	}
	return d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, _ time.Time) (account.Outcome, error) {
		return a.Grant(account.Grant{
			GrantID: in.GrantID, Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID, Money: in.Money, Reason: in.Reason,
		})
	})
}
