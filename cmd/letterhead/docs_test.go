package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
)

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The handbook's tables are what the binary has.
func TestTheHandbookNamesEverySettingAndCommand(t *testing.T) {
	handbook := read(t, "docs/operations.md")
	for _, s := range config.Settings() {
		if row := "| `" + s.Name + "` | `" + s.ShownDefault() + "` | " + s.Help + " |"; !strings.Contains(handbook, row) {
			t.Errorf("docs/operations.md lacks the row %s", row)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			if child.HasSubCommands() {
				walk(child)
				continue
			}
			group, verb := c.Name(), child.Name()
			named := regexp.MustCompile("`letterhead (" + group + " )?[^\n]*\\b" + regexp.QuoteMeta(verb) + "\\b")
			if verb != "help" && verb != "version" && !named.MatchString(handbook) {
				t.Errorf("docs/operations.md does not name %s", child.CommandPath())
			}
		}
	}
	root := newRoot(&environment{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}})
	root.InitDefaultCompletionCmd()
	walk(root)
}

// A reader follows links; none of ours leads nowhere.
func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, name := range []string{"README.md", "docs/architecture.md", "docs/rules.md", "docs/operations.md", "docs/api.md", "docs/logos.md", "docs/crawling.md", "docs/distributed.md", "docs/backup.md", "docs/events.md", "docs/upgrade.md"} {
		folder := ""
		if i := strings.LastIndex(name, "/"); i >= 0 {
			folder = name[:i+1]
		}
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			if _, err := os.Stat("../../" + folder + m[1]); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}

// The tests that docs/rules.md lists for each rule exist.
func TestTheProofsOfTheRulesExist(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(raw), -1) {
			declared[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(read(t, "docs/rules.md"), -1)
	if len(named) < 100 {
		t.Fatalf("docs/rules.md names only %d tests", len(named))
	}
	for _, name := range named {
		if !declared[name] {
			t.Errorf("docs/rules.md names %s, but no test has that name", name)
		}
	}
}
