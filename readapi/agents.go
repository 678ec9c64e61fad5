package readapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/internal/requestbody"
	"letterhead/internal/web"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
	"letterhead/readapi/mcp"
)

// agentsInstructions explains to models how the tools work together.
const agentsInstructions = "Brand data of companies by domain: names, logos, colors, fonts and company facts. " +
	"When only a name is known, call search_brands first and get_brand with the domain of the right match. " +
	"get_brand costs the account one credit for each brand found, so do not ask for the same domain twice, and send an " +
	"idempotency_key with a call that may have to be repeated. " +
	"A result with isError holds a code: after rate_limited wait for retry_after seconds; insufficient_credits and " +
	"quota_exceeded are for the account's owner to settle, so do not try again."

func newAgents(baseURL string) (*mcp.Server, error) {
	return mcp.New(mcp.Config{Name: "letterhead", Title: "Letterhead", Version: "1.0.0",
		Instructions: agentsInstructions, BaseURL: baseURL})
}

// routeAgents adds the MCP endpoint. It checks keys itself, because a foreign host name and a body
// that is too long are rejected first.
func (a *API) routeAgents(r *mux.Router) {
	e := newEndpoint("mcp", open, map[string]func(*exchange) error{http.MethodPost: (*exchange).serveMCP})
	e.rpc = true
	e.allow = []string{"POST, OPTIONS"} // in the order that clients are promised
	r.Handle("/mcp", e)
}

func (x *exchange) serveMCP() error {
	if !x.api.agents.AllowsHost(x.request) {
		return forbidden(
			"The host name of this request is not allowed. Send requests to the configured base URL or to localhost.")
	}
	if x.request.ContentLength > mcp.MaxBody {
		return errAgentBody
	}
	if problem := x.checked(x.identifyAgent); problem != nil {
		return problem
	}
	body, err := requestbody.Read(x.ResponseWriter, x.request, mcp.MaxBody)
	if errors.Is(err, requestbody.ErrTooLarge) {
		return errAgentBody
	}
	if err != nil {
		return x.bodyProblem(err)
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), x.api.RequestTimeout)
	defer cancel()
	x.ctx = ctx
	h := x.Header()
	h["Cache-Control"] = cacheNever
	post, rejection := x.api.agents.Read(x.request.Header, body)
	if rejection != nil {
		x.notes = append(x.notes, slog.Int("rpc_error", rejection.Code))
		x.send(rejection.Status, web.JSON, rejection.Body)
		return nil
	}
	x.notes = append(x.notes, slog.String("rpc_method", strings.Join(post.Methods(), ",")))
	calls := agentCalls{x: x}
	defer calls.reverse()
	reply := x.api.agents.Answer(ctx, post, x.denyCalls(post), calls.run)
	if reply.Code != 0 {
		x.notes = append(x.notes, slog.Int("rpc_error", reply.Code))
	}
	if reply.Body == nil && !x.clientGone() {
		h["Content-Length"] = []string{"0"}
		x.WriteHeader(reply.Status)
		return nil
	}
	err = x.deliver(func() { x.send(reply.Status, web.JSON, reply.Body) })
	calls.sent = err == nil
	return err
}

var errAgentBody = &Problem{Status: http.StatusRequestEntityTooLarge, Code: CodeInvalidRequest,
	Text: "The body is larger than 64 KB. Send fewer messages in one POST."}

// identifyAgent identifies the caller. Unlike at the REST endpoints, nothing is taken from the minute window here.
func (x *exchange) identifyAgent(ctx context.Context) *Problem {
	caller, problem := x.api.authenticate(ctx, x.request.Header)
	if problem != nil {
		return problem
	}
	x.caller = caller
	return x.forbid(true)
}

// denyCalls takes the unit of the minute window that a POST with tool calls costs. It returns the
// answer to each of these calls, or nil if they may run.
func (x *exchange) denyCalls(post *mcp.Post) *mcp.Failure {
	if !post.CallsTools() {
		return nil
	}
	if problem := x.checked(x.takeMinute); problem != nil {
		x.notes = append(x.notes, slog.String("denied", string(problem.Code)))
		return failureOf(problem)
	}
	return nil
}

// agentCalls are the tool calls of one POST.
type agentCalls struct {
	x    *exchange
	sent bool // a byte of the answer was written

	mu      sync.Mutex
	charged []chargedCall
}

type chargedCall struct {
	query  lookup.Query
	answer lookup.Answer
}

// reverse reverses every charge of a POST whose answer was never sent, even after a panic.
func (c *agentCalls) reverse() {
	if c.sent {
		return
	}
	for _, call := range c.charged {
		c.x.api.lookup.Reverse(c.x.ctx, call.query, call.answer)
	}
}

// toolCall is one call with the fields that are logged. Arguments are not logged: identifiers may be e-mail addresses.
type toolCall struct {
	mcp.Call
	id     string // id of the charge
	domain string
	cache  lookup.Cache
}

// run runs one tool call, concurrently with others.
func (c *agentCalls) run(ctx context.Context, in mcp.Call) (result json.RawMessage, err error) {
	x := c.x
	call := &toolCall{Call: in, id: x.ID}
	if in.Batch {
		// The id of a charge is derived from request and domain, so that a repeat charges once. Two
		// calls of a batch for one domain are two look-ups, so each needs its own id.
		call.id += "-" + strconv.Itoa(in.Index)
	}
	defer func() {
		var problem *Problem
		if value := recover(); value != nil { // concurrent calls have no recover above them
			problem = problemOf(&lookup.PanicError{Value: value, Stack: debug.Stack()}, x.api.Now(), x.api.BillingURL)
			result, err = nil, problem // -32603: not an outcome of the tool
		} else if err != nil {
			problem = problemOf(err, x.api.Now(), x.api.BillingURL)
			result, err = nil, outcomeOf(problem)
		}
		x.logCall(call, problem)
	}()
	switch in.Tool {
	case mcp.ToolGetBrand:
		return c.getBrand(ctx, call)
	case mcp.ToolSearchBrands:
		return c.searchBrands(in.Arguments)
	default: // the only tool left; other names were rejected
		return c.logoURL(ctx, call)
	}
}

