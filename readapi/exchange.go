package readapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"letterhead/commands"
	"letterhead/internal/contentcoding"
	"letterhead/internal/imaging"
	"letterhead/internal/web"
	"letterhead/readapi/lookup"
)

// exchange is one request and its answer, from the router to the log line. It is the ResponseWriter of
// everything below the router.
type exchange struct {
	web.Exchange
	api     *API
	request *http.Request
	ctx     context.Context // of the work: it ends when the client leaves, and at the latest at the request's deadline
	own     http.Header     // of the answer, if it may be sent past net/http; see ownHeader
	past    bool            // it is
	values  [8]string       // of headers; see setHeader
	set     int             // the number of values
	start   time.Time

	caller  Caller // set once the key is known
	credits bool   // the answer carries X-Credits-Remaining

	// topMessage makes errors repeat their message at the top level, as in the third-party shape of /v2.
	topMessage bool
	plain      bool // errors are plain text, not the error body
	rpc        bool // errors are JSON-RPC errors, not the error body

	profile    *profileHost // of a request for a logo; nil at /logo on the host of the API
	identifier string       // of the brand in the path, if the router was not asked

	problem *Problem
	domain  string      // for the log
	cache   string      // for the log
	notes   []slog.Attr // of the route, for the log
}

func (x *exchange) Header() http.Header {
	if x.own != nil {
		return x.own
	}
	return x.ResponseWriter.Header()
}

func (x *exchange) WriteHeader(status int) {
	if x.own != nil && x.Status == 0 {
		if x.past = status == http.StatusOK && connOf(x.request.Context()).beginAnswer(x.own); x.past {
			x.Status = status
			x.ResponseWriter.WriteHeader(http.StatusNoContent) // which the connection drops
			return
		}
		maps.Copy(x.ResponseWriter.Header(), x.own)
		x.own = nil
	}
	if x.Status == 0 {
		if connOf(x.request.Context()).endsWithAnswer() {
			x.Header()["Connection"] = connectionClose
		}
		if h := x.Header(); len(h["Content-Type"]) == 1 && h["Content-Type"][0] == web.HTML[0] {
			h["Cross-Origin-Opener-Policy"], h["Referrer-Policy"] = ownWindow, noReferrer
		}
	}
	x.Exchange.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	if x.own != nil && !x.past {
		x.WriteHeader(http.StatusOK)
	}
	if !x.past {
		return x.Exchange.Write(b)
	}
	n, err := connOf(x.request.Context()).Write(b)
	x.Written += int64(n)
	return n, err
}

// clientGone reports whether the client has left.
func (x *exchange) clientGone() bool { return x.request.Context().Err() != nil }

// command returns the metadata of the events that this request causes.
func (x *exchange) command() commands.Request {
	return commands.Request{ID: x.ID, Actor: "account:" + x.caller.AccountID, CorrelationID: x.ID}
}

// Constant header values. Handlers share the slices; adding to a header allocates a new one, because
// none has spare capacity.
var (
	cachePrivate = []string{"private"}
	cacheNever   = []string{"no-store"}
	noSniff      = []string{"nosniff"}
	noReferrer   = []string{"no-referrer"}
	ownWindow    = []string{"same-origin"}
	// onlyTLS makes browsers use https for this host for a year, the minimum for their preload lists. It leaves out the
	// other hosts of the domain, which may belong to other services.
	onlyTLS   = []string{"max-age=31536000"}
	anyOrigin = []string{"*"}
	exposed   = []string{
		"X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Credits-Remaining, " +
			"Retry-After, ETag, X-Cache, X-Api-Key-Status, X-Logo-Source, X-Logo-Type, X-Logo-Theme",
	}
	cacheHit  = []string{string(lookup.Hit)}
	cacheMiss = []string{string(lookup.Miss)}
	bearer    = []string{"Bearer"}

	connectionClose = []string{"close"}
)

// Our headers. HTTP header names are case-insensitive; these are written to the header map as documented,
// bypassing net/http's own spelling (X-Ratelimit-Limit) and its conversion.
const (
	headerRequestID          = "X-Request-Id"
	headerRateLimitLimit     = "X-RateLimit-Limit"
	headerRateLimitRemaining = "X-RateLimit-Remaining"
	headerRateLimitReset     = "X-RateLimit-Reset"
	headerETag               = "ETag"
	headerAuthenticate       = "WWW-Authenticate"
	headerCreditsRemaining   = "X-Credits-Remaining"
	headerCache              = "X-Cache"
	headerRetryAfter         = "Retry-After"
)

