package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/htmx"
)

//go:embed files
var files embed.FS

// policy is the Content-Security-Policy of the pages: everything comes from files of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// names of the pages, which are files/NAME.html.
var names = []string{"signin", "signout", "overview", "keys", "issued", "revoke", "ledger", "request", "replay", "statements", "usage", "credits", "pay", "notices", "playground", "problem"}

// pages are the templates and the files that they refer to.
type pages struct {
	policy        string
	base          string
	templates     map[string]*template.Template
	static        map[string]http.Handler // by name
	style, script string                  // paths

	uplot, uplotStyle, charts string // paths
}

func newPages(base string) (*pages, error) {
	p := &pages{policy: policy, base: base, templates: map[string]*template.Template{}, static: map[string]http.Handler{}}
	for _, name := range names {
		t, err := template.New(name).Funcs(functions).ParseFS(files, "files/layout.html", "files/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("parse a page of the dashboard: %w", err)
		}
		p.templates[name] = t
	}
	var err error
	if p.style, err = p.add("style.css", "text/css; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.script, err = p.add("dashboard.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	return p, p.addCharts()
}

// add adds a static file, and returns its path. The path has a part of the file's hash in it, so that browsers may keep the
// file forever.
func (p *pages) add(file, contentType string) (string, error) {
	body, err := files.ReadFile("files/" + file)
	if err != nil {
		return "", fmt.Errorf("read a file of the dashboard: %w", err)
	}
	sum := sha256.Sum256(body)
	extension := path.Ext(file)
	name := strings.TrimSuffix(file, extension) + "-" + hex.EncodeToString(sum[:6]) + extension
	return p.serve(name, contentType, body), nil
}

// serve adds a static file whose name changes with its content, and returns its path.
func (p *pages) serve(name, contentType string, body []byte) string {
	p.static[name] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // an error means that the client has left
	})
	return p.base + "/static/dashboard/" + name
}

// view is the data of a template.
type view struct {
	Title   string
	Section string // of the navigation; empty for a page that is not in it
	Notice  string // about what the page does not show
	Page    any    // of the page
	Refresh int    // seconds after which a browser without scripts loads the page again; 0 for never

	// Set by show.
	Base             string
	Style, Script    string
	HTMX, HTMXConfig string
	Session          *Session // nil if the page is shown without one
	Account          string   // name of the account, or its id
	AccountID        string
	Status           string // of the account
	Form             string // token of forms
	RequestID        string
	Sections         []section
}

// section is an entry of the navigation.
type section struct{ Name, Path string }

var sections = []section{{"Overview", ""}, {"Usage", "/usage"}, {"Keys", "/keys"}, {"Ledger", "/ledger"}, {"Replay", "/replay"}, {"Statements", "/statements"}, {"Playground", "/playground"}, {"Credits", "/credits"}, {"Notices", "/notices"}}

// show answers with a page.
func (x *exchange) show(status int, name string, v view) error {
	v.Base, v.Style, v.Script = x.base, x.pages.style, x.pages.script
	v.HTMX, v.HTMXConfig = x.base+htmx.Path, "includeIndicatorCSS:false history:reload"
	v.RequestID, v.Sections = x.requestID(), sections
	if x.account != nil {
		v.Session, v.Form = &x.session, formToken(x.token)
		v.AccountID, v.Account, v.Status = x.account.ID, x.name, string(x.account.Status)
		if v.Account == "" {
			v.Account = x.account.ID
		}
	}
	var body bytes.Buffer
	if err := x.pages.templates[name].ExecuteTemplate(&body, "page", v); err != nil {
		return fmt.Errorf("render the page %s: %w", name, err)
	}
	x.send(status, "text/html; charset=utf-8", body.Bytes())
	return nil
}

// functions are those of the templates.
var functions = template.FuncMap{
	"number":  number,
	"signed":  signed,
	"credits": credits,
	"rate":    rate,
	"count":   func(n uint64) string { return number(int64(n)) },
	"lines":   func(base string, all []line) any { return struct{ Base, Lines any }{base, all} },
	"segment": url.PathEscape,
	"wrong":   func(field, problem string) any { return struct{ Field, Problem string }{field, problem} },
	"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"minute":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" },
	"second":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
	"date":    func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"long":    func(t time.Time) string { return t.UTC().Format("2 January 2006") },
	"month":   func(t time.Time) string { return t.UTC().Format("January 2006") },
	"yyyymm":  func(t time.Time) string { return t.UTC().Format(books.MonthLayout) },
}

// number groups the digits of a number, and gives it the minus sign, which is as wide as a digit.
func number(n int64) string {
	return strings.Replace(books.Grouped(strconv.FormatInt(n, 10)), "-", "−", 1)
}

// signed is number with a sign, except for 0.
func signed(n int64) string {
	if n > 0 {
		return "+" + number(n)
	}
	return number(n)
}

// credits is a number of credits in words.
func credits(n int64) string {
	if n == 1 {
		return "1 credit"
	}
	return number(n) + " credits"
}

// rate is a rate with one decimal below 100.
func rate(perDay float64) string {
	if perDay >= 99.95 || perDay == float64(int64(perDay)) {
		return number(int64(perDay + 0.5))
	}
	return strconv.FormatFloat(max(perDay, 0.1), 'f', 1, 64)
}
