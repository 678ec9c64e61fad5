package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/node/datafolder"
)

// commandLine runs a command line and returns its exit code and output.
func commandLine(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	e := &environment{args: args, stdout: &out, stderr: &errs}
	return e.run(ctx), out.String(), errs.String()
}

// openFolder opens the stores of a data folder.
func openFolder(t testing.TB, folder string) *node.Node {
	t.Helper()
	lock := testmust.Get(datafolder.Acquire(folder, datafolder.MayBeNew, version))(t)
	n := testmust.Get(node.OpenStores(t.Context(), settingsOf(t, folder), lock, node.Options{Release: version, Logs: io.Discard}))(t)
	return n
}

// oneCrawl makes a data folder with a crawl request and a name.
func oneCrawl(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	n := openFolder(t, folder)
	_, err := n.Stores.Log.Append(t.Context(), "brand-acme.com", eventlog.NoStream(), []eventlog.Proposed{
		{ID: uuid.New(), Type: "BrandDiscovered", SchemaVersion: 1, OccurredAt: time.Unix(1, 0).UTC(), Data: []byte(`{}`)},
		{ID: uuid.New(), Type: "CrawlRequested", SchemaVersion: 1, OccurredAt: time.Unix(2, 0).UTC(), Data: []byte(`{}`)},
	})
	testmust.Succeed(t, errors.Join(err, n.Stores.Names.Put(t.Context(), "holder-1", "Ada"), n.Close()))
	return folder
}

func TestRestore_Backup_RestoresEverything(t *testing.T) {
	from, to, at := oneCrawl(t), filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "backup")
	code, stdout, stderr := commandLine(t.Context(), "backup", "--json", at, "--data", from)
	var saved struct{ Events, Names int }
	if err := json.Unmarshal([]byte(stdout), &saved); code != exitOK || err != nil || saved.Events != 2 || saved.Names != 1 {
		t.Fatalf("backup: exit code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
	if code, stdout, stderr = commandLine(t.Context(), "restore", "--json", at, "--data", to); code != exitOK {
		t.Fatalf("restore: exit code %d, stdout %s, stderr %s; want %d", code, stdout, stderr, exitOK)
	}
	if err := datafolder.CheckRestored(to); err != nil {
		t.Error(err)
	}
	n := openFolder(t, to)
	head, err := n.Stores.Log.Head(t.Context())
	if err != nil || head != 2 {
		t.Errorf("head %d, %v; want 2", head, err)
	}
	// Relays do not publish old crawl requests again.
	for _, name := range node.CrawlCheckpoints() {
		if done, _, err := n.Stores.Positions.Load(t.Context(), name); err != nil || done != head {
			t.Errorf("checkpoint %s = %d, %v, want %d", name, done, err, head)
		}
	}
	if names, err := n.Stores.Names.Names(t.Context(), "holder-1"); err != nil || names["holder-1"] != "Ada" {
		t.Errorf("names %v, %v", names, err)
	}
	if code, _, stderr := commandLine(t.Context(), "restore", at, "--data", to); code != exitFailure || !strings.Contains(stderr, "in use") {
		t.Errorf("restore into a folder in use: exit code %d, stderr %s; want %d and text that contains %q", code, stderr, exitFailure, "in use")
	}
	testmust.Succeed(t, n.Close())
}

func TestRestore_ErasedNames_AreLeftOut(t *testing.T) {
	from, to, at := oneCrawl(t), filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "backup")
	list := filepath.Join(t.TempDir(), "erased.txt")
	testmust.Succeed(t, os.WriteFile(list, []byte("# erased on demand\n\nholder-1\n"), 0o600))
	for _, args := range [][]string{{"backup", at, "--data", from}, {"restore", at, "--data", to, "--erased", list}} {
		if code, _, stderr := commandLine(t.Context(), args...); code != exitOK {
			t.Fatalf("%v: exit code %d, stderr %s; want %d", args, code, stderr, exitOK)
		}
	}
	n := openFolder(t, to)
	if names, err := n.Stores.Names.Names(t.Context(), "holder-1"); err != nil || len(names) > 0 {
		t.Errorf("names %v, %v", names, err)
	}
	testmust.Succeed(t, n.Close())
}

