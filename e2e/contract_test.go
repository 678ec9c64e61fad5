package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// post sends a body to the server with a key and further headers, given as pairs.
func (n *node) post(path, key, body string, headers ...string) answer {
	n.t.Helper()
	req, err := http.NewRequest(http.MethodPost, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, got}
}

func (n *node) balance(key string) float64 {
	n.t.Helper()
	return n.want(http.StatusOK, "/v1/me", key).json(n.t)["credits"].(map[string]any)["balance"].(float64)
}

// A client uses a batch, the compatible paths, the API reference and an MCP tool. Each request is charged as
// documented.
func TestContract_BatchV2AndMCP_ChargeAsDocumented(t *testing.T) {
	data := folder(t)
	n := start(t, data)
	acc, secret := account(t, data, "growth")

	var batch struct {
		Results []struct {
			Identifier string
			Domain     *string
			Status     int
			Brand      *struct{ Name string }
			Error      *struct{ Code string }
		}
	}
	a := n.post("/v1/brands/batch", secret, `{"identifiers":["github.com","https://stripe.com/pricing","octo@github.com","co.uk"]}`)
	decode(t, string(a.body), &batch)
	if a.status != http.StatusOK || len(batch.Results) != 4 || a.header.Get("X-Credits-Remaining") != "48" {
		t.Fatalf("the batch answered %d with %s credits remaining: %s", a.status, a.header.Get("X-Credits-Remaining"), a.body)
	}
	for i, want := range []struct {
		status int
		name   string
	}{{200, "GitHub"}, {200, "Stripe"}, {200, "GitHub"}, {400, ""}} {
		r := batch.Results[i]
		if r.Status != want.status || (r.Brand != nil) != (want.name != "") || r.Brand != nil && r.Brand.Name != want.name {
			t.Errorf("item %d of the batch = %+v", i, r)
		}
	}

	v2 := n.want(http.StatusOK, "/v2/brands/domain/spotify.com?fields=logos", secret).json(t)
	if v2["domain"] != "spotify.com" || n.balance(secret) != 47 {
		t.Errorf("/v2 answered domain %v and left %v credits, want spotify.com and 47", v2["domain"], n.balance(secret))
	}
	var publishable string
	for _, k := range acc.Keys {
		if k.Kind == "publishable" {
			publishable = k.Key
		}
	}
	var hits []struct{ Domain string }
	decode(t, string(n.want(http.StatusOK, "/v2/search/githb?c="+publishable, "").body), &hits)
	if len(hits) == 0 || hits[0].Domain != "github.com" {
		t.Errorf("/v2 search found %+v", hits)
	}

	description := n.want(http.StatusOK, "/v1/openapi.json", "").json(t)
	if v, _ := description["openapi"].(string); !strings.HasPrefix(v, "3.1.") {
		t.Errorf("the description has OpenAPI version %q, want 3.1", v)
	}
	if page := n.want(http.StatusOK, "/docs", ""); !bytes.Contains(page.body, []byte("/v1/brands/batch")) {
		t.Error("the API reference lacks the batch endpoint")
	}

	call := n.post("/mcp", secret, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_brand","arguments":{"identifier":"figma.com"}}}`)
	var reply struct {
		ID     int
		Result struct {
			IsError           bool
			StructuredContent struct{ Domain string }
		}
	}
	decode(t, string(call.body), &reply)
	if call.status != http.StatusOK || reply.ID != 7 || reply.Result.IsError || reply.Result.StructuredContent.Domain != "figma.com" {
		t.Errorf("MCP answered %d: %s", call.status, call.body)
	}
	if left := n.balance(secret); left != 46 {
		t.Errorf("after four charged look-ups %v of 50 credits remain, want 46", left)
	}
	ok(t, data, "ledger", "verify", "--account", acc.Account.ID)
}

// A client whose connection broke retries with the same key. Whenever the server is killed, the credit is spent
// once, and later retries receive the same answer.
func TestIdempotencyKey_ServerKilled_ChargesOnce(t *testing.T) {
	data := folder(t)
	n := start(t, data)
	acc, secret := account(t, data, "growth")
	const key = "order-4711"
	ask := func() (answer, error) {
		req, err := http.NewRequest(http.MethodGet, n.url+"/v1/brands/github.com", nil)
		if err != nil {
			return answer{}, err
		}
		req.Header.Set("X-Api-Key", secret)
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return answer{}, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, resp.Header, body}, err
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = ask() // the test does not depend on its outcome
	}()
	n.kill()
	<-asked
	n = start(t, data)
	first, err := ask()
	if err != nil || first.status != http.StatusOK {
		t.Fatalf("the retry failed: %v, %d: %s", err, first.status, first.body)
	}
	again, err := ask()
	if err != nil || again.status != http.StatusOK || !sameBrand(t, first.body, again.body) {
		t.Fatalf("the second retry failed or differs: %v, %d: %s", err, again.status, again.body)
	}
	net := int64(0)
	for _, l := range ledgerOf(t, data, acc.Account.ID) {
		if l.Domain == "github.com" || l.Type == "ChargeReversed" {
			net -= l.Amount
		}
	}
	if net != 1 || n.balance(secret) != 49 {
		t.Errorf("three requests with one key cost %d credits and left %v, want 1 and 49", net, n.balance(secret))
	}
}

// sameBrand compares the parts of two records that do not depend on the server's port.
func sameBrand(t *testing.T, a, b []byte) bool {
	t.Helper()
	var one, two map[string]json.RawMessage
	decode(t, string(a), &one)
	decode(t, string(b), &two)
	return string(one["id"]) == string(two["id"]) && string(one["updatedAt"]) == string(two["updatedAt"]) && string(one["logos"]) == string(two["logos"])
}
