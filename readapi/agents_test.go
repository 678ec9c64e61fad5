package readapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// rpc is a JSON-RPC response as a test reads it.
type rpc struct {
	Version string          `json:"jsonrpc"`
	ID      any             `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// toolResult is the result of a tool call.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

// toolFailure is the text of a result with isError.
type toolFailure struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	RetryAfter *int64 `json:"retry_after"`
}

func (s *service) tryMCP(ctx context.Context, header http.Header, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, header)
	req.Host = header.Get("Host") // if none, that of the URL
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: read}, err
}

// postMCP sends a body to the MCP endpoint.
func (s *service) postMCP(header http.Header, body string) answer {
	s.t.Helper()
	a, err := s.tryMCP(s.t.Context(), header, body)
	s.must(err)
	return a
}

// agent posts with the customer's secret key.
func (c *customer) agent(body string) answer {
	c.s.t.Helper()
	return c.s.postMCP(bearer(c.secret), body)
}

// one parses the only response of an answer.
func (a answer) one(t testing.TB, status int) rpc {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return decodeResponse(t, a.body)
}

// several parses the responses of a batch.
func (a answer) several(t testing.TB) []rpc {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal(a.body, &raw); a.status != http.StatusOK || err != nil {
		t.Fatalf("%d %v: %s", a.status, err, a.body)
	}
	var all []rpc
	for _, r := range raw {
		all = append(all, decodeResponse(t, r))
	}
	return all
}

func decodeResponse(t testing.TB, body []byte) rpc {
	t.Helper()
	var fields map[string]json.RawMessage
	var r rpc
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := errors.Join(json.Unmarshal(body, &fields), decoder.Decode(&r)); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if _, hasID := fields["id"]; r.Version != "2.0" || !hasID || (r.Error == nil) == (r.Result == nil) {
		t.Fatalf("no JSON-RPC response: %s", body)
	}
	return r
}

// failed checks that a response is an error.
func (r rpc) failed(t testing.TB, code int) {
	t.Helper()
	if r.Error == nil || r.Error.Code != code || r.Error.Message == "" {
		t.Fatalf("%+v (%s), want the error %d", r.Error, r.Result, code)
	}
}

func (r rpc) tool(t testing.TB) toolResult {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("error %+v", r.Error)
	}
	var result toolResult
	if err := json.Unmarshal(r.Result, &result); err != nil || len(result.Content) != 1 || result.Content[0].Type != "text" {
		t.Fatalf("%v in %s", err, r.Result)
	}
	return result
}

// found checks that a tool succeeded and returns its structured result.
func (r rpc) found(t testing.TB) json.RawMessage {
	t.Helper()
	result := r.tool(t)
	if result.IsError || result.Content[0].Text != string(result.Structured) {
		t.Fatalf("not a result whose text is its structure: %s", r.Result)
	}
	return result.Structured
}

// isError checks that a tool failed in a way that a model can read.
func (r rpc) isError(t testing.TB, code string) toolFailure {
	t.Helper()
	result := r.tool(t)
	var failure toolFailure
	decoder := json.NewDecoder(strings.NewReader(result.Content[0].Text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&failure); err != nil || !result.IsError || result.Structured != nil || failure.Code != code || failure.Message == "" {
		t.Fatalf("%v: %s, want isError %s", err, r.Result, code)
	}
	return failure
}

func toolCall(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments)
}

func getBrand(id int, identifier string) string {
	return toolCall(id, "get_brand", fmt.Sprintf(`{"identifier":%q}`, identifier))
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func rpcBatch(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// withKey adds a customer's key to each request of the official client.
type withKey struct {
	key  string
	next http.RoundTripper
}

func (w withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.key)
	return w.next.RoundTrip(r)
}

func (c *customer) session(version string) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	transport := &sdk.StreamableClientTransport{
		Endpoint: c.s.url + "/mcp", HTTPClient: &http.Client{Transport: withKey{c.secret, c.s.transport}}, MaxRetries: -1,
	}
	return client.Connect(c.s.t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
}

// TestTheOfficialClientUsesEveryToolInEveryVersion checks the results against the output schemas that
// the client got, made strict, so that no field may be missing from a schema.
func TestTheOfficialClientUsesEveryToolInEveryVersion(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Starter, 50)
	id := s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	restricted := eventschemas.Record{Restriction: &eventschemas.Restriction{Code: "nsfw", Message: "Adult content."}, NSFW: true}
	s.known("adult.com", restricted)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			session, err := c.session(version)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			init := session.InitializeResult()
			if init.ProtocolVersion != version || init.ServerInfo.Name != "letterhead" || init.Capabilities.Tools == nil || init.Capabilities.Tools.ListChanged || init.Capabilities.Prompts != nil || init.Instructions == "" {
				t.Fatalf("begun with %+v", init)
			}
			schemas := listedTools(t, session)
			call := func(tool string, arguments map[string]any) *sdk.CallToolResult {
				t.Helper()
				result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
				if err != nil {
					t.Fatal(err)
				}
				if !result.IsError {
					if err := schemas[tool].Validate(result.StructuredContent); err != nil {
						t.Errorf("result of %s: %v", tool, err)
					}
				}
				return result
			}
			for _, identifier := range []string{"acme.com", "https://www.acme.com/about", "info@acme.com", id, "plain.com", "adult.com"} {
				if result := call("get_brand", map[string]any{"identifier": identifier}); result.IsError {
					t.Errorf("%s: %+v", identifier, result.Content[0])
				}
			}
			found := call("search_brands", map[string]any{"query": "acme", "limit": 3})
			if results := found.StructuredContent.(map[string]any)["results"].([]any); len(results) == 0 || results[0].(map[string]any)["domain"] != "acme.com" {
				t.Errorf("search: %+v", found.StructuredContent)
			}
			logo := call("get_logo_url", map[string]any{"domain": "www.Acme.com", "type": "symbol", "size": 64})
			if got := logo.StructuredContent.(map[string]any)["url"]; got != baseURL+"/logo/acme.com?size=64&type=symbol" {
				t.Errorf("logo: %v", got)
			}
			s.crawler.fails("example.org", brand.DNS)
			if missing := call("get_brand", map[string]any{"identifier": "example.org"}); !missing.IsError || !strings.Contains(missing.Content[0].(*sdk.TextContent).Text, "domain_not_found") {
				t.Errorf("unknown domain: %+v", missing)
			}
			for _, bad := range []*sdk.CallToolParams{{Name: "no_tool"}, {Name: "get_brand"}, {Name: "search_brands", Arguments: map[string]any{"query": "x", "limit": 21}}} {
				if _, err := session.CallTool(ctx, bad); err == nil || !strings.Contains(err.Error(), "nvalid") && !strings.Contains(err.Error(), "no such tool") {
					t.Errorf("%+v: %v", bad, err)
				}
			}
			if version != "2026-07-28" {
				if err := session.Ping(ctx, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// listedTools returns the output schemas of the tools from tools/list.
func listedTools(t *testing.T, session *sdk.ClientSession) map[string]*jsonschema.Schema {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*jsonschema.Schema{}
	for _, tool := range list.Tools {
		a := tool.Annotations
		if tool.Title == "" || tool.Description == "" || !a.ReadOnlyHint || a.DestructiveHint == nil || *a.DestructiveHint || !a.IdempotentHint || a.OpenWorldHint == nil || *a.OpenWorldHint != (tool.Name != "get_logo_url") {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		compiler := jsonschema.NewCompiler()
		strict := closed(tool.OutputSchema)
		if err := compiler.AddResource("out", strict); err != nil {
			t.Fatal(err)
		}
		if schemas[tool.Name], err = compiler.Compile("out"); err != nil {
			t.Fatal(err)
		}
	}
	if names := slices.Sorted(maps.Keys(schemas)); !slices.Equal(names, []string{"get_brand", "get_logo_url", "search_brands"}) {
		t.Fatalf("tools %v", names)
	}
	return schemas
}

// closed forbids every field that a schema does not name.
func closed(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range schema {
			out[k] = closed(v)
		}
		if schema["type"] == "object" {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(schema))
		for i, v := range schema {
			out[i] = closed(v)
		}
		return out
	default:
		return schema
	}
}

// TestTheOrderOfRefusalsOnMCP sends requests with several errors and checks which refusal they get.
func TestTheOrderOfRefusalsOnMCP(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, suspended := s.account(plan.Free, 50), s.account(plan.Free, 50)
	suspended.suspend()
	with := func(h http.Header, more ...string) http.Header {
		h = maps.Clone(h)
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = append(h[more[i]], more[i+1])
		}
		return h
	}
	key := bearer(c.secret)
	large, broken := strings.Repeat(" ", 65537), `{"jsonrpc":`
	eleven := rpcBatch(slices.Repeat([]string{ping}, 11)...)
	const version = "MCP-Protocol-Version"
	for _, refusal := range []struct {
		name   string
		header http.Header
		body   string
		status int
		code   int
		id     any
	}{
		{"a foreign host, before the body is read", with(bearer("nonsense"), "Host", "evil.example.com"), large, 403, -32600, nil},
		{"too large, before the key", bearer("nonsense"), large, 413, -32600, nil},
		{"no key, before the JSON", nil, broken, 401, -32600, nil},
		{"a mistyped key", bearer(c.secret[:len(c.secret)-1] + "!"), broken, 401, -32600, nil},
		{"two keys", with(key, "X-Api-Key", c.publishable), broken, 401, -32600, nil},
		{"a publishable key", bearer(c.publishable), broken, 403, -32600, nil},
		{"a suspended account", bearer(suspended.secret), broken, 403, -32600, nil},
		{"no JSON, before the version", with(key, version, "1.0"), broken, 400, -32700, nil},
		{"nothing", key, "", 400, -32700, nil},
		{"two texts", key, ping + ping, 400, -32700, nil},
		{"no UTF-8", key, `{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"ping"}`, 400, -32700, nil},
		{"a name twice", key, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, -32700, nil},
		{"too deep", key, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}}`, 400, -32700, nil},
		{"a huge number", key, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e400}}`, 400, -32700, nil},
		{"an unknown version", with(key, version, "2025-01-01"), ping, 400, -32600, 1.0},
		{"an empty version", with(key, version, ""), ping, 400, -32600, 1.0},
		{"two versions", with(key, version, "2025-06-18", version, "2025-06-18"), ping, 400, -32600, 1.0},
		{"an unknown version, before the batch", with(key, version, "2025-01-01"), eleven, 400, -32600, nil},
		{"a batch on 2025-06-18", with(key, version, "2025-06-18"), rpcBatch(ping), 400, -32600, nil},
		{"a batch on 2025-11-25", with(key, version, "2025-11-25"), rpcBatch(ping), 400, -32600, nil},
		{"a batch on 2026-07-28", with(key, version, "2026-07-28"), rpcBatch(ping), 400, -32600, nil},
		{"an empty batch", key, "[]", 400, -32600, nil},
		{"eleven messages", key, eleven, 400, -32600, nil},
		{"no object", key, `"ping"`, 400, -32600, nil},
		{"another JSON-RPC", key, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, -32600, 1.0},
		{"no method", key, `{"jsonrpc":"2.0","id":1}`, 400, -32600, 1.0},
		{"a method that is no text", key, `{"jsonrpc":"2.0","id":1,"method":7}`, 400, -32600, 1.0},
		{"a null id", key, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, nil},
		{"a fractional id", key, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, -32600, nil},
		{"names in other letters", key, `{"JSONRPC":"2.0","ID":1,"METHOD":"ping"}`, 400, -32600, nil},
		{"params that are a list", key, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, 200, -32602, 1.0},
		{"an unknown method", key, `{"jsonrpc":"2.0","id":"a","method":"prompts/list"}`, 200, -32601, "a"},
		{"discover before 2026-07-28", key, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 200, -32601, 1.0},
		{"an unknown tool", key, toolCall(1, "drop_brand", `{}`), 200, -32602, 1.0},
		{"a tool without a name", key, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, -32602, 1.0},
		{"arguments that are a list", key, toolCall(1, "get_brand", `[]`), 200, -32602, 1.0},
		{"no identifier", key, toolCall(1, "get_brand", `{}`), 200, -32602, 1.0},
		{"an argument of another type", key, toolCall(1, "get_brand", `{"identifier":"acme.com","refresh":"true"}`), 200, -32602, 1.0},
		{"an unknown argument", key, toolCall(1, "get_brand", `{"identifier":"acme.com","fresh":true}`), 200, -32602, 1.0},
		{"no domain at all", key, getBrand(1, "co.uk"), 200, -32602, 1.0},
		{"an empty query", key, toolCall(1, "search_brands", `{"query":""}`), 200, -32602, 1.0},
		{"a query of 101 characters", key, toolCall(1, "search_brands", `{"query":"`+strings.Repeat("ü", 101)+`"}`), 200, -32602, 1.0},
		{"a limit of 0", key, toolCall(1, "search_brands", `{"query":"x","limit":0}`), 200, -32602, 1.0},
		{"a limit of 2.5", key, toolCall(1, "search_brands", `{"query":"x","limit":2.5}`), 200, -32602, 1.0},
		{"a logo's size of 0", key, toolCall(1, "get_logo_url", `{"domain":"acme.com","size":0}`), 200, -32602, 1.0},
		{"a logo by id", key, toolCall(1, "get_logo_url", `{"domain":"2c4f3dcd-9c5d-5b0a-8f8a-000000000000"}`), 200, -32602, 1.0},
		{"a page of the list", key, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}`, 200, -32602, 1.0},
		{"initialize without a version", key, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 200, -32602, 1.0},
	} {
		t.Run(refusal.name, func(t *testing.T) {
			a := s.postMCP(refusal.header, refusal.body)
			r := a.one(t, refusal.status)
			r.failed(t, refusal.code)
			if r.ID != refusal.id {
				t.Errorf("id %v, want %v", r.ID, refusal.id)
			}
			if got := a.header.Get("WWW-Authenticate"); (got == "Bearer") != (refusal.status == 401) {
				t.Errorf("WWW-Authenticate %q", got)
			}
			if a.header.Get("X-Request-Id") == "" || a.header.Get("Content-Type") != "application/json; charset=utf-8" || a.header.Get("Retry-After") != "" || a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("headers %v", a.header)
			}
		})
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds", len(b.charges), b.holds)
	}
}

