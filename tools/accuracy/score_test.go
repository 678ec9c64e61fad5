package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"letterhead/eventschemas"
	"letterhead/workers/crawl"
)

// verdicts scores a record against a label and returns "field kind" of each verdict.
func verdicts(t *testing.T, label string, r eventschemas.Record, evidence ...eventschemas.Evidence) []string {
	t.Helper()
	l, err := parseLabel([]byte(label))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range score(crawled{label: l, outcome: outcomeOK, result: &crawl.Result{Record: r, Evidence: evidence}}) {
		out = append(out, v.Field+" "+string(v.Kind))
	}
	return out
}

func some(text string) *string { return &text }

func TestScore_AgainstLabel(t *testing.T) {
	logo := func(source string) (eventschemas.Record, eventschemas.Evidence) {
		return eventschemas.Record{Logos: []eventschemas.Logo{{Type: "logo", Theme: some("dark")}}}, eventschemas.Evidence{Field: "logos[0]", Source: source}
	}
	for _, c := range []struct {
		name, label string
		record      eventschemas.Record
		want        string
	}{
		{"name with different case", `{"domain":"acme.com","name":["ACME!"]}`, eventschemas.Record{Name: some("Acme!")}, "name right"},
		{"name with different punctuation", `{"domain":"acme.com","name":["Acme & Co."]}`, eventschemas.Record{Name: some("Acme &")}, "name wrong"},
		{"name missing", `{"domain":"acme.com","name":["Acme"]}`, eventschemas.Record{}, "name missing"},
		{"name of another brand", `{"domain":"acme.com","name":["Acme"]}`, eventschemas.Record{Name: some("Wix")}, "name wrong"},
		{"no share image, as expected", `{"domain":"acme.com","shareImage":[]}`, eventschemas.Record{}, "share image none"},
		{"unexpected share image", `{"domain":"acme.com","shareImage":[]}`, eventschemas.Record{OGImage: some("https://acme.com/x.png")}, "share image wrong"},
		{"the beginning of a text", `{"domain":"acme.com","description":["Acme sells anvils, rockets and paint to coyotes everywhere."]}`, eventschemas.Record{Description: some("Acme sells anvils, rockets and paint to coyotes everywhere. Since 1949.")}, "description right"},
		{"a short text with the same beginning", `{"domain":"acme.com","description":["Acme sells anvils"]}`, eventschemas.Record{Description: some("Acme sells anvils and rockets")}, "description wrong"},
		{"profile with www and slash", `{"domain":"acme.com","links":{"twitter":["https://www.twitter.com/Acme/"]}}`, eventschemas.Record{Links: []eventschemas.Link{{Name: "twitter", URL: "https://x.com/acme"}}}, "links right"},
		{"profile of another brand", `{"domain":"acme.com","links":{}}`, eventschemas.Record{Links: []eventschemas.Link{{Name: "twitter", URL: "https://x.com/wix"}}}, "links wrong"},
		{"font of any origin", `{"domain":"acme.com","fonts":{"body":[{"name":"Open Sans"}]}}`, eventschemas.Record{Fonts: []eventschemas.Font{{Name: "Open Sans", Type: "body", Origin: "custom"}}}, "body font right"},
		{"font of another origin", `{"domain":"acme.com","fonts":{"body":[{"name":"Open Sans","origin":"google"}]}}`, eventschemas.Record{Fonts: []eventschemas.Font{{Name: "Open Sans", Type: "body", Origin: "custom"}}}, "body font wrong"},
		{"accent that looks the same", `{"domain":"acme.com","colors":{"accent":["#ff0000"]}}`, eventschemas.Record{Colors: []eventschemas.Color{{Hex: "#f50a05", Type: "accent"}}}, "accent right"},
		{"year that the page does not state", `{"domain":"acme.com","company":{}}`, eventschemas.Record{Company: &eventschemas.Company{FoundedYear: new(1999)}}, "founded wrong"},
		{"year that the page states", `{"domain":"acme.com","company":{"foundedYear":1949}}`, eventschemas.Record{Company: &eventschemas.Company{FoundedYear: new(1949)}}, "founded right"},
		{"adult and found", `{"domain":"acme.com","nsfw":true}`, eventschemas.Record{NSFW: true}, "nsfw right"},
		{"false alarm", `{"domain":"acme.com","nsfw":false}`, eventschemas.Record{NSFW: true}, "nsfw wrong"},
	} {
		if got := verdicts(t, c.label, c.record); !slices.Contains(got, c.want) {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
	label := `{"domain":"acme.com","logo":{"accept":["https://acme.com/logo*.svg"],"other":["https://acme.com/favicon.ico"],"wrong":["https://acme.com/customer.svg"],"declared":true,"theme":"dark"}}`
	for source, want := range map[string][]string{
		"https://acme.com/logo%2D2.svg": {"outcome right", "logo right", "logo theme right", "foreign logo none"},
		"https://acme.com/favicon.ico":  {"outcome right", "logo wrong", "foreign logo none"},
		"https://acme.com/customer.svg": {"outcome right", "logo wrong", "foreign logo wrong"},
		"https://acme.com/unheard.svg":  {"outcome right", "logo wrong", "foreign logo wrong"},
	} {
		r, e := logo(source)
		if got := verdicts(t, label, r, e); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}

func TestScore_ExpectedFailure_IsRight(t *testing.T) {
	l, err := parseLabel([]byte(`{"domain":"acme.com","outcome":"fetch_blocked","name":["Acme"]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := score(crawled{label: l, outcome: "blocked"})
	if len(got) != 1 || got[0].Kind != Right {
		t.Errorf("got %v", got)
	}
	l.Outcome = outcomeOK
	if got = score(crawled{label: l, outcome: "blocked"}); len(got) != 2 || got[0].Kind != Wrong || got[1].Kind != Missing {
		t.Errorf("%v, want a wrong outcome and a missing name", got)
	}
}

func TestScore_InlineEntries(t *testing.T) {
	page, err := html.Parse(strings.NewReader(`<svg hidden><symbol id="mark"><path d="M 1 2 L 30,40 z"/></symbol></svg>
		<header><svg class="logo"><use href="#mark"/></svg></header><footer><svg><path d="M9 9h9v9z"/></svg></footer>`))
	if err != nil {
		t.Fatal(err)
	}
	s := &scorer{crawled: crawled{page: page}}
	c := chosen{source: "https://acme.com/#drawing-1", data: squeezed(`<svg><path d="M1 2L30 40z"/></svg>`)}
	for entry, want := range map[string]bool{
		"inline:header svg": true, "inline:svg.logo": true, "inline:footer svg": false, "inline:M1 2L30": true, "inline:M9 9h9": false,
		"inline:*": true, "https://acme.com/logo.svg": false,
	} {
		if got := s.is(c, entry); got != want {
			t.Errorf("%s: %t, want %t", entry, got, want)
		}
	}
}

func TestSheet_ShowsTally(t *testing.T) {
	r := &report{groups: []string{saved}, verdicts: []Verdict{
		{Group: saved, ID: "a", Field: "name", Kind: Right}, {Group: saved, ID: "b", Field: "name", Kind: Wrong, Ours: "Wix", Truth: "Acme"},
		{Group: saved, ID: "c", Field: "name", Kind: Missing}, {Group: saved, ID: "d", Field: "name", Kind: None},
	}, pages: []crawled{{label: Label{ID: "b", Group: saved}, outcome: outcomeOK, files: &shelf{}, result: &crawl.Result{Record: eventschemas.Record{Name: some("Wix")}}}}}
	got := tally(r.verdicts, r.groups)
	if len(got) != 2 || got[0].Precision() != 0.5 || got[0].Recall() != 1.0/3 || got[0].Share() != 0.5 || got[1].Group != allPages {
		t.Errorf("got %+v", got)
	}
	file := filepath.Join(t.TempDir(), "reports", "sheet.html")
	if err := writeSheet(file, r); err != nil {
		t.Fatal(err)
	}
	sheet, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(sheet, []byte("truth “Acme”")) {
		t.Errorf("the sheet does not show the miss (%v)", err)
	}
}

func FuzzLabel(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","group":"saved","url":"https://acme.com/","name":["Acme"],"links":{"twitter":"https://x.com/acme"}}`,
		`{"domain":"acme.com","logo":{"accept":["x"],"wrong":["x"]}}`, `{"logo":{"declared":true}}`, `{"type":[]}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLabel(data)
		if err == nil && l.Domain == "" {
			t.Error("a label without a domain was accepted")
		}
		if _, again := json.Marshal(l); again != nil {
			t.Error(again)
		}
	})
}