func (c *agentCalls) getBrand(ctx context.Context, call *toolCall) (json.RawMessage, error) {
	x := c.x
	identifier, err := brand.ParseIdentifier(call.Arguments.String("identifier"))
	if err != nil {
		return nil, err
	}
	request := x.command()
	request.ID = call.id
	q := lookup.Query{Request: request, Caller: x.caller.Caller, Identifier: identifier,
		Refresh: call.Arguments.Bool("refresh")}
	if key := call.Arguments.String("idempotency_key"); key != "" {
		q.Once = lookup.OnceFor(sha256.Sum256([]byte(key)), q)
	}
	answer, err := x.api.lookup.Do(ctx, q)
	call.domain = answer.Domain
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.charged = append(c.charged, chargedCall{q, answer})
	c.mu.Unlock()
	call.cache = answer.Cache
	return answer.Body.AppendTo(nil, x.api.BaseURL), nil
}

func (c *agentCalls) searchBrands(arguments mcp.Arguments) (json.RawMessage, error) {
	query := arguments.String("query")
	results, err := c.x.searchBrands(query, arguments.Int("limit", defaultSearchLimit))
	if err != nil {
		return nil, err
	}
	return json.Marshal(searchBody{Query: query, Results: results})
}

// logoURL is the result of get_logo_url.
type logoURL struct {
	URL    string `json:"url"`
	Domain string `json:"domain"`
}

// logoURL builds the URL of a logo. It crawls nothing and costs nothing.
func (c *agentCalls) logoURL(ctx context.Context, call *toolCall) (json.RawMessage, error) {
	identifier, err := brand.ParseIdentifier(call.Arguments.String("domain"))
	if err != nil {
		return nil, err
	}
	if call.domain, err = c.x.api.lookup.DomainOf(ctx, identifier); err != nil {
		return nil, err
	}
	options := url.Values{}
	for _, name := range []string{"type", "theme", "background", "plate", "format", "fallback"} {
		// The logo endpoint would ignore these if there is a theme.
		ignored := options.Has("theme") && (name == "background" || name == "plate")
		if value := call.Arguments.String(name); value != "" && !ignored {
			options.Set(name, value)
		}
	}
	if size := call.Arguments.Int("size", 0); size > 0 {
		options.Set("size", strconv.Itoa(min(max(size, logo.MinSize), logo.MaxSize)))
	}
	result := logoURL{URL: c.x.api.iconURL(call.domain), Domain: call.domain}
	if len(options) > 0 {
		result.URL += "?" + options.Encode()
	}
	return json.Marshal(result)
}

// outcomeOf turns a problem into a tool's error: invalid arguments are an error of the protocol,
// anything else a result with isError.
func outcomeOf(p *Problem) error {
	if p.Status == http.StatusBadRequest {
		return mcp.InvalidArguments(p.Text, map[string]any{"code": p.Code})
	}
	return failureOf(p)
}

func failureOf(p *Problem) *mcp.Failure {
	// Models see no headers, so the wait is part of the body.
	message := strings.ReplaceAll(p.Text, headerRetryAfter, "retry_after")
	return &mcp.Failure{Code: string(p.Code), Message: message, RetryAfter: retrySeconds(p)}
}

// retrySeconds returns the wait of a problem, or nil if it has none.
func retrySeconds(p *Problem) *int64 {
	if p.RetryAfter <= 0 {
		return nil
	}
	seconds := int64(p.RetryAfter / time.Second)
	return &seconds
}

// rpcBody returns the body of an HTTP rejection on the MCP endpoint: a JSON-RPC error without an id, with the
// fields of the other endpoints' error body as its data.
func (x *exchange) rpcBody(p *Problem) []byte {
	code := mcp.CodeInvalidRequest
	if p.Status >= http.StatusInternalServerError {
		code = mcp.CodeInternalError
	}
	return mcp.Reject(p.Status, &mcp.Error{Code: code, Message: p.Text, Data: rpcData{
		Code: p.Code, Docs: x.api.docsURL(p.Code), RetryAfter: retrySeconds(p),
	}}).Body
}

type rpcData struct {
	Code       Code   `json:"code"`
	Docs       string `json:"docs"`
	RetryAfter *int64 `json:"retry_after,omitempty"` // seconds
}

// logCall logs a tool call. The log line of the answer cannot do that: its status is 200 whatever the
// outcome of the call.
func (x *exchange) logCall(call *toolCall, problem *Problem) {
	status := http.StatusOK
	if problem != nil {
		status = problem.Status
	}
	level, ctx := levelOf(status, problem), context.WithoutCancel(x.ctx)
	if !x.api.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.ID), slog.String("call_id", call.id), slog.String("route", x.Route),
		slog.String("tool", call.Tool), slog.String("account", x.caller.AccountID),
	}
	attrs = appendText(attrs, "domain", call.domain)
	attrs = appendText(attrs, "cache", string(call.cache))
	if problem != nil {
		attrs = append(attrs, problemAttrs(problem)...)
	}
	x.api.Logger.LogAttrs(ctx, level, "tool call", attrs...)
}
