package linkeddata_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/site"
)

func parse(texts ...string) *linkeddata.Graph {
	var blobs [][]byte
	for _, t := range texts {
		blobs = append(blobs, []byte(t))
	}
	return linkeddata.Parse(blobs)
}

func TestParse_SloppyText_IsRead(t *testing.T) {
	const want = "Acme"
	for name, text := range map[string]string{
		"plain":              `{"@type":"Organization","name":"Acme"}`,
		"byte order mark":    "\xef\xbb\xbf" + `{"@type":"Organization","name":"Acme"}`,
		"comment":            `<!-- {"@type":"Organization","name":"Acme"} -->`,
		"cdata":              "//<![CDATA[\n" + `{"@type":"Organization","name":"Acme"}` + "\n//]]>",
		"cdata in comments":  "/*<![CDATA[*/" + `{"@type":"Organization","name":"Acme"}` + "/*]]>*/",
		"semicolon":          `{"@type":"Organization","name":"Acme"};`,
		"trailing commas":    `{"@type":["Organization",],"name":"Acme",}`,
		"raw newline":        "{\"@type\":\"Organization\",\"description\":\"a\nb\tc\",\"name\":\"Acme\"}",
		"escaped":            `{&quot;@type&quot;:&quot;Organization&quot;,&quot;name&quot;:&quot;Acme&quot;}`,
		"array":              `[{"@type":"Thing"},{"@type":"Organization","name":"Acme"}]`,
		"graph":              `{"@context":"x","@graph":[{"@type":"Organization","name":"Acme"}]}`,
		"nested":             `{"@type":"WebPage","publisher":{"@type":"Organization","name":"Acme"}}`,
		"type as URL":        `{"@type":"http://schema.org/Organization","name":"Acme"}`,
		"several types":      `{"@type":["Thing","https://schema.org/Corporation"],"name":"Acme"}`,
		"name as object":     `{"@type":"Organization","name":{"@value":"Acme","@language":"en"}}`,
		"name as list":       `{"@type":"Organization","name":["Acme","Other"]}`,
		"comments inside":    "{/* who */\"@type\":\"Organization\", // what\n\"name\":\"Acme\"}",
		"unknown escapes":    `{"@type":"Organization","name":"Acme","slogan":"it\'s \- here"}`,
		"one after another":  `{"@type":"Thing"}{"@type":"Organization","name":"Acme"}`,
		"a text of it":       `"{\"@type\":\"Organization\",\"name\":\"Acme\"}"`,
		"context of its own": `{"@context":{"@vocab":"https://schema.org/"},"@type":"schema:Organization","name":"Acme"}`,
		"strange members":    `{"@type":"Organization","__proto__":{"x":1},"constructor":null,"name":"Acme","a":[[[1]]]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range parse(text).Objects {
				if o.IsOrganization() && o.Text("name") == want {
					return
				}
			}
			t.Error("the organization was not found")
		})
	}
}

func TestParse_InvalidParts_AreOmitted(t *testing.T) {
	good := `{"@type":"Organization","name":"Acme"}`
	for name, bad := range map[string]string{
		"not JSON":       `var x = {}`,
		"cut off":        `{"@type":"Organization","name":"Ac`,
		"deep objects":   strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"deep lists":     strings.Repeat(`[`, 100_000) + strings.Repeat("]", 100_000),
		"deep, escaped":  strings.Repeat(`{&quot;a&quot;:`, 100) + "1" + strings.Repeat("}", 100),
		"10 MB":          `{"a":"` + strings.Repeat("x", 10<<20) + `"}`,
		"a number":       `5`,
		"many, unclosed": strings.Repeat(`{"a":1},`, 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(bad, good)
			if n := len(g.Objects); n != 1 || g.Objects[0].Text("name") != "Acme" {
				t.Errorf("%d objects, want the good one", n)
			}
		})
	}
	if n := len(parse(`[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 50_000), ",") + `]`).Objects); n == 0 || n > 4000 {
		t.Errorf("%d objects of 50,000", n)
	}
	var many []string
	for range 100 {
		many = append(many, good)
	}
	if n := len(parse(many...).Objects); n != linkeddata.MaxBlobs {
		t.Errorf("%d objects of 100 elements", n)
	}
}

func TestURLs_EveryForm_IsRead(t *testing.T) {
	for text, want := range map[string]string{
		`"logo":"/l.png"`: "[/l.png]",
		`"logo":{"@type":"ImageObject","url":"/l.png"}`:        "[/l.png]",
		`"logo":{"@type":"ImageObject","contentUrl":"/l.png"}`: "[/l.png]",
		`"logo":["/a.png",{"url":"/b.png"}]`:                   "[/a.png /b.png]",
		`"logo":{"@id":"#logo"}`:                               "[/resolved.png]",
		`"logo":{"@id":"https://acme.com/l.png"}`:              "[https://acme.com/l.png]",
		`"logo":{"url":{"@value":"/l.png"}}`:                   "[/l.png]",
		`"logo":null`:                                          "[]",
		`"logo":5`:                                             "[5]",
		`"logo":{"@id":"#self"}`:                               "[#self]", // a reference to itself ends
		`"logo":"` + strings.Repeat("x", 10_000) + `"`:         "[]",
	} {
		g := parse(`[{"@type":"Organization","@id":"#self",` + text + `},{"@id":"#logo","url":"/resolved.png"}]`)
		if got := fmt.Sprint(g.Objects[0].URLs("logo")); got != want {
			t.Errorf("%.60s: got %s, want %s", text, got, want)
		}
	}
}

func TestOwner_AmongOthers_IsFound(t *testing.T) {
	acme := site.New("acme.com")
	fit := func(name string) float64 {
		if strings.Contains(name, "Acme") {
			return 1
		}
		return 0
	}
	for name, c := range map[string]struct{ text, want string }{
		"by its url":               {`[{"@type":"Organization","name":"Other","url":"https://other.example"},{"@type":"Organization","name":"Group","url":"https://www.acme.com/"}]`, "Group"},
		"alone, without url":       {`{"@type":"Organization","name":"Something"}`, "Something"},
		"several, without url":     {`[{"@type":"Organization","name":"Something"},{"@type":"Organization","name":"Acme"}]`, "Acme"},
		"unrelated":                {`[{"@type":"Organization","name":"Something"},{"@type":"Organization","name":"Else"}]`, ""},
		"elsewhere":                {`{"@type":"Organization","name":"Acme","url":"https://other.example"}`, ""},
		"a reviewer":               {`{"@type":"Product","review":{"author":{"@type":"Organization","name":"Acme Reviews"}}}`, ""},
		"a parent":                 {`{"@type":"Organization","name":"Acme","parentOrganization":{"@type":"Organization","name":"Acme Holding","url":"https://acme.com"}}`, "Acme"},
		"a reference":              {`{"@graph":[{"@type":"WebSite","publisher":{"@id":"#o"}},{"@id":"#o","@type":"Organization","name":"Group"}]}`, "Group"},
		"publisher of the site":    {`{"@type":"WebSite","publisher":{"@type":"Organization","name":"Group"}}`, "Group"},
		"its @id is the front":     {`[{"@type":"Organization","@id":"https://acme.com/#organization","name":"Group"},{"@type":"Organization","name":"Else"}]`, "Group"},
		"an @id in fragments":      {`[{"@type":"Organization","@id":"#organization","name":"Group"},{"@type":"Organization","name":"Else"}]`, ""},
		"another ending":           {`[{"@type":"Organization","name":"Group","url":"https://acme.co.uk"},{"@type":"Organization","name":"Else"}]`, "Group"},
		"without a scheme":         {`[{"@type":"Organization","name":"Group","url":"www.acme.com"},{"@type":"Organization","name":"Else"}]`, "Group"},
		"the front in a language":  {`[{"@type":"Organization","name":"Group","url":"https://acme.com/de-de/"},{"@type":"Organization","name":"Else"}]`, "Group"},
		"a publication inside":     {`{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Magazine","url":"https://acme.com/magazine"}}`, ""},
		"a person's site":          {`{"@type":"Person","name":"Jane Acme","url":"https://acme.com/"}`, "Jane Acme"},
		"a person's page":          {`{"@type":"Person","name":"Jane","url":"https://acme.com/people/jane"}`, ""},
		"an author's organization": {`{"@type":"Article","author":{"@type":"Organization","name":"Group","url":"https://acme.com/"}}`, "Group"},
		"an author elsewhere":      {`{"@type":"Article","author":{"@type":"Organization","name":"Acme","logo":"/l.png"}}`, ""},
		"a parent by reference":    {`{"@graph":[{"@type":"Organization","@id":"#p","name":"Acme Holding"},{"@type":"Organization","@id":"#o","name":"Acme","parentOrganization":{"@id":"#p"}}]}`, "Acme"},
		"a maker by reference":     {`{"@graph":[{"@type":"Product","manufacturer":{"@id":"#m"}},{"@type":"Organization","@id":"#m","name":"Maker"}]}`, ""},
		"references in a circle":   {`{"@graph":[{"@id":"#a","@type":"WebSite","publisher":{"@id":"#b"}},{"@id":"#b","publisher":{"@id":"#a"}}]}`, ""},
		"first a reference":        {`[{"@type":"WebSite","publisher":{"@id":"#o","@type":"Organization"}},{"@type":"Organization","@id":"#o","name":"Group"},{"@type":"Organization","name":"Else"}]`, "Group"},
		"publisher of an article":  {`{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Agency"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if o := parse(c.text).Owner(acme, fit); o != nil {
				got = o.Text("name")
			}
			if got != c.want {
				t.Errorf("owner is %q, want %q", got, c.want)
			}
		})
	}
	if w := parse(`[{"@type":"WebSite","name":"Other","url":"https://other.example"},{"@type":"WebSite","name":"Acme","url":"https://acme.com"}]`).WebSite(acme); w == nil || w.Text("name") != "Acme" {
		t.Error("the site's own WebSite was not found")
	}
}

func TestOwners_Descriptions_AreJoined(t *testing.T) {
	g := parse(`[{"@type":"Organization","name":"Acme","url":"https://acme.com/","logo":"/l.png"},{"@type":"Organization","name":"Other","url":"https://other.example"},{"@type":"Corporation","name":"ACME","url":"https://www.acme.com"},{"@type":"Store","name":"Shop","url":"https://acme.com/"}]`)
	var names []string
	for _, o := range g.Owners(site.New("acme.com"), func(name string) float64 {
		if strings.EqualFold(name, "acme") {
			return 1
		}
		return 0
	}) {
		names = append(names, o.Text("name"))
	}
	if fmt.Sprint(names) != "[Acme ACME]" {
		t.Errorf("owners are %v", names)
	}
}

func TestPublishers_Page_AreListed(t *testing.T) {
	g := parse(`{"@graph":[{"@type":"NewsArticle","publisher":{"@id":"#p"}},{"@id":"#p","@type":"Organization","name":"Press"},{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Agency","url":"https://agency.example"}},{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Own domain","url":"https://map.acme-notes.example"}}]}`)
	var names []string
	for _, o := range g.Publishers(site.New("acme.com"), func(u *url.URL) bool { return u.Host == "map.acme-notes.example" }) {
		names = append(names, o.Text("name"))
	}
	if fmt.Sprint(names) != "[Press Own domain]" {
		t.Errorf("publishers are %v", names)
	}
}

func TestParse_Repeated_KeepsOrder(t *testing.T) {
	text := `{"@type":"A","z":{"@type":"Z"},"b":{"@type":"B"},"m":{"@type":"M"},"c":{"@type":"C"}}`
	for range 20 {
		var got []string
		for _, o := range parse(text).Objects {
			got = append(got, o.Types...)
		}
		if fmt.Sprint(got) != "[A B C M Z]" {
			t.Fatalf("order is %v", got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"@graph":[{"@id":"a","@type":["Organization"],"logo":{"@id":"a"},"url":"/"}]}`, `[[[{"@type":5,"name":{"@value":[]}}]]]`,
		`<!--{"a":"b",}-->`, `{&quot;a&quot;:1}`, `{"@id":1,"@type":null}`, "{\"a\":\"\n\"}",
	} {
		f.Add([]byte(seed))
	}
	acme := site.New("acme.com")
	f.Fuzz(func(t *testing.T, text []byte) {
		g := linkeddata.Parse([][]byte{text})
		for _, o := range g.Objects {
			o.URLs("logo")
			o.Text("name")
			o.Linked("address")
		}
		g.Owner(acme, func(string) float64 { return 1 })
		g.WebSite(acme)
		g.Publishers(acme, func(*url.URL) bool { return false })
	})
}

// The only organization on a page owns it, unless its files are on its own site.
func TestOwner_LoneGuest_IsNotOwner(t *testing.T) {
	none := func(string) float64 { return 0 }
	for logo, owner := range map[string]bool{
		"https://chezlouis.example/logo.png": false, "https://cdn.example/logo.png": true, "/logo.png": true, "https://img.acme.com/logo.png": true,
	} {
		g := parse(`{"@type":"Restaurant","name":"Chez Louis","logo":"` + logo + `"}`)
		if got := g.Owner(site.New("acme.com"), none) != nil; got != owner {
			t.Errorf("logo %s: owner %v", logo, got)
		}
	}
}
