package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"letterhead/internal/web"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/sync/errgroup"
)

// maxConcurrentCalls limits the concurrent tool calls of one batch, like the lookups of the REST batch.
const maxConcurrentCalls = 5

// listTTL is how long clients may cache the list of tools: it changes with a release only.
const listTTL = 60 * 60 * 1000 // milliseconds

// Config configures a Server.
type Config struct {
	Name, Title, Version string // of the server
	Instructions         string // instructions for models on using the tools
	BaseURL              string // URL of the service for clients
}

// Server implements the protocol for a list of tools. It is stateless and safe for concurrent use.
type Server struct {
	info         map[string]any
	instructions string
	host         string                        // of the base URL
	inputs       map[string]*jsonschema.Schema // of arguments, by tool
	listed       []json.RawMessage
}

// New returns a server of the tools in tools.json.
func New(cfg Config) (*Server, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("MCP: base URL: %w", err)
	}
	s := &Server{
		info:         map[string]any{"name": cfg.Name, "title": cfg.Title, "version": cfg.Version},
		instructions: cfg.Instructions, host: base.Hostname(),
	}
	if s.inputs, s.listed, err = readTools(); err != nil {
		return nil, err
	}
	return s, nil
}

// Call is a tool call whose arguments conform to the tool's inputSchema.
type Call struct {
	Index     int  // of the message in the batch
	Batch     bool // the POST is a batch
	Tool      string
	Arguments Arguments
}

// Handler runs tool calls. It returns the result, a JSON object that conforms to the tool's
// outputSchema. A *Failure becomes a result with isError, an *Error the error of the response, and
// every other error -32603. Calls of one batch run concurrently.
type Handler func(ctx context.Context, c Call) (json.RawMessage, error)

// Answer answers the messages of a POST. If denied is set, it is the answer to every tool call.
func (s *Server) Answer(ctx context.Context, p *Post, denied *Failure, handle Handler) Reply {
	responses := make([]*response, len(p.messages))
	var calls errgroup.Group // without a context: a failed call must not affect the others
	calls.SetLimit(maxConcurrentCalls)
	for i := range p.messages {
		m := &p.messages[i]
		answer := func() { responses[i] = s.answer(ctx, m, Call{Index: i, Batch: p.batch}, denied, handle) }
		if p.batch && m.kind == request && m.method == methodCall {
			calls.Go(func() error { answer(); return nil })
		} else {
			answer()
		}
	}
	_ = calls.Wait() // none of them returns an error: a failure is a response
	given := slices.DeleteFunc(responses, func(r *response) bool { return r == nil })
	switch {
	case len(given) == 0:
		return Reply{Status: http.StatusAccepted}
	case p.batch:
		return Reply{Status: http.StatusOK, Body: encode(given)}
	default:
		return singleReply(given[0])
	}
}

// answer answers one message; it returns nil if there is nothing to answer. Notifications are never
// executed: a tool call without an id would be charged without an answer.
func (s *Server) answer(ctx context.Context, m *message, c Call, denied *Failure, handle Handler) *response {
	switch {
	case m.kind == noMessage:
		return errorResponse(m.id, m.rejection)
	case m.kind != request:
		return nil
	case m.rejection != nil:
		return errorResponse(m.id, m.rejection)
	}
	result, err := s.dispatch(ctx, m, c, denied, handle)
	if err == nil {
		return &response{Version: jsonrpcVersion, ID: m.id, Result: result}
	}
	var rejected *Error
	if !errors.As(err, &rejected) {
		rejected = &Error{Code: CodeInternalError, Message: "Something failed on our side."}
	}
	return errorResponse(m.id, rejected)
}

func (s *Server) dispatch(ctx context.Context, m *message, c Call, denied *Failure, handle Handler) (any, error) {
	switch {
	case m.method == methodInitialize && !m.modern:
		return s.initialize(m.params)
	case m.method == methodPing && !m.modern:
		return struct{}{}, nil
	case m.method == methodDiscover && m.modern:
		return discoverResult{
			head: s.head(m), cached: cacheable, SupportedVersions: Versions, Capabilities: toolsOnly,
			Instructions: s.instructions,
		}, nil
	case m.method == methodList:
		if cursor := m.params["cursor"]; cursor != nil {
			return nil, InvalidArguments("The cursor is unknown: the list of tools has one page.", nil)
		}
		list := listResult{head: s.head(m), Tools: s.listed}
		if m.modern {
			list.cached = cacheable
		}
		return list, nil
	case m.method == methodCall:
		return s.call(ctx, m, c, denied, handle)
	}
	unknown := &Error{Code: CodeMethodNotFound, Message: "This server has no such method."}
	if m.modern {
		unknown.status = http.StatusNotFound // 2026-07-28, "Protocol Version Header"
	}
	return nil, unknown
}