func TestABodyOfExactly64KBIsTaken(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	full := ping + strings.Repeat(" ", 65536-len(ping))
	if r := c.agent(full).one(t, http.StatusOK); string(r.Result) != "{}" {
		t.Errorf("65536 bytes: %s", r.Result)
	}
	c.agent(full+" ").one(t, http.StatusRequestEntityTooLarge).failed(t, -32600)
	// A chunked body has no length in advance.
	for _, sized := range []struct{ bytes, status int }{{65536, 200}, {65537, 413}} {
		body := full + strings.Repeat(" ", sized.bytes-65536)
		request := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + c.secret + "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		resp, err := s.raw(request)
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != sized.status {
			t.Errorf("%d bytes in chunks: %d", sized.bytes, resp.StatusCode)
		}
	}
}

func TestOnlyPOSTIsAnsweredOnMCP(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodPatch} {
		a := s.send(request{method: method, path: "/mcp", header: bearer(c.secret)})
		a.one(t, http.StatusMethodNotAllowed).failed(t, -32600)
		if a.header.Get("Allow") != "POST, OPTIONS" {
			t.Errorf("%s: Allow %q", method, a.header.Get("Allow"))
		}
	}
	if a := s.send(request{method: http.MethodOptions, path: "/mcp"}); a.status != http.StatusNoContent || a.header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("OPTIONS: %d %v", a.status, a.header)
	}
	preflight := s.send(request{method: http.MethodOptions, path: "/mcp", header: http.Header{
		"Origin": {"https://agent.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"mcp-protocol-version"},
	}})
	for _, name := range []string{"Authorization", "Content-Type", "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name"} {
		if !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("preflight: %v lacks %s", preflight.header, name)
		}
	}
	// The Accept, Origin and Content-Type headers have no effect.
	h := bearer(c.secret)
	h["Accept"], h["Origin"], h["Content-Type"] = []string{"text/event-stream"}, []string{"https://agent.example"}, []string{"text/plain"}
	s.postMCP(h, ping).one(t, http.StatusOK)
}

