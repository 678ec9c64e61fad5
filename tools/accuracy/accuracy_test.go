package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/race"
)

// floors are the minimum shares of correct results, by group and field. Some are targets; the others are the level that
// was reached, raised with each improvement and never lowered. For links and foreign logos the share is that of the
// results.
var floors = map[string]map[string]float64{
	allPages: {
		"outcome": 1, "name": 0.97, "description": 0.97, "share image": 0.95, "logo": 0.95, "icon": 0.9, "foreign logo": 0.99,
		"logo type": 0.96, "logo theme": 0.94, "links": 0.98, "accent": 0.9, "title font": 0.9, "body font": 0.9, "nsfw": 1,
		// Facts that are stated but not found remain null: precision goes before recall.
		"founded": 0.75, "employees": 0.85, "country": 0.7, "city": 0.7, "state": 0.75, "kind": 1, "industry": 0.65,
	},
	saved:       {"name": 0.97, "description": 0.97, "share image": 0.95, "logo": 0.9, "foreign logo": 0.99, "links": 0.98},
	recorded:    {"name": 1, "description": 0.97, "share image": 0.95, "links": 0.98, "foreign logo": 1},
	built:       {"name": 0.97, "description": 0.97, "share image": 0.95, "logo": 0.9, "foreign logo": 0.98},
	fresh:       {"outcome": 1, "name": 0.96, "description": 0.97, "share image": 0.95, "logo": 0.9, "foreign logo": 0.99, "links": 0.9, "title font": 0.9, "body font": 0.9},
	facts:       {"outcome": 1, "founded": 0.95, "employees": 0.95, "country": 0.95, "city": 0.95, "state": 0.95, "kind": 0.95},
	heldOut:     {"outcome": 1, "founded": 0.85, "employees": 0.8, "country": 0.95, "city": 0.9, "state": 0.95, "kind": 0.8},
	nsfw:        {"outcome": 1, "nsfw": 1},
	refused:     {"outcome": 1, "nsfw": 1},
	accentFiles: {"accent": 0.65, "accent top 5": 0.75},
	shapeFiles:  {"shape": 0.96},
	themeFiles:  {"theme": 0.94},
}

// factFields are the facts about companies, and factPrecision is the minimum share of right ones among those in the
// records of a group: an error is worse than a gap.
var factFields = []string{"founded", "employees", "country", "city", "state", "kind", "ticker"}

const factPrecision = 0.97

