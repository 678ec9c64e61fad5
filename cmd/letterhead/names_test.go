package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

// A changed letter sends nothing to another mailbox, and the commands find and repair it.
func TestNames_DamagedRows_AreListedAndRepaired(t *testing.T) {
	folder, account := openAccount(t)
	output(t, folder, "account", "sign-in-email", account, "--email", "ann@example.com")
	if got := output(t, folder, "names", "--json"); got != "" {
		t.Errorf("the damaged names are %s, want none", got)
	}
	n := openNode(t, folder)
	err := n.Stores.Database.WriteDurable(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE holders SET name = 'anm@example.com' WHERE name = 'ann@example.com'`)
		if err == nil {
			_, err = tx.ExecContext(t.Context(), `UPDATE holders SET id = CAST(x'ff' || id AS TEXT) WHERE name = 'Acme'`)
		}
		return err
	})
	testmust.Succeed(t, err)
	testmust.Succeed(t, n.Close())
	code, listed, _ := commandLine(t.Context(), "names", "--data", folder)
	if code == exitOK || !strings.Contains(listed, "letterhead account sign-in-email "+account) || !strings.Contains(listed, `\xff`) {
		t.Errorf("names ended with %d:\n%s", code, listed)
	}
	if code, checks, _ := commandLine(t.Context(), "doctor", "--data", folder); code == exitOK || !strings.Contains(checks, "damaged and not used") {
		t.Errorf("doctor ended with %d:\n%s", code, checks)
	}
	if got := output(t, folder, "account", "sign-in-email", account); strings.Contains(got, "@") {
		t.Errorf("the addresses are %s, want none", got)
	}
	if code, _, said := commandLine(t.Context(), "names", "repair", "sign-in-email:"+account, "--name", "x", "--data", folder); code != exitUsage || !strings.Contains(said, "account sign-in-email") {
		t.Errorf("an address as a name ends with %d: %s", code, said)
	}
	output(t, folder, "account", "sign-in-email", account, "--email", "ann@example.com")
	for line := range strings.Lines(listed) {
		if id, _, _ := strings.Cut(line, " "); strings.HasPrefix(id, `\xff`) {
			output(t, folder, "names", "repair", id, "--erase")
		}
	}
	if got := output(t, folder, "names", "--json"); got != "" {
		t.Errorf("after the repair the damaged names are %s", got)
	}
}

func TestNames_HiddenCharacter_IsRefusedByEachCommand(t *testing.T) {
	folder, account := openAccount(t)
	n := openNode(t, folder)
	err := n.Stores.Database.WriteDurable(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE holders SET name = 'Acne' WHERE name = 'Acme'`)
		return err
	})
	testmust.Succeed(t, errors.Join(err, n.Close()))
	_, damaged, _ := commandLine(t.Context(), "names", "--json", "--data", folder)
	var row struct{ ID string }
	if err := json.Unmarshal([]byte(damaged), &row); err != nil {
		t.Fatalf("%v: %s", err, damaged)
	}
	for _, args := range [][]string{
		{"account", "create", "--name"},
		{"key", "issue", "--account", account, "--name"},
		{"admin", "token", "issue", "--scope", "read", "--name"},
		{"admin", "login-link", "--scope", "read", "--operator"},
		{"names", "repair", row.ID, "--name"},
	} {
		code, _, said := commandLine(t.Context(), append(args, "Ac\u202eme", "--data", folder)...)
		if flag := args[len(args)-1]; code != exitUsage || !strings.Contains(said, flag+" has a hidden character, U+202E") {
			t.Errorf("%v ended with %d: %s", args, code, said)
		}
	}
}