func TestHostsOnALoopbackConnection(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1:9": 200, "127.8.8.8": 200, "[::1]": 200, "[::1]:8080": 200,
		"brands.example.com": 200, "Brands.Example.com:443": 200,
		"evil.example.com": 403, "evil.example.com:8080": 403, "localhost.evil.example.com": 403, "192.168.1.7": 403, "127.0.0.1.nip.io": 403, "[::2]": 403,
	} {
		h := bearer(c.secret)
		h["Host"] = []string{host}
		if a := s.postMCP(h, ping); a.status != status {
			t.Errorf("%s: %d, want %d", host, a.status, status)
		}
	}
}

func TestInitializeAgreesOnAVersion(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		// 2026-07-28 has no initialize, so this is the newest version that can be negotiated.
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "": "2025-11-25",
	} {
		a := c.agent(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + asked + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		var result struct {
			ProtocolVersion string
			Capabilities    map[string]map[string]any
			ServerInfo      map[string]string
			Instructions    string
		}
		if err := json.Unmarshal(a.one(t, http.StatusOK).Result, &result); err != nil {
			t.Fatal(err)
		}
		if result.ProtocolVersion != want || len(result.Capabilities) != 1 || len(result.Capabilities["tools"]) != 0 || result.ServerInfo["name"] != "letterhead" || result.Instructions == "" {
			t.Errorf("%q: %+v", asked, result)
		}
		if a.header.Get("Mcp-Session-Id") != "" || a.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("headers %v", a.header)
		}
	}
}

