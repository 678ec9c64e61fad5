package readapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"letterhead/domain/plan"
)

func TestMCP_NotificationOrResponse_Is202WithoutBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.shows("POST /mcp", 202)
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
			t.Errorf("%s: status %d, header %v, body %q", body, a.status, a.header, a.body)
		}
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("a notification was charged: %+v", b.charges)
	}
}

// Answers are in the order of the requests, and the rejection of one item does not affect the others.
func TestMCPBatch_MixedMessages_AnsweredInOrder(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.shows("POST /mcp", 200)
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
			t.Fatalf("%d responses: body %s; want 9", len(all), a.body)
		}
		decodeBrand(t, all[0].found(t))
		all[1].failed(t, -32600)
		all[2].failed(t, -32600)
		all[3].failed(t, -32601)
		if all[0].ID != 1.0 || all[1].ID != "two" || all[2].ID != nil || !strings.Contains(string(a.body), `"id":1e0,`) || !strings.Contains(string(a.body), `"id":9007199254740993,"result":{}`) {
			t.Errorf("ids: body %s", a.body)
		}
		all[5].found(t)
		decodeExactly[specSearch](t, all[6].found(t))
		decodeBrand(t, all[7].found(t))
		// One unit of the minute for all; one credit for each of the two look-ups, found by the answer's id.
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
			t.Errorf("charges have the ids %v under request %s", ids, id)
		}
	}
	if remaining := c.agent(getBrand(1, "acme.com")).header.Get("X-RateLimit-Remaining"); remaining != "56" {
		t.Errorf("X-RateLimit-Remaining %s after four POSTs, want 56", remaining)
	}
}
