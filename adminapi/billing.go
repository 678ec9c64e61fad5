package adminapi

import (
	"cmp"
	"errors"

	"letterhead/domain/billing"
	"letterhead/operations"
	"letterhead/projections/payments"
)

func (x *exchange) linkBilling(in operations.Link) error {
	if in.AccountID == "" || (in.Customer == "") == (in.PaymentID == "") {
		return invalid("The fields account and either customer or payment_id are needed.")
	}
	if err := errors.Join(checkID("account", in.AccountID), checkID("processor", in.Processor),
		checkID("customer", in.Customer), checkID("payment_id", in.PaymentID)); err != nil {
		return err
	}
	in.Processor = cmp.Or(in.Processor, billing.Stripe)
	err := x.api.Operations.Billing.Link(x.ctx, x.by(), in)
	if errors.Is(err, payments.ErrNotFound) {
		return notFound("The account %s has no payment %s. GET /admin/payments lists the payments.",
			in.AccountID, in.PaymentID)
	}
	return x.reply(in, x.explain(in.AccountID, err))
}

func (x *exchange) createCheckout(in struct {
	Account string `json:"account"`
	Pack    string `json:"pack"`
	Price   string `json:"price"`
}) error {
	if in.Account == "" || (in.Pack == "") == (in.Price == "") {
		return invalid("The fields account and either pack or price are needed.")
	}
	if err := errors.Join(checkID("account", in.Account), checkID("pack", in.Pack),
		checkID("price", in.Price)); err != nil {
		return err
	}
	session, err := x.api.Operations.Billing.Checkout(x.ctx, in.Account, in.Pack, in.Price)
	return x.reply(session, x.explain(in.Account, err))
}
