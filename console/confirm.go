package console

import (
	"net/http"
	"net/url"
	"slices"

	"letterhead/adminapi"
)

// question is the data of the page that asks before something is done.
type question struct {
	Form    string // its name
	Fields  []field
	Account adminapi.Account
	Change  int64        // of the account's balance
	Payment payment      // that is refunded
	ByMoney bool         // the refund takes credits by the share of its money
	Totals  []revenueRow // that become final, by currency
	Subject string       // month or domain
}

// Balance returns the balance afterwards.
func (q question) Balance() int64 { return q.Account.Credits.Balance + q.Change }

// ask shows what a form will do, unless the operator has seen that, and reports whether it did. From there, the operator
// confirms, or goes back to the form, which show shows with what was typed.
func (x *exchange) ask(form string, about func(*question) error, show func() error) (asked bool, err error) {
	switch {
	case x.Form.Get("confirmed") != "":
		return false, nil
	case x.Form.Get("change") != "":
		x.kept = form
		return true, show()
	}
	return true, x.askAgain(form, about, show)
}

// askAgain is ask for a form that was confirmed and then rejected.
func (x *exchange) askAgain(form string, about func(*question) error, show func() error) error {
	q := question{Form: form}
	if err := about(&q); err != nil {
		return x.reject(form, err, show)
	}
	q.Fields = slices.DeleteFunc(x.again(), func(f field) bool {
		return f.Name == "confirmed" || f.Name == "change" || form == "reverse" && f.Name == "reason"
	})
	return x.show(http.StatusOK, "confirm", view{Title: "Are you sure?", Page: q})
}

// aboutAccount returns what is asked before a form of an account; nil if nothing is.
func (x *exchange) aboutAccount(action, path string) func(*question) error {
	if !slices.Contains([]string{"grant", "reverse", "suspend", "close", "revoke"}, action) {
		return nil
	}
	return func(q *question) error {
		err := x.get(path, nil, &q.Account)
		if err != nil || action != "grant" && action != "reverse" {
			return err
		}
		if action == "reverse" {
			q.Change, err = x.charged(path, x.Form.Get("request_id"))
			return err
		}
		credits, err := x.whole("credits")
		if err == nil && credits == nil {
			err = wrongInput("credits", "Give a whole number such as 100.")
		}
		if err == nil {
			q.Change = *credits
		}
		return err
	}
}

// charged returns the credits that a request was charged, less those that were returned.
func (x *exchange) charged(path, requestID string) (credits int64, err error) {
	var entries []adminapi.LedgerEntry
	if requestID != "" {
		_, err = x.rows(path+"/ledger", url.Values{"request_id": {requestID}, "limit": {"500"}}, "entries", &entries)
	}
	for i := range entries {
		credits += entries[i].Charged()
	}
	return credits, err
}
