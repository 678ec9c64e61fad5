package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/starter"
)

// packages writes small packages of both kinds and returns options that use them.
func packages(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	icon := func(d string) string {
		return `<svg role="img" viewBox="0 0 24 24" xmlns="http://www.w3.org/2000/svg"><title>x</title><path d="` + d + `"/></svg>`
	}
	files := map[string]string{
		"marks/package.json": `{"name":"simple-icons","version":"` + simpleIconsVersion + `"}`,
		"marks/data/simple-icons.json": `[
			{"title":"Acme","slug":"acme","hex":"FF0000","source":"https://github.com/acme","guidelines":"https://acme.com/brand"},
			{"title":"Free","slug":"free","hex":"00FF00","source":"https://free.org","license":{"type":"CC0-1.0"}},
			{"title":"Owned","slug":"owned","hex":"0000FF","source":"https://owned.com","license":{"type":"MIT"}}]`,
		"marks/icons/acme.svg":  icon("M0 0h24v12H0z"),
		"marks/icons/free.svg":  icon("M4 0h16v24H4z"),
		"marks/icons/owned.svg": icon("M0 0h24v24z"),
		"logos/package.json":    `{"name":"@iconify-json/logos","version":"` + iconifyVersion + `"}`,
		"logos/icons.json": `{"width":256,"height":256,"icons":{
			"acme-icon":{"body":"<circle cx=\"128\" cy=\"128\" r=\"128\" fill=\"#0000aa\"/>"},
			"acme":{"width":512,"body":"<path fill=\"#00a\" d=\"M0 0h512v100H0z\"/>"},
			"old":{"hidden":true,"body":"<path d=\"M0 0h9v9z\"/>"},
			"empty":{"body":"<g/>"}}}`,
		"links.json": `[
			{"name":"ACME","url":"http://www.acme.com/","icons":["acme-icon","acme"]},
			{"name":"Old","url":"http://old.com/","icons":["old"]},
			{"name":"Empty","url":"http://empty.com/","icons":["empty"]}]`,
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	if err := os.MkdirAll(filepath.Join(out, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	return withSources(options{
		simpleIcons: filepath.Join(dir, "marks"), logos: filepath.Join(dir, "logos"), links: filepath.Join(dir, "links.json"),
		out: out, report: filepath.Join(dir, "report.tsv"),
	}, writeFiles(t, smallSources()))
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	o, e := packages(t), testRenderer(t)
	var output bytes.Buffer
	if err := run(e, o, &output); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output.String(), "left out empty") || !strings.Contains(output.String(), "2 brands, 2 reversed logos") {
		t.Errorf("generate printed %q, want text that contains %q and %q", output.String(), "left out empty", "2 brands, 2 reversed logos")
	}
	first, err := os.ReadFile(filepath.Join(o.out, "data", "brands.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = starter.Read(bytes.NewReader(first), func(b starter.Brand) error {
		line := fmt.Sprintf("%s %s %.2f", b.Domain, *b.Record.Name, b.Record.QualityScore)
		for i, l := range b.Record.Logos {
			line += fmt.Sprintf(" %s:%dx%d", strings.Join(append([]string{l.Type}, l.Tags...), ","), *l.Formats[0].Width, *l.Formats[0].Height)
			if !bytes.HasPrefix(b.SVG[i], []byte("<svg")) {
				t.Errorf("%s: logo %d is %s", b.Domain, i, b.SVG[i])
			}
		}
		for _, c := range b.Record.Colors {
			line += " " + c.Type + c.Hex
		}
		got = append(got, line)
		return nil
	})
	want := []string{
		// One vector (0.30), a second type (0.10), a name from two sources (0.12), an accent and one more (0.10). The first
		// logo has a blue that is invisible on dark pages.
		"acme.com Acme 0.62 symbol:256x256 logo:512x256 logo:24x24 symbol,reversed:256x256 logo,reversed:512x256 accent#ff0000 dark#0000aa",
		// One vector (0.30), a name from one source (0.06), an accent alone (0.05).
		"free.org Free 0.41 symbol:24x24 accent#00ff00",
	}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if page, err := os.ReadFile(o.leftOut); err != nil || !strings.Contains(string(page), "\n| MIT | Owned |\n") || strings.Contains(string(page), "Free") {
		t.Errorf("the list of missing brands is %s (%v), want Owned alone", page, err)
	}
	if err := run(e, o, &output); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(o.out, "data", "brands.jsonl.zst"))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the second run gave other bytes (%v)", err)
	}
}

func TestGenerate_OtherInput_Fails(t *testing.T) {
	t.Parallel()
	e := testRenderer(t)
	for name, change := range map[string]func(options) options{
		"another version": func(o options) options {
			write(t, o.simpleIcons+"/package.json", `{"name":"simple-icons","version":"1.0.0"}`)
			return o
		},
		"another package":  func(o options) options { o.simpleIcons = o.logos; return o },
		"no links":         func(o options) options { o.links += ".not"; return o },
		"broken links":     func(o options) options { write(t, o.links, "["); return o },
		"a missing icon":   func(o options) options { write(t, o.simpleIcons+"/icons/acme.svg", "<svg/>"); return o },
		"nothing to write": func(o options) options { o.out += "/no/such/folder"; return o },
		"no brands": func(o options) options {
			write(t, o.simpleIcons+"/data/simple-icons.json", "[]")
			write(t, o.links, "[]")
			return o
		},
	} {
		if err := run(e, change(packages(t)), &bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