func TestRestore_NoBackup_MakesNoFolder(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	if code, _, stderr := commandLine(t.Context(), "restore", t.TempDir(), "--data", to); code != exitFailure || !strings.Contains(stderr, "not a letterhead backup") {
		t.Errorf("exit code %d, stderr %s; want %d and text that contains %q", code, stderr, exitFailure, "not a letterhead backup")
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("restore made the data folder (%v), want ErrNotExist", err)
	}
}

func TestRestore_DamagedBackup_MakesNoFolder(t *testing.T) {
	from, to, at := oneCrawl(t), filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "backup")
	if code, _, stderr := commandLine(t.Context(), "backup", at, "--data", from); code != exitOK {
		t.Fatal(stderr)
	}
	segment := filepath.Join(at, "segments", "0000000001.lhb")
	whole := testmust.Get(os.ReadFile(segment))(t)
	testmust.Succeed(t, os.WriteFile(segment, whole[:10], 0o600))
	if code, _, stderr := commandLine(t.Context(), "restore", at, "--data", to); code != exitFailure || !strings.Contains(stderr, "damaged") {
		t.Fatalf("restore of a damaged backup: exit code %d, stderr %s; want %d and text that contains %q", code, stderr, exitFailure, "damaged")
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("restore made the data folder (%v), want ErrNotExist", err)
	}
	testmust.Succeed(t, os.WriteFile(segment, whole, 0o600))
	if code, _, stderr := commandLine(t.Context(), "restore", at, "--data", to); code != exitOK {
		t.Fatalf("restore of the repaired backup: exit code %d, stderr %s; want %d", code, stderr, exitOK)
	}
}

// The log contains the whole backup, but the database has higher positions. If restore checked only the log, nodes
// would refuse to start.
func TestRestore_DatabaseAheadOfBackup_ResetsPositions(t *testing.T) {
	from, to, at := oneCrawl(t), filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "backup")
	for _, args := range [][]string{{"backup", at, "--data", from}, {"restore", at, "--data", to}} {
		if code, _, stderr := commandLine(t.Context(), args...); code != exitOK {
			t.Fatalf("%v: exit code %d, stderr %s; want %d", args, code, stderr, exitOK)
		}
	}
	n := openFolder(t, to)
	err := n.Stores.Database.WriteDurable(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE positions SET position = position + 1000")
		return err
	})
	testmust.Succeed(t, errors.Join(err, n.Close()))
	if code, _, stderr := commandLine(t.Context(), "ledger", "verify", "--data", to); code == exitOK {
		t.Fatalf("ledger verify accepted a database that is ahead of the log: stderr %s", stderr)
	}
	for _, args := range [][]string{{"restore", at, "--data", to}, {"ledger", "verify", "--data", to}} {
		if code, _, stderr := commandLine(t.Context(), args...); code != exitOK {
			t.Errorf("%v: exit code %d, stderr %s; want %d", args, code, stderr, exitOK)
		}
	}
}

// stateOf describes what a restore changes in a folder besides events: its format, the mark of an unfinished restore,
// and the positions in the database.
func stateOf(t *testing.T, folder string) string {
	t.Helper()
	n := openFolder(t, folder)
	rows := testmust.Get(n.Stores.Database.Read().QueryContext(t.Context(), "SELECT name || ' ' || fold_version || ' ' || state || ' ' || position FROM projections_registry UNION ALL SELECT name || ' ' || position FROM positions ORDER BY 1"))(t)
	state := fmt.Sprintf("format %d, restoring %v\n", formatIn(t, folder), datafolder.CheckRestored(folder))
	for rows.Next() {
		var line string
		testmust.Succeed(t, rows.Scan(&line))
		state += line + "\n"
	}
	testmust.Succeed(t, errors.Join(rows.Err(), rows.Close(), n.Close()))
	return state
}

