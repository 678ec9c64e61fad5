package readapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"letterhead/internal/testmust"
	"letterhead/readapi/openapi"
)

// specCodes are the error codes of the service specification.
var specCodes = []Code{
	"invalid_request", "invalid_domain", "unauthorized", "insufficient_credits", "forbidden", "not_found",
	"domain_not_found", "no_brand_data", "fetch_blocked", "rate_limited", "quota_exceeded", "internal_error",
	"fetch_failed", "timeout", "upstream_failed",
}

func TestErrorDocs_EveryCode_HasASection(t *testing.T) {
	p, d := rendered(t, "https://brands.example.com", "", "Mozilla/5.0 (compatible; LetterheadBot/1.0; +https://brands.example.com/bot)")
	ids, current := map[string]bool{}, ""
	walk(t, d.pages["/docs/errors"].body, func(n *html.Node) {
		if attribute(n, "aria-current") == "page" {
			current = attribute(n, "href")
		}
		if id := attribute(n, "id"); id != "" {
			ids[id] = true
		}
	})
	if current != "errors" {
		t.Errorf("the navigation of the reference shows %q as the current page, want errors", current)
	}
	for _, code := range specCodes {
		if !ids[string(code)] {
			t.Errorf("the docs page has no section %s", code)
		}
		if want := "https://brands.example.com/docs/errors#" + string(code); p.docsURLs[code] != want {
			t.Errorf("documentation of %s is at %q, want %q", code, p.docsURLs[code], want)
		}
	}
	if len(codeDocs) != len(specCodes) {
		t.Errorf("%d codes are documented, the OpenAPI description has %d", len(codeDocs), len(specCodes))
	}
}

func TestPages_Resources_AreSameOrigin(t *testing.T) {
	_, d := rendered(t, "https://brands.example.com", "", "LetterheadBot/1.0 (+https://brands.example.com/bot)")
	for name, page := range htmlPages(d) {
		walk(t, page.body, func(n *html.Node) {
			switch n.Data {
			case "script", "link", "img", "iframe", "object", "embed", "base":
				t.Errorf("%s: has a <%s>", name, n.Data)
			case "a", "form":
				to := linkOf(t, "https://brands.example.com"+name, n)
				if !strings.HasPrefix(to, "https://brands.example.com/") {
					t.Errorf("%s: links to %s", name, to)
				}
				if n.Data == "form" && (to != "https://brands.example.com/docs" || attribute(n, "method") != "get") {
					t.Errorf("%s: a form sends to %s with the method %s", name, to, attribute(n, "method"))
				}
			}
		})
		if bytes.Contains(page.body, []byte("@import")) || bytes.Contains(page.body, []byte("url(")) {
			t.Errorf("%s: its style loads a resource", name)
		}
	}
	var shown bool
	walk(t, d.pages["/bot"].body, func(n *html.Node) {
		shown = shown || (n.Data == "code" && strings.Contains(textOf(n), "LetterheadBot/1.0 (+https://brands.example.com/bot)"))
	})
	if !shown {
		t.Error("the page about the crawler does not show its User-Agent")
	}
}

