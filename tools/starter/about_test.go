package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/starter"
	"letterhead/workers/crawl/industry"
)

// writeFiles writes files in a temporary folder, which it returns.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	return dir
}

// smallSources are the other sources with entries about acme.com.
func smallSources() map[string]string {
	return map[string]string{
		"index/package.json": `{"name":"name-suggestion-index","version":"` + nameIndexVersion + `"}`,
		"index/dist/wikidata/wikidata.min.json": `{"wikidata":{
			"Q1":{"label":"Acme Inc.","description":"maker of anvils and rockets","identities":{"facebook":"acme","twitter":"acmehq","instagram":"other","youtube":"UC123456789"},"officialWebsites":["https://www.acme.com/de/","https://acme.de/"]},
			"Q2":{"label":"Acme Express","description":"shops of Acme at stations","identities":{"facebook":"acmeexpress"},"officialWebsites":["https://acme.com/"]},
			"Q3":{"label":"Free","description":"former bank","identities":{"website":"https://free.org"}}}}`,
		"index/dist/json/nsi.min.json": `{"nsi":{
			"brands/shop/shoes":{"items":[{"tags":{"brand:wikidata":"Q1"}}]},
			"operators/amenity/bank":{"items":[{"tags":{"operator:wikidata":"Q1"}}]}}}`,
		"techs/package.json":        `{"name":"wappalyzer","version":"` + wappalyzerVersion + `"}`,
		"techs/categories.json":     `{"1":{"name":"CMS"},"2":{"name":"Widgets"}}`,
		"techs/technologies/a.json": `{"Acme":{"cats":[1],"description":"Acme edits pages.","website":"https://acme.com"},"Free":{"cats":[1,2],"description":"Free  is a library\nof parts.","website":"https://free.org/x"}}`,
		"wheel/pytickersymbols-" + tickerSymbolsVersion + ".dist-info/METADATA": "Metadata-Version: 2.4\nName: pytickersymbols\nVersion: " + tickerSymbolsVersion + "\n\n",
		"wheel/pytickersymbols/indices_data.py": `"""Text."""

INDICES = {'A': {'name': 'A', 'companies': [{'name': 'Acme', 'industries': ['Footwear', "Acme's"], 'metadata': {'founded': 'May 1, 1901 ; 125 years ago ( 1901-05-01 ) in Rome', 'employees': 'c. 1,200 (2025)', 'headquarters': 'Boise, Idaho , U.S.', 'website': 'acme.com corporate.acme.com', 'traded_as': 'NYSE : ACM S&P 500 component', 'wikipedia_url': 'https://en.wikipedia.org/wiki/Acme'}}]}, 'B': {'companies': [{'name': 'Acme', 'metadata': {'founded': '1999 ; 27 years ago ( 1999 )', 'website': 'www.acme.com'}}]}}
`,
		"repos/package.json":       `{"name":"all-the-package-repos","version":"` + packageReposVersion + `"}`,
		"repos/data/packages.json": `{"a":null,"@acme/a":"https://github.com/Acme/a","@acme/b":"https://github.com/acme/b","@acme/c":"https://github.com/acme/b","@free/a":"https://github.com/free/a","@free/b":"https://github.com/somebody/b","free":"https://github.com/free/free"}`,
	}
}

// withSources adds the folders of the other sources to options.
func withSources(o options, dir string) options {
	o.nameIndex, o.wappalyzer = filepath.Join(dir, "index"), filepath.Join(dir, "techs")
	o.tickerSymbols, o.repos = filepath.Join(dir, "wheel"), filepath.Join(dir, "repos")
	o.leftOut = filepath.Join(dir, "left-out.md")
	return o
}