// TestRequestsOf20260728BringEverythingAlong sends requests of the version without initialize,
// complete and with a part missing or wrong.
func TestRequestsOf20260728BringEverythingAlong(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	headers := func(more ...string) http.Header {
		h := bearer(c.secret)
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = []string{more[i+1]}
		}
		return h
	}
	const version, now, method, name = "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "Mcp-Name"
	request := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	}
	for _, whole := range []struct {
		header http.Header
		body   string
		fields []string
	}{
		{headers(version, now, method, "server/discover"), request("server/discover", meta), []string{"_meta", "cacheScope", "capabilities", "instructions", "resultType", "supportedVersions", "ttlMs"}},
		{headers(version, now, method, "tools/list"), request("tools/list", meta), []string{"_meta", "cacheScope", "resultType", "tools", "ttlMs"}},
		{headers(version, now, method, "tools/call", name, "get_logo_url"), request("tools/call", `"name":"get_logo_url","arguments":{"domain":"acme.com"},`+meta), []string{"_meta", "content", "isError", "resultType", "structuredContent"}},
		{headers(version, now, method, "tools/call", name, "=?base64?Z2V0X2xvZ29fdXJs?="), request("tools/call", `"name":"get_logo_url","arguments":{"domain":"acme.com"},`+meta), []string{"_meta", "content", "isError", "resultType", "structuredContent"}},
	} {
		r := s.postMCP(whole.header, whole.body).one(t, http.StatusOK)
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(r.Result, &fields); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, whole.fields) || string(fields["resultType"]) != `"complete"` || !strings.Contains(string(fields["_meta"]), `"io.modelcontextprotocol/serverInfo":{"name":"letterhead"`) {
			t.Errorf("%s: %v %s", whole.body, got, fields["_meta"])
		}
	}
	list := headers(version, now, method, "tools/list")
	for _, part := range []struct {
		what   string
		header http.Header
		body   string
		status int
		code   int
	}{
		{"no _meta", list, request("tools/list", ""), 400, -32602},
		{"no capabilities", list, request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), 400, -32602},
		{"a client that is no object", list, request("tools/list", strings.Replace(meta, "}}", `},"io.modelcontextprotocol/clientInfo":1}`, 1)), 400, -32602},
		{"no version header", headers(method, "tools/list"), request("tools/list", meta), 400, -32020},
		{"another version header", headers(version, "2025-06-18", method, "tools/list"), request("tools/list", meta), 400, -32020},
		{"another version in the body", list, request("tools/list", strings.Replace(meta, "2026-07-28", "2025-06-18", 1)), 400, -32020},
		{"a version of the future", headers(version, "2099-01-01", method, "tools/list"), request("tools/list", strings.Replace(meta, "2026-07-28", "2099-01-01", 1)), 400, -32022},
		{"no method header", headers(version, now), request("tools/list", meta), 400, -32020},
		{"another method header", headers(version, now, method, "tools/call"), request("tools/list", meta), 400, -32020},
		{"no name header", headers(version, now, method, "tools/call"), request("tools/call", `"name":"get_logo_url","arguments":{"domain":"acme.com"},`+meta), 400, -32020},
		{"another name header", headers(version, now, method, "tools/call", name, "get_brand"), request("tools/call", `"name":"get_logo_url","arguments":{"domain":"acme.com"},`+meta), 400, -32020},
		{"a method that is gone", headers(version, now, method, "ping"), request("ping", meta), 404, -32601},
		{"initialize", headers(version, now, method, "initialize"), request("initialize", `"protocolVersion":"2026-07-28",`+meta), 404, -32601},
		{"in a batch", headers(), rpcBatch(request("tools/list", meta)), 200, -32020},
	} {
		a := s.postMCP(part.header, part.body)
		if part.body[0] == '[' {
			a.several(t)[0].failed(t, part.code)
			continue
		}
		r := a.one(t, part.status)
		if r.Error == nil || r.Error.Code != part.code || r.ID != 1.0 {
			t.Errorf("%s: %s", part.what, a.body)
		}
		if part.code == -32022 && !strings.Contains(string(r.Error.Data), `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"`) {
			t.Errorf("%s: data %s", part.what, r.Error.Data)
		}
	}
	// A client of both versions may begin with the old handshake and the new header.
	s.postMCP(list, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}`).one(t, http.StatusOK)
}

func TestNotificationsAndResponsesHaveNoAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/anything","params":[]}`,
		`{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}`,
		// A call without an id, which gets no answer, is not run.
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"get_brand","arguments":{"identifier":"acme.com"}}}`,
		rpcBatch(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":7,"result":{}}`),
	} {
		a := c.agent(body)
		if a.status != http.StatusAccepted || len(a.body) != 0 || a.header.Get("Content-Type") != "" || a.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s: %d %v %q", body, a.status, a.header, a.body)
		}
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("a notification was paid for: %+v", b.charges)
	}
}