func (s *Server) initialize(params map[string]any) (any, error) {
	// The client's identity and capabilities are ignored, so they are not required.
	asked, ok := params["protocolVersion"].(string)
	if !ok {
		return nil, InvalidArguments("params.protocolVersion must be a string.", nil)
	}
	return initializeResult{
		ProtocolVersion: negotiate(asked), Capabilities: toolsOnly, ServerInfo: s.info, Instructions: s.instructions,
	}, nil
}

func (s *Server) call(ctx context.Context, m *message, c Call, denied *Failure, handle Handler) (any, error) {
	if denied != nil {
		return s.failure(m, denied), nil
	}
	name, ok := m.params["name"].(string)
	if !ok {
		return nil, InvalidArguments("params.name must be a string.", nil)
	}
	input, ok := s.inputs[name]
	if !ok {
		return nil, InvalidArguments("There is no such tool. tools/list returns the available tools.", nil)
	}
	arguments := map[string]any{}
	if sent := m.params["arguments"]; sent != nil {
		if arguments, ok = sent.(map[string]any); !ok {
			return nil, InvalidArguments("params.arguments must be an object.", nil)
		}
	}
	if err := checkArguments(input, arguments); err != nil {
		return nil, err
	}
	c.Tool, c.Arguments = name, arguments
	structured, err := handle(ctx, c)
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return s.failure(m, failure), nil
	case err != nil:
		return nil, err
	case !json.Valid(structured):
		return nil, errors.New("the tool's result is not JSON")
	}
	return callResult{head: s.head(m), Content: text(structured), Structured: structured}, nil
}

// failure returns a result with isError. It has no structuredContent, which would have to conform to the outputSchema.
func (s *Server) failure(m *message, f *Failure) callResult {
	encoded := encode(f)
	return callResult{head: s.head(m), Content: text(encoded[:len(encoded)-1]), IsError: true}
}

// head returns the fields that results contain from 2026-07-28 on; it is empty before.
func (s *Server) head(m *message) head {
	if !m.modern {
		return head{}
	}
	return head{ResultType: "complete", Meta: map[string]any{metaServer: s.info}}
}

type (
	head struct {
		ResultType string         `json:"resultType,omitempty"`
		Meta       map[string]any `json:"_meta,omitempty"`
	}
	cached struct {
		TTL   int    `json:"ttlMs,omitempty"`
		Scope string `json:"cacheScope,omitempty"`
	}
	capabilities struct {
		Tools struct{} `json:"tools"`
	}
	initializeResult struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    capabilities   `json:"capabilities"`
		ServerInfo      map[string]any `json:"serverInfo"`
		Instructions    string         `json:"instructions"`
	}
	discoverResult struct {
		head
		cached
		SupportedVersions []string     `json:"supportedVersions"`
		Capabilities      capabilities `json:"capabilities"`
		Instructions      string       `json:"instructions"`
	}
	listResult struct {
		head
		cached
		Tools []json.RawMessage `json:"tools"`
	}
	callResult struct {
		head
		Content    []textContent   `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError"`
	}
	textContent struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

var (
	toolsOnly capabilities
	cacheable = cached{TTL: listTTL, Scope: "public"}
)

func text(b []byte) []textContent { return []textContent{{Type: "text", Text: string(b)}} }

// MaxBody is the largest body of a POST, in bytes.
const MaxBody = 64 << 10

// AllowsHost reports whether a request's host name is allowed. On a connection over the loopback
// interface it must be a loopback name, or the host of the base URL, which a proxy on the same machine
// forwards. Any other name belongs to a web page whose name was resolved to this machine (DNS
// rebinding). On other interfaces every name is allowed: there the key decides.
func (s *Server) AllowsHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(web.HostOf(local.String())) {
		return true
	}
	host := web.HostOf(r.Host)
	return isLoopback(host) || host != "" && strings.EqualFold(host, s.host)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
