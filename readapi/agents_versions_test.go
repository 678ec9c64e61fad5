package readapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"letterhead/domain/plan"
)

func TestMCPInitialize_AnyVersion_IsNegotiated(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
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
		s.must(json.Unmarshal(a.one(t, http.StatusOK).Result, &result))
		if result.ProtocolVersion != want || len(result.Capabilities) != 1 || len(result.Capabilities["tools"]) != 0 || result.ServerInfo["name"] != "letterhead" || result.Instructions == "" {
			t.Errorf("%q: %+v", asked, result)
		}
		if a.header.Get("Mcp-Session-Id") != "" || a.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("headers %v", a.header)
		}
	}
}

// TestMCP_RequestOf20260728_MustBeComplete sends requests of the version without initialize,
// complete and with a part missing or wrong.
func TestMCP_RequestOf20260728_MustBeComplete(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.shows("POST /mcp", 400)
	s.shows("POST /mcp", 404)
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
			t.Errorf("body %s: %v, %s", whole.body, got, fields["_meta"])
		}
	}
	list := headers(version, now, method, "tools/list")
	for _, part := range []struct {
		name   string
		header http.Header
		body   string
		status int
		code   int
	}{
		{"no _meta", list, request("tools/list", ""), 400, -32602},
		{"no capabilities", list, request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), 400, -32602},
		{"a client that is not an object", list, request("tools/list", strings.Replace(meta, "}}", `},"io.modelcontextprotocol/clientInfo":1}`, 1)), 400, -32602},
		{"no version header", headers(method, "tools/list"), request("tools/list", meta), 400, -32020},
		{"another version header", headers(version, "2025-06-18", method, "tools/list"), request("tools/list", meta), 400, -32020},
		{"another version in the body", list, request("tools/list", strings.Replace(meta, "2026-07-28", "2025-06-18", 1)), 400, -32020},
		{"a version of the future", headers(version, "2099-01-01", method, "tools/list"), request("tools/list", strings.Replace(meta, "2026-07-28", "2099-01-01", 1)), 400, -32022},
		{"no method header", headers(version, now), request("tools/list", meta), 400, -32020},
		{"another method header", headers(version, now, method, "tools/call"), request("tools/list", meta), 400, -32020},
		{"no name header", headers(version, now, method, "tools/call"), request("tools/call", `"name":"get_logo_url","arguments":{"domain":"acme.com"},`+meta), 400, -32020},
		{"another name header", headers(version, now, method, "tools/call", name, "get_brand"), request("tools/call", `"name":"get_logo_url","arguments":{"domain":"acme.com"},`+meta), 400, -32020},
		{"a removed method", headers(version, now, method, "ping"), request("ping", meta), 404, -32601},
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
			t.Errorf("%s: body %s", part.name, a.body)
		}
		if part.code == -32022 && !strings.Contains(string(r.Error.Data), `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"`) {
			t.Errorf("%s: data %s", part.name, r.Error.Data)
		}
	}
	// A client of both versions may begin with the old handshake and the new header.
	s.postMCP(list, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}`).one(t, http.StatusOK)
}
