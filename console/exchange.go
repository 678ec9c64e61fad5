package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/adminapi"
	"letterhead/internal/web"
)

type exchange struct {
	web.Page
	*Console
	me operator // the token's owner; empty before it is known

	rejected    string // name of the form that the API rejected
	problem     *problem
	wrong       string // name of the field that the reason is about; empty if it is about no field of the page
	kept        string // name of the form that is shown again with what was typed
	apiID       string // id of the request of the API that failed
	unconfirmed bool   // the API has done something that not every node has confirmed
}

// operator is the owner of a token, as the API answers it.
type operator struct {
	Token       adminapi.Token `json:"token"`
	Permissions []string       `json:"permissions"`
}

// May reports whether the operator has a permission of the API.
func (o operator) May(permission string) bool { return slices.Contains(o.Permissions, permission) }

// cookieOf returns the cookie with the operator's token. The listener has no TLS, so only a proxy knows whether the
// browser's connection is encrypted.
func cookieOf(r *http.Request) web.Cookie {
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return web.Cookie{Name: "letterhead_operator", Path: "/", TLS: strings.EqualFold(strings.TrimSpace(proto), "https")}
}

func (x *exchange) run(p page) error {
	if err := x.ReadForm(maxForm); err != nil {
		return err
	}
	if x.Request.Method == http.MethodPost && !p.open && !x.FromOwnPage() {
		return errOtherSite
	}
	if p.open { // anyone can send these requests, so they wait for each other and take no room from operators
		if err := x.opening.Acquire(x.Ctx, 1); err != nil {
			return errTooMany
		}
		defer x.opening.Release(1)
		return p.serve(x)
	}
	if !x.running.TryAcquire(1) {
		return errTooMany
	}
	defer x.running.Release(1)
	if x.Token == "" {
		return errSignedOut
	}
	if err := x.get("/admin/me", nil, &x.me); err != nil {
		return err
	}
	return p.serve(x)
}

// redirect leads the browser to a page with GET. The page says that something was done, if it is one of the keys of
// done.
func (x *exchange) redirect(page, done string) error {
	query := url.Values{}
	if done != "" {
		query.Set("done", done)
	}
	if x.unconfirmed {
		query.Set("unconfirmed", "true")
	}
	if len(query) > 0 {
		separator := "?"
		if strings.Contains(page, "?") {
			separator = "&"
		}
		page += separator + query.Encode()
	}
	return x.Redirect(page)
}

// act sends a form to the API. If the API accepts it, the browser is led to a page with a sentence of done; if it
// rejects the input, show shows the page again, with the reason and the values of the form.
func (x *exchange) act(form string, send func() error, page, done string, show func() error) error {
	err := send()
	if err == nil {
		return x.redirect(page, done)
	}
	return x.reject(form, err, show)
}

// reject shows a form again if the API has rejected its input, and returns every other error.
func (x *exchange) reject(form string, err error, show func() error) error {
	var p *problem
	if !errors.As(err, &p) || !slices.Contains(rejections, p.Status) {
		return err
	}
	if strings.Contains(p.Text, headerKey) { // the API's words for programs
		p = &problem{Status: p.Status, Title: p.Title,
			Text: "This form was sent before, with other values. Check it and send it again."}
	}
	x.rejected, x.problem = form, p
	x.wrong, x.problem = wrongField(form, p)
	return show()
}

// fieldsOf are the fields of each form beside which a sentence is shown.
var fieldsOf = map[string][]string{
	"open": {"name", "plan"}, "grant": {"kind", "credits", "payment_id", "money", "currency", "reason"},
	"plan": {"plan"}, "reverse": {"request_id", "reason"}, "link": {"person", "operator", "scope"},
	"email": {"person", "email"}, "signout": {"person"}, "key": {"name", "kind"}, "note": {"text"}, "suspend": {"reason"},
	"limit":  {"key", "limit", "period"},
	"refund": {"credits", "money", "currency", "refund_id"}, "override": {"field", "value", "reason"},
	"remove": {"field"}, "token": {"name", "scope", "expires"}, "customer": {"customer", "account"},
	"filter": {"q", "from", "to", "actor", "stream", "account", "currency"},
}

// wrongField returns the field of a form that a problem is about, as its text names it for programs, and the problem in
// words for people. The field is empty if it is about none.
func wrongField(form string, p *problem) (field string, said *problem) {
	for _, name := range fieldsOf[form] {
		for _, kind := range []string{"field ", "parameter "} {
			if before, after, ok := strings.Cut(p.Text, "The "+kind+name); ok && !strings.HasPrefix(after, "_") {
				words := *p
				if strings.HasPrefix(after, ":") {
					words.Text = before + strings.TrimSpace(strings.TrimPrefix(after, ":"))
				} else {
					words.Text = before + "This field" + after
				}
				return name, &words
			}
		}
	}
	for _, name := range fieldsOf[form] {
		if p.Field == name || strings.Contains(name, "_") && strings.Contains(p.Text, name) {
			return name, p
		}
	}
	return "", p
}

