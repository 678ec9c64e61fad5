// Command affected reports to the gate (.ci/run) what a change needs. It prints variables for the shell:
//
//   - since: the commit that the change is compared with: CI_BASE, or where the branch left main, or the commit before.
//     It is empty if there is none, as in a shallow clone. Then the change may be anything.
//   - linters: the targets of the Makefile that check the changed files, without make lint, which always runs.
//   - touched: the packages of both modules with a changed file, be it code or what tests read.
//   - short: the other packages, which the gate tests with -short.
//   - race: the packages to test under the race detector: those that start goroutines, in code or tests, and that the
//     change can affect, because they use a touched package.
//
// More than maxRace packages would take too long under the race detector. Then race has those that the change touched
// and those in core. make race tests all of them.
//
// It must run in the root of the repository.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// linters matches the files that each linter reads. The Makefile, which has their versions, is one of all of them.
var linters = []struct {
	target string
	files  *regexp.Regexp
}{
	{"lint-openapi", regexp.MustCompile(`^(Makefile|readapi/openapi/.*|adminapi/openapi\.yaml)$`)},
	{"lint-client", regexp.MustCompile(`^(Makefile|readapi/openapi/openapi\.yaml|clients/.*)$`)},
	{"lint-deploy", regexp.MustCompile(`^(Makefile|docker-compose\.yml|deploy/.*|cmd/letterhead/deploy.*)$`)},
	{"lint-workflows", regexp.MustCompile(`^(Makefile|\.github/workflows/.*)$`)},
	{"vuln", regexp.MustCompile(`^(Makefile|(tools/)?go\.mod)$`)},
}

// everywhere matches the files that every package depends on: the dependencies, and how tests run.
var everywhere = regexp.MustCompile(`^((tools/)?go\.(mod|sum|work)|Makefile|\.ci/.*)$`)

// maxRace limits the packages to test under the race detector. The commands affect 18, the domain affects 27.
const maxRace = 20

// modules matches the files that choose the dependencies, and stores the packages whose tests a change of them needs in
// full: those that a fault of a database, its driver or the runtime would harm most.
var (
	modules = regexp.MustCompile(`^(tools/)?go\.(mod|sum|work)$`)
	stores  = regexp.MustCompile(
		`^letterhead/(commands|projections/engine|internal/(eventlog/sqlite|sqlstore)|tools/e2e)$`)
)

// core matches the packages in which a data race would do most harm.
var core = regexp.MustCompile(
	`^letterhead/(commands|projections/engine|internal/(eventlog|broker|sqlstore)|readapi/lookup)(/|$)`)

// starts matches a statement that starts a goroutine.
var starts = regexp.MustCompile(`(?m)^\s*go ([A-Za-z_.]+\(|func)|\.Go\(`)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "affected:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	packages, err := list("./...", "./tools/...")
	if err != nil {
		return err
	}
	since := base(os.Getenv("CI_BASE"))
	changed, err := changes(since)
	if err != nil {
		return err
	}
	touched, short, race := divide(packages, changed)
	for _, variable := range []struct {
		name   string
		values []string
	}{{"since", []string{since}}, {"linters", needed(changed)}, {"touched", touched}, {"short", short}, {"race",
		race}} {
		fmt.Fprintf(w, "%s='%s'\n", variable.name, strings.Join(variable.values, " "))
	}
	return nil
}

func git(arguments ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "core.quotePath=false"}, arguments...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, &errs)
	}
	return strings.TrimSpace(string(out)), nil
}

// base returns the commit that the change is compared with, or "" if there is none.
func base(given string) string {
	if commit, err := git("rev-parse", "--verify", "--quiet", given+"^{commit}"); given != "" && err == nil {
		return commit
	}
	head, _ := git("rev-parse", "HEAD")
	for _, branch := range []string{"origin/HEAD", "origin/main", "main"} {
		if commit, err := git("merge-base", "HEAD", branch); err == nil && commit != head {
			return commit
		}
	}
	before, _ := git("rev-parse", "--verify", "--quiet", "HEAD^")
	return before
}

// changes returns the names of the files that differ from a commit, committed or not; nil if it is "".
func changes(since string) ([]string, error) {
	if since == "" {
		return nil, nil
	}
	changed, err := git("diff", "--no-renames", "--name-only", since)
	if err != nil {
		return nil, err
	}
	added, err := git("ls-files", "--others", "--exclude-standard")
	return names(changed + "\n" + added), err
}

// names returns the lines of a text that are not empty.
func names(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// needed returns the linters of the changed files, and all of them if the change is unknown.
func needed(changed []string) (targets []string) {
	for _, l := range linters {
		if len(changed) == 0 || slices.ContainsFunc(changed, l.files.MatchString) {
			targets = append(targets, l.target)
		}
	}
	return targets
}

// pkg is a package of this repository.
type pkg struct {
	name, folder string   // the folder is relative to the root, with slashes
	uses         []string // all packages that its tests need, itself included; nil if it has no tests
	concurrent   bool     // it or its tests start goroutines
}

// list returns the packages that match the patterns.
func list(patterns ...string) ([]pkg, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go",
		append([]string{"list", "-test", "-json=ImportPath,Dir,ForTest,Deps,GoFiles,TestGoFiles,XTestGoFiles"},
			patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var packages []pkg
	uses := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, ForTest                 string
			Deps, GoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if tested, isTest := strings.CutSuffix(p.ImportPath, ".test"); isTest {
			for _, used := range p.Deps { // such as "letterhead/node [letterhead/tools/e2e.test]"
				used, _, _ = strings.Cut(used, " ")
				uses[tested] = append(uses[tested], used)
			}
			continue
		}
		if p.ForTest != "" {
			continue // the same package, compiled for a test
		}
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		found := pkg{name: p.ImportPath, folder: filepath.ToSlash(folder)}
		for _, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			code, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			found.concurrent = found.concurrent || starts.Match(code)
		}
		packages = append(packages, found)
	}
	for i := range packages {
		packages[i].uses = uses[packages[i].name]
	}
	return packages, nil
}

// divide divides packages by the names of changed files. Without names the change is unknown, and may affect all.
func divide(packages []pkg, changed []string) (touched, short, race []string) {
	everything := len(changed) == 0 || slices.ContainsFunc(changed, everywhere.MatchString)
	dependencies := slices.ContainsFunc(changed, modules.MatchString)
	for _, p := range packages {
		if dependencies && stores.MatchString(p.name) ||
			slices.ContainsFunc(changed, func(file string) bool { return holder(packages, file) == p.name }) {
			touched = append(touched, p.name)
		} else {
			short = append(short, p.name)
		}
	}
	isTouched := func(name string) bool { return slices.Contains(touched, name) }
	for _, p := range packages {
		if p.concurrent && p.uses != nil && (everything || slices.ContainsFunc(p.uses, isTouched)) {
			race = append(race, p.name)
		}
	}
	if len(race) > maxRace {
		race = slices.DeleteFunc(race, func(name string) bool { return !isTouched(name) && !core.MatchString(name) })
	}
	return touched, short, race
}

// holder returns the package with the nearest folder above a file, or "" if there is none.
func holder(packages []pkg, file string) (name string) {
	longest := 0
	for _, p := range packages {
		if strings.HasPrefix(file, p.folder+"/") && len(p.folder) > longest {
			name, longest = p.name, len(p.folder)
		}
	}
	return name
}