// TestReference_Document_IsShownCompletely checks that its pages have every operation, schema and code, and
// that every link in them has a target.
func TestReference_Document_IsShownCompletely(t *testing.T) {
	const base = "https://brands.example.com"
	p, d := rendered(t, base, "", "LetterheadBot/1.0")
	description := testmust.Get(openapi.Read(base))(t)
	targets, links, samples := map[string]bool{base + "/docs/logos": true, base + "/dashboard": true, base + "/": true,
		base + "/v1/openapi.json": true, base + "/dashboard/playground?identifier=github.com": true}, map[string]bool{}, ""
	for path, page := range htmlPages(d) {
		targets[base+path] = true
		walk(t, page.body, func(n *html.Node) {
			if id := attribute(n, "id"); id != "" {
				if targets[base+path+"#"+id] {
					t.Errorf("%s: two sections have the id %s", path, id)
				}
				targets[base+path+"#"+id] = true
			}
			if n.Data == "a" {
				links[linkOf(t, base+path, n)] = true
			}
			if n.Data == "p" && (n.Parent.Data == "span" || n.Parent.Data == "p") {
				t.Errorf("%s: a paragraph inside inline text: %s", path, textOf(n))
			}
			if n.Data == "pre" && path != "/bot" && path != "/docs/errors" {
				if attribute(n, "tabindex") != "0" || attribute(n, "role") == "" || attribute(n, "aria-label") == "" {
					t.Errorf("%s: the keyboard cannot scroll %.40s", path, textOf(n))
				}
				samples += textOf(n) + "\n"
			}
		})
	}
	for _, o := range description.Operations {
		page := base + "/docs/" + slug(o.Tag)
		if !targets[page+"#op-"+o.ID] || !links[page+"#op-"+o.ID] {
			t.Errorf("%s has no section or is not in the contents", o.ID)
		}
		if !targets[base+"/docs#op-"+o.ID] {
			t.Errorf("%s: the link of the reference on one page leads to nothing", o.ID)
		}
	}
	for _, s := range description.Schemas {
		if !targets[base+"/docs/schemas#schema-"+s.Name] || !targets[base+"/docs#schema-"+s.Name] {
			t.Errorf("the schema %s is not shown", s.Name)
		}
	}
	for _, c := range codeDocs {
		if !links[p.docsURLs[c.Code]] {
			t.Errorf("%s is not linked", c.Code)
		}
	}
	walk(t, d.pages["/docs/logo-images"].body, func(n *html.Node) {
		if attribute(n, "id") == "op-getLogo" && !strings.Contains(textOf(n), "with or without a key") {
			t.Errorf("the page does not state that logos need no key: %.300s", textOf(n))
		}
	})
	for to := range links {
		if !targets[to] {
			t.Errorf("the link %s has no target", to)
		}
	}
	for _, want := range []string{
		"curl " + base + "/v1/brands/github.com \\\n  -H \"Authorization: Bearer $LETTERHEAD_KEY\"\n",
		"curl " + base + "/logo/github.com\n",
		"curl " + base + "/logo/github.com/logo\n",
		"curl '" + base + "/v1/search?q=github' \\\n",
		"  --data '{\"identifiers\":[\"github.com\",\"jane@figma.com\"]}'\n",
		`--data '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_brand","arguments":{"identifier":"github.com"}}}'`,
	} {
		if !strings.Contains(samples, want) {
			t.Errorf("no sample has %q", want)
		}
	}
}

// htmlPages returns the documents that are pages, by path.
func htmlPages(d documents) map[string]page {
	all := maps.Clone(d.pages)
	delete(all, descriptionPath)
	return all
}

// linkOf returns where a link or a form on a page leads to.
func linkOf(t *testing.T, page string, n *html.Node) string {
	t.Helper()
	from := testmust.Get(url.Parse(page))(t)
	return testmust.Get(from.Parse(attribute(n, "href") + attribute(n, "action")))(t).String()
}

// maxPage is the most bytes that a page of the API reference may have.
const maxPage = 150_000

func TestReference_EveryPage_IsSmall(t *testing.T) {
	_, d := rendered(t, "https://brands.example.com", "", "LetterheadBot/1.0")
	if want := len(d.overview.Document.Tags) + 4; len(htmlPages(d)) != want {
		t.Errorf("%d pages, want %d", len(htmlPages(d)), want)
	}
	for path, page := range htmlPages(d) {
		if len(page.body) > maxPage {
			t.Errorf("%s has %d bytes, want at most %d", path, len(page.body), maxPage)
		}
	}
	v := d.overview
	v.Query = "."
	for _, letter := range "aeio{./" { // the searches that find the most
		v.Found = find(v.Document, string(letter))
		if body := testmust.Get(staticPage("docs", v))(t).body; len(v.Found) == 0 || len(body) > maxPage {
			t.Errorf("the search for %c found %d, on a page of %d bytes, want at most %d", letter, len(v.Found), len(body), maxPage)
		}
	}
}

