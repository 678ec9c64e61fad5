package readapi_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestBrandPage_KnownBrand_IsShownInItsColorsAndCostsNothing(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	s.must(s.runner.CatchUp(t.Context()))
	a := s.opened("/brands/acme.com", browser)
	if a.status != http.StatusOK || a.header.Get("Cache-Control") != "public, max-age=300" || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Fatalf("status %d, header %v", a.status, a.header)
	}
	checkStyles(t, a)
	if !bytes.Contains(a.body, []byte(".brand{--ground:#0b57d0;--on:#ffffff}")) || !bytes.Contains(a.body, []byte("<h1>acme</h1>")) {
		t.Errorf("the page is not in the brand's color, or does not have its name: %s", a.body)
	}
	images := strings.Join(attributes(t, a.body, "img", "src"), "\n")
	for _, want := range []string{
		"../logo/acme.com?size=128&background=ffffff", "../logo/acme.com/icon?size=128&background=auto-light",
		"../logo/acme.com/icon?size=128&background=auto-dark", "../logo/acme.com/logo?size=128&background=auto-dark",
	} {
		if !strings.Contains(images, want) {
			t.Errorf("the images are\n%s\nwant %s among them", images, want)
		}
	}
	if !bytes.Contains(a.body, []byte(`&lt;img src="`+baseURL+`/logo/acme.com?size=64" alt="acme.com"&gt;`)) {
		t.Errorf("the page has no snippet: %s", a.body)
	}
	if links := strings.Join(attributes(t, a.body, "a", "href"), " "); !strings.Contains(links, baseURL+"/dashboard/playground?identifier=acme.com") {
		t.Errorf("no link leads to the whole record: %s", links)
	}
	for _, private := range []string{"Berlin", "Inter", "What acme does"} {
		if bytes.Contains(a.body, []byte(private)) {
			t.Errorf("the page shows %q without a look-up", private)
		}
	}
	if me := c.me(); me.Credits.Balance != 50 || me.Usage.Searches != 0 {
		t.Errorf("%d credits and %d searches, want 50 and 0", me.Credits.Balance, me.Usage.Searches)
	}
}

func TestBrandPage_UnknownOrRestricted_IsNotFoundAndNotCrawled(t *testing.T) {
	t.Parallel()
	s := start(t)
	adult := record("adult")
	adult.NSFW, adult.Restriction = true, &eventschemas.Restriction{Code: "nsfw", Message: "It is for adults."}
	s.known("adult.com", adult)
	s.must(s.runner.CatchUp(t.Context()))
	for _, domain := range []string{"acme.com", "adult.com"} {
		a := s.opened("/brands/"+domain, browser)
		if a.status != http.StatusNotFound || a.header.Get("Cache-Control") != "no-store" || !bytes.Contains(a.body, []byte("<h1>"+domain+"</h1>")) {
			t.Errorf("%s: status %d, Cache-Control %q", domain, a.status, a.header.Get("Cache-Control"))
		}
		checkStyles(t, a)
	}
	if n := len(s.crawler.of("acme.com")); n != 0 {
		t.Errorf("%d crawls, want none", n)
	}
}

func TestBrandPage_Domain_IsItsRegistrableFormOrExplained(t *testing.T) {
	t.Parallel()
	s := start(t)
	for sent, want := range map[string]string{"www.Acme.com": "acme.com", "b%C3%BCcher.de": "xn--bcher-kva.de"} {
		if a := s.opened("/brands/"+sent, browser); a.status != http.StatusMovedPermanently || a.header.Get("Location") != want {
			t.Errorf("%s: status %d, Location %q, want %s", sent, a.status, a.header.Get("Location"), want)
		}
	}
	for _, sent := range []string{"localhost", "10.0.0.1", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "%00"} {
		a := s.opened("/brands/"+sent, browser)
		if a.status != http.StatusBadRequest || !bytes.Contains(a.body, []byte(`role="alert"`)) || bytes.Contains(a.body, []byte("<script>alert")) {
			t.Errorf("%s: status %d, want a sentence about it", sent, a.status)
		}
	}
}

// An error page below /brands/ needs other relative URLs than the first page.
func TestBrandPage_Problem_HasURLsThatWork(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.opened("/brands/localhost", browser)
	if a.status != http.StatusBadRequest {
		t.Fatalf("status %d, want 400", a.status)
	}
	checkStyles(t, a)
	page, fetched := testmust.Get(url.Parse("/brands/localhost"))(t), 0
	for element, name := range map[string]string{"a": "href", "link": "href", "form": "action", "img": "src", "script": "src", "source": "srcset"} {
		for _, source := range attributes(t, a.body, element, name) {
			u := testmust.Get(url.Parse(source))(t)
			if u.IsAbs() {
				continue
			}
			fetched++
			path := page.ResolveReference(u).String()
			part := s.opened(path, browser)
			if unknown := strings.HasPrefix(path, "/brands/") && part.status == http.StatusNotFound && bytes.Contains(part.body, []byte("does not know this brand yet")); part.status != http.StatusOK && !unknown {
				t.Errorf("<%s %s=%q> leads to %s: status %d", element, name, source, path, part.status)
			}
		}
	}
	if fetched < 50 {
		t.Errorf("the page has %d relative URLs, want those of its icon, form and wall", fetched)
	}
	if requests := attributes(t, a.body, "input", "hx-get"); len(requests) != 0 {
		t.Errorf("the page requests %v, whose links are relative to the first page", requests)
	}
}

func TestBrandPage_TooManyVisits_AreRejectedForTheAddress(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 120 {
		s.opened("/brands/acme.com", browser)
	}
	a := s.opened("/brands/acme.com", browser)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !bytes.Contains(a.body, []byte("<form")) {
		t.Errorf("status %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
}
