package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/tools/e2e/program"
)

// TestProofs_AccountOfAServer_IsCheckedAlone proves an account's month next to a running server, and checks the proof
// without data.
func TestProofs_AccountOfAServer_IsCheckedAlone(t *testing.T) {
	data, folder := t.TempDir(), t.TempDir()
	n := start(t, data, "LETTERHEAD_STARTER=off")
	file := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string) {
		t.Helper()
		testmust.Succeed(t, os.WriteFile(file(name), []byte(text), 0o600))
	}
	if err := program.AwaitServing(n.url+"/v1/ledger/checkpoint", readyTimeout, n.done); err != nil { // on a busy machine it is made after the start
		t.Fatal(err)
	}
	resp, err := http.Get(n.url + "/v1/ledger/checkpoint")
	testmust.Succeed(t, err)
	first, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the checkpoint after the start: status %d, %v, %s", resp.StatusCode, err, first)
	}
	write("first.txt", string(first))
	acc, _ := account(t, data, "growth")
	id := acc.Account.ID
	month := ledgerOf(t, data, id)[0].At.UTC().Format("2006-01") // it may end before the test does
	ok(t, data, "ledger", "prove", "--account", id, "--month", month, "--since", file("first.txt"), "-o", file("running.txt"))
	key := strings.TrimSpace(ok(t, data, "ledger", "key"))
	alone := filepath.Join(folder, "no data")
	if text := ok(t, alone, "ledger", "check", file("running.txt"), "--key", key, "--since", file("first.txt")); !strings.Contains(text, " is valid: ") || !strings.Contains(text, id) || !strings.Contains(text, "give an earlier proof") {
		t.Errorf("check printed %q, want a valid proof of %s since a checkpoint alone", text, id)
	}
	ok(t, data, "ledger", "key", "--rotate")
	checkpoint := ok(t, data, "ledger", "checkpoint")
	if again := ok(t, data, "ledger", "checkpoint", "--since", "2020-01"); again != checkpoint {
		t.Errorf("a checkpoint that was not needed: %q, want %q", again, checkpoint)
	}
	n.stop()
	ok(t, data, "ledger", "prove", "--account", id, "--month", month, "--since", file("running.txt"), "-o", file("rotated.txt"))
	if text := ok(t, data, "ledger", "check", file("rotated.txt"), "--since", file("running.txt")); !strings.Contains(text, "still has every event") { // with both keys of the folder
		t.Errorf("check printed %q, want that the account still has the events of the earlier proof", text)
	}

	proof, err := os.ReadFile(file("rotated.txt"))
	testmust.Succeed(t, err)
	line := 1 + strings.Count(string(proof[:strings.Index(string(proof), `"credits":50`)]), "\n")
	write("changed.txt", strings.Replace(string(proof), `"credits":50`, `"credits":51`, 1))
	secret, err := os.ReadFile(filepath.Join(data, "ledger.key"))
	testmust.Succeed(t, err)
	private := strings.TrimSpace(string(secret))
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{1, "line " + strconv.Itoa(line), []string{file("changed.txt")}},
		{1, "a key that was not given", []string{file("rotated.txt"), "--key", key}},
		{1, "not a signed checkpoint", []string{file("rotated.txt"), "--since", file("changed.bin")}},
		{2, "public key", []string{file("rotated.txt"), "--data", alone}},
		{2, "public key", []string{file("rotated.txt"), "--key", "nothing"}},
		{2, "private key", []string{file("rotated.txt"), "--key", private}},
		{2, "private key", []string{file("rotated.txt"), "--key", filepath.Join(data, "ledger.key")}},
		{2, "argument", nil},
	} {
		write("changed.bin", "\x00")
		if out, errs, code := letterhead(t, data, append([]string{"ledger", "check"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) || strings.Contains(out+errs, private) {
			t.Errorf("check %v ended with %d: %q %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	missing := "00000000-0000-4000-8000-000000000000"
	for _, args := range [][]string{{"--account", missing, "--month", month}, {"--account", id, "--month", "2999-01"}, {"--account", id, "--month", "2020-01"}} {
		if _, errs, code := letterhead(t, data, append([]string{"ledger", "prove", "-o", file("none.txt")}, args...)...); code != 1 {
			t.Errorf("prove %v ended with %d: %q, want 1", args, code, errs)
		}
	}
	if _, err := os.Stat(file("none.txt")); err == nil {
		t.Error("a proof that failed left a file")
	}
}
