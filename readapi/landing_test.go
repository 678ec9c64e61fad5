package readapi_test

import (
	"bytes"
	"net/http"
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

func TestLanding_DomainInForm_ShowsItsLogo(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.opened("/?domain=acme.com", browser)
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %s", a.status, a.header.Get("Content-Type"))
	}
	policy := a.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "script-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	images := strings.Join(attributes(t, a.body, "img", "src"), "\n")
	for _, want := range []string{"logo/acme.com?size=128&background=auto-light", "logo/acme.com?size=128&background=auto-dark"} {
		if !strings.Contains(images, want) {
			t.Errorf("the images are\n%s\nwant %s among them", images, want)
		}
	}
	for _, source := range append(attributes(t, a.body, "script", "src"), attributes(t, a.body, "link", "href")...) {
		if part := s.opened("/"+source, nil); part.status != http.StatusOK || len(part.body) == 0 {
			t.Errorf("%s: status %d, %d bytes", source, part.status, len(part.body))
		}
	}
	if a := s.opened("/?domain=localhost", browser); a.status != http.StatusOK || !strings.Contains(string(a.body), `role="alert"`) {
		t.Errorf("a name without a domain: status %d, no sentence about it", a.status)
	}
}

func TestLanding_Search_FindsBrandsAndCountsForNoAccount(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	s.must(s.runner.CatchUp(t.Context()))
	for _, path := range []string{"/?q=acme", "/suggest?q=acme"} {
		a := s.opened(path, browser)
		if links := attributes(t, a.body, "a", "href"); a.status != http.StatusOK || !strings.Contains(strings.Join(links, " "), "./?domain=acme.com") {
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
