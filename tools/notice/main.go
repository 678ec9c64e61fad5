// Command notice writes which modules are linked into the binary, and their licenses.
//
//	go run ./tools/notice                      write one line for each module to the end of NOTICE
//	go run ./tools/notice -check               exit 1 if NOTICE is out of date
//	go run ./tools/notice -texts LICENSES.txt  write the texts of all licenses
//
// It gets the packages of the binary from the go command, and includes each license, copying, notice and patents file
// between a package's folder and the root of its module, and the licenses of embedded files (LICENSE-*.txt). Files with
// the same text are written once.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// binary is the package whose dependencies are listed.
	binary = "./cmd/letterhead"
	// begin is the line of NOTICE after which this command writes everything.
	begin = "Linked modules (written by tools/notice; do not edit below)"
	// maxLicense limits one license file, in bytes. The longest so far has 35 KB.
	maxLicense = 256 << 10
	// maxOwners limits the owners that NOTICE takes from one license file.
	maxOwners = 2
)

// systems are the operating systems of releases, which link different modules.
var systems = []string{"linux", "darwin", "windows"}

var (
	// legal matches the names of files that must be distributed with a module.
	legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)
	// owner matches the owners in a copyright line with a sign or a year.
	owner = regexp.MustCompile(
		`(?mi)^[ \t*#]*copyright[ ,:]+(?:(?:\(c\)|©|[0-9]{4}|present)[-–, ]*)+(?:by )?([^\n\[{<(]*[^\n\[{<(0-9, ])`)
	space = regexp.MustCompile(`\s+`)
)

// licenses are phrases of each license, the more specific ones first.
var licenses = []struct{ name, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"OFL-1.1", "sil open font license"},
	{"MPL-2.0", "mozilla public license"},
	{"BSD-3-Clause", "neither the name"},
	{"BSD-3-Clause", "the names of its contributors may not"},
	{"BSD-3-Clause", "name of the author may not be used"},
	{"BSD-2-Clause", "redistributions in binary form must reproduce"},
	{"MIT", "permission is hereby granted, free of charge"},
	{"ISC", "permission to use, copy, modify, and"},
	{"Unlicense", "released into the public domain"},
}

