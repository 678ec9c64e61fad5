package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

// A check over a rotation needs the public keys of both checkpoints.
func TestLedgerCheck_KeyRotated_TakesBothKeys(t *testing.T) {
	folder, id := openAccount(t)
	var last struct{ At time.Time }
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "ledger", "show", "--account", id, "--last", "1", "--json")), &last))
	first, second := filepath.Join(t.TempDir(), "first.txt"), filepath.Join(t.TempDir(), "second.txt")
	prove := []string{"ledger", "prove", "--account", id, "--month", last.At.Format("2006-01"), "-o"}
	output(t, folder, append(prove, first)...)
	old := strings.TrimSpace(output(t, folder, "ledger", "key"))
	current := strings.TrimSpace(output(t, folder, "ledger", "key", "--rotate"))
	output(t, folder, append(prove, second, "--since", first)...)
	for _, c := range []struct {
		keys []string
		exit int
	}{{[]string{old}, exitFailure}, {[]string{current}, exitFailure}, {[]string{old, current}, exitOK}, {[]string{current, filepath.Join(folder, "ledger.pub")}, exitOK}} {
		args := []string{"ledger", "check", second, "--since", first, "--data", t.TempDir()}
		for _, key := range c.keys {
			args = append(args, "--key", key)
		}
		if code, stdout, stderr := commandLine(t.Context(), args...); code != c.exit {
			t.Errorf("with %d keys the check ended with %d, want %d: %s%s", len(c.keys), code, c.exit, stdout, stderr)
		}
	}
}

func TestLedgerShow_RangeThatEndsBeforeItBegins_IsAUsageError(t *testing.T) {
	folder, id := openAccount(t)
	for _, end := range []string{"--to", "--as-of"} {
		code, stdout, stderr := commandLine(t.Context(), "ledger", "show", "--account", id, "--from", "2026-04", end, "2026-03", "--data", folder)
		if want := "--from 2026-04 is after " + end + " 2026-03"; code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s%s; want %d and %q", end, code, stdout, stderr, exitUsage, want)
		}
	}
}
