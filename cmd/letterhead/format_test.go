package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/projections/ledger"
)

// formatIn returns the data format of a folder.
func formatIn(t *testing.T, folder string) int {
	t.Helper()
	format := testmust.Get(datafolder.ReadFormat(folder, version))(t)
	return format
}

// ofTheReleaseBefore makes a data folder as the previous release leaves it: in its data format, with an account whose
// events are folded by its versions of the read models.
func ofTheReleaseBefore(t *testing.T) (folder, accountID string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	lock := testmust.Get(datafolder.Acquire(folder, datafolder.MayBeNew, version))(t)
	testmust.Succeed(t, lock.Raise(datafolder.Format-1))
	n := testmust.Get(node.Open(t.Context(), settingsOf(t, folder), lock, node.Options{Release: version, Logs: testLog{t}, LogLevel: "warn", Use: node.ToRead}))(t)
	created, err := n.Operations.Accounts.Create(t.Context(), n.Operator(), "Acme", plan.Free)
	testmust.Succeed(t, errors.Join(err, n.Operations.Reads.CatchUp(t.Context()), n.Close()))
	testmust.Succeed(t, testmust.Err(eventsFile(t, folder).ExecContext(t.Context(), "PRAGMA user_version = 1")))
	return folder, created.Account.ID
}

// eventsFile opens the file of the event log.
func eventsFile(t *testing.T, folder string) *sql.DB {
	t.Helper()
	db := testmust.Get(sql.Open("sqlite", filepath.Join(folder, "events.db")))(t)
	db.SetMaxIdleConns(0)
	return db
}

// fileFormat returns the format of the file of the event log.
func fileFormat(t *testing.T, folder string) (format int) {
	t.Helper()
	testmust.Succeed(t, eventsFile(t, folder).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&format))
	return format
}

// settingsOf returns the settings of a process that keeps everything in one folder.
func settingsOf(t testing.TB, folder string) config.Config {
	t.Helper()
	cfg := testmust.Get(config.Load(func(string) (string, bool) { return "", false }, map[string]string{"LETTERHEAD_DATA": folder}))(t)
	return cfg
}

// ledgerVersion returns the version of the ledger's live tables.
func ledgerVersion(t *testing.T, folder string) (version int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(folder, "letterhead.db"))
	testmust.Succeed(t, err)
	err = db.QueryRowContext(t.Context(), "SELECT fold_version FROM projections_registry WHERE name = $1 AND state = 'live'", ledger.Name).Scan(&version)
	testmust.Succeed(t, errors.Join(err, db.Close()))
	return version
}

// Commands that only read must leave the folder usable by the previous release. Commands that write finish its upgrade.
// Rule 8.
func TestFolderOfPreviousRelease_WritingCommands_RaiseFormat(t *testing.T) {
	folder, accountID := ofTheReleaseBefore(t)
	before := ledgerVersion(t, folder)
	for _, args := range [][]string{
		{"doctor"}, {"ledger", "verify"}, {"ledger", "show", "--account", accountID}, {"ledger", "undelivered", "--since", "2026-01-01T00:00:00Z"},
		{"account", "list"}, {"account", "show", accountID}, {"key", "list", "--account", accountID}, {"brand", "list"},
		{"projections", "list"}, {"projections", "verify"}, {"payment", "list"}, {"billing", "inbox"},
		{"books", "status"}, {"books", "deferred"}, {"account", "notices", accountID}, {"admin", "token", "list"},
		{"events", "tail", "--from", "0", "--no-follow"}, {"upgrade", "status"},
		{"backup", filepath.Join(t.TempDir(), "backup")},
	} {
		if code, stdout, stderr := commandLine(t.Context(), append(args, "--data", folder)...); code != exitOK {
			t.Errorf("%v ended with %d: stdout %s, stderr %s; want %d", args, code, stdout, stderr, exitOK)
		}
		if got := formatIn(t, folder); got != datafolder.Format-1 {
			t.Fatalf("%v gave the folder format %d", args, got)
		}
		if got := fileFormat(t, folder); got != 1 {
			t.Fatalf("%v gave the event log format %d", args, got)
		}
		if got := ledgerVersion(t, folder); got != before {
			t.Fatalf("%v made version %d of the ledger live; the previous release reads version %d", args, got, before)
		}
	}
	checkout := []string{"billing", "checkout", "--account", accountID, "--pack", "small", "--data", folder}
	code, _, stderr := commandLine(t.Context(), checkout...)
	if got := formatIn(t, folder); code != exitFailure || got != datafolder.Format-1 {
		t.Fatalf("checkout, which appends nothing, ended with %d and format %d: %s", code, got, stderr)
	}
	if code, _, stderr := commandLine(t.Context(), "credits", "grant", "--account", accountID, "--amount", "1", "--kind", "adjustment", "--reason", "test", "--data", folder); code != exitOK {
		t.Fatalf("grant: stderr %s", stderr)
	}
	if got := formatIn(t, folder); got != datafolder.Format {
		t.Errorf("after a grant the folder has format %d, want %d", got, datafolder.Format)
	}
	if got := fileFormat(t, folder); got != 2 {
		t.Errorf("after a grant the event log has format %d, want 2", got)
	}
	if code, _, stderr := commandLine(t.Context(), "ledger", "verify", "--data", folder); code != exitOK {
		t.Errorf("verify: stderr %s", stderr)
	}
}

// markOf returns the format in a backup's manifest.
func markOf(t *testing.T, at string) (format int) {
	t.Helper()
	raw := testmust.Get(os.ReadFile(filepath.Join(at, "manifest.json")))(t)
	m := struct{ Format *int }{&format}
	testmust.Succeed(t, json.Unmarshal(raw, &m))
	return format
}

// The previous release rejects a backup whose manifest has the format of this release.
// Rule 8.
func TestBackup_StoredFormat_IsInManifest(t *testing.T) {
	folder, accountID := ofTheReleaseBefore(t)
	at := filepath.Join(t.TempDir(), "backup")
	backUp := func(want int) {
		t.Helper()
		if code, _, stderr := commandLine(t.Context(), "backup", at, "--data", folder); code != exitOK {
			t.Fatalf("backup: stderr %s", stderr)
		}
		if got := markOf(t, at); got != want {
			t.Errorf("the backup has format %d, want that of the folder, %d", got, want)
		}
	}
	backUp(datafolder.Format - 1)

	// Read without a lock, as a command does while a server runs.
	n := testmust.Get(node.OpenReading(t.Context(), settingsOf(t, folder), node.Options{Release: version, Logs: testLog{t}}, nil))(t)
	if got, err := n.Stores.DataFormat(t.Context()); got != datafolder.Format-1 || err != nil {
		t.Errorf("DataFormat of a folder opened for reading = %d, %v, want %d", got, err, datafolder.Format-1)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}

	if code, _, stderr := commandLine(t.Context(), "account", "close", accountID, "--data", folder); code != exitOK {
		t.Fatal(stderr)
	}
	backUp(datafolder.Format)
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