func TestAbout_Sources_FillTheRecord(t *testing.T) {
	o := withSources(options{}, writeFiles(t, smallSources()))
	owner := func(domain, name string) owned {
		return owned{Domain: domain, Claims: []claim{{Product: &product{Name: name, Source: simpleIcons, Links: []link{
			{"https://github.com/" + name + "/logo", "source link"}, {"https://x.com/somebody", "source link"},
		}}}}}
	}
	known, err := o.about([]owned{owner("acme.com", "Acme"), owner("free.org", "Free")})
	if err != nil {
		t.Fatal(err)
	}
	got := describedBy(known, "acme.com", "Acme")
	c := got.Company
	if *got.Description != "Maker of anvils and rockets" || *c.FoundedYear != 1901 || *c.Employees != 1001 || *c.Kind != publicCompany ||
		*c.Location.City != "Boise" || *c.Location.State != "Idaho" || *c.Location.CountryCode != "US" ||
		*c.Ticker != "NYSE:ACM" || len(c.Industries) != 1 || c.Industries[0].Name != "Footwear" {
		t.Errorf("acme.com: %s", asJSON(t, got))
	}
	wantLinks := []eventschemas.Link{
		{Name: "twitter", URL: "https://x.com/acmehq"}, {Name: "github", URL: "https://github.com/Acme"},
		{Name: "facebook", URL: "https://www.facebook.com/acme"}, {Name: "wikipedia", URL: "https://en.wikipedia.org/wiki/Acme"},
	}
	if !reflect.DeepEqual(got.Links, wantLinks) {
		t.Errorf("acme.com has the links %v, want %v", got.Links, wantLinks)
	}
	got = describedBy(known, "free.org", "Free")
	if *got.Description != "Free is a library of parts." || len(got.Company.Industries) != 0 || got.Company.Kind != nil || len(got.Links) != 1 {
		t.Errorf("free.org: %s", asJSON(t, got))
	}
}

// describedBy returns the record that statements about a domain give.
func describedBy(known library, domain, name string) eventschemas.Record {
	b := starter.Brand{Domain: domain, Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}}
	known.describe(&b)
	return b.Record
}

func TestDescribe_EntryOfAnother_IsNotUsed(t *testing.T) {
	for why, entries := range map[string][]string{
		"a product":           {"Acme Market"},
		"a branch":            {"Acme Egypt"},
		"somebody else":       {"Lancaster"},
		"two that fit":        {"Acme Inc.", "Acme Ltd"},
		"only words of forms": {"Group"},
	} {
		known := library{}
		for _, name := range entries {
			known.add([]statement{{Source: "a", Domain: "acme.com", Name: name, Description: "A description of " + name}})
		}
		if got := describedBy(known, "acme.com", "Acme"); got.Description != nil {
			t.Errorf("%s: %q", why, *got.Description)
		}
	}
	known := library{}
	known.add([]statement{
		{Source: "a", Domain: "acme.com", Name: "Acme Inc.", Description: "near"}, {Source: "a", Domain: "acme.com", Name: "ACME", Description: "nearest"},
		{Source: "b", Domain: "acme.com", Name: "Acme", Description: "later", Founded: 1901},
	})
	if got := describedBy(known, "acme.com", "Acme"); *got.Description != "nearest" || *got.Company.FoundedYear != 1901 {
		t.Errorf("%s", asJSON(t, got))
	}
}

