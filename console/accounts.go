package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"letterhead/adminapi"
	"letterhead/dashboard/audit"
	"letterhead/domain/account"
	"letterhead/domain/plan"
)

// Rows of the pages of an account.
const (
	ledgerEntries = 25
	shownNotes    = 10
	latestEntries = 8 // of the ledger on the overview
)

// accountsView is the data of the list of accounts.
type accountsView struct {
	Accounts   []adminapi.Account `json:"accounts"`
	NextCursor string             `json:"next_cursor"`
	Query      url.Values
	Plans      []plan.ID
}

func (x *exchange) showAccounts() error {
	v := accountsView{Query: x.filter("q", "plan", "status", "from", "to", "sort", "cursor"), Plans: plan.IDs}
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

// list gets a listing into a view, and shows it, or sends it as a file. If the API rejects the filter, the page has the
// reason in place of rows.
func (x *exchange) list(path string, query url.Values, name string, v view) error {
	return x.listed(path, query, v, func() error { return x.get(path, query, v.Page) }, name)
}

// listed is list for a listing that load gets.
func (x *exchange) listed(path string, query url.Values, v view, load func() error, name string) error {
	if x.Request.Method == http.MethodGet && x.Request.URL.Query().Get("format") == "csv" {
		query.Set("format", "csv")
		query.Del("cursor")
		query.Del("limit")
		return x.pass(path + "?" + query.Encode())
	}
	show := func() error { return x.show(http.StatusOK, name, v) }
	if err := load(); err != nil {
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
	if err := x.call(http.MethodPost, "/admin/accounts", x.fields("name", "plan"), &opened); err != nil {
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

// accountView is the data of the pages of an account.
type accountView struct {
	accountRow
	Tab   tab
	Tabs  []tab
	Plans []plan.ID
	Query url.Values

	Usage     audit.UsagePage
	Notes     []adminapi.LedgerEntry // the newest first
	MoreNotes bool
	Entries   []adminapi.LedgerEntry
	Kinds     []string // types of entries
	Older     string   // cursor
	Keys      []adminapi.Key
	Payments  []adminapi.Payment
	Emails    []adminapi.SignInEmail // for sign-in links; empty without the permission to list them
	Actions   []adminapi.Action      // of operators, the newest first
}

// tab is one of the pages of an account.
type tab struct{ Name, Path string } // the path follows that of the account

var tabs = []tab{{"Overview", ""}, {"Ledger", "/ledger"}, {"Payments", "/payments"}, {"Keys and people", "/people"},
	{"Actions", "/actions"}}

// Paths of the tabs that have forms, by the actions of these.
var tabOf = map[string]string{"key": "/people", "limit": "/people", "revoke": "/people", "link": "/people", "signout": "/people",
	"email": "/people", "unemail": "/people", "reverse": "/ledger"}

// showAccount answers GET /accounts/{id} and GET /accounts/{id}/{tab}.
func (x *exchange) showAccount() error {
	path := ""
	if name := x.Request.PathValue("tab"); name != "" {
		path = "/" + name
	}
	return x.showTab(path)
}

func (x *exchange) showTab(path string) error {
	at := slices.IndexFunc(tabs, func(t tab) bool { return t.Path == path })
	if at < 0 {
		return errNoPage
	}
	v := &accountView{Tab: tabs[at], Tabs: tabs, Plans: plan.IDs}
	about := "/admin/accounts/" + url.PathEscape(x.Request.PathValue("id"))
	if err := x.get(about, nil, v); err != nil {
		return err
	}
	show := view{Title: cmp.Or(v.Account.Name, v.Account.ID), Section: "Accounts", Page: v}
	var err error
	switch path {
	case "":
		err = x.overview(about, v)
	case "/ledger":
		return x.ledger(about+"/ledger", v, show)
	case "/payments":
		_, err = x.rows("/admin/payments", url.Values{"account": {v.Account.ID}, "sort": {"-paid"}}, "payments", &v.Payments)
	case "/people":
		if _, err = x.rows(about+"/keys", nil, "keys", &v.Keys); err == nil && x.me.May("support") &&
			v.Account.Status != "closed" {
			_, err = x.rows(about+"/sign-in-emails", nil, "sign_in_emails", &v.Emails)
		}
	case "/actions":
		_, err = x.rows("/admin/actions", url.Values{"stream": {account.Stream(v.Account.ID)},
			"limit": {strconv.Itoa(ledgerEntries)}}, "actions", &v.Actions)
	}
	if err != nil {
		return err
	}
	if v.Usage.Usage != nil && v.Usage.Behind != nil {
		show.Notice = behind
	}
	return x.show(http.StatusOK, "account", show)
}

func (x *exchange) overview(about string, v *accountView) (err error) {
	newest := func(limit int, filter, value string) url.Values {
		return url.Values{"order": {"newest"}, "limit": {strconv.Itoa(limit)}, filter: {value}}
	}
	if _, err = x.rows(about+"/ledger", newest(latestEntries, "credits", "true"), "entries", &v.Entries); err != nil {
		return err
	}
	more, err := x.rows(about+"/ledger", newest(shownNotes, "type", "AccountNoted"), "entries", &v.Notes)
	if err != nil {
		return err
	}
	v.MoreNotes = more != ""
	used, err := x.Audit.Usage(x.Ctx, v.Account.ID, v.OpenedAt, x.Request.URL.Query().Get("period"))
	v.Usage = audit.UsagePage{Usage: used, Static: x.static, URL: "/accounts/" + url.PathEscape(v.Account.ID),
		Status: v.Account.Status}
	return err
}

// ledger shows the entries that the filter of the request selects, the newest first.
func (x *exchange) ledger(path string, v *accountView, shown view) error {
	v.Query, v.Kinds = x.filter("type", "from", "to", "domain", "request_id", "cursor"), adminapi.EntryTypes()
	query := maps.Clone(v.Query)
	query.Set("order", "newest")
	query.Set("limit", strconv.Itoa(ledgerEntries))
	return x.listed(path, query, shown, func() (err error) {
		v.Older, err = x.rows(path, query, "entries", &v.Entries)
		return err
	}, "account")
}

func (x *exchange) changeAccount() error {
	id, action := x.Request.PathValue("id"), x.Request.PathValue("action")
	path := "/admin/accounts/" + url.PathEscape(id)
	var send func() error
	switch action {
	case "grant":
		send = func() error { return x.grant(path + "/grants") }
	case "plan":
		send = x.sender(http.MethodPut, path+"/plan", "plan")
	case "suspend":
		send = x.sender(http.MethodPost, path+"/suspend", "reason")
	case "note":
		send = x.sender(http.MethodPost, path+"/notes", "text")
	case "signout":
		send = x.sender(http.MethodPost, path+"/sign-out", "person")
	case "email":
		send = func() error { return x.setEmail(path) }
	case "unemail":
		send = func() error { return x.putEmail(path, "") }
	case "reinstate", "close":
		send = x.sender(http.MethodPost, path+"/"+action)
	case "reverse":
		send = x.sender(http.MethodPost, path+"/reversals", "request_id", "reason")
	case "revoke":
		send = x.sender(http.MethodDelete, "/admin/keys/"+url.PathEscape(x.Form.Get("key")))
	case "limit":
		send = func() error {
			limit, err := x.whole("limit")
			if err != nil {
				return err
			}
			return x.call(http.MethodPut, "/admin/keys/"+url.PathEscape(x.Form.Get("key"))+"/limit",
				map[string]any{"limit": limit, "period": x.Form.Get("period")}, nil)
		}
	case "key":
		return x.issueKey(path)
	case "link":
		return x.link(path+"/login-link", []string{"person"}, "a person in to the dashboard of the account",
			"/accounts/"+url.PathEscape(id)+"/people", func() error { return x.showTab("/people") })
	default:
		return errNoPage
	}
	tab := cmp.Or(tabOf[action], "/actions")
	show := func() error { return x.showTab(tab) }
	if about := x.aboutAccount(action, path); about != nil {
		if asked, err := x.ask(action, about, show); asked {
			return err
		}
		if action == "reverse" { // whose reason is typed there
			first := show
			show = func() error { return x.askAgain(action, about, first) }
		}
	}
	return x.act(action, send, "/accounts/"+url.PathEscape(id)+tab, action, show)
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
	in := x.fields("kind", "payment_id", "reason")
	in["credits"] = credits
	if money != nil {
		in["money"], in["currency"] = money, x.Form.Get("currency")
	}
	return x.call(http.MethodPost, path, in, nil)
}

func (x *exchange) issueKey(path string) error {
	var issued adminapi.IssuedKey
	if err := x.call(http.MethodPost, path+"/keys",
		map[string]any{"kind": x.Form.Get("kind"), "name": x.Form.Get("name")}, &issued); err != nil {
		return x.reject("key", err, func() error { return x.showTab("/people") })
	}
	return x.secret(secretView{Title: "The key is issued",
		Text: "It is shown only now.", Secrets: []secret{{"The " + issued.Kind + " key", issued.Key}},
		Back: "/accounts/" + url.PathEscape(x.Request.PathValue("id")), BackTo: "The account"})
}

// link shows a sign-in link that a form asks for. show is the page of the form.
func (x *exchange) link(path string, fields []string, signsIn, back string, show func() error) error {
	var link struct {
		URL string `json:"url"`
	}
	if err := x.call(http.MethodPost, path, x.fields(fields...), &link); err != nil {
		return x.reject("link", err, show)
	}
	return x.secret(secretView{Title: "A sign-in link",
		Text:    "It signs " + signsIn + ", once, within 15 minutes. It is shown only now.",
		Secrets: []secret{{"The link", link.URL}}, Back: back, BackTo: "Back"})
}
