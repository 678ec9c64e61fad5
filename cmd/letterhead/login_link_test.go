package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestLoginLink_PrintsOnlyTheURL(t *testing.T) {
	folder, id := openAccount(t)
	code, stdout, stderr := commandLine(t.Context(), "account", "login-link", "--account", id, "--data", folder)
	link, err := url.Parse(strings.TrimSuffix(stdout, "\n"))
	if code != exitOK || err != nil || link.Scheme != "http" || link.Path != "/dashboard/sign-in" || link.Query().Get("account") != id || len(link.Query().Get("token")) != 43 {
		t.Fatalf("ended with %d: %d bytes on stdout, %v", code, len(stdout), err)
	}
	if !strings.Contains(stderr, "once") || !strings.Contains(stderr, "15 minutes") || strings.Contains(stderr, link.Query().Get("token")) {
		t.Errorf("stderr %q", stderr)
	}
	var shown struct {
		URL       string
		ExpiresAt time.Time `json:"expires_at"`
	}
	text := output(t, folder, "account", "login-link", "--account", id, "--person", "p2", "--json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil || !strings.HasPrefix(shown.URL, "http://127.0.0.1:8080/dashboard/sign-in?account="+id+"&token=") || time.Until(shown.ExpiresAt) > 15*time.Minute {
		t.Errorf("--json expires at %s: %v", shown.ExpiresAt, err)
	}
	if shown.URL == link.String() {
		t.Error("the same link was printed twice")
	}
}

func TestAdminLoginLink_PrintsOnlyTheURL(t *testing.T) {
	folder, _ := openAccount(t)
	code, stdout, stderr := commandLine(t.Context(), "admin", "login-link", "--operator", "Jane Doe", "--scope", "support", "--data", folder)
	link, err := url.Parse(strings.TrimSuffix(stdout, "\n"))
	if code != exitOK || err != nil || link.Scheme != "http" || link.Host != "127.0.0.1:8090" || link.Path != "/sign-in" || len(link.Query().Get("token")) != 43 {
		t.Fatalf("ended with %d: %d bytes on stdout, %v", code, len(stdout), err)
	}
	if !strings.Contains(stderr, "once") || !strings.Contains(stderr, "15 minutes") || strings.Contains(stderr, link.Query().Get("token")) {
		t.Errorf("stderr %q", stderr)
	}
	var shown struct {
		URL       string
		ExpiresAt time.Time `json:"expires_at"`
	}
	text := output(t, folder, "admin", "login-link", "--operator", "Jane Doe", "--scope", "admin", "--json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil || !strings.HasPrefix(shown.URL, "http://127.0.0.1:8090/sign-in?token=") || shown.URL == link.String() || time.Until(shown.ExpiresAt) > 15*time.Minute {
		t.Errorf("--json expires at %s: %v", shown.ExpiresAt, err)
	}
}

func TestAdminLoginLink_BadArguments_AreRejected(t *testing.T) {
	folder, _ := openAccount(t)
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"--scope", "admin"}, exitUsage, "--operator takes"},
		{[]string{"--operator", "Jane"}, exitUsage, "--scope is read, support, finance or admin"},
		{[]string{"Jane"}, exitUsage, "argument"},
	} {
		args := append([]string{"admin", "login-link", "--data", folder}, c.args...)
		if code, stdout, stderr := commandLine(t.Context(), args...); code != c.exit || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s, want %d and %q", c.args, code, stdout, stderr, c.exit, c.want)
		}
	}
	t.Setenv("LETTERHEAD_ADMIN_LISTEN", "off")
	if code, stdout, stderr := commandLine(t.Context(), "admin", "login-link", "--operator", "Jane", "--scope", "read", "--data", folder); code != exitFailure || stdout != "" || !strings.Contains(stderr, "LETTERHEAD_ADMIN_LISTEN") {
		t.Errorf("without an admin API it ended with %d: %s%s", code, stdout, stderr)
	}
}

func TestLoginLink_BadArguments_AreRejected(t *testing.T) {
	folder, id := openAccount(t)
	unknown := uuid.NewString()
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{nil, exitUsage, "--account is needed"},
		{[]string{"--account", id, "--person", "jane@example.com"}, exitUsage, "not be a name"},
		{[]string{id}, exitUsage, "argument"},
		{[]string{"--account", unknown}, exitFailure, "there is no account " + unknown},
	} {
		args := append([]string{"account", "login-link", "--data", folder}, c.args...)
		if code, stdout, stderr := commandLine(t.Context(), args...); code != c.exit || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s, want %d and %q", c.args, code, stdout, stderr, c.exit, c.want)
		}
	}
}

func TestSignOut_SaysWhoIsSignedOut(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "account", "login-link", "--account", id, "--person", "p2")
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"--person", "p2"}, "account " + id + ": p2 signed out\n"}, {nil, "account " + id + ": all people signed out: there was no open session and no link that could be used\n"},
	} {
		if text := output(t, folder, append([]string{"account", "sign-out", id}, step.args...)...); text != step.want {
			t.Errorf("%v prints %q, want %q", step.args, text, step.want)
		}
	}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{{[]string{id, "--person", "Bob Smith"}, exitUsage, "must not be a name"}, {[]string{"5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"}, 1, "no account"}} {
		args := append([]string{"account", "sign-out", "--data", folder}, c.args...)
		if code, stdout, stderr := commandLine(t.Context(), args...); code != c.exit || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s, want %d and %q", c.args, code, stdout, stderr, c.exit, c.want)
		}
	}
}

func TestSignInEmail_IsSetShownAndRemoved(t *testing.T) {
	folder, id := openAccount(t)
	for _, step := range []struct {
		args []string
		want string
	}{
		{nil, "PERSON  EMAIL\n"}, {[]string{"--email", "ann@example.com"}, "owner   ann@example.com\n"}, {[]string{"--person", "p2", "--email", "bob@example.com"}, "owner   ann@example.com\np2      bob@example.com\n"},
		{[]string{"--json"}, `{"person":"owner","email":"ann@example.com"}`}, {[]string{"--email", ""}, "PERSON  EMAIL\np2      bob@example.com\n"},
	} {
		if text := output(t, folder, append([]string{"account", "sign-in-email", id}, step.args...)...); !strings.Contains(text, step.want) {
			t.Errorf("%v prints %q, want %q", step.args, text, step.want)
		}
	}
	if code, _, stderr := commandLine(t.Context(), "account", "sign-in-email", id, "--email", "ann", "--data", folder); code != exitUsage || !strings.Contains(stderr, "ann@example.com") {
		t.Errorf("a wrong address ends with %d: %s", code, stderr)
	}
	if code, _, stderr := commandLine(t.Context(), "account", "sign-in-email", id, "--person", "p2", "--data", folder); code != exitUsage || !strings.Contains(stderr, "--email") {
		t.Errorf("a person without an address ends with %d: %s", code, stderr)
	}
}
