//go:build lab

package lab

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/publicsuffix"

	"letterhead/tools/accuracy/match"
)

// Targets on labeled pages, as shares of the compared values.
const (
	nameTarget        = 0.97
	descriptionTarget = 0.97
	shareTarget       = 0.95
	linkTarget        = 0.98 // precision
)

// label is the part of a page's label that an answer can be compared with.
type label struct {
	ID, Group, URL, Domain, Outcome string

	Name        *[]string
	Description *[]string
	ShareImage  *[]string
	NSFW        bool
	Logo        *struct{ Accept, Other []string }
	Links       *map[string]stringList
}

// stringList is decoded from null, one string or a list.
type stringList []string

func (s *stringList) UnmarshalJSON(data []byte) error {
	var single *string
	if json.Unmarshal(data, &single) == nil {
		*s = nil
		if single != nil {
			*s = stringList{*single}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// recordDomain returns the domain of the page's record.
func (l label) recordDomain() string {
	if l.Domain != "" {
		return l.Domain
	}
	return registrable(hostOf(l.URL))
}

// labels returns the labels of a group by id.
func labels(t testing.TB, group string) map[string]label {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("LETTERHEAD_LABELS"), group, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no labels of group %s in $LETTERHEAD_LABELS: %v", group, err)
	}
	out := map[string]label{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var l label
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[l.ID] = l
	}
	return out
}

// groups returns the groups of labels, which are folders.
func groups(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(os.Getenv("LETTERHEAD_LABELS"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// labeled returns the labels of all hosts of the lab that serve a saved page, a recording or a handwritten site.
func labeled(t testing.TB) map[string]label {
	t.Helper()
	out := map[string]label{}
	saved, recorded := labels(t, "saved"), labels(t, "recorded")
	written := map[string]label{} // handwritten sites of tools/accuracy, by domain
	for _, group := range groups(t) {
		if group == "saved" || group == "recorded" {
			continue
		}
		for _, l := range labels(t, group) {
			written[l.recordDomain()] = l
		}
	}
	for _, in := range labHosts(t) {
		var l label
		var ok bool
		if rest, is := strings.CutPrefix(in.description, "saved page "); is {
			id, _, _ := strings.Cut(rest, " ")
			l, ok = saved[id]
		} else if _, from, is := strings.Cut(in.description, " responses from "); is && strings.HasPrefix(in.description, "recorded: ") {
			l, ok = recorded[strings.TrimSuffix(from, ".vcr.gz")]
		} else {
			l, ok = written[registrable(in.hosts[0])]
		}
		if ok {
			out[in.hosts[0]] = l
		}
	}
	return out
}

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func registrable(host string) string {
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return host
	}
	return domain
}

// fieldScores counts, for each field, the compared values and the correct ones.
type fieldScores struct {
	mu                sync.Mutex
	correct, compared map[string]int
}

func (scores *fieldScores) count(t testing.TB, field string, correct bool, got, want any) {
	scores.mu.Lock()
	defer scores.mu.Unlock()
	scores.compared[field]++
	if correct {
		scores.correct[field]++
		return
	}
	t.Logf("%s = %q, want %q", field, got, want)
}

// TestLabeledPages_LookedUp_MeetTargets looks up every domain with a saved page, a recording or a handwritten site. A
// look-up uses the registrable domain, which does not resolve if the lab has only a subdomain of it.
func TestLabeledPages_LookedUp_MeetTargets(t *testing.T) {
	inLab := map[string]bool{}
	for _, in := range labHosts(t) {
		for _, host := range in.hosts {
			inLab[host] = true
		}
	}
	type target struct {
		label label
		host  string
	}
	targets := map[string]target{}
	for host, l := range labeled(t) {
		domain := registrable(host)
		if have, ok := targets[domain]; !ok || have.label.recordDomain() != domain {
			targets[domain] = target{l, host}
		}
	}
	scores := &fieldScores{correct: map[string]int{}, compared: map[string]int{}}
	t.Run("each", func(t *testing.T) {
		for domain, target := range targets {
			t.Run(target.label.Group+"/"+domain, func(t *testing.T) {
				t.Parallel()
				if !inLab[domain] && !inLab["www."+domain] {
					checkMissing(t, domain)
					return
				}
				checkFound(t, domain, target.label, scores)
			})
		}
	})
	for field, target := range map[string]float64{"name": nameTarget, "description": descriptionTarget, "share image": shareTarget, "link": linkTarget} {
		share := float64(scores.correct[field]) / float64(max(scores.compared[field], 1))
		t.Logf("%s: %d of %d (%.1f %%)", field, scores.correct[field], scores.compared[field], 100*share)
		if share < target {
			t.Errorf("%s is correct in %.1f %%, want %.0f %%", field, 100*share, 100*target)
		}
	}
}

// checkMissing checks a domain that does not resolve although subdomains of it do.
func checkMissing(t *testing.T, domain string) {
	a := node.lookup(t, domain, "?refresh=true")
	if a.status != 404 || a.brand.Error.Code != "domain_not_found" || a.elapsed > quickTime {
		t.Errorf("the look-up answered %s, want 404 domain_not_found", a)
	}
	if cost := node.charges(t, a.header.Get("X-Request-Id")); cost != 0 {
		t.Errorf("the look-up cost %d credits, want 0", cost)
	}
	// A look-up without refresh answers 404, or the record of the starter index with status failed.
	if b := node.lookup(t, domain, ""); b.status != 404 && (b.status != 200 || b.brand.Status != "failed") {
		t.Errorf("the second look-up answered %s with status %q", b, b.brand.Status)
	}
}

// checkFound checks a domain whose page is in the lab.
func checkFound(t *testing.T, domain string, l label, scores *fieldScores) {
	began := time.Now()
	a := node.lookup(t, domain, "?refresh=true")
	t.Logf("%s", a)
	if l.Outcome == "no_brand_data" {
		if a.status != 404 || a.brand.Error.Code != l.Outcome {
			t.Errorf("the look-up answered %s, want %s", a, l.Outcome)
		}
		return
	}
	if a.status != 200 || a.header.Get("X-Cache") != "MISS" || a.brand.Domain != domain {
		t.Fatalf("the look-up answered %s (X-Cache %s) with the record of %q: %s", a, a.header.Get("X-Cache"), a.brand.Domain, a.brand.Error.Message)
	}
	if a.elapsed > slowTime {
		t.Errorf("the look-up took %s", a.elapsed)
	}
	for _, logo := range a.brand.Logos {
		for _, f := range logo.Formats[:min(len(logo.Formats), 1)] {
			fetchFile(t, f.Src, f.Format)
		}
	}
	if a.brand.IsNSFW != l.NSFW {
		t.Errorf("isNsfw = %t, which is not the label's value", a.brand.IsNSFW)
	}
	if l.recordDomain() == domain && hasOwnLogo(l) && a.brand.files() == 0 {
		t.Errorf("the record has no logo, want %q", l.Logo.Accept)
	}
	want := 0
	if a.brand.files() > 0 {
		want = 1
	}
	if cost := node.charges(t, a.header.Get("X-Request-Id")); cost != want {
		t.Errorf("the look-up cost %d credits with %d logo files", cost, a.brand.files())
	}
	checkFetches(t, domain, began)
	if b := node.lookup(t, domain, ""); b.status != 200 || b.header.Get("X-Cache") != "HIT" || deref(b.brand.Name) != deref(a.brand.Name) {
		t.Errorf("the second look-up answered %s (X-Cache %s)", b, b.header.Get("X-Cache"))
	}
	if l.recordDomain() == domain {
		compareFields(t, l, a, scores)
	}
}

// hasOwnLogo reports whether the lab has the brand's own logo. Saved pages have no files, so only inline logos exist in
// them.
func hasOwnLogo(l label) bool {
	switch {
	case l.Logo == nil:
		return false
	case l.Group != "saved":
		return len(l.Logo.Accept)+len(l.Logo.Other) > 0
	}
	return len(l.Logo.Accept) > 0 && strings.HasPrefix(l.Logo.Accept[0], "inline:")
}

// maxImageFetches is how often one crawl may request an image: two URLs of a page may redirect to the same image.
const maxImageFetches = 2

// checkFetches checks the requests of one crawl to the hosts of a domain.
func checkFetches(t *testing.T, domain string, began time.Time) {
	t.Helper()
	times := map[string]int{}
	answered := 0
	for _, r := range requestsSince(t, began) {
		if r.Host != domain && r.Host != "www."+domain {
			continue
		}
		if r.Status/100 != 3 { // a redirect continues elsewhere
			answered++
		}
		times[r.Host+r.path()]++
	}
	for path, n := range times {
		image := strings.Contains(path[strings.LastIndexByte(path, '/'):], ".") && !strings.HasSuffix(path, robotsTxt)
		if n > 1 && (!image || n > maxImageFetches) {
			t.Errorf("%s was requested %d times", path, n)
		} else if n > 1 {
			t.Logf("%s was requested %d times", path, n)
		}
	}
	if answered == 0 || answered > maxRequests {
		t.Errorf("%d requests were answered without a redirect, want at least 1 and at most maxRequests", answered)
	}
}

// compareFields compares the fields of an answer with the label.
func compareFields(t *testing.T, l label, a answer, scores *fieldScores) {
	compareField := func(field string, got *string, want *[]string, same func(a, b string) bool) {
		if want == nil {
			return
		}
		correct := got == nil && len(*want) == 0 || got != nil && slices.ContainsFunc(*want, func(s string) bool { return same(*got, s) })
		scores.count(t, field, correct, deref(got), *want)
	}
	compareField("name", a.brand.Name, l.Name, match.Name)
	compareField("description", a.brand.Description, l.Description, match.Text)
	compareField("share image", a.brand.OGImage, l.ShareImage, sameURL)
	if l.Links == nil {
		return
	}
	for _, link := range a.brand.Links {
		accepted := (*l.Links)[link.Name]
		scores.count(t, "link", slices.ContainsFunc(accepted, func(s string) bool { return match.Profile(link.URL, s) }), link.URL, accepted)
	}
}

// sameURL compares host and path. A * in the wanted URL matches anything.
func sameURL(got, want string) bool {
	if start, end, ok := strings.Cut(want, "*"); ok {
		return strings.HasPrefix(got, start) && strings.HasSuffix(got, end)
	}
	a, errGot := url.Parse(got)
	b, errWant := url.Parse(want)
	return errors.Join(errGot, errWant) == nil && strings.EqualFold(a.Host, b.Host) && a.Path == b.Path
}
