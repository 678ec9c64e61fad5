package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

func TestLoad_ValueInFile_IsReadWithoutItsLineBreak(t *testing.T) {
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		testmust.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	c := testmust.Get(Load(env(
		"LETTERHEAD_STRIPE_KEY_FILE", file("key", "sk_test_1\n"),
		"LETTERHEAD_STRIPE_WEBHOOK_SECRET_FILE", file("secrets", "whsec_old,whsec_new\r\n"),
		"LETTERHEAD_DATABASE_FILE", file("database", "postgres://user:password@localhost/brands"),
		"LETTERHEAD_BILLING_FILE", file("plans.yaml", "packs: []"), // a setting of its own, not the file of LETTERHEAD_BILLING
		"LETTERHEAD_LOG_LEVEL", "debug", "LETTERHEAD_LOG_LEVEL_FILE", "", // empty is unset
	), nil))(t)
	if c.StripeKey != "sk_test_1" || !slices.Equal(c.StripeSecrets, []string{"whsec_old", "whsec_new"}) ||
		c.Database != "postgres://user:password@localhost/brands" || c.BillingFile != filepath.Join(folder, "plans.yaml") || c.LogLevel != "debug" {
		t.Errorf("config = %+v", c)
	}
}

func TestLoad_ValueInFile_ErrorsSayWhatToChange(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for name, content := range map[string]string{
		"empty": "", "blank": " \n\n", "wrong": "letmein", "large": strings.Repeat("letmein", 64<<10),
	} {
		testmust.Succeed(t, os.WriteFile(path(name), []byte(content), 0o600))
	}
	for _, test := range []struct {
		variables []string
		want      string
	}{
		{[]string{"LETTERHEAD_STRIPE_KEY", "sk_1", "LETTERHEAD_STRIPE_KEY_FILE", path("wrong")}, "LETTERHEAD_STRIPE_KEY_FILE is set too; unset one of the two"},
		{[]string{"LETTERHEAD_STRIPE_KEY_FILE", path("empty")}, "LETTERHEAD_STRIPE_KEY_FILE: " + path("empty") + " is empty"},
		{[]string{"LETTERHEAD_STRIPE_KEY_FILE", path("blank")}, "is empty; write the value into it"},
		{[]string{"LETTERHEAD_STRIPE_KEY_FILE", path("missing")}, path("missing")},
		{[]string{"LETTERHEAD_STRIPE_KEY_FILE", folder}, "is not a regular file"},
		{[]string{"LETTERHEAD_STRIPE_KEY_FILE", path("large")}, "more than 65536 bytes"},
		{[]string{"LETTERHEAD_NOTICES_KEY_FILE", path("wrong")}, "LETTERHEAD_NOTICES_KEY"},
	} {
		_, err := Load(env(test.variables...), nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "letmein") {
			t.Errorf("%q: %v, want %q and not the content", test.variables, err, test.want)
		}
	}
}
