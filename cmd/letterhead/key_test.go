package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func TestKey_Terms_AreShown(t *testing.T) {
	folder, id := openAccount(t)
	text := output(t, folder, "key", "issue", "--account", id, "--kind", "publishable", "--expires", "2099-12-31",
		"--scope", "search,logos", "--origin", "https://Shop.acme.com/", "--origin", "https://*.acme.com")
	for _, want := range []string{"expires  2100-01-01T00:00:00Z\n", "scopes   logos, search\n", "origins  https://*.acme.com, https://shop.acme.com\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("key issue printed %s, want %q in it", text, want)
		}
	}
	var issued struct {
		ID string
		account.KeyTerms
	}
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "key", "issue", "--account", id, "--kind", "publishable", "--expires", "3s", "--origin", "https://acme.com", "--json")), &issued))
	list := func(args ...string) string {
		return output(t, folder, append([]string{"key", "list", "--account", id}, args...)...)
	}
	for _, want := range []string{"2100-01-01T00:00:00Z", "logos,search", "https://*.acme.com,https://shop.acme.com", "never", "https://acme.com"} {
		if shown := list(); !strings.Contains(shown, want) {
			t.Errorf("key list printed %s, want %q in it", shown, want)
		}
	}
	var listed struct {
		State string
		account.KeyTerms
	}
	if took, ok := testwait.Until(testwait.Timeout, func() bool {
		text := list("--state", "expired", "--json")
		return text != "" && json.Unmarshal([]byte(text), &listed) == nil
	}); !ok {
		t.Fatalf("waited %s for the key to expire", took)
	}
	if listed.State != "expired" || !reflect.DeepEqual(listed.KeyTerms, issued.KeyTerms) || len(listed.Origins) != 1 {
		t.Errorf("key list --json printed %+v, issued was %+v", listed, issued)
	}
	if active := list("--state", "active", "--sort", "state"); strings.Contains(active, issued.ID) {
		t.Errorf("active keys: %s", active)
	}
	before := listed.ExpiresAt.Add(-time.Millisecond).Format(time.RFC3339Nano)
	if past := list("--state", "active", "--as-of", before); !strings.Contains(past, issued.ID) {
		t.Errorf("active keys before the expiry: %s", past)
	}
}

func TestKeyLimit_SetAndRemoved_IsListed(t *testing.T) {
	folder, id := openAccount(t)
	var issued struct{ ID string }
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "key", "issue", "--account", id, "--json")), &issued))
	for _, step := range []struct{ limit, says, lists string }{{"1000", "set to 1000", "0 of 1000 (month)"}, {"0", "removed", "none"}} {
		if text := output(t, folder, "key", "limit", issued.ID, "--limit", step.limit, "--period", "month"); !strings.Contains(text, step.says) {
			t.Errorf("key limit printed %s, want %q in it", text, step.says)
		}
		if text := output(t, folder, "key", "list", "--account", id, "--kind", "secret"); !strings.Contains(text, step.lists) {
			t.Errorf("key list printed %s, want %q in it", text, step.lists)
		}
	}
}

func TestKeyIssue_BadTerms_AreExplained(t *testing.T) {
	folder, id := openAccount(t)
	for args, want := range map[string]string{
		"--expires 5x":   "--expires",
		"--expires xd":   "a number of days such as 90d",
		"--scope search": "must be publishable",
	} {
		code, _, stderr := commandLine(t.Context(), append([]string{"key", "issue", "--data", folder, "--account", id}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := commandLine(t.Context(), "key", "list", "--data", folder, "--account", id, "--state", "old"); code != exitUsage || !strings.Contains(stderr, "active, expired, revoked") {
		t.Errorf("unknown state: exit code %d, %s", code, stderr)
	}
}

func TestExpiry_Forms(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                     {},
		"90d":                  time.Date(2027, 2, 28, 12, 0, 0, 0, time.UTC),
		"720h":                 time.Date(2026, 12, 30, 12, 0, 0, 0, time.UTC),
		"2027-01-31":           time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC),
		"2027-01":              time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC),
		"2027-01-31T10:00:00Z": time.Date(2027, 1, 31, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := expiry(text, now); err != nil || !got.Equal(want) {
			t.Errorf("expiry(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}
