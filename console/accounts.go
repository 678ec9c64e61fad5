package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"letterhead/adminapi"
	"letterhead/domain/plan"
)

// ledgerEntries is the number of entries of the ledger on the page of an account.
const ledgerEntries = 25

// shownNotes is the number of notes on the page of an account.
const shownNotes = 10

// accountsView is the data of the list of accounts.
type accountsView struct {
	Accounts   []adminapi.Account `json:"accounts"`
	NextCursor string             `json:"next_cursor"`
	Query      url.Values
	Plans      []plan.ID
}

func (x *exchange) showAccounts() error {
	v := accountsView{Query: x.filter("q", "plan", "status", "sort", "cursor"), Plans: plan.IDs}
	return x.list("/admin/accounts", v.Query, "accounts", view{Title: "Accounts", Section: "Accounts", Page: &v})
}

// filter returns the named parameters of a listing that are set.
func (x *exchange) filter(names ...string) url.Values {
	chosen := url.Values{}
	if x.Request.Method != http.MethodGet { // a form of the page
		return chosen
	}
	for _, name := range names {
		if value := x.Request.URL.Query().Get(name); value != "" {
			chosen.Set(name, value)
		}
	}
	return chosen
}

// list gets a listing into a view, and shows it. If the API rejects the filter, the page has the reason in place of rows.
func (x *exchange) list(path string, query url.Values, name string, v view) error {
	show := func() error { return x.show(http.StatusOK, name, v) }
	if err := x.get(path, query, v.Page); err != nil {
		return x.reject("filter", err, show)
	}
	return show()
}

// rows gets the rows of a listing, and returns the cursor of its next page.
func (x *exchange) rows(path string, query url.Values, name string, rows any) (next string, err error) {
	var answer map[string]json.RawMessage
	if err := x.get(path, query, &answer); err != nil {
		return "", err
	}
	if cursor, more := answer["next_cursor"]; more {
		err = json.Unmarshal(cursor, &next)
	}
	return next, errors.Join(err, json.Unmarshal(answer[name], rows))
}

func (x *exchange) openAccount() error {
	var opened adminapi.NewAccount
	in := map[string]any{"name": x.Form.Get("name"), "plan": x.Form.Get("plan")}
	if err := x.call(http.MethodPost, "/admin/accounts", in, &opened); err != nil {
		return x.reject("open", err, x.showAccounts)
	}
	v := secretView{Title: "The account is open", Back: "/accounts/" + url.PathEscape(opened.Account.ID),
		BackTo: "The account"}
	for _, k := range opened.Keys {
		v.Secrets = append(v.Secrets, secret{"Its " + k.Kind + " key", k.Key})
	}
	v.Text = "These are its keys. They are shown only now."
	return x.secret(v)
}

// secretView is the data of the page that shows texts once.
type secretView struct {
	Title, Text  string
	Secrets      []secret
	Back, BackTo string
}

// secret is a text that is stored nowhere; empty if the form was sent before.
type secret struct{ Label, Text string }

func (x *exchange) secret(v secretView) error {
	if x.unconfirmed {
		v.Text += unconfirmed
	}
	return x.show(http.StatusOK, "secret", view{Title: v.Title, Page: v})
}

// accountRow is embedded in accountView, where a field Account would hide the one that it contains.
type accountRow = adminapi.Account

// accountView is the data of the page of an account.
type accountView struct {
	accountRow
	Plans     []plan.ID
	Notes     []adminapi.LedgerEntry // the newest first
	MoreNotes bool
	Keys      []adminapi.Key
	Entries   []adminapi.LedgerEntry
	Older     string // cursor
	Payments  []adminapi.Payment
	Emails    []adminapi.SignInEmail // for sign-in links; empty without the permission to list them
	Query     url.Values
}

func (x *exchange) showAccount() error {
	id := x.Request.PathValue("id")
	path := "/admin/accounts/" + url.PathEscape(id)
	v := accountView{Plans: plan.IDs, Query: x.filter("cursor")}
	if err := x.get(path, nil, &v); err != nil {
		return err
	}
	if _, err := x.rows(path+"/keys", nil, "keys", &v.Keys); err != nil {
		return err
	}
	query := url.Values{"order": {"newest"}, "limit": {strconv.Itoa(ledgerEntries)}}
	if cursor := v.Query.Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var err error
	if v.Older, err = x.rows(path+"/ledger", query, "entries", &v.Entries); err != nil {
		return err
	}
	more, err := x.rows(path+"/ledger",
		url.Values{"type": {"AccountNoted"}, "order": {"newest"}, "limit": {strconv.Itoa(shownNotes)}}, "entries",
		&v.Notes)
	if err != nil {
		return err
	}
	v.MoreNotes = more != ""
	if _, err := x.rows("/admin/payments",
		url.Values{"account": {v.Account.ID}, "sort": {"-paid"}, "limit": {strconv.Itoa(ledgerEntries)}}, "payments",
		&v.Payments); err != nil {
		return err
	}
	if x.me.May("support") && v.Account.Status != "closed" {
		if _, err := x.rows(path+"/sign-in-emails", nil, "sign_in_emails", &v.Emails); err != nil {
			return err
		}
	}
	title := cmp.Or(v.Account.Name, v.Account.ID)
	return x.show(http.StatusOK, "account", view{Title: title, Section: "Accounts", Page: v})
}

