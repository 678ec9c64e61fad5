// Command notice writes the licenses of all modules linked into the binary to
// the end of NOTICE.
//
//	go run ./tools/notice          write them
//	go run ./tools/notice -check   exit 1 if NOTICE is out of date
//
// It gets the packages of the binary from the go command, and includes each
// license, copying, notice and patents file between a package's folder and the
// root of its module. Files with the same text are written once.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// binary is the package whose dependencies are listed.
const binary = "./cmd/letterhead"

// begin is the line of NOTICE after which this command writes everything.
const begin = "Linked modules (written by tools/notice; do not edit below)"

// maxLicense limits one license file, in bytes. The longest so far has 35 KB.
const maxLicense = 256 << 10

// legal matches the names of files that must be distributed with a module.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

func main() {
	check := flag.Bool("check", false, "report whether NOTICE is current instead of writing it")
	file := flag.String("file", "NOTICE", "the file to write")
	flag.Parse()
	if err := run(*file, *check); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(file string, check bool) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, _, found := strings.Cut(string(before), begin)
	if !found {
		return fmt.Errorf("%s has no line %q", file, begin)
	}
	packages, err := linked()
	if err != nil {
		return err
	}
	texts, err := collect(packages)
	if err != nil {
		return err
	}
	after := []byte(head + begin + "\n" + render(texts))
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

// linked returns the packages of the binary for linux/amd64, so that the result
// is the same on every machine.
func linked() ([]linkedPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Root,Module", binary)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w", binary, err)
	}
	var list []linkedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linkedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the packages of %s: %w", binary, err)
		}
		list = append(list, p)
	}
}

// collect returns, for each text, its modules. Errors: if a module has no
// license file.
func collect(packages []linkedPackage) (map[string][]string, error) {
	texts := map[string][]string{}
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
				for _, text := range found {
					if !slices.Contains(texts[text], name) {
						texts[text] = append(texts[text], name)
					}
				}
			}
			if dir == root || len(dir) <= len(root) {
				break
			}
		}
	}
	for name, ok := range licensed {
		if !ok {
			return nil, fmt.Errorf("%s has no license file: look for its license and replace the module or add the file", name)
		}
	}
	return texts, nil
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
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if info.Size() > maxLicense {
			return nil, fmt.Errorf("%s has %d bytes, more than %d", filepath.Join(dir, e.Name()), info.Size(), maxLicense)
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(data), "\r\n", "\n")
		for _, line := range []string{" \n", "\t\n"} {
			for strings.Contains(text, line) {
				text = strings.ReplaceAll(text, line, "\n")
			}
		}
		out = append(out, strings.Trim(text, "\n "))
	}
	return out, nil
}

// render writes the texts in the order of their first module.
func render(texts map[string][]string) string {
	type section struct {
		modules []string
		text    string
	}
	var sections []section
	for text, modules := range texts {
		slices.Sort(modules)
		sections = append(sections, section{modules, text})
	}
	slices.SortFunc(sections, func(a, b section) int {
		return cmp.Or(slices.Compare(a.modules, b.modules), cmp.Compare(a.text, b.text))
	})
	var b strings.Builder
	for _, s := range sections {
		b.WriteString("\n" + strings.Repeat("=", 80) + "\n")
		for _, m := range s.modules {
			b.WriteString(m + "\n")
		}
		b.WriteString(strings.Repeat("-", 80) + "\n\n" + s.text + "\n")
	}
	return b.String()
}