// setCommonHeaders sets the headers of every answer, including errors and redirects.
func (x *exchange) setCommonHeaders() {
	h := x.Header()
	x.setHeader(headerRequestID, x.ID)
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Expose-Headers"] = exposed
	h["X-Content-Type-Options"] = noSniff
	if x.api.secure {
		h["Strict-Transport-Security"] = onlyTLS
	}
}

// closeToOtherSites makes browsers keep the answer from pages of other sites.
func (x *exchange) closeToOtherSites() {
	delete(x.Header(), "Access-Control-Allow-Origin")
	delete(x.Header(), "Access-Control-Expose-Headers")
}

func (x *exchange) setCredits(remaining int64) {
	x.setHeader(headerCreditsRemaining, strconv.FormatInt(max(0, remaining), 10))
}

// setHeader sets a header with one value, which needs no memory of its own.
func (x *exchange) setHeader(name, value string) {
	if x.set == len(x.values) {
		x.Header()[name] = []string{value}
		return
	}
	x.values[x.set] = value
	x.Header()[name] = x.values[x.set : x.set+1 : x.set+1]
	x.set++
}

// send answers with a whole body. Length and body are sent together, so that the connection needs no
// chunks. On HEAD the body is omitted but its length is sent.
func (x *exchange) send(status int, contentType []string, body []byte) {
	coding := x.coding(contentType, len(body))
	web.Send(x, status, contentType, coding, coding.Encode(body))
}

// sendTagged is send for a body with a strong tag: if the client has the body already, the answer is 304. The condition
// applies only to answers that would be 200 (RFC 9110, section 13.2.1).
func (x *exchange) sendTagged(status int, contentType []string, etag string, body []byte) {
	coding := x.coding(contentType, len(body))
	if status == http.StatusOK && x.unmodified(coding, etag) {
		return
	}
	x.Header()[headerETag] = []string{coding.Tag(etag)}
	web.Send(x, status, contentType, coding, coding.Encode(body))
}

// coding chooses the content coding of the answer. A page of a signed-in person is never compressed (BREACH).
func (x *exchange) coding(contentType []string, size int) contentcoding.Coding {
	accepted := x.request.Header["Accept-Encoding"]
	if _, person := signedIn(x.request.Context()); person {
		accepted = nil
	}
	return contentcoding.Choose(x.Header(), accepted, contentType[0], size)
}

// unmodified answers 304, and returns true, if the client has the body with that tag, in any coding. Otherwise it only
// sets the tag.
func (x *exchange) unmodified(coding contentcoding.Coding, etag string) bool {
	h := x.Header()
	h[headerETag] = []string{coding.Tag(etag)}
	matched := contentcoding.Match(x.request.Header["If-None-Match"], etag)
	if matched == "" {
		return false
	}
	if matched != "*" { // the client's copy, which may have another coding
		h[headerETag] = []string{matched}
	}
	x.WriteHeader(http.StatusNotModified)
	return true
}

// sendJSON answers 200 with one of our values, which always encodes, and with its Cache-Control.
func (x *exchange) sendJSON(cache []string, value any) error {
	x.Header()["Cache-Control"] = cache
	return web.EncodeJSON(value, func(body []byte) { x.send(http.StatusOK, web.JSON, body) })
}

// errorBody is the error body of the OpenAPI description; Message is present on /v2 only.
type errorBody struct {
	Error   errorObject `json:"error"`
	Message string      `json:"message,omitempty"`
}

type errorObject struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Docs    string `json:"docs,omitempty"`
	Details any    `json:"details,omitempty"`
}

