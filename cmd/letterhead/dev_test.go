package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/workers/generate"
)

func TestDevGenerate_EmptyFolder_IsAcceptedByTheOtherCommands(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "generated")
	code, stdout, stderr := commandLine(t.Context(), "dev", "generate", "--data", folder, "--accounts", "20", "--events", "3000", "--until", "2026-06", "--months", "6", "--json")
	var sum generate.Summary
	if err := json.Unmarshal([]byte(stdout), &sum); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if from, until := sum.First.Format("2006-01-02"), sum.Last.Format("2006-01"); sum.Accounts != 20 || sum.Events != 3000 || from != "2026-01-01" || until != "2026-06" {
		t.Errorf("summary %+v", sum)
	}
	for args, want := range map[string]string{
		"ledger verify":      "20 account(s), 3000 events",
		"projections verify": "agrees",
		"books revenue":      "2026-06",
	} {
		code, stdout, stderr := commandLine(t.Context(), append(strings.Fields(args), "--data", folder)...)
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s ended with %d: %s%s; want text that contains %q", args, code, stdout, stderr, want)
		}
	}
	code, _, stderr = commandLine(t.Context(), "dev", "generate", "--data", folder)
	if code != exitFailure || !strings.Contains(stderr, "not empty; name an empty folder with --data") {
		t.Errorf("a second history ended with %d: %s", code, stderr)
	}
}

func TestDevGenerate_InvalidHistory_MakesNoFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "generated")
	code, _, stderr := commandLine(t.Context(), "dev", "generate", "--data", folder, "--accounts", "20", "--events", "3")
	if _, err := os.Stat(folder); code != exitUsage || !os.IsNotExist(err) {
		t.Errorf("exit code %d (%s), folder: %v", code, stderr, err)
	}
}
