package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

// post sends a body to the server with a key and further headers, given as pairs.
func (n *node) post(path, key, body string, headers ...string) answer {
	n.t.Helper()
	req, err := http.NewRequest(http.MethodPost, n.url+path, strings.NewReader(body))
	testmust.Succeed(n.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	testmust.Succeed(n.t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	testmust.Succeed(n.t, err)
	return answer{resp.StatusCode, resp.Header, got}
}

func (n *node) balance(key string) float64 {
	n.t.Helper()
	return n.want(http.StatusOK, "/v1/me", key).json(n.t)["credits"].(map[string]any)["balance"].(float64)
}

// A client whose connection broke retries with the same key. Whenever the server is killed, the credit is spent
// once, and later retries receive the same answer.
// Rule 2.
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
