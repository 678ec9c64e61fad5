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
)

// layers says which of our packages a layer may import; see docs/architecture.md. A layer is the longest
// matching prefix of a package's folder. Tests of a layer may also reach the adapters that they run on.
var layers = map[string][]string{
	"eventschemas": {"eventschemas"},
	"internal":     {"internal"},
	"domain":       {"domain", "eventschemas"},
	"commands":     {"commands", "domain", "eventschemas", "internal"},
	"projections":  {"projections", "domain", "eventschemas", "internal"},
	"starter":      {"starter", "eventschemas", "internal"},
	"readapi":      {"readapi", "commands", "projections", "domain", "eventschemas", "internal"},
	// The metered look-up, which knows nothing of HTTP and of the other parts of the API.
	"readapi/lookup": {"readapi/lookup", "commands", "projections", "domain", "eventschemas", "internal"},
	"workers":        {"commands", "projections", "domain", "eventschemas", "internal"},
	// The composition root. Only cmd may import it, and tests.
	"node": {"node", "readapi", "workers", "commands", "projections", "starter", "domain", "eventschemas", "internal"},
	"cmd":  {"node", "readapi", "workers", "commands", "projections", "starter", "domain", "eventschemas", "internal"},
	// Programs as users would write them, which see only the events, and tests of the built binary.
	"examples": {"examples", "eventschemas"},
	"e2e":      {"e2e"},
	// Development tools, which are not part of the product binary.
	"tools": {"tools", "starter", "workers", "domain", "eventschemas", "internal"},
	// The engine below the commands knows streams and decisions, and no use case and no credits.
	"commands/streamwriter": {"eventschemas", "internal"},
}

// forbidden lists packages of others that a layer may not import, with the packages below them.
var forbidden = map[string][]string{
	"readapi/lookup": {"net/http", "github.com/gorilla/mux"},
}

func TestLayers_Imports_AreAllowed(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("%s belongs to no layer", file)
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
				t.Errorf("%s imports %s, which its layer may not", filepath.ToSlash(file[len(root)+1:]), inner)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for layer := range layers {
		if !seen[layer] {
			t.Errorf("the layer %s has no files; is its folder misnamed?", layer)
		}
	}
}

// mayImport also lets a worker use the packages below its own folder, and never another worker.
func mayImport(folder, inner string, allowed []string) bool {
	if below(inner, allowed) {
		return true
	}
	parts := strings.SplitN(folder, "/", 3)
	return len(parts) >= 2 && parts[0] == "workers" && below(inner, []string{"workers/" + parts[1]})
}

// below reports whether a path is one of the prefixes, or below one.
func below(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
}

// mayImportProjections keeps the API for authors of read models (projections), the engine that runs them and the read
// models apart: the API imports neither, the engine imports no read model, and a read model never the engine.
func mayImportProjections(folder, inner string) bool {
	switch {
	case folder == "projections", folder == "projections/engine":
		return !strings.HasPrefix(inner, "projections/")
	case folder == "projections/projectionstest":
		return true // it starts read models in tests
	case strings.HasPrefix(folder, "projections/"), strings.HasPrefix(folder, "readapi"):
		return inner != "projections/engine"
	}
	return true
}
