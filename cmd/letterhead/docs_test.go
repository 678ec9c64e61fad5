package main

import (
	"bytes"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
)

func read(t *testing.T, name string) string {
	t.Helper()
	raw := testmust.Get(os.ReadFile("../../" + name))(t)
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
		found := testmust.Get(filepath.Glob("../../" + pattern))(t)
		for _, name := range found {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(name), "../../"))
		}
	}
	return names
}

// declaredTests returns the names of all tests, benchmarks and fuzz targets, each with the folders that contain it.
func declaredTests(t *testing.T) map[string][]string {
	declared := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	eachTestFile(t, func(folder, text string) {
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			declared[m[1]] = append(declared[m[1]], folder)
		}
	})
	return declared
}

// eachTestFile calls do with the folder and the text of every test file.
func eachTestFile(t *testing.T, do func(folder, text string)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(name)
		do(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../../"), string(raw))
		return err
	})
	testmust.Succeed(t, err)
}

// fewestTests is the number of tests that a rule must have.
const fewestTests = 4

// The comment of a test that protects a rule of docs/rules.md ends with a line that names the rule.
func TestRules_EveryRule_HasTests(t *testing.T) {
	rules := map[string][]string{}
	headings := regexp.MustCompile(`(?m)^## (\d+)\. .+$`).FindAllStringSubmatch(read(t, "docs/rules.md"), -1)
	for _, m := range headings {
		rules[m[1]] = nil
	}
	line := regexp.MustCompile(`(?m)^// Rules? (\d[\d, ]*)\.$\n(?:func ((?:Test|Fuzz|Benchmark)\w+)\()?`)
	eachTestFile(t, func(folder, text string) {
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			for _, number := range strings.Split(m[1], ", ") {
				if _, known := rules[number]; !known || m[2] == "" {
					t.Errorf("%s has a line about rule %s before the test %q: the rule or the test is missing", folder, number, m[2])
				}
				rules[number] = append(rules[number], folder+": "+m[2])
			}
		}
	})
	for _, m := range headings {
		tests := rules[m[1]]
		t.Logf("%s\n\t%s", m[0], strings.Join(tests, "\n\t"))
		if len(tests) < fewestTests {
			t.Errorf("rule %s has %d tests, want at least %d", m[1], len(tests), fewestTests)
		}
	}
}

// maxParagraph limits a paragraph, an item of a list and a cell of a table, in characters.
const maxParagraph = 600

func TestDocuments_Paragraphs_AreShort(t *testing.T) {
	begins := regexp.MustCompile(`^(?:[-*] |\d+\. |#|\|)`)
	for _, page := range append(pages(t), "CHANGELOG.md") {
		if strings.HasPrefix(read(t, page), "<!-- Code generated") {
			continue
		}
		code, length := false, 0
		for i, text := range strings.Split(read(t, page), "\n") {
			text = strings.TrimSpace(text)
			switch {
			case strings.HasPrefix(text, "```"):
				code, length = !code, 0
				continue
			case code:
				continue
			case text == "" || begins.MatchString(text):
				length = 0
			}
			for _, part := range strings.Split(strings.ReplaceAll(text, `\|`, ""), "|") {
				if strings.HasPrefix(text, "|") {
					length = 0
				}
				length += utf8.RuneCountInString(part)
				if length > maxParagraph {
					t.Errorf("%s:%d: a paragraph has more than %d characters: %.60s…", page, i+1, maxParagraph, part)
					length = math.MinInt // one error for each paragraph
				}
			}
		}
	}
}

// README.md fits on three screens.
func TestReadme_FitsThreeScreens(t *testing.T) {
	lines := strings.Split(read(t, "README.md"), "\n")
	if len(lines) > 121 {
		t.Errorf("README.md has %d lines, want at most 120", len(lines)-1)
	}
	for i, text := range lines {
		if utf8.RuneCountInString(text) > 120 {
			t.Errorf("README.md:%d has more than 120 columns", i+1)
		}
	}
}

func TestSecurity_NamesTheRelease(t *testing.T) {
	if !strings.Contains(read(t, "SECURITY.md"), "The latest release, "+version+".") {
		t.Errorf("SECURITY.md does not name release %s", version)
	}
	if !strings.Contains(read(t, "CHANGELOG.md"), "\n## "+version) {
		t.Errorf("CHANGELOG.md has no section for release %s", version)
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
	entries := testmust.Get(os.ReadDir("../.."))(t)
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
