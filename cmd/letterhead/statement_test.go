package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/domain/statement"
)

func TestStatementShow_GeneratedHistory_MonthsJoin(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "generated")
	run := func(args string) (code int, stdout, stderr string) {
		t.Helper()
		return commandLine(t.Context(), append(strings.Fields(args), "--data", folder)...)
	}
	if code, _, stderr := run("dev generate --accounts 3 --events 2000 --until 2026-06 --months 4"); code != exitOK {
		t.Fatalf("dev generate ended with %d: %s", code, stderr)
	}
	_, list, _ := run("account list --json")
	line, _, _ := strings.Cut(list, "\n")
	var first struct {
		Account struct{ ID string }
		Credits struct{ Balance int64 }
	}
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	show := func(rest string) (code int, stdout, stderr string) {
		t.Helper()
		return run("statement show " + rest + " --account " + first.Account.ID)
	}
	if code, _, stderr := run("books close 2026-03"); code != exitOK {
		t.Fatalf("books close ended with %d: %s", code, stderr)
	}
	balance, months := int64(0), 0
	for _, month := range []string{"2026-03", "2026-04", "2026-05", "2026-06"} {
		code, stdout, stderr := show(month + " --json")
		if code == exitFailure && months == 0 && strings.Contains(stderr, "has no events") {
			continue // the account was opened later
		}
		var s statement.Statement
		if err := json.Unmarshal([]byte(stdout), &s); code != exitOK || err != nil {
			t.Fatalf("%s ended with %d: %v, %s%s", month, code, err, stdout, stderr)
		}
		if s.OpeningBalance != balance || s.Month != month || s.Provisional || s.Closed != (month == "2026-03") {
			t.Errorf("%s after a balance of %d: %s", month, balance, stdout)
		}
		balance, months = s.ClosingBalance, months+1
	}
	if balance != first.Credits.Balance {
		t.Errorf("the last statement closes with %d, and the account has %d", balance, first.Credits.Balance)
	}
	for rest, want := range map[string]string{"2026-06": "2026-06 (open)", "2026-06 --csv": "line,date,reference,"} {
		if code, stdout, stderr := show(rest); code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s ended with %d: %s%s, want text that contains %q", rest, code, stdout, stderr, want)
		}
	}
	for rest, want := range map[string]int{"2099-01": exitFailure, "2026-02": exitFailure, "June": exitUsage, "2026-06-01": exitUsage, "2026-06 --csv --json": exitUsage, "": exitUsage} {
		if code, stdout, stderr := show(rest); code != want || stdout != "" || stderr == "" {
			t.Errorf("%q ended with %d: %q, %q, want %d and a reason", rest, code, stdout, stderr, want)
		}
	}
}
