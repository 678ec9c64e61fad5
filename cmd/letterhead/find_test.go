package main

import (
	"strings"
	"testing"
)

func TestAccounts_ByNameOrBeginningOfID_AreFoundByCommandsThatRead(t *testing.T) {
	folder, id := openAccount(t)
	at := " --data " + folder
	run := func(args string) string {
		t.Helper()
		code, out, stderr := commandLine(t.Context(), strings.Fields(args+at)...)
		if code != exitOK {
			t.Fatalf("%s ended with %d: %s", args, code, stderr)
		}
		return out
	}
	run("account create --name Nordwind")
	run("account create --name Nordstern")
	name := strings.Fields(run("account list --name nordw"))
	if len(name) < 9 || !strings.Contains(strings.Join(name, " "), " Nordwind ") || strings.Contains(strings.Join(name, " "), "Nordstern") {
		t.Errorf("accounts by name: %v", name)
	}
	for _, args := range []string{"account show nordwind", "key list --account Nordwind", "ledger show --account nordwind", "payment list --account NORDWIND", "account notices nordwind",
		"ledger verify --account nordwind", "journal export --account nordwind -o -", "ledger undelivered --since 2026-01-01 --account nordwind"} {
		run(args)
	}
	if out := run("account show " + id[:8]); !strings.Contains(out, id) {
		t.Errorf("account by the beginning of its id: %s", out)
	}
	for _, args := range []string{"account show nord", "ledger show --account nord"} {
		several := ends(t, strings.Fields(args+at), exitUsage, `"nord" is not the whole name or address`, "")
		if !strings.Contains(several, "Nordwind") || !strings.Contains(several, "Nordstern") {
			t.Errorf("%s does not list the accounts: %s", args, several)
		}
	}
	for _, args := range []string{"account show nordwin", "key list --account nordw"} { // it may be another one that is meant
		ends(t, strings.Fields(args+at), exitUsage, "  Nordwind", "")
	}
	run("account create --name NORDSTERN")
	ends(t, strings.Fields("account show nordstern"+at), exitUsage, `several accounts match "nordstern"`, "")
	ends(t, strings.Fields("account show nothing"+at), exitFailure, "there is no account nothing", "")
	ends(t, strings.Fields("account suspend nordwind"+at), exitFailure, "there is no account nordwind", "")
	ends(t, strings.Fields("account sign-out "+id[:8]+at), exitFailure, "there is no account "+id[:8], "")
	ends(t, strings.Fields("account list --name a"+at), exitUsage, "--name takes 2 to 200 characters", "")
	ends(t, strings.Fields("account list --nam nordwind"+at), exitUsage, "unknown flag", "")
	for typed, want := range map[string]string{"Nordw": "Nordwind\t", id[:8]: id + "\t"} {
		for _, args := range [][]string{{"account", "show", typed}, {"key", "list", "--account", typed}} {
			code, out, stderr := commandLine(t.Context(), append([]string{"__complete", "--data", folder}, args...)...)
			if code != exitOK || !strings.HasPrefix(out, want) {
				t.Errorf("completions of %q: %q, %s", typed, out, stderr)
			}
		}
	}
}
