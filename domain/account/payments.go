package account

import (
	"slices"

	"letterhead/eventschemas"
)

// Grant is the command to add credits.
type Grant struct {
	GrantID   string // the payment id when empty
	Kind      string // free, subscription, topup, adjustment
	Credits   int64
	PaymentID string              // one payment grants once, forever
	Money     *eventschemas.Money // set if money was paid
	Reason    string
}

var grantKinds = []string{KindFree, KindSubscription, KindTopup, KindAdjustment}

// Grant adds credits, even to a suspended account, whose payments continue. A payment id that was
// granted before, or a grant id without a payment, is a repeat. Errors: ErrInvalid, ErrNotFound,
// ErrClosed, ErrPaymentMismatch, ErrCreditLimit.
func (a *Account) Grant(in Grant) (Outcome, error) {
	if in.GrantID == "" {
		in.GrantID = in.PaymentID
	}
	err := firstError(
		text("grant id", in.GrantID, true), text("payment id", in.PaymentID, false), text("reason", in.Reason, false),
		amount(in.Credits), money(in.Money),
	)
	if err != nil {
		return Outcome{}, err
	}
	if !slices.Contains(grantKinds, in.Kind) {
		return Outcome{}, &InvalidError{Field: "grant kind", Reason: "must be free, subscription, topup or adjustment"}
	}
	if err := a.notClosed(); err != nil {
		return Outcome{}, err
	}
	if recorded, ok := a.granted(in); ok {
		if recorded != in.Credits {
			return Outcome{}, &PaymentMismatchError{ID: in.GrantID, Recorded: recorded, Asked: in.Credits}
		}
		return repeated(), nil
	}
	if in.Credits > MaxCredits-a.core.balance {
		return Outcome{}, ErrCreditLimit
	}
	return decided(eventschemas.CreditsGranted{
		GrantID: in.GrantID, Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID, Money: in.Money, Reason: in.Reason,
	}), nil
}

// granted returns the credits granted before under the same payment or grant id.
func (a *Account) granted(in Grant) (int64, bool) {
	if in.PaymentID != "" {
		p, ok := a.payments[in.PaymentID]
		return p.granted, ok
	}
	credits, ok := a.grants[in.GrantID]
	return credits, ok
}

// Refund is the command to remove the credits of a payment.
type Refund struct {
	RefundID  string
	PaymentID string
	Credits   int64 // 0 for all that is left of the payment
	Money     *eventschemas.Money
}

// RefundPayment removes the credits of a refunded payment, even if they are spent. It is the only
// decision that may take the balance below zero, and it never removes more than the payment granted.
// The same refund id is a repeat, and so is a refund of the remainder when nothing is left. Errors:
// ErrInvalid, ErrNotFound, ErrUnknownPayment, ErrPaymentMismatch, ErrRefundTooLarge, ErrCreditLimit.
func (a *Account) RefundPayment(in Refund) (Outcome, error) {
	err := firstError(text("refund id", in.RefundID, true), text("payment id", in.PaymentID, true), money(in.Money), a.exists())
	if err != nil {
		return Outcome{}, err
	}
	if in.Credits != 0 {
		if err := amount(in.Credits); err != nil {
			return Outcome{}, err
		}
	}
	if known, ok := a.refunds[in.RefundID]; ok {
		if known.paymentID != in.PaymentID || in.Credits != 0 && known.credits != in.Credits {
			return Outcome{}, &PaymentMismatchError{ID: in.RefundID, Recorded: known.credits, Asked: in.Credits}
		}
		return repeated(), nil
	}
	p, ok := a.payments[in.PaymentID]
	if !ok {
		return Outcome{}, ErrUnknownPayment
	}
	left := p.granted - p.refunded
	if in.Credits == 0 {
		if left == 0 {
			return repeated(), nil
		}
		in.Credits = left
	}
	if in.Credits > left {
		return Outcome{}, ErrRefundTooLarge
	}
	if in.Credits > MaxCredits+a.core.balance {
		return Outcome{}, ErrCreditLimit
	}
	return decided(eventschemas.PaymentRefunded{
		RefundID: in.RefundID, PaymentID: in.PaymentID, Credits: in.Credits, Money: in.Money,
	}), nil
}

// money validates a paid amount: nil is valid, and a currency is three upper-case letters.
func money(m *eventschemas.Money) error {
	if m == nil {
		return nil
	}
	if m.Minor < 0 {
		return &InvalidError{Field: "money", Reason: "must not be negative"}
	}
	if len(m.Currency) != 3 || !isUpper(m.Currency) {
		return &InvalidError{Field: "currency", Reason: "must be an ISO 4217 code such as EUR"}
	}
	return nil
}

func isUpper(s string) bool {
	for _, c := range []byte(s) {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