// A restore must not change a folder with other events, or one that contains the whole backup and has been used.
func TestRestore_FolderInUse_StaysAsItWas(t *testing.T) {
	other, at := oneCrawl(t), filepath.Join(t.TempDir(), "backup")
	if code, _, stderr := commandLine(t.Context(), "backup", at, "--data", other); code != exitOK {
		t.Fatal(stderr)
	}
	folder, _ := ofTheReleaseBefore(t)
	before := stateOf(t, folder)
	if code, _, stderr := commandLine(t.Context(), "restore", at, "--data", folder); code != exitFailure || !strings.Contains(stderr, "not empty") {
		t.Errorf("restore into a folder with other events ended with %d: stderr %s; want %d and text that contains %q", code, stderr, exitFailure, "not empty")
	}
	if after := stateOf(t, folder); after != before {
		t.Errorf("the rejected restore changed the folder from\n%s\nto\n%s", before, after)
	}

	restored := filepath.Join(t.TempDir(), "data")
	for range 2 {
		if code, _, stderr := commandLine(t.Context(), "restore", at, "--data", restored); code != exitOK {
			t.Fatal(stderr)
		}
	}
	if code, _, stderr := commandLine(t.Context(), "account", "list", "--data", restored); code != exitOK { // folds the events
		t.Fatal(stderr)
	}
	before = stateOf(t, restored)
	if !strings.Contains(before, "live") {
		t.Fatalf("nothing was folded: %s, want text that contains %q", before, "live")
	}
	if code, stdout, stderr := commandLine(t.Context(), "restore", at, "--data", restored); code != exitOK || !strings.Contains(stdout, "(2 were there)") {
		t.Errorf("repeated restore: exit code %d, stdout %s, stderr %s; want %d and text that contains %q", code, stdout, stderr, exitOK, "(2 were there)")
	}
	if after := stateOf(t, restored); after != before {
		t.Errorf("the repeated restore changed the folder from\n%s\nto\n%s", before, after)
	}
}

func TestMigrate_NotAnEventStoreDB_IsRejected(t *testing.T) {
	for _, to := range []string{"", "http://x", "postgres://x"} {
		if code, _, stderr := commandLine(t.Context(), "migrate", "--to", to, "--data", t.TempDir()); code != exitUsage {
			t.Errorf("--to %q: exit code %d, stderr %s; want %d", to, code, stderr, exitUsage)
		}
	}
}

// The streams that archive would choose are written to a file, and the rest to the new log. The folder keeps
// everything, and repeating the command gives the same result.
func TestMigrate_ArchiveBefore_KeepsFailuresInAFile(t *testing.T) {
	folder := oneCrawl(t)
	n := openFolder(t, folder)
	_, err := n.Stores.Log.Append(t.Context(), "brand-failed.com", eventlog.NoStream(), []eventlog.Proposed{
		{ID: uuid.New(), Type: "CrawlRequested", SchemaVersion: 1, OccurredAt: time.Unix(3, 0).UTC(), Data: []byte(`{}`)},
		{ID: uuid.New(), Type: "CrawlFailed", SchemaVersion: 1, OccurredAt: time.Unix(4, 0).UTC(), Data: []byte(`{}`)},
	})
	testmust.Succeed(t, errors.Join(err, n.Close()))
	file := filepath.Join(t.TempDir(), "failed.jsonl.zst")
	server := esdbtest.Start(t)
	migrate := func(flags ...string) (code int, stdout, stderr string) {
		return commandLine(t.Context(), append([]string{"migrate", "--to", server.ConnectionString(), "--json", "--data", folder}, flags...)...)
	}
	for name, flags := range map[string][]string{
		"without a file": {"--archive-before", "2026-01-01"}, "without a time": {"--archive-to", file},
		"no time": {"--archive-before", "soon", "--archive-to", file}, "the future": {"--archive-before", "2999-01-01", "--archive-to", file},
	} {
		if code, _, stderr := migrate(flags...); code != exitUsage {
			t.Errorf("%s: exit code %d, stderr %s; want %d", name, code, stderr, exitUsage)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a rejected command left a file (%v), want ErrNotExist", err)
	}
	for range 2 {
		code, stdout, stderr := migrate("--archive-before", "2026-01-01", "--archive-to", file)
		var out struct {
			Events   int
			Archived node.ArchivedFailures
		}
		if err := json.Unmarshal([]byte(stdout), &out); code != exitOK || err != nil || out.Events != 2 || out.Archived.Streams != 1 || out.Archived.Events != 2 {
			t.Fatalf("exit code %d, stdout %s, stderr %s", code, stdout, stderr)
		}
		raw, err := os.ReadFile(file)
		if sum := fmt.Sprintf("%x", sha256.Sum256(raw)); err != nil || sum != out.Archived.SHA256 {
			t.Errorf("the command printed SHA-256 %s, want %s (%v)", out.Archived.SHA256, sum, err)
		}
	}
	n = openFolder(t, folder)
	if head, err := n.Stores.Log.Head(t.Context()); err != nil || head != 4 {
		t.Errorf("the folder's log ends at %d (%v), want 4", head, err)
	}
	testmust.Succeed(t, n.Close())
}
