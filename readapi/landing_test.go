package readapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// browser are the headers with which a browser requests a page.
var browser = http.Header{"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}}

// opened requests a path without a key.
func (s *service) opened(path string, header http.Header) answer {
	s.t.Helper()
	return s.send(request{path: path, header: header})
}

// attributes returns the values of an attribute of all elements with a name.
func attributes(t *testing.T, body []byte, element, name string) []string {
	t.Helper()
	root := testmust.Get(html.Parse(bytes.NewReader(body)))(t)
	var values []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != element {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == name {
				values = append(values, a.Val)
			}
		}
	}
	return values
}

func TestLanding_Parts_AreServedAndAllowed(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.opened("/", browser)
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %s", a.status, a.header.Get("Content-Type"))
	}
	checkStyles(t, a)
	for _, source := range append(attributes(t, a.body, "script", "src"), attributes(t, a.body, "link", "href")...) {
		if part := s.opened("/"+source, nil); part.status != http.StatusOK || len(part.body) == 0 {
			t.Errorf("%s: status %d, %d bytes", source, part.status, len(part.body))
		}
	}
	for sent, want := range map[string]string{"acme.com": "brands/acme.com", " bücher.de": "brands/b%C3%BCcher.de", "//evil.example": "brands/%2F%2Fevil.example"} {
		if a := s.opened("/?domain="+url.QueryEscape(sent), browser); a.status != http.StatusMovedPermanently || a.header.Get("Location") != want {
			t.Errorf("the domain %q: status %d, Location %q, want %q", sent, a.status, a.header.Get("Location"), want)
		}
	}
}

// checkStyles checks that the policy of a page allows exactly its styles, and nothing inline.
func checkStyles(t *testing.T, a answer) {
	t.Helper()
	policy := a.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "script-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	root, styles := testmust.Get(html.Parse(bytes.NewReader(a.body)))(t), 0
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "style" {
			styles++
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
				t.Errorf("the policy %s does not allow the style %.60s", policy, n.FirstChild.Data)
			}
		}
		for _, attribute := range n.Attr {
			if attribute.Key == "style" || strings.HasPrefix(attribute.Key, "on") {
				t.Errorf("<%s> has the attribute %s, which the policy forbids", n.Data, attribute.Key)
			}
		}
	}
	if got := strings.Count(policy, "'sha256-"); got != styles {
		t.Errorf("the policy allows %d styles, and the page has %d", got, styles)
	}
}

func TestPages_SettingsOfTheOperator_AreShown(t *testing.T) {
	t.Parallel()
	s := start(t, func(set *setup) {
		set.config.Name, set.config.Accent, set.config.Contact = "Brands & Co", "#ffe600", "mailto:brands@example.com"
	})
	for _, path := range []string{"/", "/brands/acme.com", "/docs", "/docs/brands", "/docs/errors", "/docs/logos", "/bot", "/nothing"} {
		a := s.opened(path, browser)
		if !bytes.Contains(a.body, []byte(`">Brands &amp; Co</a>`)) || bytes.Contains(a.body, []byte("Letterhead:")) {
			t.Errorf("%s does not have the name of the service", path)
		}
		// The yellow is darkened for white pages, and left alone on dark ones.
		if !bytes.Contains(a.body, []byte(":root{--mark:#ffe600}")) || bytes.Count(a.body, []byte("--mark:#ffe600")) != 1 {
			t.Errorf("%s does not have the accent for dark pages only", path)
		}
		if doors := strings.Join(attributes(t, a.body, "a", "href"), " "); !strings.Contains(doors, baseURL+"/dashboard") {
			t.Errorf("%s has no way to sign in: %s", path, doors)
		}
	}
	if links := strings.Join(attributes(t, s.opened("/", browser).body, "a", "href"), " "); !strings.Contains(links, "mailto:brands@example.com") {
		t.Errorf("the first page does not say how to get an account: %s", links)
	}
}

func TestLanding_Search_FindsBrandsAndCountsForNoAccount(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	s.must(s.runner.CatchUp(t.Context()))
	for _, path := range []string{"/?q=acme", "/suggest?q=acme"} {
		a := s.opened(path, browser)
		if links := attributes(t, a.body, "a", "href"); a.status != http.StatusOK || !strings.Contains(strings.Join(links, " "), "brands/acme.com") {
			t.Errorf("%s: status %d, links %v", path, a.status, links)
		}
		if a.header.Get("Content-Security-Policy") == "" || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: header %v, want a Content-Security-Policy and nothing for pages of other sites", path, a.header)
		}
	}
	if a := s.opened("/suggest?q=zzzzqqq", browser); a.status != http.StatusOK || !strings.Contains(string(a.body), "No brand was found") {
		t.Errorf("status %d, body %s", a.status, a.body)
	}
	if a := s.opened("/suggest?q="+strings.Repeat("a", 101), browser); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "100") {
		t.Errorf("a long query: status %d, body %s", a.status, a.body)
	}
	if used := c.me().Usage.Searches; used != 0 {
		t.Errorf("%d searches are counted, want 0", used)
	}
}

func TestLanding_TooManySearches_AreRejectedForTheAddress(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i := range 120 {
		if a := s.opened("/suggest?q=acme", browser); a.status != http.StatusOK {
			t.Fatalf("search %d: status %d", i+1, a.status)
		}
	}
	a := s.opened("/suggest?q=acme", browser)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "too often") {
		t.Errorf("status %d, Retry-After %q, body %s", a.status, a.header.Get("Retry-After"), a.body)
	}
	if a := s.opened("/?q=acme", browser); a.status != http.StatusTooManyRequests || !strings.Contains(string(a.body), "<form") {
		t.Errorf("the page: status %d, want 429 with its forms", a.status)
	}
	if a := s.opened("/", browser); a.status != http.StatusOK {
		t.Errorf("the page without a search: status %d", a.status)
	}
}

func TestUnknownPath_Accept_DecidesTheForm(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/nothing", "/v1/nothing", "/dashboard2"} {
		a := s.opened(path, browser)
		if a.status != http.StatusNotFound || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s in a browser: status %d, %s", path, a.status, a.header.Get("Content-Type"))
		}
		for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html"} {
			a := s.opened(path, http.Header{"Accept": {accept}})
			if a.status != http.StatusNotFound || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
				t.Errorf("%s with Accept %q: status %d, %s", path, accept, a.status, a.header.Get("Content-Type"))
			}
		}
	}
}

func TestRoot_WellKnownFiles_AreServed(t *testing.T) {
	t.Parallel()
	s := start(t)
	for path, want := range map[string]string{"/robots.txt": "Disallow: /v1/", "/llms.txt": baseURL + "/v1/openapi.json"} {
		if a := s.opened(path, nil); a.status != http.StatusOK || !strings.Contains(string(a.body), want) || strings.Contains(string(a.body), "{{") {
			t.Errorf("%s: status %d, body %s", path, a.status, a.body)
		}
	}
	if a := s.opened("/favicon.ico", nil); a.status != http.StatusOK || a.header.Get("Content-Type") != "image/x-icon" || !bytes.HasPrefix(a.body, []byte{0, 0, 1, 0}) {
		t.Errorf("favicon.ico: status %d, %s", a.status, a.header.Get("Content-Type"))
	}
	for _, path := range []string{"/docs/", "/v1", "/v1/"} {
		if a := s.opened(path, browser); a.status != http.StatusMovedPermanently || a.header.Get("Location") != baseURL+"/docs" {
			t.Errorf("%s: status %d to %q, want 301 to %s/docs", path, a.status, a.header.Get("Location"), baseURL)
		}
	}
}
