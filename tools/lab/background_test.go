//go:build lab

package lab

import (
	"strings"
	"testing"
	"time"

	"letterhead/internal/testwait"
)

// backgroundTimeout is the longest time from a look-up to the end of the background crawl that it causes.
const backgroundTimeout = 20 * time.Second

// A look-up of a starter-index brand causes a background crawl. No client waits for that crawl, so the crawler reads
// robots.txt first and obeys its rules for all crawlers.
func TestBackgroundCrawl_DisallowedSite_ObeysRobots(t *testing.T) {
	s := startServer(t, portBackground)
	began := time.Now()
	for _, domain := range []string{"github.com", disallowedBrand} {
		if a := s.lookup(t, domain, ""); a.status != 200 || a.header.Get("X-Cache") != "HIT" {
			t.Fatalf("look-up of %s answered %s (X-Cache %s), want a hit in the starter index", domain, a, a.header.Get("X-Cache"))
		}
	}
	crawlEnded := func(domain, outcome string) func() bool {
		return func() bool {
			for line := range strings.Lines(s.logTail()) {
				if strings.Contains(line, "crawl ended") && strings.Contains(line, "domain="+domain+" lane=refresh outcome="+outcome+" ") {
					return true
				}
			}
			return false
		}
	}
	for domain, outcome := range map[string]string{"github.com": "succeeded", disallowedBrand: "blocked"} {
		if _, ok := testwait.Until(backgroundTimeout, crawlEnded(domain, outcome)); !ok {
			t.Fatalf("no background crawl of %s ended with outcome %s; the log ends:\n%s", domain, outcome, s.logTail())
		}
	}
	if seen := requestsSince(t, began, "github.com"); len(seen) < 2 || seen[0].path() != robotsTxt {
		t.Errorf("robots.txt was not the first of at least two requests: %s", summary(seen))
	}
	if seen := requestsSince(t, began, disallowedBrand); len(seen) != 1 || seen[0].path() != robotsTxt {
		t.Errorf("the site disallows all crawlers, but the crawler requested %s", summary(seen))
	}
	// A blocked background crawl does not change the stored record.
	if a := s.lookup(t, disallowedBrand, ""); a.status != 200 || a.brand.files() == 0 {
		t.Errorf("after the blocked crawl, the look-up answered %s", a)
	}
}
