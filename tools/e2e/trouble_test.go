package e2e

import (
	"database/sql"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"letterhead/internal/testmust"
)

// A damaged read model does not block the others, and a command can rebuild it.
// Rule 8.
func TestReadModel_Damaged_CanBeRebuilt(t *testing.T) {
	data := folderWithoutStarter(t)
	n := start(t, data, "LETTERHEAD_STARTER=off")
	acc, key := account(t, data, "free")
	n.stop()
	db, err := sql.Open("sqlite", filepath.Join(data, "letterhead.db"))
	testmust.Succeed(t, err)
	var table string
	if err := db.QueryRow(`SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ledger_v%'`).Scan(&table); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DROP TABLE " + table); err != nil {
		t.Fatal(err)
	}
	testmust.Succeed(t, db.Close())
	n = start(t, data, "LETTERHEAD_STARTER=off")
	ok(t, data, "credits", "grant", "--account", acc.Account.ID, "--amount", "7", "--kind", "adjustment", "--reason", "test")
	n.want(http.StatusOK, "/v1/me", key)
	if out, _, code := letterhead(t, data, "doctor"); code == 0 || !strings.Contains(out, "projections rebuild ledger") {
		t.Errorf("doctor ended with %d and printed %s", code, out)
	}
	ok(t, data, "projections", "rebuild", "ledger")
	ok(t, data, "projections", "verify")
	if lines := ledgerOf(t, data, acc.Account.ID); lines[len(lines)-1].Balance != 57 {
		t.Errorf("the rebuilt ledger ends with %+v, want balance 57", lines[len(lines)-1])
	}
}

// Read models and the search index are disposable: the node rebuilds them from the log.
// Rule 8.
func TestReadModels_Deleted_AreRebuilt(t *testing.T) {
	data := folder(t)
	n := start(t, data)
	_, key := account(t, data, "free")
	n.want(http.StatusOK, "/v1/brands/github.com", key)
	n.stop()
	for _, pattern := range []string{"letterhead.db*", "search"} {
		found, err := filepath.Glob(filepath.Join(data, pattern))
		testmust.Succeed(t, err)
		for _, f := range found {
			testmust.Succeed(t, os.RemoveAll(f))
		}
	}
	n = start(t, data)
	me := n.want(http.StatusOK, "/v1/me", key).json(t)
	if got := me["credits"].(map[string]any)["balance"]; got != 49.0 {
		t.Errorf("the balance is %v, want 49", got)
	}
	n.want(http.StatusOK, "/v1/search?q=github", key)
	ok(t, data, "projections", "verify")
}

// Only the owner can read the files of the data folder.
// Rule 13.
func TestDataFolder_Created_IsPrivate(t *testing.T) {
	data := t.TempDir()
	testmust.Succeed(t, os.Chmod(data, 0o755))
	n := start(t, data, "LETTERHEAD_STARTER=off")
	account(t, data, "free")
	for _, name := range []string{"events.db", "events.db-wal", "events.head", "letterhead.db", "letterhead.db-wal", "admin.sock", "format.json"} {
		info, err := os.Stat(filepath.Join(data, name))
		testmust.Succeed(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s, want access for the owner only", name, info.Mode())
		}
	}
	n.stop()
}

// A command that follows the log does not delay the server's stop.
func TestStop_CommandFollowingLog_DoesNotWaitForIt(t *testing.T) {
	data := folderWithoutStarter(t)
	n := start(t, data, "LETTERHEAD_STARTER=off")
	tail := exec.Command(binary, "--data", data, "events", "tail", "--from", "0")
	tail.Env = environ()
	out := newOutput()
	tail.Stdout, tail.Stderr = out, out
	testmust.Succeed(t, tail.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tail.Wait()
	}()
	out.waitFor(t, "AccountOpened", ended)
	n.stop()
	<-ended
	if tail.ProcessState.ExitCode() == 0 {
		t.Errorf("events tail ended with 0 although its server stopped: %s", out)
	}
	// If the server waited for the command, its stop would take more than 16 s, the crawl timeout and the grace period,
	// and would log that.
	if strings.Contains(n.out.String(), "deadline") {
		t.Errorf("the server waited for its shutdown deadline:\n%s", n.out)
	}
}

// Commands ignore the stale file of a killed server that names a socket in another folder.
func TestSocketMarker_Stale_IsRemoved(t *testing.T) {
	data := t.TempDir()
	testmust.Succeed(t, os.WriteFile(filepath.Join(data, "admin.sock.path"), []byte("/nowhere/admin.sock\n"), 0o600))
	start(t, data, "LETTERHEAD_STARTER=off")
	ok(t, data, "account", "list")
	if _, err := os.Stat(filepath.Join(data, "admin.sock.path")); err == nil {
		t.Error("the stale file still exists")
	} else if !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// A killed server leaves no temporary format file, and the next one starts on the folder.
func TestFormatFile_ServerKilled_LeavesNoTemporaryFile(t *testing.T) {
	data := t.TempDir()
	n := start(t, data, "LETTERHEAD_STARTER=off")
	n.kill()
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "format.json.") {
			err = fmt.Errorf("the killed server left %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	start(t, data, "LETTERHEAD_STARTER=off")
}

// The server reports a port in use before it changes anything.
func TestServe_PortTaken_NamesIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testmust.Succeed(t, err)
	defer l.Close()
	cmd := exec.Command(binary, "serve", "--data", t.TempDir(), "--listen", l.Addr().String())
	cmd.Env = environ()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--listen") {
		t.Errorf("the server ended with %v and printed %s", err, out)
	}
}
