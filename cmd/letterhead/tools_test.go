package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

// The module of the tools may import the product. The product, with its tests, may not import tools.
func TestTools_ProductPackages_DoNotImportThem(t *testing.T) {
	const root, tools = "../..", `"letterhead/` + `tools/`
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "tools") {
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
	testmust.Succeed(t, err)
}

// The Makefile names the release of Go. The image and the workflows are built with the same one, and go.mod permits an
// older one.
func TestGoRelease_ImageAndWorkflows_NameThatOfTheMakefile(t *testing.T) {
	release := regexp.MustCompile(`(?m)^GO_RELEASE := go([0-9.]+)$`).FindStringSubmatch(read(t, "Makefile"))
	if release == nil {
		t.Fatal("the Makefile names no GO_RELEASE")
	}
	workflows, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	named := regexp.MustCompile(`golang:([0-9.]+)-|go-version: "([0-9.]+)"|setup-go|go-version-file`)
	for _, file := range append(workflows, "../../deploy/Dockerfile") {
		text := testmust.Get(os.ReadFile(file))(t)
		var uses, releases []string
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			switch version := match[1] + match[2]; version {
			case "":
				uses = append(uses, match[0])
			default:
				releases = append(releases, version)
			}
		}
		other := slices.DeleteFunc(slices.Clone(releases), func(version string) bool { return version == release[1] })
		if len(other) > 0 || slices.Contains(uses, "go-version-file") || len(uses) > len(releases) {
			t.Errorf("%s is built with Go %q (%d steps set it up), the Makefile names %s", file, releases, len(uses), release[1])
		}
	}
	image, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil || !strings.Contains(string(image), "golang:"+release[1]+"-") {
		t.Errorf("the image is not built with Go %s: %v", release[1], err)
	}
}