// rejections are the statuses with which the API rejects input.
var rejections = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}

// whole returns a whole number of a form; nil if the field is empty.
func (x *exchange) whole(field string) (*int64, error) {
	text := x.Form.Get(field)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, wrongInput(field, fmt.Sprintf("Give a whole number such as 100, not %q.", text))
	}
	return &n, nil
}

// fields returns fields of the form as a body; nil without any.
func (x *exchange) fields(names ...string) map[string]any {
	if len(names) == 0 {
		return nil
	}
	in := map[string]any{}
	for _, name := range names {
		in[name] = x.Form.Get(name)
	}
	return in
}

// sender returns a function that sends fields of the form to the API.
func (x *exchange) sender(method, path string, names ...string) func() error {
	return func() error { return x.call(method, path, x.fields(names...), nil) }
}

// get sends a GET request to the API, and decodes the answer.
func (x *exchange) get(path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return x.call(http.MethodGet, path, nil, out)
}

const headerKey = "Idempotency-Key"

// call sends a request to the API as send does, and decodes the answer. out may be nil.
func (x *exchange) call(method, path string, in map[string]any, out any) error {
	w, err := x.send(method, path, in)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		return fmt.Errorf("decode the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request to the API as the operator. The form that it comes from has an id, so that sending it twice does
// nothing twice. in may be nil. An answer that is an error becomes a *problem.
func (x *exchange) send(method, path string, in map[string]any) (*web.Answer, error) {
	w := web.NewAnswer()
	if err := x.sendTo(w, w, method, path, in); err != nil {
		return nil, err
	}
	x.unconfirmed = x.unconfirmed || w.Header().Get("X-Unconfirmed") != ""
	return w, nil
}

// sendTo is send for an answer that goes to w, and to held if it is an error.
func (x *exchange) sendTo(w http.ResponseWriter, held *web.Answer, method, path string, in map[string]any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(x.Ctx, method, path, body)
	if err != nil {
		return err
	}
	r.Host, r.RemoteAddr = x.Request.Host, x.Request.RemoteAddr
	r.Header["X-Forwarded-For"] = x.Request.Header["X-Forwarded-For"]
	r.Header.Set("Authorization", "Bearer "+x.Token)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if once := x.Form.Get("once"); method != http.MethodGet && once != "" {
		r.Header.Set(headerKey, once)
	}
	x.API.ServeHTTP(w, r)
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	if held.Status >= http.StatusBadRequest {
		x.apiID = held.Header().Get("X-Request-Id")
		return problemOf(held)
	}
	return nil
}

// passing passes an answer on while it is made, unless it is an error.
type passing struct {
	*web.Answer // has the headers, and the error
	to          http.ResponseWriter
	begun       bool
}

func (p *passing) WriteHeader(status int) {
	p.Status = status
	if p.begun = status == http.StatusOK; p.begun {
		for _, name := range []string{"Content-Type", "Content-Disposition", "Content-Length"} {
			if value := p.Header().Get(name); value != "" {
				p.to.Header().Set(name, value)
			}
		}
		p.to.WriteHeader(status)
	}
}

// Unwrap returns the writer whose deadline http.ResponseController sets.
func (p *passing) Unwrap() http.ResponseWriter { return p.to }

func (p *passing) Write(body []byte) (int, error) {
	if p.begun {
		return p.to.Write(body)
	}
	return p.Answer.Write(body)
}

// problemOf returns an error of the API as a page shows it.
func problemOf(w *web.Answer) *problem {
	var answer struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer.Error.Message == "" {
		answer.Error.Message = "The API answered " + http.StatusText(w.Status) + "."
	}
	switch w.Status {
	case http.StatusUnauthorized:
		return errSignedOut
	case http.StatusForbidden:
		return &problem{Status: w.Status, Title: "You may not do this", Text: answer.Error.Message}
	case http.StatusNotFound:
		return &problem{Status: w.Status, Title: "Not found", Text: answer.Error.Message}
	case http.StatusTooManyRequests:
		return errTooManyFailures
	case http.StatusServiceUnavailable:
		return &problem{Status: w.Status, Title: "A part of the service does not answer",
			Text: strings.ReplaceAll(answer.Error.Message, ", with the same "+headerKey+" if it had one", "")}
	case http.StatusInternalServerError:
		return &problem{Status: w.Status, Title: "Something failed on our side", Text: answer.Error.Message}
	}
	return &problem{Status: w.Status, Title: "The request was rejected", Text: answer.Error.Message}
}
