package console

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"letterhead/adminapi"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/internal/web"
)

//go:embed files
var files embed.FS

// names of the pages, which are files/NAME.html.
var names = []string{"signin", "problem", "health", "rebuild", "accounts", "account", "replay", "story", "secret",
	"payments", "payment", "inbox", "books", "revenue", "brands", "brand", "crawls", "operators", "actions", "search", "confirm"}

type section struct{ Name, Path string }

var sections = []section{
	{"Health", "/"}, {"Accounts", "/accounts"}, {"Payments", "/payments"}, {"Inbox", "/inbox"}, {"Books", "/books"},
	{"Brands", "/brands"}, {"Crawls", "/crawls"}, {"Operators", "/operators"}, {"Actions", "/actions"},
}

type view struct {
	Title   string
	Section string // of the navigation; empty for a page that is not in it
	Page    any    // of the page
	Notice  string // about what the page does not show
	Refresh int    // seconds after which a browser without scripts loads the page again; 0 for never

	// Set by show.
	Static   *site.Static
	Icon     string
	HTMX     string // configuration
	Me       operator
	Done     string // what the last form did
	Reason   string // why the form was rejected that was sent
	Path     string // of the request
	Searched string // text of the field of the search
	Sections []section
	x        *exchange
}

// reversible returns the ids of the charges on a page that its operator may reverse, but for those whose reversal is on
// another page.
func (v view) reversible(entries []adminapi.LedgerEntry, may bool) map[string]bool {
	ids := map[string]bool{}
	for _, e := range slices.Backward(entries) {
		if e.ChargeID != "" && e.Amount != 0 {
			ids[e.ChargeID] = may && e.Amount < 0 && v.x.Now().Sub(e.At) < account.ReversalWindow
		}
	}
	return ids
}

// done are sentences about what forms did, by the parameter with which they lead to a page.
var done = map[string]string{
	"rebuild": "The rebuild has begun.", "open": "The account is open.", "grant": "The credits are granted.",
	"plan": "The plan is changed.", "note": "The note is added.", "email": "The address is set.",
	"unemail":   "The address is removed.",
	"signout":   "The sessions are ended, and the links that were not used are withdrawn.",
	"suspend":   "The account is suspended.",
	"reinstate": "The account is reinstated.", "close": "The account is closed.",
	"limit":  "The limit of the key is changed.",
	"revoke": "The key is revoked.", "reverse": "The charges of the request are reversed.",
	"refund": "The refund is recorded.", "replay": "The report is decided again.",
	"dismiss":  "The report is dismissed.",
	"customer": "The customer is linked. Reports that were in the inbox because the customer was not are decided again.",
	"month":    "The month is closed.", "override": "The field is set.", "remove": "Crawls decide the field again.",
	"crawl": "A crawl is requested.", "claim": "The brand is claimed.", "withdraw": "The brand is withdrawn.",
	"token": "The token is revoked.",
}

// unconfirmed follows a sentence of done.
const unconfirmed = " Not every node has confirmed it yet."

// Sent returns a field of the form that was sent.
func (v view) Sent(name string) string { return v.x.Form.Get(name) }

// Form returns a form of the page: empty, or as it was typed if it was rejected.
func (v view) Form(name string) form {
	f := form{Token: web.FormToken(v.x.Token), Once: v.x.NewID(), values: url.Values{}}
	if v.x.kept != "" && v.x.kept == name { // it may have been done: a repeat does nothing twice
		f.values, f.Once = v.x.Form, v.x.Form.Get("once")
	}
	if v.x.rejected != "" && v.x.rejected == name {
		f.values = v.x.Form
		if f.wrong = v.x.wrong; f.wrong == "" {
			f.Failed = v.x.problem.Text
		} else {
			f.problem = v.x.problem.Text
		}
	}
	return f
}

// form is a form as a page shows it.
type form struct {
	Token  string // shows that it comes from a page of this site
	Once   string // idempotency key
	Failed string // why it was rejected; empty if it was not, or for a reason that is beside a field
	values url.Values

	wrong, problem string // the field that is wrong, and why
}

