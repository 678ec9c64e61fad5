//go:build lab

package lab

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sites has the rows of testdata/sites. A look-up is requested by a person, so it ignores the robots.txt rules for all
// crawlers and obeys only rules that name this crawler.
var sites = map[string]row{
	// The home page and robots.txt are requested concurrently. After robots.txt is read, nothing else is requested.
	"robots-named-lab.com": failure(422, "fetch_blocked", []string{robotsTxt}, []string{"/"}),
	// The home page and the files that it references are requested, but no other page.
	"robots-all-lab.com": found("Robots All", some, []string{"/logo.svg", "/icon.svg"}, wellKnownIcons),
	// The logo is in the disallowed folder.
	"robots-partly-lab.com": found("Robots Partly", some, []string{"/icon.svg"}, wellKnownIcons),
	// Its record in the starter index has a logo in addition to the icon of the page.
	disallowedBrand:       found("debian", some, []string{"/icon.svg"}, wellKnownIcons),
	"hostile-svg-lab.com": found("Hostile Drawing", some, []string{"/logo.svg"}, wellKnownIcons),
}

// disallowedBrand is a brand of the starter index whose robots.txt disallows all crawlers.
const disallowedBrand = "debian.org"

func TestSites_LookedUp_MatchTheirRows(t *testing.T) {
	for _, host := range slices.Sorted(maps.Keys(sites)) {
		t.Run(strings.TrimSuffix(host, "-lab.com"), func(t *testing.T) { sites[host].check(t, node, host, true) })
	}
}

// The crawl command reports robots.txt as the reason.
func TestRobots_Disallowed_IsNamedAsReason(t *testing.T) {
	_, err := node.letterhead("crawl", "https://robots-named-lab.com/")
	if err == nil || !strings.Contains(err.Error(), "robots.txt asks this crawler to stay away") {
		t.Errorf("the crawl command returned %v, want the reason", err)
	}
}

// unsafeContent matches content that no served SVG may have. It does not match URLs in general, because the namespaces
// of SVG and XLink are URLs.
var unsafeContent = regexp.MustCompile(`(?i)residue|evil|<script|javascript:|\bon[a-z]+\s*=|<foreignObject|<iframe|<!ENTITY|<\?xml-stylesheet|@import|10\.0\.0\.1|169\.254`)

func TestSVGs_Served_HaveNoUnsafeContent(t *testing.T) {
	for _, host := range []string{"hostile-svg-lab.com", "svg-script-lab.com", "svg-bomb-lab.com"} {
		t.Run(host, func(t *testing.T) {
			svgs := 0
			for _, l := range node.lookup(t, host, "").brand.Logos {
				for _, f := range l.Formats {
					if f.Format != "svg" {
						continue
					}
					svgs++
					text := string(fetchFile(t, f.Src, f.Format))
					if found := unsafeContent.FindString(text); found != "" {
						t.Errorf("found %q in the served SVG: %s", found, text)
					}
					if !strings.Contains(text, "M5 45") {
						t.Errorf("the logo's own path is missing: %s", text)
					}
				}
			}
			if host == "hostile-svg-lab.com" && svgs == 0 {
				t.Error("the logo is not served as SVG")
			}
		})
	}
}
