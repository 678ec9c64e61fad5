package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

// layers lists the packages of both modules that each layer may import; see docs/architecture.md. A package belongs to
// the layer that is the longest prefix of its folder. Test files may import anything.
var layers = map[string][]string{
	"eventschemas": {"eventschemas"},
	"internal":     {"internal"},
	"domain":       {"domain", "eventschemas"},
	"commands":     {"commands", "domain", "eventschemas", "internal"},
	"projections":  {"projections", "domain", "eventschemas", "internal"},
	"starter":      {"starter", "eventschemas", "internal"},
	// What the errors of the layers below mean to those that answer requests.
	"faults":  {"commands", "projections", "domain", "internal"},
	"readapi": {"readapi", "faults", "commands", "projections", "domain", "eventschemas", "internal"},
	// The metered look-up, which must not depend on HTTP or on other parts of the API.
	"readapi/lookup": {"readapi/lookup", "faults", "commands", "projections", "domain", "eventschemas", "internal"},
	"adminapi":       {"adminapi", "operations", "faults", "commands", "projections", "domain", "eventschemas", "internal"},
	"dashboard":      {"dashboard", "operations", "faults", "commands", "projections", "domain", "eventschemas", "internal"},
	// The operators' pages, a client of the admin API, of which they import only the types of answers.
	"console": {"console", "adminapi", "dashboard/audit", "dashboard/site", "faults", "domain", "internal"},
	"workers": {"commands", "projections", "domain", "eventschemas", "internal"},
	// The use cases of operators that take several parts of a node.
	"operations": {"operations", "workers", "commands", "projections", "domain", "eventschemas", "internal"},
	// The composition root. Only cmd and tests may import it.
	"node": {"node", "operations", "adminapi", "console", "dashboard", "readapi", "workers", "commands", "projections", "starter", "domain", "eventschemas", "internal"},
	"cmd":  {"adminapi", "node", "operations", "readapi", "workers", "commands", "projections", "starter", "domain", "eventschemas", "internal"},
	// Example programs, which may use only the event schemas, as users would.
	"examples": {"examples", "eventschemas"},
	// Development tools and the tests of the built binary, which are a module of their own (tools/go.mod).
	"tools": {"tools", "starter", "workers", "domain", "eventschemas", "internal"},
	// The engine below the commands handles streams and decisions. It must not depend on use cases, credits or schemas.
	"commands/streamwriter": {"internal/eventlog", "internal/deadline", "internal/delay", "internal/sqlstore", "internal/telemetry"},
	// The event log, its port and its adapters.
	"internal/eventlog": {"internal/eventlog", "internal/delay", "internal/disk", "internal/sqlitemutex", "internal/telemetry"},
	// A service on the kernel, whose other dependencies its own test checks.
	"examples/counter": {"commands/streamwriter", "projections", "internal"},
}

// kernel lists the packages that the API for authors of read models and the engine that runs them may import, so that they,
// the event log and the stream writer can be used without the rest of the product; see docs/kernel.md.
var kernel = []string{"projections", "internal/eventlog", "internal/sqlstore", "internal/delay", "internal/disk", "internal/telemetry"}

// forbidden lists packages outside the modules that a layer may not import, including the packages below them.
var forbidden = map[string][]string{
	"readapi/lookup": {"net/http", "github.com/gorilla/mux"},
}

func TestLayers_Imports_AreAllowed(t *testing.T) {
	root, err := filepath.Abs("../..")
	testmust.Succeed(t, err)
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "data" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		layer := folder
		for layers[layer] == nil && strings.Contains(layer, "/") {
			layer = path.Dir(layer)
		}
		seen[layer] = true
		allowed, known := layers[layer]
		if !known {
			t.Errorf("%s is in no layer; add its folder to layers", file)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			inner, ours := strings.CutPrefix(imported, "letterhead/")
			if ours && (!mayImport(folder, inner, allowed) || !mayImportProjections(folder, inner)) || below(imported, forbidden[layer]) {
				t.Errorf("%s imports %s, which its layer may not import", filepath.ToSlash(file[len(root)+1:]), inner)
			}
		}
		return nil
	})
	testmust.Succeed(t, err)
	for layer := range layers {
		if !seen[layer] {
			t.Errorf("the layer %s has no files; is its folder misnamed?", layer)
		}
	}
}

// mayImport reports whether a package may import another. Besides the allowed packages, a worker may import those below
// its own folder, but no other worker.
func mayImport(folder, inner string, allowed []string) bool {
	if below(inner, allowed) {
		return true
	}
	parts := strings.SplitN(folder, "/", 3)
	return len(parts) >= 2 && parts[0] == "workers" && below(inner, []string{"workers/" + parts[1]})
}

// below reports whether a path equals one of the prefixes or is below one.
func below(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
}

// mayImportProjections reports whether an import keeps apart the API for authors of read models (package projections),
// the engine that runs them, and the read models. The API and the engine import only the kernel, and read models do not
// import the engine.
func mayImportProjections(folder, inner string) bool {
	switch {
	case folder == "projections", folder == "projections/engine":
		return slices.Contains(kernel, inner)
	case folder == "projections/projectionstest":
		return true // it runs read models for tests
	case strings.HasPrefix(folder, "projections/"), strings.HasPrefix(folder, "readapi"):
		return inner != "projections/engine"
	}
	return true
}