// TestABatchAnswersInOrder: the answers are in the order of the requests, and the refusal of one item
// does not affect the others.
func TestABatchAnswersInOrder(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	body := rpcBatch(
		getBrand(1, "acme.com"),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"two","method":"initialize","params":{"protocolVersion":"2025-03-26"}}`,
		`7`,
		`{"jsonrpc":"2.0","id":1e0,"method":"nothing"}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
		toolCall(6, "get_logo_url", `{"domain":"acme.com"}`),
		toolCall(7, "search_brands", `{"query":"acme"}`),
		getBrand(8, "acme.com"),
		`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`)
	for _, version := range []string{"", "2024-11-05", "2025-03-26"} {
		before := len(c.books().charges)
		h := bearer(c.secret)
		if version != "" {
			h["MCP-Protocol-Version"] = []string{version}
		}
		a := s.postMCP(h, body)
		all := a.several(t)
		if len(all) != 9 {
			t.Fatalf("%d responses: %s", len(all), a.body)
		}
		decodeBrand(t, all[0].found(t))
		all[1].failed(t, -32600)
		all[2].failed(t, -32600)
		all[3].failed(t, -32601)
		if all[0].ID != 1.0 || all[1].ID != "two" || all[2].ID != nil || !strings.Contains(string(a.body), `"id":1e0,`) || !strings.Contains(string(a.body), `"id":9007199254740993,"result":{}`) {
			t.Errorf("ids: %s", a.body)
		}
		all[5].found(t)
		decodeExactly[specSearch](t, all[6].found(t))
		decodeBrand(t, all[7].found(t))
		// One unit of the minute for all; one credit for each of the two look-ups, found by the
		// answer's id.
		if a.header.Get("X-RateLimit-Limit") != "60" {
			t.Errorf("headers %v", a.header)
		}
		b := c.books()
		var ids []string
		for _, charge := range b.charges[before:] {
			ids = append(ids, charge.RequestID)
		}
		slices.Sort(ids)
		id := a.header.Get("X-Request-Id")
		if !slices.Equal(ids, []string{id + "-0", id + "-8"}) {
			t.Errorf("charged under %v by request %s", ids, id)
		}
	}
	if remaining := c.agent(getBrand(1, "acme.com")).header.Get("X-RateLimit-Remaining"); remaining != "56" {
		t.Errorf("%s units are left after four POSTs", remaining)
	}
}

