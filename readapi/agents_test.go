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
	"strings"
	"testing"
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
		t.Fatalf("status %d, %v: body %s; want %d", a.status, err, a.body, http.StatusOK)
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
		t.Fatalf("not a JSON-RPC response: %s", body)
	}
	return r
}

// failed checks that a response is an error.
func (r rpc) failed(t testing.TB, code int) {
	t.Helper()
	if r.Error == nil || r.Error.Code != code || r.Error.Message == "" {
		t.Fatalf("error %+v (result %s), want code %d", r.Error, r.Result, code)
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
		t.Fatalf("the text differs from structuredContent: %s", r.Result)
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
