package readapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"letterhead/domain/plan"
)

// TestMCP_SeveralErrors_FirstInOrderAnswers sends requests with several errors and checks which rejection they get.
func TestMCP_SeveralErrors_FirstInOrderAnswers(t *testing.T) {
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
	for _, rejection := range []struct {
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
		{"an invalid key", bearer(c.secret[:len(c.secret)-1] + "!"), broken, 401, -32600, nil},
		{"two keys", with(key, "X-Api-Key", c.publishable), broken, 401, -32600, nil},
		{"no scheme", http.Header{"Authorization": {c.secret}}, broken, 401, -32600, nil},
		{"a foreign token only", bearer("eyJhbGciOi.x.y"), broken, 401, -32600, nil},
		{"a foreign token and a key", with(bearer("eyJhbGciOi.x.y"), "X-Api-Key", c.secret), broken, 400, -32700, nil},
		{"a publishable key", bearer(c.publishable), broken, 403, -32600, nil},
		{"a suspended account", bearer(suspended.secret), broken, 403, -32600, nil},
		{"no JSON, before the version", with(key, version, "1.0"), broken, 400, -32700, nil},
		{"nothing", key, "", 400, -32700, nil},
		{"two JSON texts", key, ping + ping, 400, -32700, nil},
		{"invalid UTF-8", key, `{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"ping"}`, 400, -32700, nil},
		{"a duplicate name", key, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, -32700, nil},
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
		{"not an object", key, `"ping"`, 400, -32600, nil},
		{"another JSON-RPC version", key, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, -32600, 1.0},
		{"no method", key, `{"jsonrpc":"2.0","id":1}`, 400, -32600, 1.0},
		{"a method that is a number", key, `{"jsonrpc":"2.0","id":1,"method":7}`, 400, -32600, 1.0},
		{"a null id", key, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, nil},
		{"a fractional id", key, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, -32600, nil},
		{"names in upper case", key, `{"JSONRPC":"2.0","ID":1,"METHOD":"ping"}`, 400, -32600, nil},
		{"params that are a list", key, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, 200, -32602, 1.0},
		{"an unknown method", key, `{"jsonrpc":"2.0","id":"a","method":"prompts/list"}`, 200, -32601, "a"},
		{"discover before 2026-07-28", key, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 200, -32601, 1.0},
		{"an unknown tool", key, toolCall(1, "drop_brand", `{}`), 200, -32602, 1.0},
		{"a tool without a name", key, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, -32602, 1.0},
		{"arguments that are a list", key, toolCall(1, "get_brand", `[]`), 200, -32602, 1.0},
		{"no identifier", key, toolCall(1, "get_brand", `{}`), 200, -32602, 1.0},
		{"an argument of another type", key, toolCall(1, "get_brand", `{"identifier":"acme.com","refresh":"true"}`), 200, -32602, 1.0},
		{"an unknown argument", key, toolCall(1, "get_brand", `{"identifier":"acme.com","fresh":true}`), 200, -32602, 1.0},
		{"an identifier without a domain", key, getBrand(1, "co.uk"), 200, -32602, 1.0},
		{"an empty query", key, toolCall(1, "search_brands", `{"query":""}`), 200, -32602, 1.0},
		{"a query of 101 characters", key, toolCall(1, "search_brands", `{"query":"`+strings.Repeat("ü", 101)+`"}`), 200, -32602, 1.0},
		{"a limit of 0", key, toolCall(1, "search_brands", `{"query":"x","limit":0}`), 200, -32602, 1.0},
		{"a limit of 2.5", key, toolCall(1, "search_brands", `{"query":"x","limit":2.5}`), 200, -32602, 1.0},
		{"a logo's size of 0", key, toolCall(1, "get_logo_url", `{"domain":"acme.com","size":0}`), 200, -32602, 1.0},
		{"a cursor", key, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}`, 200, -32602, 1.0},
		{"initialize without a version", key, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 200, -32602, 1.0},
	} {
		t.Run(rejection.name, func(t *testing.T) {
			a := s.postMCP(rejection.header, rejection.body)
			r := a.one(t, rejection.status)
			r.failed(t, rejection.code)
			if r.ID != rejection.id {
				t.Errorf("id %v, want %v", r.ID, rejection.id)
			}
			if got := a.header.Get("WWW-Authenticate"); (got == "Bearer") != (rejection.status == 401) {
				t.Errorf("WWW-Authenticate %q", got)
			}
			if a.header.Get("X-Request-Id") == "" || a.header.Get("Content-Type") != "application/json; charset=utf-8" || a.header.Get("Retry-After") != "" || a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("headers %v", a.header)
			}
		})
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
}

func TestMCP_BodyOfExactly64KB_IsAccepted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.shows("POST /mcp", 413)
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
			t.Errorf("%d bytes in chunks: status %d, want %d", sized.bytes, resp.StatusCode, sized.status)
		}
	}
}

func TestMCP_MethodOtherThanPOST_Is405(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodPatch} {
		a := s.send(request{method: method, path: "/mcp", header: bearer(c.secret)})
		a.one(t, http.StatusMethodNotAllowed).failed(t, -32600)
		if a.header.Get("Allow") != "POST, OPTIONS" {
			t.Errorf("%s: Allow %q, want %q", method, a.header.Get("Allow"), "POST, OPTIONS")
		}
	}
	if a := s.send(request{method: http.MethodOptions, path: "/mcp"}); a.status != http.StatusNoContent || a.header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("OPTIONS: status %d, header %v", a.status, a.header)
	}
	preflight := s.send(request{method: http.MethodOptions, path: "/mcp", header: http.Header{
		"Origin": {"https://agent.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"mcp-protocol-version"},
	}})
	for _, name := range []string{"Authorization", "Content-Type", "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name"} {
		if !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("preflight: header %v lacks %s", preflight.header, name)
		}
	}
	// The Accept, Origin and Content-Type headers have no effect.
	h := bearer(c.secret)
	h["Accept"], h["Origin"], h["Content-Type"] = []string{"text/event-stream"}, []string{"https://agent.example"}, []string{"text/plain"}
	s.postMCP(h, ping).one(t, http.StatusOK)
}

func TestMCP_LoopbackConnection_RejectsForeignHosts(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1:9": 200, "127.8.8.8": 200, "[::1]": 200, "[::1]:8080": 200,
		"brands.example.com": 200, "Brands.Example.com:443": 200,
		"evil.example.com": 403, "evil.example.com:8080": 403, "localhost.evil.example.com": 403, "192.168.1.7": 403, "127.0.0.1.nip.io": 403, "[::2]": 403,
	} {
		h := bearer(c.secret)
		h["Host"] = []string{host}
		if a := s.postMCP(h, ping); a.status != status {
			t.Errorf("%s: status %d, want %d", host, a.status, status)
		}
	}
}
