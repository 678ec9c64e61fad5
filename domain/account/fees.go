package account

import "letterhead/eventschemas"

// Fee is the command to record what the payment processor took from a payment, or from its refund or dispute.
type Fee struct {
	FeeID     string
	PaymentID string
	Money     eventschemas.Money // below zero if the processor returned it
}

// RecordFee records a fee, even of a closed account, because disputes follow months later. The currency is that of the
// balance at the processor, which may not be that of the payment. The same fee id is a repeat. Errors: ErrInvalid,
// ErrNotFound, ErrUnknownPayment, ErrPaymentMismatch.
func (a *Account) RecordFee(in Fee) (Outcome, error) {
	amount := in.Money
	amount.Minor = max(amount.Minor, -amount.Minor)
	err := firstError(text("fee id", in.FeeID, true), text("payment id", in.PaymentID, true),
		money(&amount), a.exists())
	if err != nil {
		return Outcome{}, err
	}
	if amount.Minor == 0 {
		return Outcome{}, &InvalidError{Field: "money", Reason: "must not be zero"}
	}
	if known, ok := a.fees[in.FeeID]; ok {
		if known.PaymentID != in.PaymentID {
			return Outcome{}, &PaymentMismatchError{ID: in.FeeID, Recorded: "payment " + known.PaymentID,
				Asked: "payment " + in.PaymentID}
		}
		return repeated(), sameMoney(in.FeeID, known.Money, &in.Money)
	}
	if _, ok := a.payments[in.PaymentID]; !ok {
		return Outcome{}, ErrUnknownPayment
	}
	if err := firstError(newID("fee id", in.FeeID), newMoney(&in.Money)); err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.PaymentFeeRecorded(in)), nil
}