// Problem returns the sentence beside a field; empty if the field is not wrong.
func (f form) Problem(field string) string {
	if f.wrong != field {
		return ""
	}
	return f.problem
}

// Rejected reports whether the form was sent and rejected.
func (f form) Rejected() bool { return f.Failed != "" || f.problem != "" }

// Get returns the value of a field that was sent, or else a default.
func (f form) Get(field string, byDefault ...string) string {
	if len(byDefault) > 0 && !f.values.Has(field) {
		return byDefault[0]
	}
	return f.values.Get(field)
}

// show answers with a page. The status is that of the rejected form if there is one.
func (x *exchange) show(status int, name string, v view) error {
	v.Static, v.Icon, v.HTMX, v.Me, v.Sections, v.x = x.static, x.BaseURL+"/favicon.ico",
		site.HTMXConfig, x.me, sections, x
	if x.rejected != "" {
		status = x.problem.Status
	}
	v.Path = x.Request.URL.EscapedPath()
	query := x.Request.URL.Query()
	if v.Path == "/search" {
		v.Searched = strings.ToValidUTF8(query.Get("q"), "")
	}
	if x.Request.Method == http.MethodGet {
		if v.Done = done[query.Get("done")]; v.Done != "" && query.Has("unconfirmed") {
			v.Done += unconfirmed
		}
	}
	if x.rejected != "" && x.Request.Method == http.MethodPost {
		v.Reason = strings.Replace(x.problem.Text, "This field", "The field "+strings.ReplaceAll(x.wrong, "_", " "), 1)
	}
	return x.Show(status, x.templates[name], v)
}

// functions are those of the templates, besides the shared ones.
var functions = template.FuncMap{
	"percent": func(at, end any) string { // uint64 or eventlog.Position
		last := reflect.ValueOf(end).Uint()
		return fmt.Sprintf("%d %%", min(reflect.ValueOf(at).Uint(), last)*100/max(last, 1))
	},
	"late": func(lag uint64, behind time.Duration) string {
		if lag == 0 {
			return "up to date"
		}
		return max(behind.Round(time.Second), time.Second).String()
	},
	"first": func(query url.Values) string { return pageOf(query, "") },
	"next":  pageOf,
	"csv": func(query url.Values) string {
		file := maps.Clone(query)
		file.Set("format", "csv")
		return pageOf(file, "")
	},
	"amount": func(minor int64, currency string) string {
		return strings.TrimSuffix(site.Money(minor, currency), " "+currency)
	},
	"pageOf": pageOfStream,
	"spaced": adminapi.Words,
	"filter": func(f form, query url.Values) any { return map[string]any{"Form": f, "Query": query} },
	"entries": func(v view, entries []adminapi.LedgerEntry, url string, may bool) any {
		return map[string]any{"View": v, "Entries": entries, "URL": url, "Reversible": v.reversible(entries, may)}
	},
	"payments": func(all []adminapi.Payment, may bool) any { return map[string]any{"Payments": all, "May": may} },
	"split":    strings.Fields,
	"json":     shortened,
	"words":    func(name string) string { return strings.ReplaceAll(name, "_", " ") },
	"option":   func(name, value, chosen string) any { return struct{ Name, Value, Chosen string }{name, value, chosen} },
	"field":    func(f form, name, label string) any { return map[string]any{"Form": f, "Name": name, "Label": label} },
}

// pageOf returns the query of a page of a listing: the first one if the cursor is empty.
func pageOf(query url.Values, cursor string) string {
	page := maps.Clone(query)
	page.Del("cursor")
	if cursor != "" {
		page.Set("cursor", cursor)
	}
	if len(page) == 0 {
		return ""
	}
	return "?" + page.Encode()
}

// maxShown limits a value in a history, in bytes.
const maxShown = 2000

// shortened returns a JSON value as text.
func shortened(value json.RawMessage) string {
	if len(value) > maxShown {
		return strings.ToValidUTF8(string(value[:maxShown]), "") + "…"
	}
	return string(value)
}
