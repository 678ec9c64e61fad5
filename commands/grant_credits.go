package commands

import (
	"context"
	"fmt"
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// OperatorGrants are the kinds of grants that operators make. Free credits come with an account.
var OperatorGrants = []string{account.KindTopup, account.KindSubscription, account.KindAdjustment}

// GrantCredits is the command to add credits.
type GrantCredits struct {
	Request   Request
	AccountID string
	GrantID   string // if empty, the payment id or the request id
	Kind      string // account.KindTopup …
	Credits   int64
	PaymentID string              // optional; one payment grants only once
	Money     *eventschemas.Money // if money was paid
	Tax       int64               // the part of the money that is tax, in minor units
	Reason    string
}

// GrantCredits adds credits. A payment that was already granted is a repeat. Errors:
// *account.PaymentMismatchError, account.ErrClosed, account.ErrCreditLimit, account.ErrInvalid,
// ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) GrantCredits(ctx context.Context, in GrantCredits) (Done, error) {
	if in.GrantID == "" && in.PaymentID == "" {
		in.GrantID = in.Request.ID
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Grant(account.Grant{
			GrantID: in.GrantID, Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID, Money: in.Money,
			Tax: in.Tax, Reason: in.Reason,
		})
	})
}

// CheckOperator returns a *FieldError unless an operator may make the grant. Operators must name the payment of a grant
// that is not an adjustment, so that repeating it grants once, and the reason of one without a payment.
func (in GrantCredits) CheckOperator() error {
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	switch {
	case in.Credits <= 0:
		return &FieldError{"credits", "is a positive number"}
	case !slices.Contains(OperatorGrants, in.Kind):
		return &FieldError{"kind", fmt.Sprintf("is topup, subscription or adjustment, not %q", in.Kind)}
	case in.Kind != account.KindAdjustment && in.PaymentID == "":
		return &FieldError{"payment_id", "is needed for a " + in.Kind + ", so that repeating the request grants once"}
	}
	if in.PaymentID == "" && in.Money == nil {
		return CheckGiven(in.Reason)
	}
	return nil
}
