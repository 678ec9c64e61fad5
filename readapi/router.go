package readapi

import (
	"context"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"letterhead/internal/deadline"
	"letterhead/internal/web"
)

// access is the kind of key that an endpoint requires.
type access int

const (
	open      access = iota // no key
	anyKey                  // secret or publishable
	secretKey               // secret only
)

// endpoint is one path of the API with its methods.
type endpoint struct {
	name    string // for logs and metrics
	access  access
	keyInC  bool // a publishable key may come in ?c
	credits bool // every answer to an account carries X-Credits-Remaining
	crawls  bool // a request may wait for a crawl
	plain   bool // errors are plain text, not the error body
	rpc     bool // errors are JSON-RPC errors, not the error body
	methods map[string]func(*exchange) error
	allow   []string // value of the Allow header
}

func newEndpoint(name string, access access, methods map[string]func(*exchange) error) *endpoint {
	names := append(slices.Collect(maps.Keys(methods)), http.MethodOptions)
	slices.Sort(names)
	return &endpoint{name: name, access: access, methods: methods, allow: []string{strings.Join(names, ", ")}}
}

// reads returns the methods of an endpoint that answers GET, and HEAD like it.
func reads(f func(*exchange) error) map[string]func(*exchange) error {
	return map[string]func(*exchange) error{http.MethodGet: f, http.MethodHead: f}
}

// newRouter builds the table of paths. Paths stay encoded (%2F inside an identifier is not a
// separator), and the endpoint distinguishes the methods, so that each has its own Allow header.
func (a *API) newRouter() *mux.Router {
	r := web.NewMux()
	r.NotFoundHandler = http.HandlerFunc(a.serveUnknown)
	post := func(f func(*exchange) error) map[string]func(*exchange) error {
		return map[string]func(*exchange) error{http.MethodPost: f}
	}
	brand := newEndpoint("brand", secretKey, reads((*exchange).serveBrand))
	brand.credits, brand.crawls = true, true
	me := newEndpoint("me", secretKey, reads((*exchange).serveMe))
	me.credits = true
	checkpoint := newEndpoint("checkpoint", open, reads((*exchange).serveCheckpoint))
	checkpoint.plain = true
	search := newEndpoint("search", anyKey, reads((*exchange).serveSearch))
	asset := newEndpoint("cdn", open, reads((*exchange).serveAsset))
	asset.plain = true

	a.routeBatch(r) // first, or "batch" would match as an identifier
	r.Handle(brandPath+"{identifier}", brand)
	a.brand = brand
	r.Handle("/v1/me", me)
	r.Handle("/v1/statements/{month}", newEndpoint("statement", secretKey, reads((*exchange).serveStatement)))
	r.Handle("/v1/ledger", newEndpoint("ledger", secretKey, reads((*exchange).serveLedger)))
	r.Handle("/v1/ledger/checkpoint", checkpoint) // before the next, which would match it
	r.Handle("/v1/ledger/{request_id}", newEndpoint("ledger_request", secretKey, reads((*exchange).serveLedgerRequest)))
	r.Handle("/v1/billing/checkout", newEndpoint("checkout", secretKey, post((*exchange).serveCheckout)))
	r.Handle("/billing/stripe", newEndpoint("stripe", open, post((*exchange).serveStripe)))
	r.Handle("/v1/search", search)
	r.Handle("/cdn/{file}", asset)
	a.routeLogos(r)
	a.routeV2(r)
	a.routeDocs(r)
	a.routeLanding(r)
	r.Handle(elementPath, newEndpoint("element", open, reads((*exchange).serveElement)))
	a.routeAgents(r)
	for pattern, handler := range a.Extra {
		r.Handle(pattern, extraHandler(pattern, handler))
	}
	return r
}

// brandPath is what comes before the identifier in the path of a look-up.
const brandPath = "/v1/brands/"

// domainOf returns the identifier in the path of a look-up if it has a dot, as domains do. Nothing else is served at
// such a path, so that the router need not search for it, nor copy the request.
func domainOf(r *http.Request) (identifier string, ok bool) {
	identifier, ok = strings.CutPrefix(r.URL.EscapedPath(), brandPath)
	return identifier, ok && strings.Contains(identifier, ".") && !strings.Contains(identifier, "/")
}

// extraHandler serves another part's handler under its path's name. Pages of other sites may not read it.
func extraHandler(pattern string, handler http.Handler) http.Handler {
	name := strings.Trim(pattern, "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.request, x.Route = r, name
		x.closeToOtherSites()
		handler.ServeHTTP(x, r)
	})
}

// isDashboard reports whether a path belongs to the dashboard, however it is encoded.
func isDashboard(path string) bool {
	return path == "/dashboard" || strings.HasPrefix(path, "/dashboard/") ||
		strings.HasPrefix(path, "/static/dashboard/")
}

// ServeHTTP passes a routed request through authentication and limits to its handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	x.request, x.Route, x.plain, x.rpc = r, e.name, e.plain, e.rpc
	if r.Method == http.MethodOptions {
		x.answerOptions(e.allow)
		return
	}
	handle, ok := e.methods[r.Method]
	if !ok {
		x.Header()["Allow"] = e.allow
		x.fail(&Problem{Status: http.StatusMethodNotAllowed, Code: CodeInvalidRequest,
			Text: "This path does not answer that method. The Allow header lists those it answers."})
		return
	}
	if e.access != open {
		ctx := deadline.New(r.Context(), e.timeout(x.api))
		defer ctx.End()
		x.ctx = ctx
	}
	if problem := e.letIn(x); problem != nil {
		x.fail(problem)
		return
	}
	if err := e.skipBody(x); err != nil {
		x.fail(err)
		return
	}
	if err := handle(x); err != nil {
		x.fail(err)
	}
}

