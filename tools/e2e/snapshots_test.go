package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	accounts "letterhead/domain/account"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

// spendingFolder creates a data folder with an account that has a snapshot and 7 of 300 credits left.
func spendingFolder(t *testing.T) (data, accountID, secret string) {
	t.Helper()
	data = folder(t)
	n := start(t, data)
	acc, key := account(t, data, "growth")
	ok(t, data, "credits", "grant", "--account", acc.Account.ID, "--amount", "250", "--kind", "adjustment", "--reason", "test")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 36 {
				if a, err := n.get("/v1/brands/github.com", key); err != nil || a.status != http.StatusOK {
					t.Errorf("the look-up answered %d (%v), want 200", a.status, err)
				}
			}
		})
	}
	all.Wait()
	for range 293 - 8*36 {
		n.want(http.StatusOK, "/v1/brands/github.com", key)
	}
	n.stop() // leaves a snapshot
	return data, acc.Account.ID, key
}

// edit changes one row in the database of a folder without a server.
func edit(t *testing.T, data, query string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "letterhead.db"))
	testmust.Succeed(t, err)
	result, err := db.Exec(query, args...)
	if err == nil {
		var n int64
		if n, err = result.RowsAffected(); err == nil && n != 1 {
			err = fmt.Errorf("%d rows were changed, want 1", n)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	testmust.Succeed(t, db.Close())
}

// forge replaces a text in the account's snapshot and saves it with a valid checksum.
func forge(t *testing.T, data, accountID, from, to string) {
	t.Helper()
	ctx := context.Background()
	store, err := sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(data, "letterhead.db")})
	testmust.Succeed(t, err)
	defer store.Close()
	snapshots, err := sqlstore.NewSnapshots(ctx, store)
	testmust.Succeed(t, err)
	stream := accounts.Stream(accountID)
	revision, raw, found, err := snapshots.Load(ctx, stream, accounts.FoldVersion)
	if err != nil || !found {
		t.Fatalf("the server left no snapshot: %v", err)
	}
	forged := strings.Replace(string(raw), from, to, 1)
	if forged == string(raw) {
		t.Fatalf("the snapshot lacks %s: %s", from, raw)
	}
	testmust.Succeed(t, snapshots.Discard(ctx, stream, accounts.FoldVersion))
	testmust.Succeed(t, snapshots.Save(ctx, stream, accounts.FoldVersion, revision, []byte(forged)))
}

// The replay finds changes that a valid checksum hides.
// Rule 1.
func TestLedgerVerify_StateDiffersFromLog_Fails(t *testing.T) {
	data, id, _ := spendingFolder(t)
	if out := ok(t, data, "ledger", "verify"); !strings.Contains(out, "1 account(s)") && !strings.Contains(out, "2 account(s)") {
		t.Error(out)
	}
	found := func(what string) {
		t.Helper()
		out, errs, code := letterhead(t, data, "ledger", "verify", "--json")
		if code != 1 || !strings.Contains(errs, what) || !strings.Contains(errs, id) {
			t.Errorf("ledger verify ended with %d, want a mention of %q: %s%s", code, what, out, errs)
		}
		var printed struct {
			Broken   int
			Findings []string
		}
		decode(t, out, &printed)
		if printed.Broken != len(printed.Findings) || printed.Broken == 0 {
			t.Errorf("ledger verify printed %s, want as many findings as broken accounts", out)
		}
	}
	forge(t, data, id, `"balance":7,`, `"balance":5000,`)
	found("its snapshot: balance is 5000, but the events add up to 7")
	forge(t, data, id, `"balance":5000,`, `"balance":7,`)
	ok(t, data, "ledger", "verify", "--account", id)

	var table string
	db, err := sql.Open("sqlite", filepath.Join(data, "letterhead.db"))
	testmust.Succeed(t, err)
	if err := db.QueryRow(`SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'accounts_v%'`).Scan(&table); err != nil {
		t.Fatal(err)
	}
	testmust.Succeed(t, db.Close())
	edit(t, data, "UPDATE "+table+" SET balance = balance + 5000 WHERE id = ?", id)
	found("its row in the read model: balance is 5007, but the events add up to 7")
	edit(t, data, "UPDATE "+table+" SET balance = balance - 5000, revision = revision - 1 WHERE id = ?", id)
	found("its row in the read model")
	edit(t, data, "DELETE FROM "+table+" WHERE id = ?", id)
	found("the read model lacks the account")
}
