package account

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"letterhead/eventschemas"
)

// Grant is the command to add credits.
type Grant struct {
	GrantID   string // the payment id when empty
	Kind      string // free, subscription, topup, adjustment
	Credits   int64
	PaymentID string              // one payment grants once, forever
	Money     *eventschemas.Money // set if money was paid
	Tax       int64               // the part of the money that is tax, in minor units
	Reason    string
}

var grantKinds = []string{KindFree, KindSubscription, KindTopup, KindAdjustment}

// Grant adds credits, even to a suspended account, whose payments continue. A payment id that was
// granted before, or a grant id without a payment, is a repeat, also if the account was closed since.
// Errors: ErrInvalid, ErrNotFound, ErrClosed, ErrPaymentMismatch, ErrCreditLimit.
func (a *Account) Grant(in Grant) (Outcome, error) {
	in.GrantID = cmp.Or(in.GrantID, in.PaymentID)
	err := firstError(
		text("grant id", in.GrantID, true), text("payment id", in.PaymentID, false), text("reason", in.Reason, false),
		amount(in.Credits), money(in.Money), tax(in.Tax, in.Money),
	)
	if err != nil {
		return Outcome{}, err
	}
	if !slices.Contains(grantKinds, in.Kind) {
		return Outcome{}, &InvalidError{Field: "grant kind", Reason: "must be free, subscription, topup or adjustment"}
	}
	if recorded, ok := a.granted(in); ok {
		return repeated(), a.sameGrant(in, recorded)
	}
	err = firstError(kept("reason", in.Reason), newID("payment id", in.PaymentID), newMoney(in.Money), a.notClosed())
	if err != nil {
		return Outcome{}, err
	}
	if in.Money != nil && in.PaymentID == "" { // payments are listed, refunded and reconciled by their ids
		return Outcome{}, &InvalidError{Field: "payment id", Reason: "is needed for a grant with money"}
	}
	if in.Credits > MaxCredits-a.core.balance {
		return Outcome{}, ErrCreditLimit
	}
	return decided(eventschemas.CreditsGranted{
		GrantID: in.GrantID, Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID, Money: in.Money, Tax: in.Tax,
		Reason: in.Reason,
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

// sameGrant returns an error if the grant differs from the one recorded under its id.
func (a *Account) sameGrant(in Grant, recorded int64) error {
	id := cmp.Or(in.PaymentID, in.GrantID)
	if recorded != in.Credits {
		return &PaymentMismatchError{ID: id, Recorded: credits(recorded), Asked: credits(in.Credits)}
	}
	if in.PaymentID == "" {
		return nil
	}
	p := a.payments[in.PaymentID]
	if err := sameMoney(id, p.paid, in.Money); err != nil {
		return err
	}
	if p.tax != in.Tax {
		return &PaymentMismatchError{ID: id, Recorded: taxed(p.tax), Asked: taxed(in.Tax)}
	}
	return nil
}

// sameMoney returns an error if the asked money differs from the recorded one.
func sameMoney(id string, recorded eventschemas.Money, asked *eventschemas.Money) error {
	asked = cmp.Or(asked, &eventschemas.Money{})
	if *asked != recorded {
		return &PaymentMismatchError{ID: id, Recorded: minorUnits(recorded), Asked: minorUnits(*asked)}
	}
	return nil
}

func credits(n int64) string { return fmt.Sprintf("%d credits", n) }

func taxed(n int64) string { return fmt.Sprintf("%d minor units of tax", n) }

func minorUnits(m eventschemas.Money) string {
	if m.Currency == "" {
		return "no money"
	}
	return fmt.Sprintf("%d minor units of %s", m.Minor, m.Currency)
}

// Refund is the command to remove the credits of a payment.
type Refund struct {
	RefundID  string
	PaymentID string
	Credits   int64               // 0 removes all remaining credits of the payment
	Money     *eventschemas.Money // nil returns money in proportion to the credits
	// ByMoney removes the money's share of the credits that are left, rounded down, in place of Credits.
	ByMoney bool
	// AtMost allows a refund of less than Credits and Money if the payment has less left.
	AtMost bool
}

// RefundPayment removes the credits of a refunded payment, even if they are spent. It is the only
// decision that may take the balance below zero. All refunds of a payment remove at most the credits
// that it granted, and return at most the money that was paid, in the same currency. A payment can be
// refunded in parts, each under its id; the same id is a repeat, and so is a refund of the
// remainder when neither credits nor money are left. If no credits are left, money that is left can be returned without
// naming credits: the largest refund gives a credit back, as in SettlePayment. Errors: ErrInvalid, ErrNotFound,
// ErrUnknownPayment, ErrPaymentMismatch, ErrRefundTooLarge, ErrCreditLimit.
func (a *Account) RefundPayment(in Refund) (Outcome, error) {
	err := firstError(text("refund id", in.RefundID, true), text("payment id", in.PaymentID, true),
		money(in.Money), a.exists())
	if err != nil {
		return Outcome{}, err
	}
	if in.Credits != 0 {
		if err := amount(in.Credits); err != nil {
			return Outcome{}, err
		}
	}
	p, ok := a.payments[in.PaymentID]
	if known, ok := a.refunds[in.RefundID]; ok {
		return repeated(), known.same(p, in)
	}
	if !ok {
		return Outcome{}, ErrUnknownPayment
	}
	if err := newID("refund id", in.RefundID); err != nil {
		return Outcome{}, err
	}
	left := p.granted - p.refunded
	if left <= 0 && p.owes(in) {
		return a.refundMoney(p, in)
	}
	if in.AtMost {
		if left <= 0 {
			return repeated(), nil
		}
		in = p.limited(in)
	}
	if in.ByMoney {
		if in.Credits, err = p.creditsOf(in); err != nil {
			return Outcome{}, err
		}
	} else if in.Credits == 0 {
		if left == 0 && in.Money == nil {
			if rest := p.paid.Minor - p.returned; rest > 0 {
				return Outcome{}, fmt.Errorf("%w: none of its credits are left, but %s; name the money to return it",
					ErrRefundTooLarge, minorUnits(eventschemas.Money{Minor: rest, Currency: p.paid.Currency}))
			}
			return repeated(), nil
		}
		in.Credits = left
	}
	if in.Credits > left || left == 0 {
		err := fmt.Errorf("%w: %d of its %d credits are left", ErrRefundTooLarge, left, p.granted)
		if left == 0 && in.Credits > 0 && in.Money != nil && p.returned < p.paid.Minor {
			err = fmt.Errorf("%w; name only the money to return more of it", err)
		}
		return Outcome{}, err
	}
	if in.Credits > MaxCredits+a.core.balance {
		return Outcome{}, ErrCreditLimit
	}
	returned, err := p.moneyBack(in)
	if err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.PaymentRefunded{
		RefundID: in.RefundID, PaymentID: in.PaymentID, Credits: in.Credits, Money: returned,
	}), nil
}

// owes reports whether a refund is one of money, of which a payment without credits may have something left.
func (p payment) owes(in Refund) bool {
	if in.AtMost {
		return in.Money != nil && in.Money.Minor > 0 && p.returned < p.paid.Minor
	}
	return in.Money != nil && in.Money.Minor > 0 && in.Credits == 0
}

// limited returns a refund of at most the credits and the money that are left of its payment.
func (p payment) limited(in Refund) Refund {
	in.Credits = min(in.Credits, p.granted-p.refunded)
	if in.Money != nil && in.Money.Currency == p.paid.Currency {
		in.Money = &eventschemas.Money{Minor: min(in.Money.Minor, p.paid.Minor-p.returned), Currency: in.Money.Currency}
	}
	return in
}

// same returns an error if the refund differs from the one recorded under its id. A limit that is above what was
// recorded does not differ if the payment had no more.
func (r refund) same(p payment, in Refund) error {
	if in.AtMost && r.paymentID == in.PaymentID {
		if in.Credits > r.credits && (r.rest || p.refunded >= p.granted) {
			in.Credits = r.credits
		}
		if m := in.Money; m != nil && m.Currency == r.money.Currency && m.Minor > r.money.Minor &&
			(r.restMoney || p.returned >= p.paid.Minor) {
			in.Money = &r.money
		}
	}
	switch {
	case r.paymentID != in.PaymentID:
		return &PaymentMismatchError{ID: in.RefundID, Recorded: "payment " + r.paymentID,
			Asked: "payment " + in.PaymentID}
	case in.Credits != 0 && r.credits != in.Credits:
		return &PaymentMismatchError{ID: in.RefundID, Recorded: credits(r.credits), Asked: credits(in.Credits)}
	case in.Money != nil:
		return sameMoney(in.RefundID, r.money, in.Money)
	}
	return nil
}

// moneyBack returns the money that a refund returns: the command's money, or, if it has none, the share of the
// refunded credits in the money that is left, rounded down. So the last refund returns all that is left.
func (p payment) moneyBack(in Refund) (*eventschemas.Money, error) {
	left := p.paid.Minor - p.returned
	switch {
	case in.Money == nil && p.paid.Currency == "":
		return nil, nil
	case in.Money == nil:
		return &eventschemas.Money{Minor: Share(left, in.Credits, p.granted-p.refunded), Currency: p.paid.Currency}, nil
	case p.paid.Currency == "":
		return nil, &InvalidError{Field: "money", Reason: "cannot be returned: the payment was recorded without money"}
	case in.Money.Currency != p.paid.Currency:
		return nil, &InvalidError{Field: "currency", Reason: "must be that of the payment, " + p.paid.Currency}
	case in.Money.Minor > left:
		return nil, fmt.Errorf("%w: at most %s can be returned", ErrRefundTooLarge,
			minorUnits(eventschemas.Money{Minor: left, Currency: p.paid.Currency}))
	}
	return in.Money, nil
}

// creditsOf returns the share of the remaining credits that a refund of money removes.
func (p payment) creditsOf(in Refund) (int64, error) {
	left := p.paid.Minor - p.returned
	switch {
	case in.Money == nil || in.Credits != 0:
		return 0, &InvalidError{Field: "money", Reason: "is needed in place of credits"}
	case p.paid.Currency == "" || left == 0:
		return 0, fmt.Errorf("%w: no money is left of it; name the credits", ErrRefundTooLarge)
	case in.Money.Minor > left: // moneyBack rejects it
		return p.granted - p.refunded, nil
	}
	credits := Share(p.granted-p.refunded, in.Money.Minor, left)
	if credits == 0 {
		return 0, &InvalidError{Field: "money",
			Reason: "is less than one credit's share of the payment; name the credits"}
	}
	return credits, nil
}

// Share returns amount × part / whole, rounded down, and amount if part is not less than whole. None of them may be
// below zero.
func Share(amount, part, whole int64) int64 {
	if part >= whole {
		return amount
	}
	high, low := bits.Mul64(uint64(amount), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole)) // less than amount, because part is less than whole
	return int64(quotient)
}

// Returned returns how many minor units of a payment a refund returns, given what was paid and returned before and the
// credits that remain before it. It is never more than what is left.
//
// Releases before data format 2 recorded refunds without money, which count with the share of their credits, and did
// not limit money; money in another currency does not count.
func Returned(paid eventschemas.Money, before, remaining int64, ev eventschemas.PaymentRefunded) int64 {
	left := paid.Minor - before
	switch {
	case ev.Money == nil:
		return Share(left, ev.Credits, remaining)
	case ev.Money.Currency != paid.Currency:
		return 0
	}
	return min(ev.Money.Minor, left)
}

// Unreturned returns how many minor units of a payment a reversed refund no longer returns, given what was paid and
// returned before. It is never more than what was returned.
func Unreturned(paid eventschemas.Money, before int64, ev eventschemas.RefundReversed) int64 {
	if ev.Money == nil || ev.Money.Currency != paid.Currency {
		return 0
	}
	return min(ev.Money.Minor, before)
}

// HasPayment reports whether the account was granted a payment.
func (a *Account) HasPayment(id string) bool {
	_, ok := a.payments[id]
	return ok
}

// RefundOf returns the refund that is recorded under an id.
func (a *Account) RefundOf(id string) (ev eventschemas.PaymentRefunded, ok bool) {
	r, ok := a.refunds[id]
	if !ok {
		return ev, false
	}
	ev = eventschemas.PaymentRefunded{RefundID: id, PaymentID: r.paymentID, Credits: r.credits}
	if r.money.Currency != "" {
		ev.Money = &r.money
	}
	return ev, true
}

// money validates a paid amount: nil is valid, and a currency is three upper-case letters.
func money(m *eventschemas.Money) error {
	if m == nil {
		return nil
	}
	if m.Minor < 0 || m.Minor > MaxMoney {
		return &InvalidError{Field: "money", Reason: fmt.Sprintf("must be from 0 to %d minor units", MaxMoney)}
	}
	if len(m.Currency) != 3 || strings.Trim(m.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return &InvalidError{Field: "currency", Reason: "must be an ISO 4217 code such as EUR"}
	}
	return nil
}

// tax validates the part of a paid amount that is tax.
func tax(minor int64, paid *eventschemas.Money) error {
	if minor < 0 || minor > 0 && (paid == nil || minor > paid.Minor) {
		return &InvalidError{Field: "tax", Reason: "must be a part of the money"}
	}
	return nil
}

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

// currencies are the codes in which money can be paid: the currencies and funds of ISO 4217, list one, and in the last
// line some that left the list, because earlier payments may be recorded later and processors may still use them.
var currencies = strings.Fields("AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF " +
	"CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG " +
	"HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT " +
	"MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR " +
	"SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES " +
	"VND VUV WST XAF XCD XCG XDR XOF XPF XSU XUA YER ZAR ZMW ZWG " +
	"ANG BGN BYR CUC HRK LTL LVL EEK MRO SLL STD VEF ZMK ZWL")

// IsCurrency reports whether money can be paid in a currency, given by its code of ISO 4217.
func IsCurrency(code string) bool { return slices.Contains(currencies, code) }

// newMoney validates the money of a payment or fee that is not recorded yet; nil is valid. Money that an earlier
// release recorded in another currency can still be refunded.
func newMoney(m *eventschemas.Money) error {
	if m != nil && !IsCurrency(m.Currency) {
		return &InvalidError{Field: "currency",
			Reason: fmt.Sprintf("%q is not an ISO 4217 code, such as EUR", m.Currency)}
	}
	return nil
}
