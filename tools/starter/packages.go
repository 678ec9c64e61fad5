package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// product is one entry of a source, before the owners of domains are known.
type product struct {
	Source  string   // simple-icons or @iconify-json/logos
	Name    string   // as spelled in the source
	Aliases []string // other names, such as the local one
	Links   []link
	Mark    *mark     // of simple-icons
	Icons   []drawing // of iconify
	// Licensed is set for an icon under separate terms. It is never used, but the product still owns its domain: other
	// products with links to it do not get it.
	Licensed bool
	License  string // SPDX identifier of the separate terms, or custom
}

// link is the URL of a product's site in a source.
type link struct {
	URL    string
	Method string // name of the rule, for the evidence
}

// mark is a one-color symbol on a 24 by 24 grid.
type mark struct {
	Hex  string // six lower-case digits
	Path string
}

// drawing is a full-color image.
type drawing struct {
	Name                     string
	Body                     string
	Left, Top, Width, Height float64
}

// Names and versions of the sources in the evidence.
const (
	simpleIcons        = "simple-icons"
	simpleIconsVersion = "16.37.0"
	iconifyLogos       = "@iconify-json/logos"
	iconifyVersion     = "1.2.19"
)

// maxSourceFile limits a source's file; the largest has 9 MB.
const maxSourceFile = 64 << 20

func readJSON(path string, into any) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	if info.Size() > maxSourceFile {
		return fmt.Errorf("read source %s: %d bytes, more than %d", path, info.Size(), maxSourceFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read source %s: %w", path, err)
	}
	return nil
}

// checkVersion rejects another release of a package, because the data set's version names its sources.
func checkVersion(folder, name, version string) error {
	var about struct{ Name, Version string }
	if err := readJSON(filepath.Join(folder, "package.json"), &about); err != nil {
		return err
	}
	if about.Name != name || about.Version != version {
		return fmt.Errorf("%s contains %s %s, want %s %s", folder, about.Name, about.Version, name, version)
	}
	return nil
}

type simpleIcon struct {
	Title      string
	Slug       string
	Hex        string
	Source     string
	Guidelines string
	License    *struct{ Type string }
	Aliases    struct {
		AKA []string
		Old []string
		Loc map[string]string
	}
}

// displayName removes explanations from a title: "R (Language)" is R.
func displayName(title string) string {
	if i := strings.Index(title, " ("); i > 0 {
		title = title[:i]
	}
	return strings.TrimSpace(title)
}

// readSimpleIcons returns every entry; those that are not under the package's own CC0 have no icon.
func readSimpleIcons(folder string) ([]product, error) {
	if err := checkVersion(folder, simpleIcons, simpleIconsVersion); err != nil {
		return nil, err
	}
	var icons []simpleIcon
	if err := readJSON(filepath.Join(folder, "data", "simple-icons.json"), &icons); err != nil {
		return nil, err
	}
	var out []product
	for _, in := range icons {
		p := product{
			Source:   simpleIcons,
			Name:     displayName(in.Title),
			Aliases:  append(append([]string{in.Slug}, in.Aliases.AKA...), in.Aliases.Old...),
			Licensed: in.License != nil && in.License.Type != "CC0-1.0",
		}
		if p.Licensed {
			p.License = in.License.Type
		}
		for _, loc := range in.Aliases.Loc {
			p.Aliases = append(p.Aliases, loc)
		}
		sort.Strings(p.Aliases[1:])
		if !p.Licensed {
			path, err := readMark(filepath.Join(folder, "icons", in.Slug+".svg"))
			if err != nil {
				return nil, fmt.Errorf("icon of %s: %w", in.Title, err)
			}
			p.Mark = &mark{Hex: strings.ToLower(in.Hex), Path: path}
		}
		if in.Guidelines != "" {
			p.Links = append(p.Links, link{in.Guidelines, "guidelines link"})
		}
		p.Links = append(p.Links, link{in.Source, "source link"})
		out = append(out, p)
	}
	return out, nil
}

// readMark returns the path of an icon of simple-icons, which has exactly one.
func readMark(file string) (string, error) {
	svg, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(svg), ` d="`)
	if !ok {
		return "", fmt.Errorf("no path")
	}
	d, rest, ok := strings.Cut(rest, `"`)
	if !ok || strings.Contains(rest, "<path") {
		return "", fmt.Errorf("not exactly one path")
	}
	return d, nil
}

type iconifySet struct {
	Icons         map[string]iconifyIcon
	Width, Height float64
}

type iconifyIcon struct {
	Body                     string
	Left, Top, Width, Height float64
	Hidden                   bool
}

// readIconify returns the companies of the link list with the icons of the
// package. Hidden icons were withdrawn by the set's makers.
func readIconify(folder, links string) ([]product, error) {
	if err := checkVersion(folder, iconifyLogos, iconifyVersion); err != nil {
		return nil, err
	}
	var set iconifySet
	if err := readJSON(filepath.Join(folder, "icons.json"), &set); err != nil {
		return nil, err
	}
	var entries []struct {
		Name, URL string
		Icons     []string
	}
	if err := readJSON(links, &entries); err != nil {
		return nil, err
	}
	var out []product
	for _, in := range entries {
		p := product{Source: iconifyLogos, Name: displayName(in.Name), Links: []link{{in.URL, "company link"}}}
		for _, name := range in.Icons {
			icon, ok := set.Icons[name]
			if !ok || icon.Hidden {
				continue
			}
			d := drawing{Name: name, Body: icon.Body, Left: icon.Left, Top: icon.Top, Width: icon.Width,
				Height: icon.Height}
			if d.Width == 0 {
				d.Width = set.Width
			}
			if d.Height == 0 {
				d.Height = set.Height
			}
			p.Icons = append(p.Icons, d)
		}
		p.Aliases = []string{strings.TrimSuffix(in.Icons[0], "-icon")}
		out = append(out, p)
	}
	return out, nil
}