func TestReference_Descriptions_AreEscaped(t *testing.T) {
	if got := markdown("a `<b>` **<i>**\n\n<p>"); got != "<p>a <code>&lt;b&gt;</code> <strong>&lt;i&gt;</strong></p><p>&lt;p&gt;</p>" {
		t.Errorf("%s, want %q", got, "<p>a <code>&lt;b&gt;</code> <strong>&lt;i&gt;</strong></p><p>&lt;p&gt;</p>")
	}
	if got := ShellWord("it's"); got != `'it'\''s'` {
		t.Errorf("got %s", got)
	}
}

func TestPages_ContentSecurityPolicy_AllowsOwnStyleOnly(t *testing.T) {
	p, d := rendered(t, "https://brands.example.com", "", "LetterheadBot/1.0")
	for name, page := range htmlPages(d) {
		var styles []string
		walk(t, page.body, func(n *html.Node) {
			if n.Data == "style" {
				styles = append(styles, textOf(n))
			}
		})
		if len(styles) != 1 {
			t.Fatalf("%s has %d styles, want 1", name, len(styles))
		}
		sum := sha256.Sum256([]byte(styles[0]))
		if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(p.csp[0], want) {
			t.Errorf("%s: the policy %s does not allow its style %s", name, p.csp[0], want)
		}
	}
}

func TestBotPage_UserAgent_ContainsCrawlerName(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (compatible; LetterheadBot/1.0; +http://127.0.0.1:8080/bot)": "LetterheadBot",
		"AcmeBot/2 (+https://acme.com/bot)":                                       "AcmeBot",
		"acme crawler":                                                            "acme crawler",
	} {
		if got := productOf(agent); got != want {
			t.Errorf("%s: %q, want %q", agent, got, want)
		}
	}
}

func walk(t *testing.T, page []byte, visit func(*html.Node)) {
	t.Helper()
	root := testmust.Get(html.Parse(bytes.NewReader(page)))(t)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			visit(n)
		}
	}
}

func textOf(n *html.Node) string {
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data)
		}
	}
	return text.String()
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// The page's promises to site owners match the behavior of this release.
func TestBotPage_Crawler_IsDescribed(t *testing.T) {
	_, d := rendered(t, "https://brands.example.com", "", "LetterheadBot/1.0 (+https://brands.example.com/bot)")
	for _, want := range []string{"keeps no cookies between visits", "User-agent: LetterheadBot\nDisallow: /", "with a conditional request", "obeyed by scheduled visits"} {
		if !bytes.Contains(d.pages["/bot"].body, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestLimitsOf_EachSchema_IsDescribed(t *testing.T) {
	one, three, ten, low := 1, 3, 10, 0.0
	for want, s := range map[string]*openapi.Schema{
		"length at least 1":    {Limits: openapi.Limits{MinLength: &one}},
		"length at most 10":    {Limits: openapi.Limits{MaxLength: &ten}},
		"length 1 to 10":       {Limits: openapi.Limits{MinLength: &one, MaxLength: &ten}},
		"at least 1 items":     {Limits: openapi.Limits{MinItems: &one}},
		"at least 0":           {Limits: openapi.Limits{Minimum: &low}},
		"one of light, dark":   {OneOf: []*openapi.Schema{{Types: []string{"string"}, Enum: []any{"light", "dark"}}, {Types: []string{"null"}}}},
		"one of light":         {Enum: []any{"light"}},
		"always 2.0, length 3": {Const: "2.0", Limits: openapi.Limits{MinLength: &three, MaxLength: &three}},
	} {
		if got := strings.Join(limitsOf(s), ", "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// rendered returns the pages and the documents among them.
func rendered(t *testing.T, baseURL, logoHost, userAgent string) (pages, documents) {
	t.Helper()
	p := testmust.Get(newPages(baseURL, logoHost, userAgent, Operator{Name: "Letterhead"}))(t)
	d := testmust.Get(p.documents())(t)
	return p, d
}
