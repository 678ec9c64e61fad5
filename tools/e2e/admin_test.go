package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

// defaultAdmin is the default address of the admin API of a single process.
const defaultAdmin = "127.0.0.1:8090"

// asOperator sends a request to an admin API.
func asOperator(t *testing.T, method, url, token, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testmust.Succeed(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	testmust.Succeed(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	testmust.Succeed(t, err)
	return resp.StatusCode, string(raw)
}

func TestAdmin_DefaultPortTaken_UsesAnotherPort(t *testing.T) {
	taken, err := net.Listen("tcp", defaultAdmin)
	if err != nil {
		t.Skipf("the test must own the default port: %v", err)
	}
	defer taken.Close()
	data := folder(t)
	n := start(t, data)
	admin := n.out.waitFor(t, `admin API\s+(http://127\.0\.0\.1:\d+)/admin`, n.done)[1]
	if strings.HasSuffix(admin, ":8090") {
		t.Fatalf("the admin API is at %s, which is taken", admin)
	}
	if status, text := asOperator(t, "GET", admin+"/admin/accounts", "", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, text)
	}
	var token struct{ ID, Token string }
	out, errs, code := letterhead(t, data, "admin", "token", "issue", "--name", "e2e", "--scope", "finance", "--json")
	if err := json.Unmarshal([]byte(out), &token); err != nil || code != 0 {
		t.Fatalf("issue: %d %s%s", code, out, errs)
	}
	var list struct {
		Accounts []struct{ Account struct{ ID string } }
	}
	status, text := asOperator(t, "GET", admin+"/admin/accounts", token.Token, "")
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || len(list.Accounts) == 0 {
		t.Fatalf("accounts: %d %s", status, text)
	}
	if status, text := asOperator(t, "GET", admin+"/metrics", token.Token, ""); status != http.StatusOK || !strings.Contains(text, "letterhead_admin_requests_total") {
		t.Errorf("metrics: %d %.200s", status, text)
	}
	if status, _ := asOperator(t, "GET", n.url+"/metrics", "", ""); status != http.StatusNotFound {
		t.Errorf("metrics for clients: %d, want 404", status)
	}
	payment := `{"type":"payment","account":"` + list.Accounts[0].Account.ID + `","payment_id":"pi_1","credits":10,"money":490,"currency":"EUR"}`
	for range 2 {
		if status, text := asOperator(t, "POST", admin+"/admin/payments", token.Token, payment); status != http.StatusOK {
			t.Errorf("payment: %d %s", status, text)
		}
	}
	out, _, _ = letterhead(t, data, "ledger", "show", "--account", list.Accounts[0].Account.ID, "--payment-id", "pi_1", "--json")
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, `"request_id":"payment-pi_1"`) {
		t.Errorf("the ledger has %s", out)
	}
	out, _, _ = letterhead(t, data, "billing", "inbox", "show", "admin:payment-pi_1")
	if strings.Count(out, "\n") != 2 || !strings.Contains(out, `"actor":"operator:`+token.ID+`"`) {
		t.Errorf("the log has %s about the report", out)
	}
	if out, errs, code := letterhead(t, data, "admin", "token", "revoke", token.ID); code != 0 {
		t.Fatalf("revoke: %d %s%s", code, out, errs)
	}
	if status, text := asOperator(t, "GET", admin+"/admin/accounts", token.Token, ""); status != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d %s", status, text)
	}
}

func TestAdmin_SetAddressTaken_DoesNotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testmust.Succeed(t, err)
	defer taken.Close()
	n := launch(t, folder(t), "LETTERHEAD_ADMIN_LISTEN="+taken.Addr().String())
	n.out.waitFor(t, `choose another address with LETTERHEAD_ADMIN_LISTEN`, n.done)
	<-n.done
}

func TestAdmin_Off_MetricsArePublic(t *testing.T) {
	n := start(t, folder(t), "LETTERHEAD_ADMIN_LISTEN=off")
	if status, _ := asOperator(t, "GET", n.url+"/metrics", "", ""); status != http.StatusOK {
		t.Errorf("metrics: %d", status)
	}
	if strings.Contains(n.out.String(), "admin API") {
		t.Errorf("the start prints an admin API:\n%s", n.out)
	}
}
