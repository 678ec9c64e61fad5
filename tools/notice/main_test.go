package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module creates a module folder with files, and returns one linked package of it, in the folder inside.
func module(t *testing.T, path, inside string, files map[string]string) linkedPackage {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := linkedPackage{Dir: filepath.Join(root, inside)}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.Module = &struct {
		Path, Version, Dir string
		Main               bool
	}{Path: path, Version: "v1.0.0", Dir: root}
	return p
}

func TestCollect_SameText_WrittenOnce(t *testing.T) {
	texts, err := collect([]linkedPackage{
		module(t, "example.com/b", "", map[string]string{"LICENSE": "free for all \n"}),
		module(t, "example.com/a", "deep/down", map[string]string{"LICENSE.txt": "free for all\r\n", "deep/COPYING": "copied"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := render(texts)
	for _, want := range []string{"example.com/a v1.0.0\nexample.com/b v1.0.0\n", "copied"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "free for all"); n != 1 {
		t.Errorf("the text is written %d times, want 1", n)
	}
}

func TestCollect_NoLicense_Fails(t *testing.T) {
	_, err := collect([]linkedPackage{module(t, "example.com/a", "deep", map[string]string{"deep/LICENSE": "of a part", "licenses.go": "package a"})})
	if err == nil || !strings.Contains(err.Error(), "example.com/a v1.0.0") {
		t.Errorf("error is %v, want one that names the module", err)
	}
}

func TestSummary_ModulesOfOneRepository_ShareALine(t *testing.T) {
	mit := "Copyright (c) 2023-present Ann Author <ann@example.com>\n\nPermission is hereby granted, free of charge"
	texts, err := collect([]linkedPackage{
		module(t, "github.com/ann/b/two", "", map[string]string{"LICENSE": mit}),
		module(t, "github.com/ann/b/one", "", map[string]string{"LICENSE": mit}),
		module(t, "github.com/ann/a/v2", "", map[string]string{"LICENSE": "Apache License\nVersion 2.0\nCopyright [yyyy] [name]"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := summary(texts)
	if want := "github.com/ann/a/v2: Apache-2.0\ngithub.com/ann/b: MIT, Ann Author\n"; got != want || err != nil {
		t.Errorf("summary is %q, %v, want %q", got, err, want)
	}
}

func TestSummary_UnknownLicense_Fails(t *testing.T) {
	texts, err := collect([]linkedPackage{module(t, "example.com/a", "", map[string]string{"LICENSE": "free for all"})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := summary(texts); err == nil || !strings.Contains(err.Error(), "example.com/a") {
		t.Errorf("error is %v, want one that names the module", err)
	}
}
