package adminapi

import (
	"cmp"
	"errors"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/web"
	"letterhead/projections/payments"
)

// maxID limits an id that a caller chooses, in bytes.
const maxID = 200

type money struct {
	Money    *int64 `json:"money"` // minor units
	Currency string `json:"currency"`
}

func (m money) value() (*eventschemas.Money, error) {
	switch {
	case m.Money == nil && m.Currency == "":
		return nil, nil
	case m.Money == nil || m.Currency == "":
		return nil, invalid(
			"The fields money (minor units, such as 4900) and currency (three letters, such as EUR) belong together.")
	}
	return &eventschemas.Money{Minor: *m.Money, Currency: m.Currency}, nil
}

// grant is a grant of credits in a body.
type grant struct {
	Kind      string `json:"kind"`
	Credits   int64  `json:"credits"`
	PaymentID string `json:"payment_id"`
	money
	Tax    int64  `json:"tax"`
	Reason string `json:"reason"`
}

func (g grant) command(by commands.Request, accountID string, paid *eventschemas.Money) commands.GrantCredits {
	return commands.GrantCredits{
		Request: by, AccountID: accountID, Kind: g.Kind, Credits: g.Credits, PaymentID: g.PaymentID, Money: paid,
		Tax: g.Tax, Reason: g.Reason,
	}
}

func checkID(field, id string) error {
	if len(id) > maxID || !web.IsText(id) {
		return invalid("The field %s takes at most %d bytes of text.", field, maxID)
	}
	return nil
}

func (x *exchange) grantCredits(id string) error {
	in := grant{Kind: account.KindTopup}
	if err := x.decode(&in); err != nil {
		return err
	}
	paid, err := in.value()
	if err := errors.Join(err, checkID("payment_id", in.PaymentID)); err != nil {
		return err
	}
	grant := in.command(x.by(), id, paid)
	if err := grant.CheckOperator(); err != nil {
		return err
	}
	if in.PaymentID == "" {
		if err := x.needsKey(", or a payment_id"); err != nil {
			return err
		}
	}
	done, err := x.api.Writer.GrantCredits(x.ctx, grant)
	return x.reply(changeOf(id, done), err)
}

// refund is a refund in a body. Without credits it takes back the share of the money, and without money everything that
// is left.
type refund struct {
	PaymentID string `json:"payment_id"`
	RefundID  string `json:"refund_id"`
	Credits   int64  `json:"credits"`
	// AllCredits takes back all credits that are left, whatever the money.
	AllCredits bool `json:"all_credits"`
	money
}

func (x *exchange) refundPayment(id string, in refund) error {
	returned, err := in.value()
	if err := errors.Join(err, checkID("payment_id", in.PaymentID), checkID("refund_id", in.RefundID)); err != nil {
		return err
	}
	switch {
	case in.PaymentID == "":
		return invalid("The field payment_id is needed.")
	case in.Credits < 0:
		return invalid("The field credits is a positive number, or missing.")
	case in.Credits > 0 && in.AllCredits:
		return invalid("The fields credits and all_credits exclude each other.")
	case in.RefundID == "":
		if err := x.needsKey(", or a refund_id"); err != nil {
			return err
		}
	}
	done, err := x.api.Writer.RefundPayment(x.ctx, commands.RefundPayment{
		Request: x.by(), AccountID: id, RefundID: in.RefundID, PaymentID: in.PaymentID, Credits: in.Credits,
		Money: returned, ByMoney: returned != nil && in.Credits == 0 && !in.AllCredits,
	})
	return x.reply(Change{Account: id, Balance: done.Balance, Repeated: done.Repeated, Refund: done.Refund}, err)
}

func (x *exchange) reverseRequest(id string, in struct {
	RequestID string `json:"request_id"`
	Reason    string `json:"reason"`
}) error {
	if err := checkID("request_id", in.RequestID); err != nil || in.RequestID == "" {
		return errors.Join(err,
			invalid("The field request_id is the X-Request-Id of the answer whose charges are reversed."))
	}
	if err := commands.CheckGiven(in.Reason); err != nil {
		return err
	}
	charges, repeated, err := x.api.Operations.Charges.ReverseRequest(x.ctx, x.by(), id, in.RequestID, in.Reason)
	if err != nil {
		return err
	}
	standing, err := x.api.Writer.Standing(x.ctx, id)
	return x.reply(Change{Account: id, Balance: standing.Balance, Charges: charges, Repeated: repeated}, err)
}

func (x *exchange) listPayments() error {
	q := x.query("account", "kind", "state", "from", "to", "sort", "limit", "cursor")
	s := payments.Selection{AccountID: q.text("account"), Kind: q.oneOf("kind", commands.OperatorGrants...)}
	s.State = payments.State(q.oneOf("state", string(payments.Paid), string(payments.PartlyRefunded),
		string(payments.Refunded)))
	s.Sort, s.Descending = q.order(payments.Sorts)
	s.From, s.Until = q.period()
	limit, last := q.limit(), after[payments.Payment](q)
	if err := x.read(q, payments.Name); err != nil {
		return err
	}
	rows, err := x.api.Payments.List(x.ctx, s, last, limit+1)
	if err != nil {
		return err
	}
	names, err := accountNames(x, rows, func(p *payments.Payment) string { return p.AccountID })
	if err != nil {
		return err
	}
	return x.reply(page("payments", q, rows, limit,
		func(p *payments.Payment) any { return Payment{*p, names[p.AccountID]} }))
}

func (x *exchange) getPayment() error {
	q := x.query("account")
	if q.err != nil {
		return q.err
	}
	return x.reply(x.payment(q.text("account")))
}

// payment returns the payment in the path, of an account if several have it.
func (x *exchange) payment(accountID string) (*payments.Payment, error) {
	id := x.request.PathValue("id")
	if err := x.folded(payments.Name); err != nil {
		return nil, err
	}
	p, err := x.api.Payments.Get(x.ctx, accountID, id)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return nil, notFound("There is no payment %s. GET /admin/payments lists the payments.", id)
	case errors.Is(err, payments.ErrAmbiguous):
		return nil, conflicting("Several accounts have a payment with this id. Send account as well.")
	}
	return p, err
}

// fee is a fee of the payment processor in a body.
type fee struct {
	Account  string `json:"account"` // needed if several accounts have the payment
	FeeID    string `json:"fee_id"`
	Money    int64  `json:"money"`    // minor units; below zero if the processor returned it
	Currency string `json:"currency"` // of the payment if it is empty
}

func (x *exchange) recordFee(in fee) error {
	if err := checkID("fee_id", in.FeeID); err != nil {
		return err
	}
	switch {
	case in.Money == 0:
		return invalid(
			"The field money is the fee in minor units, such as 145; below zero if the processor returned it.")
	case in.FeeID == "":
		if err := x.needsKey(", or a fee_id"); err != nil {
			return err
		}
	}
	p, err := x.payment(in.Account)
	if err != nil {
		return err
	}
	amount := eventschemas.Money{Minor: in.Money, Currency: cmp.Or(in.Currency, p.Currency)}
	if amount.Currency == "" {
		return invalid("The field currency is needed: the payment was recorded without money.")
	}
	by := x.by()
	id := cmp.Or(in.FeeID, by.ID)
	done, err := x.api.Writer.RecordFee(x.ctx,
		commands.RecordFee{Request: by, AccountID: p.AccountID, FeeID: id, PaymentID: p.ID, Money: amount})
	return x.reply(Fee{p.AccountID, p.ID, id, amount.Minor, amount.Currency, done.Repeated}, err)
}
