package dashboard

import (
	"cmp"
	"embed"
	"html/template"
	"strconv"

	"letterhead/dashboard/site"
	"letterhead/domain/signin"
	"letterhead/internal/web"
	"letterhead/projections/ledger"
)

//go:embed files
var files embed.FS

// names of the pages, which are files/NAME.html.
var names = []string{"signin", "signout", "overview", "keys", "issued", "revoke", "ledger", "request", "replay",
	"statements", "usage", "credits", "leave", "notices", "playground", "problem"}

type view struct {
	Title   string
	Section string // of the navigation; empty for a page that is not in it
	Notice  string // about what the page does not show
	Page    any    // of the page
	Refresh int    // seconds after which a browser without scripts loads the page again; 0 for never

	// Set by show.
	*site.Static
	Base       string
	HTMXConfig string
	Session    *signin.Session // nil if the page is shown without one
	Account    string          // name of the account, or its id
	AccountID  string
	Status     string // of the account
	Form       string // token of forms
	RequestID  string
	Sections   []section
}

type section struct{ Name, Path string }

var sections = []section{
	{"Overview", ""}, {"Usage", "/usage"}, {"Keys", "/keys"}, {"Ledger", "/ledger"}, {"Replay", "/replay"},
	{"Statements", "/statements"}, {"Playground", "/playground"}, {"Credits", "/credits"}, {"Notices", "/notices"},
}

func (x *exchange) show(status int, name string, v view) error {
	v.Static, v.Base, v.HTMXConfig = x.static, x.base, site.HTMXConfig
	v.RequestID, v.Sections = x.ID, sections
	if x.account != nil {
		v.Session, v.Form = &x.session, web.FormToken(x.Token)
		v.AccountID, v.Account = x.account.ID, cmp.Or(x.name, x.account.ID)
		v.Status = string(x.account.Status)
	}
	return x.Show(status, x.templates[name], v)
}

// functions are those of the templates, besides the shared ones.
var functions = template.FuncMap{
	"rate":  rate,
	"lines": func(base string, all []ledger.Line) any { return struct{ Base, Lines any }{base, all} },
}

// rate is a rate with one decimal below 100.
func rate(perDay float64) string {
	if perDay >= 99.95 || perDay == float64(int64(perDay)) {
		return site.Number(int64(perDay + 0.5))
	}
	return strconv.FormatFloat(max(perDay, 0.1), 'f', 1, 64)
}
