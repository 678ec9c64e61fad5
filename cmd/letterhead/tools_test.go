package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Development tools may import the product. Only other tools and the tests of the built binary may import tools.
func TestTools_ProductPackages_DoNotImportThem(t *testing.T) {
	const root, tools = "../..", `"letterhead/` + `tools/`
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "tools" || name == "e2e") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		code, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(code), tools) {
			t.Errorf("%s imports a package of tools", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