func TestFounded_OnlyUnambiguousDates(t *testing.T) {
	for text, want := range map[string]int{
		"1969 ; 57 years ago ( 1969 )": 1969,
		"April 1, 1976 (49 years ago) ( 1976-04-01 ) , in Los Altos, California , U.S.": 1976,
		"18 December 1970 ; 55 years ago ( 1970-12-18 )":                                1970,
		"March 2009 ; 17 years ago ( 2009-03 )":                                         2009,
		"1998 ; 28 years ago ( 1998 ) (via the merger of A & B)":                        0,
		"2006 ; 20 years ago ( 2006 ) , as a spin-off of Acme":                          0,
		"1953 ; 73 years ago ( 1953 ) 6 January 1926 ; 100 years ago ( 1926-01-06 )":    0,
		"2014 (as a division of Acme ) 2018 (as an independent company)":                0,
		"1969 ; 57 years ago ( 1968 )":                                                  0,
	} {
		if got := foundedIn(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	if got := foundedIn(1870.0); got != 0 {
		t.Errorf("a bare number, without its age, is %d", got)
	}
}

func TestHeadcount_ExactAndRecent_IsTheBucket(t *testing.T) {
	for text, want := range map[string]int{
		"c. 31,000 (2025)": 10001, "775 (2023)": 501, "9,100 (December 31, 2024)": 5001, "4,345 (2024)": 1001,
		"73,906 (2019)": 0, "2,815": 0, "c. 16,000 : 2 (2025)": 0, "42,000 (FY26)": 0, "": 0,
	} {
		if got := headcount(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestSeat_CityNotBuilding(t *testing.T) {
	for text, want := range map[string]string{
		"Santa Clara, California , United States": "Santa Clara/California/US", "Amsterdam , Netherlands": "Amsterdam//NL",
		"Olathe, Kansas , U.S": "Olathe/Kansas/US", "Ottawa, Ontario , Canada": "Ottawa/Ontario/CA",
		"Salesforce Tower San Francisco , California, U.S.": "", "Starbucks Center , Seattle , U.S.": "",
		"Brooklyn , New York City , United States": "", "Olathe, Kansas , U.S (operations) Schaffhausen , Switzerland (legal domicile)": "",
		"Minato, Tokyo , Japan": "", "San Francisco": "", "200 Vesey Street , New York City , U.S.": "",
	} {
		got := ""
		if l := seatIn(text); l != nil {
			part := func(s *string) string {
				if s == nil {
					return ""
				}
				return *s
			}
			got = part(l.City) + "/" + part(l.State) + "/" + part(l.CountryCode)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestTables_NameKnownClasses(t *testing.T) {
	for _, table := range []map[string]string{featureClasses, categoryClasses} {
		for from, class := range table {
			if industry.ByName(class) == nil {
				t.Errorf("%s is the unknown industry %s", from, class)
			}
		}
	}
	if got := classOfFeatures([]string{"shop/car", "shop/car_repair"}, "German automobile manufacturer"); got == nil || got.Name != "Car Manufacturers" {
		t.Errorf("a maker of cars is %v", got)
	}
	if got := classOfFeatures([]string{"shop/car"}, "chain of shops"); got != nil {
		t.Errorf("a dealer is %v", got)
	}
	if got := classOfFeatures([]string{"shop/shoes", "shop/books"}, ""); got != nil {
		t.Errorf("a brand of two kinds is %v", got)
	}
}

func TestProfiles_OnlyHandlesWithTheName(t *testing.T) {
	item := wikidataItem{Label: "Acme", Identities: map[string]string{
		"twitter": "AcmeUK", "facebook": "acme.de", "instagram": "acme_official", "linkedin": "acmebooks", "youtube": "UC123456789",
	}}
	want := []string{"https://www.instagram.com/acme_official", "https://www.facebook.com/acme.de"}
	if got := item.profiles("acme.de"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	item.Identities = map[string]string{"twitter": "acme", "youtube": "UC123456789"}
	if got := item.profiles("acme.de"); len(got) != 2 || !strings.HasSuffix(got[1], "/channel/UC123456789") {
		t.Errorf("%v, want the channel too", got)
	}
}

func TestParsePython(t *testing.T) {
	got, err := parsePython(` {'a': [1, -2.5, None, True, False, ], "b'": {'c': 'it\'s \xa0"x"\n\u00e9'}, 'd': []}` + "\n")
	want := map[string]any{
		"a": []any{1.0, -2.5, nil, true, false}, "b'": map[string]any{"c": "it's \u00a0\"x\"\n\u00e9"}, "d": []any{},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
	for _, bad := range []string{
		"", "{", "{'a'}", "{'a' 1}", "{'a': 1 'b': 2}", "[1 2]", "'a", `'\q'`, "x", "[] []", strings.Repeat("[", 100),
	} {
		if v, err := parsePython(bad); err == nil {
			t.Errorf("%q is %v", bad, v)
		}
	}
}

func FuzzParsePython(f *testing.F) {
	f.Add(`{'a': [1, None], "b": 'c\''}`)
	f.Add(strings.Repeat("[", 40))
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parsePython(text) // it must end, and not panic
	})
}

func TestAbout_DamagedSource_Fails(t *testing.T) {
	for name, change := range map[string]string{
		"index/package.json": `{"name":"name-suggestion-index","version":"1.0.0"}`, "index/dist/wikidata/wikidata.min.json": `{}`,
		"index/dist/json/nsi.min.json": `{}`, "techs/package.json": `{"name":"wappalyzer","version":"6.10.62"}`,
		"techs/categories.json": `[`, "techs/technologies/a.json": `[`, "wheel/pytickersymbols/indices_data.py": "INDICES = {",
		"wheel/pytickersymbols-" + tickerSymbolsVersion + ".dist-info/METADATA": "Name: pytickersymbols\nVersion: 1\n",
		"repos/package.json": `{"name":"all-the-package-repos","version":"1.0.0"}`, "repos/data/packages.json": `{"@a/b":"https://example.com/a"}`,
	} {
		files := smallSources()
		if _, ok := files[name]; !ok {
			t.Fatalf("no file %s", name)
		}
		files[name] = change
		if _, err := withSources(options{}, writeFiles(t, files)).about(nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