func (x *exchange) changeAccount() error {
	id, action := x.Request.PathValue("id"), x.Request.PathValue("action")
	path := "/admin/accounts/" + url.PathEscape(id)
	var send func() error
	post := func(path, field string) func() error {
		return func() error { return x.call(http.MethodPost, path, map[string]any{field: x.Form.Get(field)}, nil) }
	}
	switch action {
	case "grant":
		send = func() error { return x.grant(path + "/grants") }
	case "plan":
		send = func() error {
			return x.call(http.MethodPut, path+"/plan", map[string]any{"plan": x.Form.Get("plan")}, nil)
		}
	case "suspend":
		send = post(path+"/suspend", "reason")
	case "note":
		send = post(path+"/notes", "text")
	case "signout":
		send = post(path+"/sign-out", "person")
	case "email":
		send = func() error { return x.setEmail(path) }
	case "unemail":
		send = func() error { return x.putEmail(path, "") }
	case "reinstate", "close":
		send = func() error { return x.call(http.MethodPost, path+"/"+action, nil, nil) }
	case "reverse":
		send = post(path+"/reversals", "request_id")
	case "revoke":
		send = func() error {
			return x.call(http.MethodDelete, "/admin/keys/"+url.PathEscape(x.Form.Get("key")), nil, nil)
		}
	case "key":
		return x.issueKey(path)
	case "link":
		return x.loginLink(path)
	default:
		return errNoPage
	}
	return x.act(action, send, "/accounts/"+url.PathEscape(id), action, x.showAccount)
}

func (x *exchange) setEmail(path string) error {
	if x.Form.Get("email") == "" {
		return wrongInput("email", "Give an e-mail address.")
	}
	return x.putEmail(path, x.Form.Get("email"))
}

// putEmail sets the address of a person, or removes it.
func (x *exchange) putEmail(path, address string) error {
	person := x.Form.Get("person")
	if person == "" || person == "." || person == ".." { // a path cannot have them
		return wrongInput("person", "Give an id, such as owner or p2.")
	}
	return x.call(http.MethodPut, path+"/sign-in-emails/"+url.PathEscape(person), map[string]any{"email": address}, nil)
}

func (x *exchange) grant(path string) error {
	credits, err := x.whole("credits")
	if err != nil {
		return err
	}
	money, err := x.whole("money")
	if err != nil {
		return err
	}
	in := map[string]any{"kind": x.Form.Get("kind"), "credits": credits, "payment_id": x.Form.Get("payment_id"),
		"reason": x.Form.Get("reason")}
	if money != nil {
		in["money"], in["currency"] = money, x.Form.Get("currency")
	}
	return x.call(http.MethodPost, path, in, nil)
}

func (x *exchange) issueKey(path string) error {
	var issued adminapi.IssuedKey
	if err := x.call(http.MethodPost, path+"/keys",
		map[string]any{"kind": x.Form.Get("kind"), "name": x.Form.Get("name")}, &issued); err != nil {
		return x.reject("key", err, x.showAccount)
	}
	return x.secret(secretView{Title: "The key is issued",
		Text: "It is shown only now.", Secrets: []secret{{"The " + issued.Kind + " key", issued.Key}},
		Back: "/accounts/" + url.PathEscape(x.Request.PathValue("id")), BackTo: "The account"})
}

func (x *exchange) loginLink(path string) error {
	var link struct {
		URL string `json:"url"`
	}
	err := x.call(http.MethodPost, path+"/login-link", map[string]any{"person": x.Form.Get("person")}, &link)
	if err != nil {
		return x.reject("link", err, x.showAccount)
	}
	return x.secret(secretView{
		Title:   "A sign-in link",
		Text:    "It signs a person in to the dashboard of the account, once, within 15 minutes. It is shown only now.",
		Secrets: []secret{{"The link", link.URL}}, Back: "/accounts/" + url.PathEscape(x.Request.PathValue("id")),
		BackTo: "The account",
	})
}