// fail answers with the error body. If the answer has already begun, or the client has left, it only
// records the problem for the log.
func (x *exchange) fail(err error) {
	p := problemOf(err, x.api.Now(), x.api.BillingURL)
	if x.plain { // files and logos, which are free
		p = withoutCredits(p)
	}
	if x.clientGone() || errors.Is(err, errClientGone) {
		x.Status = cmp.Or(x.Status, statusClientGone)
		if p.Code == CodeInternalError {
			x.problem = p // an internal fault is logged even if no client sees it
		}
		return
	}
	x.problem = p
	if x.Status != 0 {
		return
	}
	h := x.Header()
	h["Cache-Control"] = cacheNever
	delete(h, headerCache)
	delete(h, headerETag)
	if x.credits {
		x.setCreditsBeside(p)
	}
	if p.RetryAfter > 0 {
		h[headerRetryAfter] = []string{strconv.FormatInt(int64(p.RetryAfter/time.Second), 10)}
	}
	if p.Status == http.StatusUnauthorized {
		h[headerAuthenticate] = bearer
	}
	if x.plain {
		x.send(p.Status, web.Text, []byte(p.Text+"\n"))
		return
	}
	if x.rpc {
		x.send(p.Status, web.JSON, x.rpcBody(p))
		return
	}
	body := errorBody{Error: errorObject{Code: p.Code, Message: p.Text, Docs: x.api.docsURL(p.Code),
		Details: p.Details}}
	if x.topMessage {
		body.Message = p.Text
	}
	if err := web.EncodeJSON(body, func(body []byte) { x.send(p.Status, web.JSON, body) }); err != nil {
		x.api.Logger.ErrorContext(x.ctx, "error body does not encode", "request_id", x.ID, "error", err)
	}
}

// creditsWithin limits how long an error waits for the credits in its header.
const creditsWithin = 250 * time.Millisecond

// setCreditsBeside sets the credits header of an error: on a 402 the spendable amount, which is less
// than the balance while credits are reserved. A 403 has none. If the account writer fails, the header is
// omitted, and one whose log has just failed is not asked.
func (x *exchange) setCreditsBeside(p *Problem) {
	switch {
	case p.Code == CodeInsufficientCredits:
		x.setCredits(*p.Details.(*Details).Balance)
		return
	case isOfTheLog(p), p.Status == http.StatusForbidden:
		delete(x.Header(), headerCreditsRemaining)
		return
	}
	// The request's own context, because that of the work may have expired.
	ctx, cancel := context.WithTimeout(x.request.Context(), creditsWithin)
	defer cancel()
	if remaining, err := x.api.lookup.Credits(ctx, x.caller.AccountID); err == nil {
		x.setCredits(remaining)
	} else {
		delete(x.Header(), headerCreditsRemaining)
	}
}

// Operator describes whose service this is, for the pages.
type Operator struct {
	Name    string // of the service
	Accent  string // color of links and buttons, in CSS; "" = that of the pages
	Contact string // URL at which visitors get an account; "" = none
	Console string // URL of the operators' pages, if visitors reach them; otherwise ""
}

// frame is what the pages have in common.
type frame struct {
	Operator
	BaseURL string
	Style   template.CSS
}

// view is the data that the templates of all pages use.
type view struct {
	frame
	Title string
	Paint template.CSS // colors of this page, or ""
}

func newFrame(baseURL string, by Operator) (frame, error) {
	style, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		return frame{}, fmt.Errorf("read the pages' style: %w", err)
	}
	f := frame{Operator: by, BaseURL: baseURL, Style: template.CSS(style)}
	if accent, _, ok := imaging.ParseColor(by.Accent); ok {
		f.Style += web.Marks(accent)
	}
	return f, nil
}

// pageTemplate parses the template of a page, which is pages/NAME.html.
func pageTemplate(name string) (*template.Template, error) {
	t, err := template.New(name).Funcs(referenceFuncs).ParseFS(pageFiles, "pages/layout.html", "pages/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("parse pages/%s.html: %w", name, err)
	}
	return t, nil
}

// render renders a page, whose view is data.
func render(t *template.Template, data any) ([]byte, error) {
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "page", data); err != nil {
		return nil, fmt.Errorf("render pages/%s.html: %w", t.Name(), err)
	}
	return body.Bytes(), nil
}

// policy returns the Content-Security-Policy of a page. Its styles are allowed by their hashes, and nothing else may
// load, except what the directives allow.
func (f frame) policy(directives string, paint template.CSS) []string {
	sources := sourceOf(f.Style)
	if paint != "" {
		sources += " " + sourceOf(paint)
	}
	return []string{"default-src 'none'; " + directives + "; style-src " + sources +
		"; base-uri 'none'; frame-ancestors 'none'"}
}

// sourceOf returns the style in the form of a policy.
func sourceOf(style template.CSS) string {
	hash := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}

// paint returns the rule that gives the selected elements a ground and the more legible of black and white on it.
func paint(selector string, ground imaging.RGB) template.CSS {
	on := imaging.White
	if imaging.Contrast(ground, imaging.Black) > imaging.Contrast(ground, imaging.White) {
		on = imaging.Black
	}
	return template.CSS(fmt.Sprintf("%s{--ground:%s;--on:%s}", selector, ground.Hex(), on.Hex()))
}
