package console

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"letterhead/adminapi"
	"letterhead/domain/billing"
)

// payment is a payment as a page shows it.
type payment struct{ adminapi.Payment }

// Left returns the credits that are not refunded.
func (p payment) Left() int64 { return p.Credits - p.RefundedCredits }

// Refundable reports whether credits or money are left.
func (p payment) Refundable() bool { return p.Left() > 0 || p.RefundedMoney < p.Money }

// paymentsView is the data of the list of payments.
type paymentsView struct {
	Payments   []adminapi.Payment `json:"payments"`
	NextCursor string             `json:"next_cursor"`
	Query      url.Values
}

func (x *exchange) showPayments() error {
	v := paymentsView{Query: x.filter("account", "kind", "state", "from", "to", "sort", "cursor")}
	query := url.Values{"sort": {"-paid"}}
	for name, values := range v.Query {
		query[name] = values
	}
	return x.list("/admin/payments", query, "payments", view{Title: "Payments", Section: "Payments", Page: &v})
}

func (x *exchange) showPayment() error {
	var p payment
	account := x.Request.URL.Query().Get("account")
	if x.Request.Method == http.MethodPost {
		account = x.Form.Get("account")
	}
	err := x.get("/admin/payments/"+url.PathEscape(x.Request.PathValue("id")), url.Values{"account": {account}}, &p)
	if err != nil {
		return err
	}
	return x.show(http.StatusOK, "payment", view{Title: "Payment " + p.ID, Section: "Payments", Page: p})
}

func (x *exchange) refund() error {
	id, account := x.Request.PathValue("id"), x.Form.Get("account")
	about := func(q *question) error { return x.aboutRefund(q, id, account) }
	if asked, err := x.ask("refund", about, x.showPayment); asked {
		return err
	}
	return x.act("refund", func() error {
		in := map[string]any{"payment_id": id, "refund_id": x.Form.Get("refund_id")}
		for _, field := range []string{"credits", "money"} {
			n, err := x.whole(field)
			if err != nil {
				return err
			}
			if n != nil {
				in[field] = n
			}
		}
		if in["money"] != nil {
			in["currency"] = x.Form.Get("currency")
		}
		return x.call(http.MethodPost, "/admin/accounts/"+url.PathEscape(account)+"/refunds", in, nil)
	}, "/payments/"+url.PathEscape(id)+"?account="+url.QueryEscape(account), "refund", x.showPayment)
}

func (x *exchange) aboutRefund(q *question, id, accountID string) error {
	credits, err := x.whole("credits")
	money, err2 := x.whole("money")
	err = errors.Join(err, err2, x.get("/admin/accounts/"+url.PathEscape(accountID), nil, &q.Account),
		x.get("/admin/payments/"+url.PathEscape(id), url.Values{"account": {accountID}}, &q.Payment))
	switch {
	case err != nil:
		return err
	case credits != nil:
		q.Change = -*credits
	case money != nil:
		q.ByMoney = true
	default:
		q.Change = -q.Payment.Left()
	}
	return nil
}

// inboxView is the data of the page of events of payment processors that were not applied.
type inboxView struct {
	Reports []adminapi.Report `json:"reports"`
	Total   int64             `json:"total"`
	State   string
	Filter  url.Values
	Others  int64 // in other states
}

// allReports is the state that selects the events of every state.
const allReports = "all"

// Query returns the query of the page with the same filter, so that forms lead back to it.
func (v inboxView) Query() string {
	if v.State == billing.Inbox {
		return ""
	}
	return "?" + url.Values{"state": {v.State}}.Encode()
}

// inboxPage returns the page of the inbox with the filter of the request.
func (x *exchange) inboxPage() string {
	return "/inbox" + inboxView{State: cmp.Or(x.Request.URL.Query().Get("state"), billing.Inbox)}.Query()
}

// showInbox answers GET /inbox. It shows those that need an operator unless another state is chosen, because many
// others may wait.
func (x *exchange) showInbox() error {
	v := inboxView{State: cmp.Or(x.Request.URL.Query().Get("state"), billing.Inbox), Filter: x.filter("state", "from", "to")}
	query := maps.Clone(v.Filter)
	if query.Set("state", v.State); v.State == allReports {
		query.Del("state")
	}
	load := func() error {
		if err := x.get("/admin/billing/inbox", query, &v); err != nil {
			return err
		}
		if v.State == billing.Inbox && len(v.Filter) == 0 {
			var all inboxView
			if err := x.get("/admin/billing/inbox", url.Values{"limit": {"1"}}, &all); err != nil {
				return err
			}
			v.Others = max(0, all.Total-v.Total)
		}
		return nil
	}
	return x.listed("/admin/billing/inbox", query, view{Title: "Inbox", Section: "Inbox", Page: &v}, load, "inbox")
}

func (x *exchange) linkCustomer() error {
	return x.act("customer", func() error {
		customer, accountID := strings.TrimSpace(x.Form.Get("customer")), strings.TrimSpace(x.Form.Get("account"))
		switch {
		case customer == "":
			return wrongInput("customer", "Give the customer's id, such as cus_1.")
		case accountID == "":
			return wrongInput("account", "Give the account's id.")
		}
		err := x.call(http.MethodPost, "/admin/billing/links",
			map[string]any{"customer": customer, "account": accountID}, nil)
		if p := (*problem)(nil); errors.As(err, &p) {
			switch p.Status {
			case http.StatusNotFound:
				p.Text, p.Field = "There is no account "+accountID+".", "account"
			case http.StatusBadRequest:
				p.Field = "customer"
			}
		}
		return err
	}, x.inboxPage(), "customer", x.showInbox)
}

func (x *exchange) settleReport() error {
	action := x.Request.PathValue("action")
	var fields []string
	switch action {
	case "replay":
	case "dismiss":
		fields = []string{"reason"}
	default:
		return errNoPage
	}
	path := "/admin/billing/inbox/" + url.PathEscape(x.Request.PathValue("id")) + "/" + action
	send := x.sender(http.MethodPost, path, fields...)
	return x.act("report", send, x.inboxPage(), action, x.showInbox)
}
