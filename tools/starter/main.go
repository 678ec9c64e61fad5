// Command starter builds the starter index: it reads two npm packages of logos and a list of company links, decides the
// owner of each domain, analyzes each drawing, adds facts about the owner from other sources, and writes one compressed
// file that package starter embeds. It needs no network and is deterministic.
//
// The rules, in the order of the files: which entries and drawings are used (packages), which links do not identify an
// owner (hosts), how well a name matches a domain (names), who owns the domain (owners), the content of a drawing
// (path, tree, paint, art), its colors (colors), the pages on which it is visible and its replacement on the others
// (renderer, reverse), the statements of other sources about the owner (about, about_*), and the record (record).
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"letterhead/starter"
)

const usage = `starter builds the starter index from five unpacked npm packages and a wheel.

Get them in an empty folder (NOTICE has their licenses):

  npm pack simple-icons@16.37.0 @iconify-json/logos@1.2.19 name-suggestion-index@8.0.20260918 \
    wappalyzer@6.10.47 all-the-package-repos@2.0.3148
  for f in *.tgz; do d=$(basename "$f" .tgz); mkdir "$d" && tar -xzf "$f" -C "$d"; done
  pip download --no-deps pytickersymbols==1.17.10
  unzip -d pytickersymbols pytickersymbols-1.17.10-py3-none-any.whl

Then, in the repository, with the folder as P:

  go run ./tools/starter -simple-icons $P/simple-icons-16.37.0/package -logos $P/iconify-json-logos-1.2.19/package \
    -name-index $P/name-suggestion-index-8.0.20260918/package -wappalyzer $P/wappalyzer-6.10.47/package \
    -ticker-symbols $P/pytickersymbols -repos $P/all-the-package-repos-2.0.3148/package

It writes starter/data/brands.jsonl.zst, starter/version.go and docs/starter-left-out.md. The same input gives the
same bytes.

`

type options struct {
	simpleIcons, logos, links, out, report, leftOut string
	nameIndex, wappalyzer, tickerSymbols, repos     string
}

// about reads the statements of the other sources about the owners of domains, the most certain first.
func (o options) about(owners []owned) (library, error) {
	var domains []string
	names := map[string]string{}
	for _, w := range owners {
		domains = append(domains, w.Domain)
		names[w.Domain] = w.Claims[0].Product.Name
	}
	known := library{}
	known.add(constituents(domains))
	for _, read := range []func() ([]statement, error){
		func() ([]statement, error) { return readTickerSymbols(o.tickerSymbols) },
		func() ([]statement, error) { return readNameIndex(o.nameIndex) },
		func() ([]statement, error) { return readWappalyzer(o.wappalyzer) },
	} {
		all, err := read()
		if err != nil {
			return nil, err
		}
		known.add(all)
	}
	for _, w := range owners {
		known.add(ownProfiles(w))
	}
	scopes, err := readRepos(o.repos)
	if err != nil {
		return nil, err
	}
	known.add(accounts(names, scopes))
	return known, nil
}

