package main

import (
	"encoding/json"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

func TestCreditsRefund_MoneyButNoCreditsLeft_IsRecorded(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "10", "--payment-id", "p1", "--money", "1000", "--currency", "EUR")
	refund := func(flags ...string) (r struct {
		Balance  int64
		Repeated bool
		Refund   struct {
			ID    string `json:"refund_id"`
			Money struct{ Minor int64 }
		}
	}) {
		t.Helper()
		printed := output(t, folder, append([]string{"credits", "refund", "--account", id, "--payment-id", "p1", "--currency", "EUR", "--json"}, flags...)...)
		testmust.Succeed(t, json.Unmarshal([]byte(printed), &r))
		return r
	}
	all := refund("--refund-id", "f1", "--money", "900")
	for _, repeated := range []bool{false, true} {
		r := refund("--refund-id", "f2", "--money", "100")
		if r.Balance != all.Balance || r.Repeated != repeated || r.Refund.ID != "f2" || r.Refund.Money.Minor != 100 {
			t.Errorf("the refund of the other money printed %+v, want repeated = %t", r, repeated)
		}
	}
	var p struct {
		Credits int64 `json:"refunded_credits"`
		Money   int64 `json:"refunded_money"`
	}
	if err := json.Unmarshal([]byte(output(t, folder, "payment", "show", "p1", "--json")), &p); err != nil || p.Credits != 10 || p.Money != 1000 {
		t.Errorf("payment show printed %+v, %v, want 10 credits and 1000 minor units", p, err)
	}
}

func TestCommands_WrongOptions_AreExplained(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "10", "--payment-id", "p1", "--money", "1000", "--currency", "EUR")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"credits", "refund", "--account", id, "--payment-id", "p1", "--amount", "0"}, exitUsage, "--amount must be a positive number"},
		{[]string{"credits", "refund", "--account", id, "--payment-id", "p1", "--amount", "-1"}, exitUsage, "--amount must be a positive number"},
		{[]string{"credits", "grant", "--account", id, "--amount", "1", "--payment-id", "p2", "--money", "1", "--currency", "XYZ"}, exitUsage,
			`letterhead: --currency "XYZ" is not an ISO 4217 code`},
		{[]string{"credits", "grant", "--account", id, "--amount", "1", "--payment-id", "p\n2"}, exitUsage, "invisible character"},
		{[]string{"credits", "grant", "--account", id, "--amount", "1", "--kind", "adjustment", "--money", "1", "--currency", "EUR"}, exitUsage, "payment id is needed for a grant with money"},
		{[]string{"credits", "grant", "--account", id, "--amount", "9", "--payment-id", "p1", "--money", "1000", "--currency", "EUR"}, exitFailure, "p1 was recorded with 10 credits"},
		{[]string{"account", "create", "--plan", "growth"}, exitUsage, "--name takes"},
		{[]string{"account", "create", "--plan", "gold", "--name", "Acme"}, exitUsage, "growth"},
		{[]string{"payment", "list", "--kind", "gift"}, exitUsage, "--kind is"},
		{[]string{"payment", "list", "--account", "none"}, exitFailure, "there is no account none"},
		{[]string{"ledger", "show", "--account", id, "--last", "0"}, exitUsage, "--last must be"},
		{[]string{"admin", "token", "list", "--scope", "all"}, exitUsage, "--scope is"},
		{[]string{"admin", "token", "list", "--sort", "age"}, exitUsage, "--sort is"},
		{[]string{"billing", "inbox", "--state", "applied"}, exitUsage, "--state is"},
		{[]string{"billing", "inbox", "--sort", "age"}, exitUsage, "--sort is"},
		{[]string{"billing", "checkout", "--account", id, "--pack", "small"}, exitFailure, ": LETTERHEAD_BILLING_FILE"},
		{[]string{"account", "note", id, strings.Repeat("x", 70_000)}, exitUsage, "the command has more than"},
		{[]string{"account", "show", "\xff"}, exitUsage, "an argument is not UTF-8 text"},
		{[]string{"account", "login-link", "--account", id, "--person", "Ann"}, exitUsage, "letterhead: --person is an id"},
		{[]string{"account", "sign-in-email", id, "--email", "ann"}, exitUsage,
			"letterhead: --email is not an e-mail address such as"},
		{[]string{"account", "sign-in-email", id, "--email", "a@b.com", "--person", ".."}, exitUsage, `--person is ".."`},
		{[]string{"account", "list", "--sort", "spend", "--as-of", "2026-01"}, exitUsage, "Leave out --as-of"},
		{[]string{"admin", "token", "revoke", "none"}, exitFailure, `"letterhead admin token list" lists`},
	} {
		code, stdout, stderr := commandLine(t.Context(), append(c.args, "--data", folder)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q ended with %d: %s%s; want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestBillingCheckout_ClosedAccount_Fails(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "account", "close", id)
	code, stdout, stderr := commandLine(t.Context(), "billing", "checkout", "--account", id, "--pack", "small", "--data", folder)
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "account is closed") {
		t.Errorf("ended with %d: %s%s; want %d and that the account is closed", code, stdout, stderr, exitFailure)
	}
}

func TestAdminTokenList_Sort_Orders(t *testing.T) {
	folder, _ := openAccount(t)
	for _, name := range []string{"bea", "cid", "ann"} {
		output(t, folder, "admin", "token", "issue", "--name", name, "--scope", "read")
	}
	for sort, want := range map[string]string{"": "ann cid bea", "name": "ann bea cid", "-name": "cid bea ann", "issued": "bea cid ann"} {
		var names []string
		for line := range strings.Lines(output(t, folder, "admin", "token", "list", "--json", "--sort", sort)) {
			var token struct{ Name string }
			testmust.Succeed(t, json.Unmarshal([]byte(line), &token))
			names = append(names, token.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("--sort %q lists %s, want %s", sort, got, want)
		}
	}
}
