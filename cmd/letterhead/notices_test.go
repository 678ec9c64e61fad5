package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/webhook"
	"letterhead/operations"
)

func TestAccountNotices_SetShowAndErase(t *testing.T) {
	folder, id := openAccount(t)
	shown := func(args ...string) (n operations.NoticeSettings) {
		t.Helper()
		text := output(t, folder, append([]string{"account", "notices", id, "--json"}, args...)...)
		testmust.Succeed(t, json.Unmarshal([]byte(text), &n))
		return n
	}
	if n := shown(); n.LowBalance != 0 || n.Webhook != "" || n.Email != "" || len(n.Notices) != 0 {
		t.Errorf("a new account: %+v", n)
	}
	const url = "https://hooks.example.com/in?token=t0ken"
	if n := shown("--low-balance", "60", "--webhook", url); n.LowBalance != 60 || n.Webhook != url || n.Email != "" {
		t.Errorf("threshold and webhook are set: %+v", n)
	}
	if n := shown("--email", "ann@customer.example"); n.LowBalance != 60 || n.Webhook != url || n.Email != "ann@customer.example" {
		t.Errorf("the address is set: %+v", n)
	}
	output(t, folder, "credits", "grant", "--account", id, "--amount", "20", "--payment-id", "p1")
	output(t, folder, "credits", "refund", "--account", id, "--payment-id", "p1")
	n := shown()
	if len(n.Notices) != 2 || n.Notices[0].Balance != 50 || n.Notices[0].Threshold != 60 {
		t.Fatalf("after the balance fell: %+v", n)
	}
	if text := output(t, folder, "account", "notices", id); !strings.Contains(text, "50 of 60") || !strings.Contains(text, url) {
		t.Errorf("output %s", text)
	}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{id, "--webhook", "http://hooks.example.com/"}, exitUsage, "https"},
		{[]string{id, "--retry", "x", "--low-balance", "1"}, exitUsage, "twice"},
		{[]string{id, "--retry", "x"}, exitFailure, "no such notice"},
		{[]string{"nobody"}, exitFailure, "there is no account nobody"},
		{[]string{"nobody", "--low-balance", "1"}, exitFailure, "there is no account nobody"},
		{nil, exitUsage, "ID"},
		{[]string{id, "--public-key"}, exitUsage, "argument"},
	} {
		args := append([]string{"account", "notices", "--data", folder}, c.args...)
		if code, stdout, stderr := commandLine(t.Context(), args...); code != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s", c.args, code, stdout, stderr)
		}
	}
	if n := shown("--webhook", ""); n.Webhook != "" || n.Email == "" {
		t.Errorf("the webhook is removed: %+v", n)
	}
	output(t, folder, "account", "close", id)
	if n := shown(); n.Email != "" || n.Notices[0].State != "outdated" {
		t.Errorf("the account is closed: %+v", n)
	}
}

func TestAccountNotices_PublicKey_IsThatOfTheFolder(t *testing.T) {
	folder, _ := openAccount(t)
	public := output(t, folder, "account", "notices", "--public-key")
	file := filepath.Join(folder, "notices.key")
	text := testmust.Get(os.ReadFile(file))(t)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("notices.key has the mode %v, %v", info.Mode(), err)
	}
	key, err := webhook.ParseKey(string(text))
	if err != nil || key.Public()+"\n" != public {
		t.Errorf("the public key is %s, that of the file is %s, %v", public, key.Public(), err)
	}
	if again := output(t, folder, "account", "notices", "--public-key"); again != public {
		t.Errorf("the public key has changed from %s to %s", public, again)
	}
	fresh := output(t, folder, "account", "notices", "--new-key")
	if _, err := webhook.ParseKey(fresh); err != nil {
		t.Errorf("a new key: %v", err)
	}
	t.Setenv("LETTERHEAD_NOTICES_KEY", strings.TrimSpace(fresh))
	if other := output(t, folder, "account", "notices", "--public-key"); other == public {
		t.Error("the setting does not replace the key of the folder")
	}
	t.Setenv("LETTERHEAD_NOTICES_KEY", "")
	testmust.Succeed(t, os.WriteFile(file, []byte("damaged"), 0o600))
	if code, _, stderr := commandLine(t.Context(), "account", "notices", "--public-key", "--data", folder); code != exitFailure || !strings.Contains(stderr, "restore the file") {
		t.Errorf("with a damaged key: %d, %s", code, stderr)
	}
}