func TestExtraction_Floors(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("crawls some two hundred pages")
	}
	s := newTestSuite(t)
	report, err := s.run(t.Context(), options{jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	left := slices.Clone(report.left)
	if len(left) > 0 {
		left = append(left, allPages) // its floors require every group
	}
	judged := map[string]bool{}
	for _, tally := range tally(report.verdicts, report.groups) {
		floor, ok := floors[tally.Group][tally.Field]
		if !ok || slices.Contains(left, tally.Group) {
			continue
		}
		judged[tally.Group+" "+tally.Field] = true
		reached := tally.Share()
		if tally.Field == "links" {
			reached = tally.Precision()
		}
		if reached < floor {
			t.Errorf("%s, %s: %s of %d, want %s", tally.Group, tally.Field, percent(reached), tally.Total(), percent(floor))
		}
		if slices.Contains(factFields, tally.Field) && tally.Precision() < factPrecision {
			t.Errorf("%s, %s: %s of the results are right, want %s", tally.Group, tally.Field, percent(tally.Precision()), percent(factPrecision))
		}
		if tally.Field == "nsfw" && tally.Missing > 0 {
			t.Errorf("%s: %d marked pages were not found", tally.Group, tally.Missing)
		}
	}
	for group, fields := range floors {
		if slices.Contains(left, group) {
			t.Logf("%s was not scored: %v", group, s.missing)
			continue
		}
		for field := range fields {
			if !judged[group+" "+field] {
				t.Errorf("%s, %s: no page was scored", group, field)
			}
		}
	}
	if t.Failed() {
		for _, v := range report.verdicts {
			if _, ok := floors[v.Group][v.Field]; ok && (v.Kind == Wrong || v.Kind == Missing) && !slices.Contains(fileGroups, v.Group) {
				t.Logf("%s/%s %s %s: ours %s, truth %s", v.Group, v.ID, v.Field, v.Kind, quote(v.Ours), quote(v.Truth))
			}
		}
	}
}

// A few pages, several concurrently, for the race detector; all of them would take minutes.
func TestPages_Scored(t *testing.T) {
	const ids = "wp-elementor-physio,shopify-outfitters,webflow-saas,css-background-logo"
	report, err := newTestSuite(t).run(t.Context(), options{jobs: 4, groups: built, ids: ids})
	if err != nil {
		t.Fatal(err)
	}
	named := slices.IndexFunc(report.verdicts, func(v Verdict) bool { return v.Group == built && v.Field == "name" && v.Kind == Right })
	if named < 0 || len(report.pages) != 4 {
		t.Errorf("%d pages with the right name at index %d, want 4 pages and one right name", len(report.pages), named)
	}
}

func TestFolder_OfPages_IsScored(t *testing.T) {
	const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><path fill="#0a5c2b" d="M0 0h90v30L45 9z"/></svg>`
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(drawing)))
	page := `<title>Karvel</title><style>body{font-family:Lora}</style><header><a href="/"><img src="/art/logo.svg" alt="Karvel"></a></header>`
	folder := t.TempDir()
	for name, text := range map[string]string{
		"by-file/label.json":    `{"domain":"karvel.com","name":["Karvel"],"logo":{"accept":["file:art/logo.svg"],"declared":true},"fonts":{"body":[{"name":"Lora"}]},"links":{},"company":{}}`,
		"by-file/index.html":    page,
		"by-file/art/logo.svg":  drawing,
		"by-sum/label.json":     `{"domain":"karvel.com","name":["Karvel Ltd."],"logo":{"accept":["` + sum + `"],"declared":true},"colors":{"accent":["#0a5c2b"]}}`,
		"by-sum/site.json":      `{"hosts":["karvel.com"],"redirects":{"www.karvel.com":"https://karvel.com"}}`,
		"by-sum/index.html":     page,
		"by-sum/art/logo.svg":   drawing,
		"another/label.json":    `{"domain":"karvel.com","logo":{"accept":["file:art/other.svg"],"declared":true}}`,
		"another/index.html":    page,
		"another/art/logo.svg":  drawing,
		"another/art/other.svg": "<svg/>",
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report, err := newTestSuite(t).run(t.Context(), options{jobs: 2, folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Kind{}
	for _, v := range report.verdicts {
		got[v.ID+" "+v.Field] = v.Kind
	}
	for field, want := range map[string]Kind{
		"by-file name": Right, "by-file logo": Right, "by-file body font": Right, "by-file links": None,
		"by-sum name": Wrong, "by-sum logo": Right, "by-sum accent": Right, "another logo": Wrong,
	} {
		if got[field] != want {
			t.Errorf("%s: %q, want %q", field, got[field], want)
		}
	}
	var table strings.Builder
	report.print(&table)
	if !regexp.MustCompile(`name +2 +1 +1 +0 +0 .*50\.0 % +9–91`).MatchString(table.String()) {
		t.Errorf("the table has no line for 1 right name of 2: %s", table.String())
	}
	if _, err := readFolder(t.TempDir()); err == nil {
		t.Error("a folder without labels was read")
	}
}

func newTestSuite(t *testing.T) *suite {
	t.Helper()
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSuite(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// Every page has a label, and every label has its page.
func TestLabels_HavePages(t *testing.T) {
	s := newTestSuite(t)
	for _, c := range []struct {
		group   string
		folder  fs.FS
		pattern string
		ending  string
	}{
		{saved, s.stage.data, "pages/*.html.gz", ".html.gz"},
		{recorded, s.stage.data, "recordings/*.vcr.gz", ".vcr.gz"},
		{built, s.files, "sites/*/site.json", "/site.json"},
		{fresh, s.files, "sites/*/site.json", "/site.json"},
		{facts, s.files, "sites/*/site.json", "/site.json"},
		{heldOut, s.files, "sites/*/site.json", "/site.json"},
	} {
		if c.folder == nil {
			t.Logf("%s was not compared: %v", c.group, s.missing)
			continue
		}
		var pages, labels []string
		names, err := fs.Glob(c.folder, c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			id := path.Base(strings.TrimSuffix(name, c.ending))
			group := c.group
			if c.ending == "/site.json" {
				group = groupOfSite(id)
			}
			if group == c.group {
				pages = append(pages, id)
			}
		}
		list, err := readLabels(s.files, c.group)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			labels = append(labels, l.ID)
		}
		slices.Sort(pages)
		slices.Sort(labels)
		if len(labels) == 0 || !slices.Equal(pages, labels) {
			t.Errorf("%s: pages %v, labels %v", c.group, pages, labels)
		}
	}
}

// groupOfSite returns the group of a folder in sites.
func groupOfSite(id string) string {
	for _, group := range siteGroups {
		if strings.HasPrefix(id, group+"-") {
			return group
		}
	}
	return built
}
