//go:build lab

package lab

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestGoodSite_LookedUp_HasItsRecord(t *testing.T) {
	a := node.lookup(t, "good-lab.com", "?refresh=true")
	if a.status != 200 {
		t.Fatalf("the look-up answered %s, want 200", a)
	}
	checkGoodLab(t, a)
	if a.brand.Domain != "good-lab.com" {
		t.Errorf("domain = %s, want that of the request", a.brand.Domain)
	}
}

// If a site redirects to another domain, its record has the requested domain and the contents of the other site.
func TestRedirect_ToAnotherDomain_KeepsRequestedDomain(t *testing.T) {
	a := node.lookup(t, "cross-redirect-lab.com", "?refresh=true")
	if a.status != 200 {
		t.Fatalf("the look-up answered %s, want 200", a)
	}
	checkGoodLab(t, a)
	if a.brand.Domain != "cross-redirect-lab.com" {
		t.Errorf("domain = %s, want that of the request", a.brand.Domain)
	}
}

// checkGoodLab checks that a record has the contents of good-lab.com.
func checkGoodLab(t *testing.T, a answer) {
	t.Helper()
	if deref(a.brand.Name) != "Good Lab" || deref(a.brand.Description) != "Good Lab makes careful instruments for curious people." {
		t.Errorf("name %q, description %q", deref(a.brand.Name), deref(a.brand.Description))
	}
	if deref(a.brand.OGImage) != "https://good-lab.com/og.png" {
		t.Errorf("ogImage = %q, want https://good-lab.com/og.png", deref(a.brand.OGImage))
	}
	colors := map[string]string{}
	for _, c := range a.brand.Colors {
		colors[c.Hex] = c.Type
	}
	if colors["#0b5fff"] == "" {
		t.Errorf("colors = %v, want #0b5fff among them", colors)
	}
	links := map[string]string{}
	for _, l := range a.brand.Links {
		links[l.Name] = l.URL
	}
	for name, want := range map[string]string{"linkedin": "good-lab", "twitter": "goodlab", "github": "good-lab", "instagram": "goodlab", "youtube": "goodlab"} {
		if !strings.Contains(links[name], want) {
			t.Errorf("the link to %s is %q, which is not the expected profile", name, links[name])
		}
	}
	formats := map[string]bool{}
	for _, l := range a.brand.Logos {
		for _, f := range l.Formats {
			formats[f.Format] = true
		}
	}
	if !formats["svg"] || !formats["png"] || !formats["webp"] {
		t.Errorf("formats = %v, want svg, png and webp", formats)
	}
}

func TestDarkSite_LookedUp_HasLightLogo(t *testing.T) {
	a := node.lookup(t, "dark-lab.com", "?refresh=true")
	if a.status != 200 || len(a.brand.Logos) == 0 {
		t.Fatalf("the look-up answered %s, want 200", a)
	}
	if first := a.brand.Logos[0]; deref(first.Theme) != "light" || first.Type != "logo" {
		t.Errorf("the first logo has type %s and theme %q, want logo and light", first.Type, deref(first.Theme))
	}
}

// The only logo of this site is the mark in its BIMI record, which is published in DNS.
func TestBIMISite_LookedUp_HasMarkAsLogo(t *testing.T) {
	a := node.lookup(t, "bimi-lab.com", "?refresh=true")
	if a.status != 200 || len(a.brand.Logos) != 1 {
		t.Fatalf("the look-up answered %s, want 200", a)
	}
	formats := map[string]bool{}
	for _, f := range a.brand.Logos[0].Formats {
		formats[f.Format] = true
		fetchFile(t, f.Src, f.Format)
	}
	if !formats["svg"] {
		t.Errorf("formats = %v, want svg, the format of the mark", formats)
	}
}

func TestLookups_OfOneUnknownDomain_ShareOneCrawl(t *testing.T) {
	const lookups = 30
	s := startServer(t, portSharedCrawl, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	before := len(homePages(t, "good-lab.com"))
	var wg sync.WaitGroup
	failed := make(chan string, lookups)
	for range lookups {
		wg.Go(func() {
			if a, err := s.ask("good-lab.com", ""); err != nil || a.status != 200 {
				failed <- fmt.Sprint(a, err)
			}
		})
	}
	wg.Wait()
	close(failed)
	for f := range failed {
		t.Error(f)
	}
	if pages := len(homePages(t, "good-lab.com")) - before; pages != 1 {
		t.Errorf("%d look-ups fetched the home page %d times, want once", lookups, pages)
	}
}

// homePages returns the requests for a host's home page.
func homePages(t *testing.T, host string) []request {
	var out []request
	for _, r := range allRequests(t) {
		if r.Host == host && r.path() == "/" {
			out = append(out, r)
		}
	}
	return out
}
