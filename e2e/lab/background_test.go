//go:build lab

package lab

import (
	"strings"
	"testing"
	"time"

	"letterhead/internal/testwait"
)

// backgroundPatience bounds how long a background crawl may take to begin and to end.
const backgroundPatience = 20 * time.Second

// A brand of the starter index is crawled in the background after a look-up. No client waits for that crawl, so it
// reads robots.txt first and obeys the rules for all crawlers.
func TestBackgroundCrawl_DisallowedSite_ObeysRobots(t *testing.T) {
	s := own(t, portBackground)
	began := time.Now()
	for _, domain := range []string{"github.com", scheduled} {
		if a := s.lookup(t, domain, ""); a.status != 200 || a.header.Get("X-Cache") != "HIT" {
			t.Fatalf("%s answered %s (%s): it is not in the starter index", domain, a, a.header.Get("X-Cache"))
		}
	}
	ended := func(domain, outcome string) func() bool {
		return func() bool {
			for line := range strings.Lines(s.said()) {
				if strings.Contains(line, "crawl ended") && strings.Contains(line, "domain="+domain+" lane=refresh outcome="+outcome+" ") {
					return true
				}
			}
			return false
		}
	}
	for domain, outcome := range map[string]string{"github.com": "succeeded", scheduled: "blocked"} {
		if _, ok := testwait.Until(backgroundPatience, ended(domain, outcome)); !ok {
			t.Fatalf("no background crawl of %s ended as %s: %s", domain, outcome, s.said())
		}
	}
	if seen := since(t, began, "github.com"); len(seen) < 2 || seen[0].path() != rules {
		t.Errorf("the rules were not read first: %s", shown(seen))
	}
	if seen := since(t, began, scheduled); len(seen) != 1 || seen[0].path() != rules {
		t.Errorf("all crawlers are asked to stay away, and this was fetched: %s", shown(seen))
	}
	// The refusal of a background crawl takes nothing from those who ask.
	if a := s.lookup(t, scheduled, ""); a.status != 200 || a.brand.files() == 0 {
		t.Errorf("after that it answered %s", a)
	}
}
