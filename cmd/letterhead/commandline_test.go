package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"letterhead/internal/testmust"
)

func TestCommandLine_Mistakes_AreUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"frobnicate", []string{`letterhead has no command "frobnicate"`, `"letterhead --help"`}},
		{"serv", []string{`letterhead has no command "serv"`, `serve`}},
		{"acount create", []string{`letterhead has no command "acount"`, `account)`}},
		{"account crate", []string{`letterhead account has no command "crate"`, `create)`}},
		{"--nonsense", []string{"--nonsense", `"letterhead --help"`}},
	} {
		t.Run(c.args, func(t *testing.T) {
			folder := t.TempDir()
			code, stdout, stderr := commandLine(t.Context(), append(strings.Fields(c.args), "--data", folder)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, output %q; want %d and no output", code, stdout, exitUsage)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("the error does not contain %s: stderr %s", want, stderr)
				}
			}
		})
	}
}

func TestVersion_FlagAndCommandAgree(t *testing.T) {
	_, command, _ := commandLine(t.Context(), "version")
	code, flag, stderr := commandLine(t.Context(), "--version")
	if code != exitOK || flag != command || !strings.HasPrefix(flag, "letterhead ") {
		t.Errorf("--version ended with %d and printed %q (%s); version prints %q", code, flag, stderr, command)
	}
}

func TestUnknownAccount_AnyCommand_Fails(t *testing.T) {
	folder := oneCrawl(t)
	for _, args := range []string{"ledger show --account none", "ledger show --account none --json", "ledger show --account none --last 3", "key list --account none", "ledger verify --account none", "statement show 2026-11 --account none"} {
		code, stdout, stderr := commandLine(t.Context(), append(strings.Fields(args), "--data", folder)...)
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, "there is no account none") {
			t.Errorf("%s ended with %d: stdout %q, stderr %s; want %d, %q and text that contains %q", args, code, stdout, stderr, exitFailure, "", "there is no account none")
		}
	}
}

// Every command must have examples, which it must be able to parse.
func TestHelp_ExamplesAreValid(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			walk(child)
		}
		if c.HasSubCommands() || c.Name() == "help" || c.Name() == "version" {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(strings.NewReplacer(`'"`, "", `"'`, "").Replace(line))
			root := newRoot(&environment{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}})
			found, rest, err := root.Find(words[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil && found.Args != nil {
				err = found.Args(found, found.Flags().Args())
			}
			if err != nil || words[0] != "letterhead" || found.CommandPath() != c.CommandPath() {
				t.Errorf("%s: example %q: %v", c.CommandPath(), strings.TrimSpace(line), err)
			}
		}
	}
	walk(newRoot(&environment{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}))
}

func TestProjectionsList_Options_FilterAndSort(t *testing.T) {
	folder := oneCrawl(t)
	names := func(args ...string) (all []string) {
		for line := range strings.Lines(output(t, folder, append([]string{"projections", "list", "--json"}, args...)...)) {
			var model struct{ Name string }
			testmust.Succeed(t, json.Unmarshal([]byte(line), &model))
			all = append(all, model.Name)
		}
		return all
	}
	all := names()
	slices.Sort(all)
	if got := names("--sort", "name"); !slices.Equal(got, all) || len(all) < 2 {
		t.Errorf("by name: %v, want %v", got, all)
	}
	slices.Reverse(all)
	if got := names("--sort", "-name", "--state", "live"); !slices.Equal(got, all) {
		t.Errorf("by name, descending: %v, want %v", got, all)
	}
	if got := names("--state", "set_aside"); len(got) != 0 {
		t.Errorf("quarantined: %v, want none", got)
	}
	for _, args := range []string{"projections list --state quarantined", "projections list --sort age", "brand list --sort taste", "brand list --status none"} {
		if code, _, stderr := commandLine(t.Context(), append(strings.Fields(args), "--data", folder)...); code != exitUsage {
			t.Errorf("%s ended with %d: %s", args, code, stderr)
		}
	}
}
