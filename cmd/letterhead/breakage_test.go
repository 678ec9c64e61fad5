package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"letterhead/adminapi"
	"letterhead/internal/testmust"
)

func TestBooksBreakage_ClosedAccounts_RecognizeTheirMoneyOnce(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR", "--tax", "782")
	breakage := []string{"books", "breakage", "--policy", "terms, section 4", "--csv"}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"books", "breakage", "--account", id}, exitUsage, "--policy is needed"},
		{breakage, exitUsage, "either --account or --closed-before"},
		{append(breakage, "--account", id, "--closed-before", "2026-01"), exitUsage, "either --account or --closed-before"},
		{append(breakage, "--closed-before", "soon"), exitUsage, "--closed-before"},
		{append(breakage, "--account", id), exitFailure, "account is not closed"},
		{append(breakage, "--account", "nobody"), exitFailure, "there is no account nobody"},
	} {
		if code, stdout, stderr := commandLine(t.Context(), append(c.args, "--data", folder)...); code != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s", c.args, code, stdout, stderr)
		}
	}
	const header = "account,currency,credits,breakage\n"
	if got := output(t, folder, append(breakage, "--closed-before", "2100-01", "--yes")...); got != header {
		t.Errorf("without closed accounts: %s", got)
	}
	output(t, folder, "account", "close", id)
	if got := output(t, folder, append(breakage, "--closed-before", "2000-01", "--yes")...); got != header {
		t.Errorf("before the account was closed: %s", got)
	}
	// Without --yes it shows the rows and asks; the test has no terminal to answer.
	code, stdout, stderr := commandLine(t.Context(), append(breakage, "--closed-before", "2100-01", "--data", folder)...)
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, header+id+",,50,\n"+id+",EUR,1000,41.18\n") || !strings.Contains(stderr, "not confirmed; nothing was changed") {
		t.Errorf("without --yes: %d %s%s", code, stdout, stderr)
	}
	if got, want := output(t, folder, append(breakage, "--closed-before", "2100-01", "--yes")...), header+id+",,50,\n"+id+",EUR,1000,41.18\n"; got != want {
		t.Errorf("output\n%s\nwant\n%s", got, want)
	}
	if got := output(t, folder, append(breakage, "--account", id)...); got != header {
		t.Errorf("again: %s", got)
	}
	want := `currency,account,code,debit,credit,state
CREDIT,credits,credits,0,0,provisional
CREDIT,credits-paid,credits-paid,0,1000,provisional
CREDIT,credits-promotional,credits-promotional,0,50,provisional
CREDIT,credits-broken,credits-broken,1050,0,provisional
EUR,payments,payments,49.00,0.00,provisional
EUR,tax,tax,0.00,7.82,provisional
EUR,deferred-revenue,deferred-revenue,0.00,0.00,provisional
EUR,breakage,breakage,0.00,41.18,provisional
`
	if got := output(t, folder, "books", "trial-balance", "--csv"); got != want {
		t.Errorf("output\n%s\nwant\n%s", got, want)
	}
	if got := output(t, folder, "books", "deferred", "--csv"); strings.Contains(got, id) {
		t.Errorf("credits remain: %s", got)
	}
	if got := output(t, folder, "ledger", "show", "--account", id); !strings.Contains(got, "BreakageRecognized") {
		t.Errorf("the ledger lacks the event: %s", got)
	}
}

func TestBooksBreakage_LogIsLost_Stops(t *testing.T) {
	recognized := 0
	folder := answering(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"rows":[{"account":"a"},{"account":"b"}]}`)
			return
		}
		recognized++
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"events are missing"}}`, adminapi.CodeLogLost)
	}), io.Discard)
	args := []string{"books", "breakage", "--policy", "terms", "--closed-before", "2100-01", "--yes", "--data", folder}
	if ends(t, args, exitLoss, "events are missing", "try again later"); recognized != 1 {
		t.Errorf("%d requests after the loss", recognized)
	}
}

// asked is standard error; it calls answer when the command asks.
type asked struct{ answer func() }

func (a asked) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("[yes/no]")) {
		a.answer()
	}
	return len(b), nil
}

func TestBooksBreakage_AccountClosedWhileAsking_IsLeftOut(t *testing.T) {
	folder, shown := openAccount(t)
	output(t, folder, "account", "close", shown)
	var other struct{ Account struct{ ID string } }
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "account", "create", "--name", "Other", "--json")), &other))
	in, answers, err := os.Pipe()
	testmust.Succeed(t, err)
	stdin := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = stdin })
	var out bytes.Buffer
	e := &environment{args: []string{"books", "breakage", "--policy", "terms", "--closed-before", "2100-01", "--csv", "--data", folder}, stdout: &out}
	e.stderr = asked{func() {
		output(t, folder, "account", "close", other.Account.ID)
		if _, err := io.WriteString(answers, "yes\n"); err != nil {
			t.Error(err)
		}
	}}
	if code := e.run(t.Context()); code != exitOK || out.String() != "account,currency,credits,breakage\n"+shown+",,50,\n" {
		t.Errorf("exit code %d, output %s", code, out.String())
	}
}
