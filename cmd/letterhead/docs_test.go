package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// docs/operations.md must list every setting and command of the binary.
func TestHandbook_SettingsAndCommands_AreListed(t *testing.T) {
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

func TestDocuments_RelativeLinks_Resolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, name := range pages(t) {
		folder := ""
		if i := strings.LastIndex(name, "/"); i >= 0 {
			folder = name[:i+1]
		}
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			if _, err := os.Stat("../../" + folder + m[1]); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}

// pages returns the names of all documentation pages.
func pages(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(name), "../../"))
		}
	}
	return names
}

// declaredTests returns the names of all tests, benchmarks and fuzz targets, each with the folders that contain it.
func declaredTests(t *testing.T) map[string][]string {
	t.Helper()
	declared := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(name)
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../../")
		for _, m := range function.FindAllStringSubmatch(string(raw), -1) {
			declared[m[1]] = append(declared[m[1]], folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}

// docs/rules.md lists the tests of each rule, with their packages.
func TestRules_NamedTests_Exist(t *testing.T) {
	declared := declaredTests(t)
	listed := regexp.MustCompile("(?m)^- `([^`]+)`: (\\w+)$").FindAllStringSubmatch(read(t, "docs/rules.md"), -1)
	if len(listed) < 100 {
		t.Fatalf("docs/rules.md lists only %d tests, want at least 100", len(listed))
	}
	for _, m := range listed {
		if !slices.Contains(declared[m[2]], m[1]) {
			t.Errorf("docs/rules.md lists %s in %s, but it is in %q", m[2], m[1], declared[m[2]])
		}
	}
}

// A name that ends in an underscore and an ellipsis is a prefix of several tests.
func TestDocs_NamedTests_Exist(t *testing.T) {
	declared := declaredTests(t)
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+…?`).FindAllString(read(t, page), -1) {
			if start, several := strings.CutSuffix(name, "…"); several {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(declared)), func(s string) bool { return strings.HasPrefix(s, start) }) {
					t.Errorf("%s names %s, but no test has that prefix", page, name)
				}
			} else if declared[name] == nil && name != "TestSubject_Condition_Outcome" {
				t.Errorf("%s names %s, but no test has that name", page, name)
			}
		}
	}
}

// Decisions are historical records and may name files that were removed.
func TestDocs_NamedPaths_Exist(t *testing.T) {
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	top := map[string]bool{}
	for _, e := range entries {
		top[e.Name()] = e.IsDir()
	}
	code := regexp.MustCompile("`([^`\\s]+)`")
	for _, page := range pages(t) {
		for _, m := range code.FindAllStringSubmatch(read(t, page), -1) {
			name := strings.TrimSuffix(m[1], "/*")
			first, _, inside := strings.Cut(name, "/")
			if !inside || !top[first] || name == "tools/list" || // a method of MCP
				strings.HasPrefix(page, "docs/decisions/") || strings.ContainsAny(name, "<>*…()?=") {
				continue
			}
			if _, err := os.Stat("../../" + name); err == nil {
				continue
			}
			// An identifier of a package, such as readapi/logo.Parse.
			if dot := strings.LastIndex(name, "."); dot > strings.LastIndex(name, "/") {
				if _, err := os.Stat("../../" + name[:dot]); err == nil {
					continue
				}
			}
			t.Errorf("%s names %s, which does not exist", page, m[1])
		}
	}
}
