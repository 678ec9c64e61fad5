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
		t.Fatalf("answered %s", a)
	}
	good(t, a)
	if a.brand.Domain != "good-lab.com" {
		t.Errorf("the domain is %s", a.brand.Domain)
	}
}

// A site that has moved has its record under the requested domain, with the contents of the new one.
func TestRedirect_ToAnotherDomain_KeepsRequestedDomain(t *testing.T) {
	a := node.lookup(t, "cross-redirect-lab.com", "?refresh=true")
	if a.status != 200 {
		t.Fatalf("answered %s", a)
	}
	good(t, a)
	if a.brand.Domain != "cross-redirect-lab.com" {
		t.Errorf("the domain is %s", a.brand.Domain)
	}
}

// good compares a record with the contents of good-lab.com.
func good(t *testing.T, a answer) {
	t.Helper()
	if deref(a.brand.Name) != "Good Lab" || deref(a.brand.Description) != "Good Lab makes careful instruments for curious people." {
		t.Errorf("name %q, description %q", deref(a.brand.Name), deref(a.brand.Description))
	}
	if deref(a.brand.OGImage) != "https://good-lab.com/og.png" {
		t.Errorf("share image %q", deref(a.brand.OGImage))
	}
	colors := map[string]string{}
	for _, c := range a.brand.Colors {
		colors[c.Hex] = c.Type
	}
	if colors["#0b5fff"] == "" {
		t.Errorf("colors %v lack the brand's #0b5fff", colors)
	}
	links := map[string]string{}
	for _, l := range a.brand.Links {
		links[l.Name] = l.URL
	}
	for name, want := range map[string]string{"linkedin": "good-lab", "twitter": "goodlab", "github": "good-lab", "instagram": "goodlab", "youtube": "goodlab"} {
		if !strings.Contains(links[name], want) {
			t.Errorf("the link to %s is %q", name, links[name])
		}
	}
	formats := map[string]bool{}
	for _, l := range a.brand.Logos {
		for _, f := range l.Formats {
			formats[f.Format] = true
		}
	}
	if !formats["svg"] || !formats["png"] || !formats["webp"] {
		t.Errorf("formats %v", formats)
	}
}

func TestDarkSite_LookedUp_HasLightLogo(t *testing.T) {
	a := node.lookup(t, "dark-lab.com", "?refresh=true")
	if a.status != 200 || len(a.brand.Logos) == 0 {
		t.Fatalf("answered %s", a)
	}
	if first := a.brand.Logos[0]; deref(first.Theme) != "light" || first.Type != "logo" {
		t.Errorf("the first logo is a %s of theme %q", first.Type, deref(first.Theme))
	}
}

// The mark of the name service's BIMI record is all that this site has.
func TestBIMISite_LookedUp_HasMarkAsLogo(t *testing.T) {
	a := node.lookup(t, "bimi-lab.com", "?refresh=true")
	if a.status != 200 || len(a.brand.Logos) != 1 {
		t.Fatalf("answered %s", a)
	}
	formats := map[string]bool{}
	for _, f := range a.brand.Logos[0].Formats {
		formats[f.Format] = true
		loads(t, f.Src, f.Format)
	}
	if !formats["svg"] {
		t.Errorf("formats %v: the mark is a drawing", formats)
	}
}

func TestLookups_OfOneUnknownDomain_ShareOneCrawl(t *testing.T) {
	const many = 30
	own := own(t, portCrowd, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	before := len(homePages(t, "good-lab.com"))
	var wg sync.WaitGroup
	failed := make(chan string, many)
	for range many {
		wg.Go(func() {
			if a, err := own.ask("good-lab.com", ""); err != nil || a.status != 200 {
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
		t.Errorf("%d look-ups fetched the home page %d times", many, pages)
	}
}

// homePages are the times that a host's home page was fetched.
func homePages(t *testing.T, host string) []request {
	var out []request
	for _, r := range traffic(t) {
		if r.Host == host && r.path() == "/" {
			out = append(out, r)
		}
	}
	return out
}
