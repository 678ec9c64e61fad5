package dashboard

import (
	"errors"
	"net/http"

	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/internal/web"
	"letterhead/operations"
)

// creditsView is the data of the page on which credits are bought.
type creditsView struct {
	Balance    int64
	Plan       plan.ID
	Packs      []billing.PackPrice
	Plans      []planOffer
	Closed     bool
	Paid       bool // a payment was just made, of which the account may not know yet
	Subscribed bool // the account has a subscription that has not ended
	Priced     bool // the file of plans and packs has amounts
}

// leaving is the data of the page that leads to one of the payment processor.
type leaving struct {
	URL  string
	Text string // of the link
	Stay string // the text of the link back
}

type planOffer struct {
	billing.PlanPrice
	Limits plan.Plan
}

// Subscribe reports whether the account may subscribe to a plan here. The payment page only adds subscriptions, so an
// account that has a plan or a subscription would pay for two.
func (v creditsView) Subscribe() bool {
	return v.Plan == plan.Free && !v.Subscribed && !v.Closed && !v.Paid
}

func (x *exchange) showCredits() error {
	standing, err := x.Writer.Standing(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	catalog, err := x.Operations.Billing.Offers()
	if err != nil {
		return err
	}
	subscriber, err := x.Operations.Billing.Subscriber(x.Ctx, x.session.AccountID)
	if err != nil { // credits are bought without it
		x.Logger.WarnContext(x.Ctx, "the subscription cannot be read; the page does not offer to manage it",
			"request_id", x.ID, "account", x.session.AccountID, "error", err)
	}
	v := creditsView{Balance: standing.Balance, Plan: standing.Plan, Packs: catalog.Packs, Priced: catalog.Priced(),
		Closed: standing.Status == string(account.Closed), Subscribed: subscriber != ""}
	for _, p := range catalog.Plans {
		limits, err := x.Plans.Get(p.Plan)
		if err != nil {
			return err
		}
		v.Plans = append(v.Plans, planOffer{p, limits})
	}
	notice := ""
	switch x.Request.URL.Query().Get("payment") {
	case "made":
		v.Paid = true
		notice = "Thank you. The credits are added as soon as the payment processor has confirmed the payment, which usually takes seconds. Load this page again to see them."
	case "cancelled":
		notice = "Nothing was paid."
	}
	return x.show(http.StatusOK, "credits", view{Title: "Credits", Section: "Credits", Notice: notice, Page: v})
}

// buy answers POST /dashboard/credits with a page that leads to the payment page. It is no redirect, because the
// Content-Security-Policy allows forms to lead to this server only.
func (x *exchange) buy() error {
	catalog, err := x.Operations.Billing.Offers()
	if err != nil {
		return err
	}
	offer, ok := catalog.Offer(x.Form.Get("price"))
	if !ok {
		return web.NewProblem(http.StatusNotFound, "This is not sold",
			"The offer has changed since the page was loaded. Go back to Credits for what is sold now.", nil)
	}
	standing, err := x.Writer.Standing(x.Ctx, x.session.AccountID)
	switch {
	case err != nil:
		return err
	case standing.Status == string(account.Closed):
		return web.NewProblem(http.StatusConflict, "The account is closed", "Nothing can be bought for it.", nil)
	}
	subscriber, err := x.Operations.Billing.Subscriber(x.Ctx, x.session.AccountID)
	if err != nil && offer.Plan != "" {
		return err
	}
	if offer.Plan != "" && (standing.Plan != plan.Free || subscriber != "") {
		return web.NewProblem(http.StatusConflict, "The account has a plan or a subscription already",
			"A second subscription would be paid as well. Go back to Credits to change or end the plan.", nil)
	}
	page, err := x.Operations.Billing.Pay(x.Ctx, x.session.AccountID, subscriber, offer)
	if errors.Is(err, operations.ErrNoPage) {
		return web.NewProblem(http.StatusServiceUnavailable, "The payment page could not be opened",
			"The payment processor did not answer as expected. Nothing was paid. Try again in a few minutes.", err)
	}
	if err != nil {
		return err
	}
	return x.show(http.StatusOK, "leave", view{Title: "To the payment page", Section: "Credits",
		Page: leaving{page, "Open the payment page", "Do not pay"}})
}

// manageSubscription answers POST /dashboard/credits/subscription with a page that leads to the one on which the
// account's subscriber changes or ends it.
func (x *exchange) manageSubscription() error {
	subscriber, err := x.Operations.Billing.Subscriber(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	if subscriber == "" {
		return web.NewProblem(http.StatusConflict, "The account has no subscription",
			"Its plan is not that of a subscription. To change or end it, ask the operator of this service.", nil)
	}
	page, err := x.Operations.Billing.Portal(x.Ctx, subscriber)
	if errors.Is(err, operations.ErrNoPage) {
		return web.NewProblem(http.StatusServiceUnavailable, "The page of the subscription could not be opened",
			"The payment processor did not answer as expected. The subscription is unchanged. Try again in a few minutes, or ask the operator of this service.", err)
	}
	if err != nil {
		return err
	}
	return x.show(http.StatusOK, "leave", view{Title: "To the subscription", Section: "Credits",
		Page: leaving{page, "Open the page of the subscription", "Do not change it"}})
}
