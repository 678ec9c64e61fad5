package e2e

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

const savedPage = `<!doctype html><html lang="en"><head><title>Home | Acme</title>
<meta property="og:site_name" content="Acme"><meta name="description" content="Acme makes anvils, tunnels and rocket skates for demanding coyotes.">
<link rel="icon" href="/favicon.ico"></head><body><header><a href="/" aria-label="Acme home">
<svg class="logo" width="120" height="40" viewBox="0 0 120 40"><path fill="#d03801" d="M0 0h36L18 40z"/><path d="M50 5h60v30H50z" fill="#1f2937"/></svg></a>
<nav><a href="/shop">Shop</a><a href="/about">About</a></nav></header>
<main><h1>Anvils that last</h1><p onclick="alert(1)">Forged <b>by hand</b> &lt;script&gt;alert(2)&lt;/script&gt;</p></main>
<footer><a href="https://github.com/acme">GitHub</a></footer></body></html>`

// The crawl command explains the record of a saved page without a server or a network.
func TestCrawlCommand_SavedPage_ExplainsRecord(t *testing.T) {
	data := filepath.Join(t.TempDir(), "none") // must not be created
	page := filepath.Join(t.TempDir(), "page.html")
	testmust.Succeed(t, os.WriteFile(page, []byte(savedPage), 0o600))
	saved := []string{"crawl", "--file", page, "--url", "https://acme.com/"}
	text := ok(t, data, append(saved, "--explain")...)
	for _, want := range []string{"LOGOS", "logos[0], logo", "home link", "NAME", "* ", "Acme", "DESCRIPTION", "EVIDENCE", "og:site_name"} {
		if !strings.Contains(text, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, text)
		}
	}
	report := filepath.Join(t.TempDir(), "out.html")
	var shown struct {
		Brand struct {
			Name  string
			Logos []struct{ Type string }
		}
	}
	decode(t, ok(t, data, append(saved, "--report", report, "--json")...), &shown)
	if shown.Brand.Name != "Acme" || len(shown.Brand.Logos) == 0 || shown.Brand.Logos[0].Type != "logo" {
		t.Errorf("the record is %+v", shown)
	}
	raw, err := os.ReadFile(report)
	testmust.Succeed(t, err)
	shownPage := html.UnescapeString(string(raw))
	for _, want := range []string{"default-src 'none'", "data:image/svg+xml;base64,", "logos[0]", "Acme"} {
		if !strings.Contains(shownPage, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(string(raw), "<script") || strings.Contains(string(raw), "onclick") {
		t.Error("the report contains scripts of the page")
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the command created a data folder")
	}
}

func TestCrawlCommand_AmbiguousArguments_AreRejected(t *testing.T) {
	for _, args := range [][]string{
		{"crawl"}, {"crawl", "--file", "page.html"}, {"crawl", "acme.com", "--url", "https://acme.com/"},
		{"crawl", "acme.com", "--json", "--explain"}, {"crawl", "--file", "page.html", "--url", "https://acme.com/", "--renderer", "chromium"},
		{"crawl", "not a domain"}, {"crawl", "acme.com", "--renderer", "lynx"},
	} {
		if _, printed, code := letterhead(t, t.TempDir(), args...); code != 2 || printed == "" {
			t.Errorf("%v ended with %d, want 2: %q", args, code, printed)
		}
	}
}