func main() {
	check := flag.Bool("check", false, "report whether NOTICE is current instead of writing it")
	texts := flag.String("texts", "", "the file to write the texts of the licenses to, instead of writing NOTICE")
	flag.Parse()
	if err := run("NOTICE", *texts, *check); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(file, to string, check bool) error {
	packages, err := linked()
	if err != nil {
		return err
	}
	texts, err := collect(packages)
	if err != nil {
		return err
	}
	if to != "" {
		if err := addEmbedded(texts); err != nil {
			return err
		}
		return os.WriteFile(to, []byte(render(texts)), 0o644)
	}
	lines, err := summary(texts)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, _, found := strings.Cut(string(before), begin)
	if !found {
		return fmt.Errorf("%s has no line %q", file, begin)
	}
	after := []byte(head + begin + "\n\n" + lines)
	if bytes.Equal(before, after) {
		return nil
	}
	if check {
		return fmt.Errorf("%s does not match the linked modules: run make notice", file)
	}
	return os.WriteFile(file, after, 0o644)
}

// linkedPackage is one package of the binary, as described by the go command.
type linkedPackage struct {
	Dir      string
	Standard bool
	Root     string
	Module   *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// linked returns the packages of the binary on all systems, so that the result is the same on every machine.
func linked() ([]linkedPackage, error) {
	var list []linkedPackage
	for _, system := range systems {
		cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Root,Module", binary)
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the packages of %s: %w", binary, err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p linkedPackage
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read the packages of %s: %w", binary, err)
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// text is a legal text and the modules, with their versions, that have it.
type text struct {
	license bool // the license at a module's root
	modules []string
}

// collect returns the texts of all modules. It fails if a module has no license file.
func collect(packages []linkedPackage) (map[string]*text, error) {
	texts := map[string]*text{}
	seen := map[string]bool{} // module and folder
	licensed := map[string]bool{}
	for _, p := range packages {
		name, root := "", ""
		switch {
		case p.Standard:
			name, root = "Go standard library", p.Root
			p.Dir = p.Root
		case p.Module == nil || p.Module.Main:
			continue
		default:
			name, root = p.Module.Path+" "+p.Module.Version, p.Module.Dir
		}
		licensed[name] = licensed[name] || false
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if !seen[name+dir] {
				seen[name+dir] = true
				found, err := read(dir)
				if err != nil {
					return nil, err
				}
				licensed[name] = licensed[name] || dir == root && len(found) > 0
				for _, body := range found {
					add(texts, body, name, dir == root)
				}
			}
			if dir == root || len(dir) <= len(root) {
				break
			}
		}
	}
	for name, ok := range licensed {
		if !ok {
			return nil, fmt.Errorf(
				"%s has no license file: look for its license and replace the module or add the file", name)
		}
	}
	return texts, nil
}

func add(texts map[string]*text, body, name string, atRoot bool) {
	t := texts[body]
	if t == nil {
		t = &text{}
		texts[body] = t
	}
	t.license = t.license || atRoot
	t.modules = addTo(t.modules, name)
}

// read returns the legal texts in one folder, without trailing white space.
func read(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		body, err := readText(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, body)
	}
	return out, nil
}

func readText(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if len(data) > maxLicense {
		return "", fmt.Errorf("%s has %d bytes, more than %d", name, len(data), maxLicense)
	}
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n "), nil
}

// addEmbedded adds the licenses of files that are embedded in the binary.
func addEmbedded(texts map[string]*text) error {
	for _, pattern := range []string{"*/LICENSE-*.txt", "*/*/LICENSE-*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			body, err := readText(file)
			if err != nil {
				return err
			}
			add(texts, body, filepath.ToSlash(file), false)
		}
	}
	return nil
}

// summary returns a line for each repository: its path, its licenses and the owners that the licenses name.
func summary(texts map[string]*text) (string, error) {
	type line struct{ modules, licenses, owners []string }
	lines := map[string]*line{}
	for _, body := range slices.Sorted(maps.Keys(texts)) {
		license := licenseOf(body)
		for _, name := range texts[body].modules {
			module, _, _ := strings.Cut(name, " v")
			l := lines[repository(module)]
			if l == nil {
				l = &line{}
				lines[repository(module)] = l
			}
			l.modules = addTo(l.modules, module)
			if !texts[body].license || license == "" {
				continue
			}
			l.licenses = addTo(l.licenses, license)
			for _, m := range owner.FindAllStringSubmatch(body, maxOwners) {
				by, _, _ := strings.Cut(space.ReplaceAllString(m[1], " "), " All rights reserved")
				l.owners = addTo(l.owners, strings.Trim(by, " .,"))
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		l := lines[name]
		if len(l.licenses) == 0 {
			return "", fmt.Errorf("the license of %s is unknown: add a phrase of it to this command", name)
		}
		if len(l.modules) == 1 {
			name = l.modules[0]
		}
		slices.Sort(l.licenses)
		fmt.Fprintf(&b, "%s: %s\n", name,
			strings.Join(append([]string{strings.Join(l.licenses, " and ")}, l.owners...), ", "))
	}
	return b.String(), nil
}

// repository returns the path that the modules of a repository have in common, or that of golang.org/x.
func repository(module string) string {
	depth := 2
	if strings.HasPrefix(module, "github.com/") {
		depth = 3
	}
	parts := strings.Split(module, "/")
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

func addTo(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// licenseOf returns the name of a license, or "" if the text is none that this command knows.
func licenseOf(body string) string {
	plain := strings.ToLower(space.ReplaceAllString(body, " "))
	plain = strings.ReplaceAll(plain, "apache license, version", "apache license version")
	for _, l := range licenses {
		if strings.Contains(plain, l.phrase) {
			return l.name
		}
	}
	return ""
}

// render writes the texts in the order of their first module.
func render(texts map[string]*text) string {
	type section struct {
		modules []string
		text    string
	}
	var sections []section
	for body, t := range texts {
		slices.Sort(t.modules)
		sections = append(sections, section{t.modules, body})
	}
	slices.SortFunc(sections, func(a, b section) int {
		return cmp.Or(slices.Compare(a.modules, b.modules), cmp.Compare(a.text, b.text))
	})
	var b strings.Builder
	b.WriteString("Licenses of the modules and files in the letterhead binary. NOTICE lists them.\n")
	for _, s := range sections {
		b.WriteString("\n" + strings.Repeat("=", 80) + "\n")
		for _, m := range s.modules {
			b.WriteString(m + "\n")
		}
		b.WriteString(strings.Repeat("-", 80) + "\n\n" + s.text + "\n")
	}
	return b.String()
}