func TestLogoURLs(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 0)
	for arguments, want := range map[string]string{
		`{"domain":"acme.com"}`:                                           "/logo/acme.com",
		`{"domain":"https://shop.acme.co.uk/x"}`:                          "/logo/acme.co.uk",
		`{"domain":"jane@acme.com"}`:                                      "/logo/acme.com",
		`{"domain":"bücher.de","theme":"dark"}`:                           "/logo/xn--bcher-kva.de?theme=dark",
		`{"domain":"acme.com","background":"dark","fallback":"404"}`:      "/logo/acme.com?background=dark&fallback=404",
		`{"domain":"acme.com","background":"dark","theme":"light"}`:       "/logo/acme.com?theme=light",
		`{"domain":"acme.com","size":1}`:                                  "/logo/acme.com?size=16",
		`{"domain":"acme.com","size":1e300}`:                              "/logo/acme.com?size=1024",
		`{"domain":"acme.com","size":256.0,"format":"svg","type":"logo"}`: "/logo/acme.com?format=svg&size=256&type=logo",
	} {
		got := decodeExactly[struct {
			URL    string `json:"url"`
			Domain string `json:"domain"`
		}](t, c.agent(toolCall(1, "get_logo_url", arguments)).one(t, 200).found(t))
		if got.URL != baseURL+want {
			t.Errorf("%s: %s", arguments, got.URL)
		}
	}
}

// An idempotency key has the same meaning over MCP and over HTTP.
func TestGetBrand_IdempotencyKey_ChargedOnce(t *testing.T) {
	s := start(t)
	s.known("acme.com", record("Acme"))
	c := s.account(plan.Free, 50)
	call := func(arguments string) rpc { return c.agent(toolCall(1, "get_brand", arguments)).one(t, http.StatusOK) }
	first := call(`{"identifier":"acme.com","idempotency_key":"one"}`).found(t)
	if again := call(`{"identifier":"https://acme.com/","idempotency_key":"one"}`).found(t); !bytes.Equal(again, first) {
		t.Errorf("the repeat answers %s", again)
	}
	if a := c.once("/v1/brands/acme.com", "one"); a.status != http.StatusOK || a.header.Get("X-Credits-Remaining") != "49" {
		t.Errorf("the repeat over HTTP answers %d with %s credits left", a.status, a.header.Get("X-Credits-Remaining"))
	}
	call(`{"identifier":"other.com","idempotency_key":"one"}`).failed(t, -32602)
	call(`{"identifier":"acme.com","idempotency_key":"two words"}`).failed(t, -32602)
	if b := c.books(); len(b.charges) != 1 {
		t.Errorf("%d charges", len(b.charges))
	}
}
