package main

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func TestProjectionsRebuild_Keep_IsComparedAndSwitchedLater(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR")
	if got := output(t, folder, "projections", "rebuild", "payments", "search"); !strings.Contains(got, "payments  the rebuilt model agrees with the live one at position") || !strings.Contains(got, "it is live\n  payments: 1 rows agree, 0 only in the live table") || !strings.Contains(got, "search    rebuilt, not compared\n") {
		t.Errorf("rebuild printed %s", got)
	}
	if got := output(t, folder, "projections", "list", "--json"); !strings.Contains(got, `"name":"payments","state":"live","version":3,"generation":2`) || strings.Contains(got, `"kept"`) {
		t.Errorf("after the rebuild: %s", got)
	}
	var kept struct {
		Name, Rebuilt  string
		Compared, Same bool
		Tables         []struct{ Same int64 }
	}
	if err := json.Unmarshal([]byte(output(t, folder, "projections", "rebuild", "payments", "--keep", "--json")), &kept); err != nil {
		t.Fatal(err)
	}
	if kept.Name != "payments" || kept.Rebuilt != "kept" || !kept.Compared || !kept.Same || len(kept.Tables) != 3 || kept.Tables[0].Same != 1 {
		t.Errorf("rebuild --keep --json printed %+v", kept)
	}
	output(t, folder, "payment", "fee", "pi_1", "--money", "145")
	if got := output(t, folder, "projections", "compare", "payments"); !strings.Contains(got, "agrees with the live one") || !strings.Contains(got, "it is kept\n") || !strings.Contains(got, "  fees: 1 rows agree") {
		t.Errorf("compare printed %s", got)
	}
	if got := output(t, folder, "projections", "list"); !strings.Contains(got, " generation ") {
		t.Errorf("list printed %s", got)
	}
	if got, want := output(t, folder, "projections", "switch", "payments", "--json"), `{"name":"payments","rebuilt":"live"}`+"\n"; got != want {
		t.Errorf("switch printed %s, want %s", got, want)
	}
	output(t, folder, "projections", "rebuild", "payments", "usage", "--keep")
	if got, want := output(t, folder, "projections", "discard", "payments", "usage", "--json"), `{"name":"payments","rebuilt":"discarded"}`+"\n"+`{"name":"usage","rebuilt":"discarded"}`+"\n"; got != want {
		t.Errorf("discard printed %s, want %s", got, want)
	}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"projections", "compare"}, exitUsage, "takes the names of read models"},
		{[]string{"projections", "compare", "nope"}, exitUsage, "nope"},
		{[]string{"projections", "rebuild", "search", "--keep"}, exitUsage, "search index cannot be kept"},
		{[]string{"projections", "rebuild", "nope"}, exitUsage, "nope"},
		{[]string{"projections", "rebuild"}, exitUsage, "name the read models"},
		{[]string{"projections", "compare", "payments"}, exitFailure, "no rebuilt tables are kept"},
		{[]string{"projections", "switch", "payments"}, exitFailure, "no rebuilt tables are kept"},
		{[]string{"projections", "discard", "payments"}, exitFailure, "no rebuilt tables are kept"},
	} {
		if code, stdout, stderr := commandLine(t.Context(), append(c.args, "--data", folder)...); code != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s", c.args, code, stdout, stderr)
		}
	}
	if got := output(t, folder, "projections", "verify"); strings.Contains(got, "differs") {
		t.Errorf("verify printed %s", got)
	}
}

func TestProjections_KeptTablesDiffer_StayUntilSwitchedOrDiscarded(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR")
	output(t, folder, "projections", "rebuild", "payments", "usage", "--keep")
	db, err := sql.Open("sqlite", filepath.Join(folder, "letterhead.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE payments_v3_g1_payments SET money = 1"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"compare", "payments"}, exitFailure, "payments  the rebuilt model differs from the live one"},
		{[]string{"compare", "payments", "--json"}, exitFailure, `"changed":1,`},
		{[]string{"compare", "usage"}, exitOK, "agrees with the live one"},
		{[]string{"rebuild", "payments"}, exitFailure, `make them live with "projections switch payments", or drop them with "projections discard payments"`},
		{[]string{"rebuild", "payments", "--keep"}, exitFailure, "rebuilt tables are kept already"},
		{[]string{"switch", "payments", "keys"}, exitFailure, "keys: no rebuilt tables are kept"},
		{[]string{"discard", "payments", "keys"}, exitFailure, "keys: no rebuilt tables are kept"},
		{[]string{"list", "--json"}, exitOK, `"kept":{"version":3,"generation":2,`},
		{[]string{"switch", "payments"}, exitOK, "switched"},
		{[]string{"switch", "payments"}, exitFailure, "payments: no rebuilt tables are kept"},
		{[]string{"discard", "usage"}, exitOK, "discarded"},
		{[]string{"discard", "usage"}, exitFailure, "usage: no rebuilt tables are kept"},
	} {
		code, stdout, stderr := commandLine(t.Context(), append(append([]string{"projections"}, c.args...), "--data", folder)...)
		if code != c.exit || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s\nwant %d and %q", c.args, code, stdout, stderr, c.exit, c.want)
		}
	}
	if got := output(t, folder, "payment", "show", "pi_1", "--json"); !strings.Contains(got, "4900") {
		t.Errorf("after the switch the payment is %s", got)
	}
}