func main() {
	var o options
	flag.StringVar(&o.simpleIcons, "simple-icons", "", "folder of the unpacked package simple-icons 16.37.0")
	flag.StringVar(&o.logos, "logos", "", "folder of the unpacked package @iconify-json/logos 1.2.19")
	flag.StringVar(&o.links, "links", "tools/starter/sources/logos-urls.json", "company links of the logos")
	flag.StringVar(&o.nameIndex, "name-index", "",
		"folder of the unpacked package name-suggestion-index "+nameIndexVersion)
	flag.StringVar(&o.wappalyzer, "wappalyzer", "", "folder of the unpacked package wappalyzer "+wappalyzerVersion)
	flag.StringVar(&o.tickerSymbols, "ticker-symbols", "",
		"folder of the unpacked wheel pytickersymbols "+tickerSymbolsVersion)
	flag.StringVar(&o.repos, "repos", "", "folder of the unpacked package all-the-package-repos "+packageReposVersion)
	flag.StringVar(&o.out, "out", "starter", "folder of the starter package")
	flag.StringVar(&o.leftOut, "left-out", "docs/starter-left-out.md",
		"page that lists the brands that are missing because of their license")
	flag.StringVar(&o.report, "report", "", "file for a table of all decisions")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if slices.Contains([]string{o.simpleIcons, o.logos, o.nameIndex, o.wappalyzer, o.tickerSymbols, o.repos}, "") {
		flag.Usage()
		os.Exit(2)
	}
	e, err := newRenderer(context.Background())
	if err == nil {
		err = run(e, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(e *renderer, o options, out io.Writer) error {
	marks, err := readSimpleIcons(o.simpleIcons)
	if err != nil {
		return err
	}
	drawings, err := readIconify(o.logos, o.links)
	if err != nil {
		return err
	}
	products := append(marks, drawings...)
	owners := findOwners(products)
	e.joinHomeless(products, owners)
	known, err := o.about(owners)
	if err != nil {
		return err
	}
	var brands []starter.Brand
	reversed := 0
	var report bytes.Buffer
	leftOut := func(name string, err error) { fmt.Fprintf(out, "left out %s: %v\n", name, err) }
	for _, w := range owners {
		b, ok := brandOf(e, w, known, leftOut)
		if !ok {
			continue
		}
		brands = append(brands, b)
		for _, l := range b.Record.Logos {
			if l.IsReversed() {
				reversed++
			}
		}
		fmt.Fprintf(&report, "%s\t%s\t%s\t%d sources\t%d logos\t%.2f\t%s\n",
			b.Domain, *b.Record.Name, w.Rule, agreeing(w), len(b.SVG), b.Record.QualityScore, w.Claims[0].Link.URL)
	}
	if len(brands) == 0 {
		return errors.New("the packages gave no brand")
	}
	if o.report != "" {
		if err := os.WriteFile(o.report, report.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	if err := os.WriteFile(o.leftOut, leftOutPage(products, brands), 0o644); err != nil {
		return fmt.Errorf("write the list of missing brands: %w", err)
	}
	var packed bytes.Buffer
	if err := pack(&packed, brands); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "data", "brands.jsonl.zst"), packed.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write starter index: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.out, "version.go"), versionFile(packed.Bytes(), len(brands)),
		0o644); err != nil {
		return fmt.Errorf("write starter version: %w", err)
	}
	fmt.Fprintf(out, "%d brands, %d reversed logos, %d bytes\n", len(brands), reversed, packed.Len())
	return nil
}

// leftOutPage returns the page of the documentation that names the products whose icons have a separate license
// and that no brand of the index represents.
func leftOutPage(products []product, brands []starter.Brand) []byte {
	present := map[string]bool{}
	for _, b := range brands {
		present[flat(*b.Record.Name)] = true
	}
	byLicense := map[string][]string{}
	for i := range products {
		p := &products[i]
		if p.Licensed && !slices.ContainsFunc(allNames(p), func(n string) bool { return present[n] }) {
			byLicense[p.License] = append(byLicense[p.License], p.Name)
		}
	}
	var page bytes.Buffer
	page.WriteString("<!-- Code generated by tools/starter; DO NOT EDIT. -->\n\n# Brands that are missing because of their license\n\n" +
		"The [starter index](starter.md) has only icons that " + simpleIcons + " " + simpleIconsVersion +
		" publishes under its own CC0-1.0. Icons of these brands are under separate terms. A look-up of one of them crawls its site.\n\n| License | Brands |\n|---|---|\n")
	for _, license := range slices.Sorted(maps.Keys(byLicense)) {
		slices.Sort(byLicense[license])
		fmt.Fprintf(&page, "| %s | %s |\n", license,
			strings.ReplaceAll(strings.Join(slices.Compact(byLicense[license]), ", "), "|", `\|`))
	}
	return page.Bytes()
}

// versionFile returns the Go source that names the sources of the data.
func versionFile(packed []byte, count int) []byte {
	sum := sha256.Sum256(packed)
	return fmt.Appendf(nil, `// Code generated by tools/starter; DO NOT EDIT.

package starter

// Version names the data set: its sources, and the beginning of its own SHA-256.
const Version = "%s (%x)"

// Count is the number of brands in it.
const Count = %d
`, strings.Join([]string{
		simpleIcons + " " + simpleIconsVersion, iconifyLogos + " " + iconifyVersion, nameIndex + " " + nameIndexVersion,
		wappalyzer + " " + wappalyzerVersion, tickerSymbols + " " + tickerSymbolsVersion,
		packageRepos + " " + packageReposVersion,
	}, ", "), sum[:4], count)
}
