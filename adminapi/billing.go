package adminapi

import (
	"cmp"
	"errors"
	"net/http"

	"letterhead/domain/billing"
	"letterhead/projections/payments"
)

// Errors of operations on payment processors.
var (
	// ErrLinked means that a payment is linked to another account.
	ErrLinked = errors.New("already, and a link is final")
	// ErrNotSold means that the catalog lacks a pack or a price.
	ErrNotSold = errors.New("LETTERHEAD_BILLING_FILE does not sell")
	// ErrNoPage means that the payment processor rejected a checkout session, or could not be reached.
	ErrNoPage = errors.New("the payment processor did not create a page to pay on")
)

// Link is a link of a customer or a payment of a payment processor to an account.
type Link struct {
	AccountID string `json:"account"`
	Processor string `json:"processor"`
	Customer  string `json:"customer,omitempty"` // this or a payment
	PaymentID string `json:"payment_id,omitempty"`
}

// CheckoutSession is a page on which an account pays.
type CheckoutSession struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// linkBilling answers POST /admin/billing/links.
func (x *exchange) linkBilling() error {
	var in Link
	if err := x.decode(&in); err != nil {
		return err
	}
	if in.AccountID == "" || (in.Customer == "") == (in.PaymentID == "") {
		return invalid("The fields account and either customer or payment_id are needed.")
	}
	if err := errors.Join(checkID("account", in.AccountID), checkID("processor", in.Processor), checkID("customer", in.Customer), checkID("payment_id", in.PaymentID)); err != nil {
		return err
	}
	in.Processor = cmp.Or(in.Processor, billing.Stripe)
	err := x.api.Operations.LinkBilling(x.ctx, x.by(), in)
	if errors.Is(err, payments.ErrNotFound) {
		return notFound("The account %s has no payment %s. GET /admin/payments lists the payments.", in.AccountID, in.PaymentID)
	}
	if err != nil {
		return x.explain(in.AccountID, err)
	}
	return x.answer(http.StatusOK, in)
}

// createCheckout answers POST /admin/billing/checkouts.
func (x *exchange) createCheckout() error {
	var in struct {
		Account string `json:"account"`
		Pack    string `json:"pack"`
		Price   string `json:"price"`
	}
	if err := x.decode(&in); err != nil {
		return err
	}
	if in.Account == "" || (in.Pack == "") == (in.Price == "") {
		return invalid("The fields account and either pack or price are needed.")
	}
	if err := errors.Join(checkID("account", in.Account), checkID("pack", in.Pack), checkID("price", in.Price)); err != nil {
		return err
	}
	session, err := x.api.Operations.Checkout(x.ctx, in.Account, in.Pack, in.Price)
	if err != nil {
		return x.explain(in.Account, err)
	}
	return x.answer(http.StatusOK, session)
}