// maxSkippedBody limits the body of a GET that is read and ignored.
const maxSkippedBody = 16 << 10

// skipBody reads the body that some clients send with a GET, so that their connection can serve the
// next request. Without a key, or with a larger body, the connection ends with the answer instead.
func (e *endpoint) skipBody(x *exchange) error {
	r := x.request
	if e.access == open || r.Method == http.MethodPost || r.ContentLength <= 0 || r.ContentLength > maxSkippedBody ||
		r.Header.Get("Expect") != "" {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return x.bodyProblem(err)
	}
	return nil
}

// timeout is how long the work for a request may take.
func (e *endpoint) timeout(a *API) time.Duration {
	if e.crawls {
		return a.RequestTimeout
	}
	return a.quick
}

func (e *endpoint) letIn(x *exchange) *Problem {
	if e.access == open {
		return nil
	}
	return x.checked(func(ctx context.Context) *Problem {
		caller, problem := x.api.callerOf(ctx, x.request, e.keyInC)
		if problem != nil {
			return problem
		}
		x.caller = caller
		if problem = x.admit(ctx, e.access == secretKey); problem != nil && problem.Status == http.StatusForbidden {
			return problem
		}
		x.credits = e.credits
		return problem
	})
}

// checked runs the checks before a request, within their limits.
func (x *exchange) checked(check func(context.Context) *Problem) *Problem {
	ctx := deadline.New(x.ctx, checksWithin)
	defer ctx.End()
	if !x.api.checks.TryAcquire(1) {
		return unavailable("Too many requests wait for their keys to be checked. Send this one again.",
			retryBusy, errOverloaded)
	}
	defer x.api.checks.Release(1)
	return check(ctx)
}

// serveUnknown answers unknown paths: with a page if a browser asks, otherwise with the error body.
func (a *API) serveUnknown(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	x.Route = "unknown"
	if r.Method == http.MethodOptions && r.URL.Path == "*" { // about the server, not about a path
		x.answerOptions(preflightMethods)
		return
	}
	if x.sendMissing() {
		return
	}
	message := "This path does not exist. The endpoints of the API start with /v1."
	switch sent := r.URL.EscapedPath(); {
	case strings.HasPrefix(sent, "/v1/brands/"):
		message = "This path does not exist. A brand's identifier is one path segment: percent-encode a URL, slashes included."
	case isV2(sent):
		message = "This path does not exist. Below /v2 are /v2/brands/{identifier}, /v2/brands/id/{id}, /v2/brands/domain/{domain} and /v2/search/{name}, each one path segment: percent-encode what goes there, slashes included."
	}
	x.fail(&Problem{Status: http.StatusNotFound, Code: CodeNotFound, Text: message})
}

// redirectOf returns the clean form of a path below /v1 that is not clean (doubled slashes, dot segments, an unencoded
// https:// in front of an identifier). /v2 never redirects, and outside /v1 an unclean path is simply unknown.
func redirectOf(r *http.Request) (location string, ok bool) {
	sent := r.URL.EscapedPath()
	if !strings.HasPrefix(sent, "/") || isV2(sent) {
		return "", false
	}
	clean := path.Clean(sent)
	if strings.HasSuffix(sent, "/") && clean != "/" {
		clean += "/"
	}
	if clean == sent || !strings.HasPrefix(clean, "/v1/") {
		return "", false
	}
	if r.URL.RawQuery != "" {
		clean += "?" + r.URL.RawQuery
	}
	return clean, true
}

// isV2 reports whether a path is meant for /v2, however it is spelled: a base URL that ends in a slash makes it //v2.
func isV2(escapedPath string) bool {
	for segment := range strings.SplitSeq(escapedPath, "/") {
		if segment != "" && segment != "." {
			return segment == "v2"
		}
	}
	return false
}

// redirect sends a client to the clean form. Methods other than GET keep method and body with 308.
func (x *exchange) redirect(location string) {
	status := http.StatusMovedPermanently
	if x.request.Method != http.MethodGet && x.request.Method != http.MethodHead {
		status = http.StatusPermanentRedirect
	}
	h := x.Header()
	h["Location"] = []string{location}
	h["Content-Length"] = []string{"0"}
	x.WriteHeader(status)
}

// Answers to preflights. All origins are allowed and there are no cookies, so neither origin nor headers need a
// decision: pages may run tools that add their own headers (traceparent). The star does not include Authorization, and
// older browsers do not support it. A day is the longest that browsers cache a preflight.
var (
	preflightMethods = []string{"GET, HEAD, POST, OPTIONS"}
	preflightHeaders = []string{
		"Authorization, X-Api-Key, Content-Type, Accept, Idempotency-Key, If-None-Match, X-Request-Id, " +
			"MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID, *",
	}
	preflightMaxAge = []string{"86400"}
)

// isPreflight reports whether the request is a browser's preflight, which is answered for every path:
// a page can read a 404 only if its preflight succeeded.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != ""
}

func (x *exchange) answerPreflight() {
	h := x.Header()
	h["Access-Control-Allow-Methods"] = preflightMethods
	h["Access-Control-Allow-Headers"] = preflightHeaders
	h["Access-Control-Max-Age"] = preflightMaxAge
	x.WriteHeader(http.StatusNoContent)
}

func (x *exchange) answerOptions(allow []string) {
	x.Header()["Allow"] = allow
	x.WriteHeader(http.StatusNoContent)
}
