//go:build lab

package lab

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sites are those of testdata/sites. A look-up is what a person asks for: rules for everybody do not stop it,
// rules that name the crawler do.
var sites = map[string]row{
	// The home page is asked for beside the rules; nothing is after them.
	"robots-named-lab.com": failure(422, "fetch_blocked", []string{rules}, []string{"/"}),
	// The page and what it declares, and no further page.
	"robots-all-lab.com": found("Robots All", some, []string{"/logo.svg", "/icon.svg"}, knownIcon),
	// The logo lies in the folder that is shut.
	"robots-partly-lab.com": found("Robots Partly", some, []string{"/icon.svg"}, knownIcon),
	// Its record in the starter index has a logo beside the icon of the page.
	scheduled:             found("debian", some, []string{"/icon.svg"}, knownIcon),
	"hostile-svg-lab.com": found("Hostile Drawing", some, []string{"/logo.svg"}, knownIcon),
}

// scheduled is a brand of the starter index whose site asks all crawlers to stay away.
const scheduled = "debian.org"

func TestSites_LookedUp_MatchTheirRows(t *testing.T) {
	for _, host := range slices.Sorted(maps.Keys(sites)) {
		t.Run(strings.TrimSuffix(host, "-lab.com"), func(t *testing.T) { sites[host].check(t, node, host, true) })
	}
}

// The command names the rule that disallowed the crawl.
func TestRobots_Disallowed_IsNamedAsReason(t *testing.T) {
	_, err := node.letterhead("crawl", "https://robots-named-lab.com/")
	if err == nil || !strings.Contains(err.Error(), "robots.txt asks this crawler to stay away") {
		t.Errorf("the command ended with %v", err)
	}
}

// residue is what no drawing that is served may hold. The namespaces of SVG and XLink are addresses as well.
var residue = regexp.MustCompile(`(?i)residue|evil|<script|javascript:|\bon[a-z]+\s*=|<foreignObject|<iframe|<!ENTITY|<\?xml-stylesheet|@import|10\.0\.0\.1|169\.254`)

func TestDrawings_Served_HaveNoResidue(t *testing.T) {
	for _, host := range []string{"hostile-svg-lab.com", "svg-script-lab.com", "svg-bomb-lab.com"} {
		t.Run(host, func(t *testing.T) {
			drawings := 0
			for _, l := range node.lookup(t, host, "").brand.Logos {
				for _, f := range l.Formats {
					if f.Format != "svg" {
						continue
					}
					drawings++
					text := string(loads(t, f.Src, f.Format))
					if found := residue.FindString(text); found != "" {
						t.Errorf("%q in %s", found, text)
					}
					if !strings.Contains(text, "M5 45") {
						t.Errorf("the mark itself is gone: %s", text)
					}
				}
			}
			if host == "hostile-svg-lab.com" && drawings == 0 {
				t.Error("its logo is not served as a drawing")
			}
		})
	}
}
