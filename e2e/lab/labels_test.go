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

// Targets on labeled pages, as shares of what is judged.
const (
	nameTarget        = 0.97
	descriptionTarget = 0.97
	shareTarget       = 0.95
	linkTarget        = 0.98 // precision
)

// label is what is true of a page, as far as it can be seen in an answer.
type label struct {
	ID, Group, URL, Domain, Outcome string

	Name        *[]string
	Description *[]string
	ShareImage  *[]string
	NSFW        bool
	Logo        *struct{ Accept, Other []string }
	Links       *map[string]several
}

// several is one value or a list.
type several []string

func (s *several) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		*s = nil
		if one != nil {
			*s = several{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// kept is the domain that the page's record is kept under.
func (l label) kept() string {
	if l.Domain != "" {
		return l.Domain
	}
	return registrable(hostOf(l.URL))
}

// labels reads a group of labels, by id.
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

// groups are the folders of labels.
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

// labeled finds the label of each host of the lab that is a saved page, a recording or a written site.
func labeled(t testing.TB) map[string]label {
	t.Helper()
	out := map[string]label{}
	saved, recorded := labels(t, "saved"), labels(t, "recorded")
	written := map[string]label{} // sites of the accuracy command, by domain
	for _, group := range groups(t) {
		if group == "saved" || group == "recorded" {
			continue
		}
		for _, l := range labels(t, group) {
			written[l.kept()] = l
		}
	}
	for _, in := range inhabitants(t) {
		var l label
		var ok bool
		if rest, is := strings.CutPrefix(in.what, "saved page "); is {
			id, _, _ := strings.Cut(rest, " ")
			l, ok = saved[id]
		} else if _, from, is := strings.Cut(in.what, " responses from "); is && strings.HasPrefix(in.what, "recorded: ") {
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

func hostOf(address string) string {
	u, err := url.Parse(address)
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

// tally counts what was judged of one field.
type tally struct {
	mu            sync.Mutex
	right, judged map[string]int
}

func (y *tally) count(t testing.TB, field string, right bool, ours, truth any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.judged[field]++
	if right {
		y.right[field]++
		return
	}
	t.Logf("%s is %q, the label says %q", field, ours, truth)
}

// TestLabeledPages_LookedUp_MeetTargets looks up every domain with a page, a recording or a built site. A look-up uses
// the registrable domain: where only a host below it exists, the domain has no address.
func TestLabeledPages_LookedUp_MeetTargets(t *testing.T) {
	there := map[string]bool{}
	for _, in := range inhabitants(t) {
		for _, host := range in.hosts {
			there[host] = true
		}
	}
	type target struct {
		label label
		host  string
	}
	targets := map[string]target{}
	for host, l := range labeled(t) {
		domain := registrable(host)
		if have, ok := targets[domain]; !ok || have.label.kept() != domain {
			targets[domain] = target{l, host}
		}
	}
	y := &tally{right: map[string]int{}, judged: map[string]int{}}
	t.Run("each", func(t *testing.T) {
		for domain, target := range targets {
			t.Run(target.label.Group+"/"+domain, func(t *testing.T) {
				t.Parallel()
				if !there[domain] && !there["www."+domain] {
					absent(t, domain)
					return
				}
				present(t, domain, target.label, y)
			})
		}
	})
	for field, target := range map[string]float64{"name": nameTarget, "description": descriptionTarget, "share image": shareTarget, "link": linkTarget} {
		share := float64(y.right[field]) / float64(max(y.judged[field], 1))
		t.Logf("%s: %d of %d (%.1f %%)", field, y.right[field], y.judged[field], 100*share)
		if share < target {
			t.Errorf("%s is right in %.1f %%, the target is %.0f %%", field, 100*share, 100*target)
		}
	}
}

// absent checks a domain that has no address, although hosts below it have.
func absent(t *testing.T, domain string) {
	a := node.lookup(t, domain, "?refresh=true")
	if a.status != 404 || a.brand.Error.Code != "domain_not_found" || a.elapsed > atOnce {
		t.Errorf("answered %s, not 404 domain_not_found", a)
	}
	if cost := node.charges(t, a.header.Get("X-Request-Id")); cost != 0 {
		t.Errorf("it cost %d credits", cost)
	}
	// A record of the starter index stays what it is, for those who do not ask for a fresh one.
	if b := node.lookup(t, domain, ""); b.status != 404 && (b.status != 200 || b.brand.Status != "failed") {
		t.Errorf("asked again it answered %s, %s", b, b.brand.Status)
	}
}

// present checks a domain whose page is there.
func present(t *testing.T, domain string, l label, y *tally) {
	began := time.Now()
	a := node.lookup(t, domain, "?refresh=true")
	t.Logf("%s", a)
	if l.Outcome == "no_brand_data" {
		if a.status != 404 || a.brand.Error.Code != l.Outcome {
			t.Errorf("answered %s, the label says %s", a, l.Outcome)
		}
		return
	}
	if a.status != 200 || a.header.Get("X-Cache") != "MISS" || a.brand.Domain != domain {
		t.Fatalf("answered %s (%s) with the record of %q: %s", a, a.header.Get("X-Cache"), a.brand.Domain, a.brand.Error.Message)
	}
	if a.elapsed > clientsGiveUp {
		t.Errorf("took %s", a.elapsed)
	}
	for _, logo := range a.brand.Logos {
		for _, f := range logo.Formats[:min(len(logo.Formats), 1)] {
			loads(t, f.Src, f.Format)
		}
	}
	if a.brand.IsNSFW != l.NSFW {
		t.Errorf("isNsfw is %t", a.brand.IsNSFW)
	}
	if l.kept() == domain && showsLogo(l) && a.brand.files() == 0 {
		t.Errorf("no logo, the label says %q", l.Logo.Accept)
	}
	want := 0
	if a.brand.files() > 0 {
		want = 1
	}
	if cost := node.charges(t, a.header.Get("X-Request-Id")); cost != want {
		t.Errorf("it cost %d credits with %d logo files", cost, a.brand.files())
	}
	visited(t, domain, began)
	if b := node.lookup(t, domain, ""); b.status != 200 || b.header.Get("X-Cache") != "HIT" || deref(b.brand.Name) != deref(a.brand.Name) {
		t.Errorf("asked again it answered %s (%s)", b, b.header.Get("X-Cache"))
	}
	if l.kept() == domain {
		judge(t, l, a, y)
	}
}

// showsLogo reports whether the lab has the brand's own logo: saved pages came without their files, so theirs are
// those that stand in the page.
func showsLogo(l label) bool {
	switch {
	case l.Logo == nil:
		return false
	case l.Group != "saved":
		return len(l.Logo.Accept)+len(l.Logo.Other) > 0
	}
	return len(l.Logo.Accept) > 0 && strings.HasPrefix(l.Logo.Accept[0], "inline:")
}

// samePicture is how often one crawl may fetch a picture: two addresses that a page names may redirect to one.
const samePicture = 2

// visited checks what the hosts of a domain were asked for by one crawl.
func visited(t *testing.T, domain string, began time.Time) {
	t.Helper()
	times := map[string]int{}
	answered := 0
	for _, r := range since(t, began) {
		if r.Host != domain && r.Host != "www."+domain {
			continue
		}
		if r.Status/100 != 3 { // the fetch goes on elsewhere
			answered++
		}
		times[r.Host+r.path()]++
	}
	for path, n := range times {
		picture := strings.Contains(path[strings.LastIndexByte(path, '/'):], ".") && !strings.HasSuffix(path, rules)
		if n > 1 && (!picture || n > samePicture) {
			t.Errorf("%s was fetched %d times", path, n)
		} else if n > 1 {
			t.Logf("%s was fetched %d times", path, n)
		}
	}
	if answered == 0 || answered > maxRequests {
		t.Errorf("%d requests", answered)
	}
}

// judge compares the fields with the label.
func judge(t *testing.T, l label, a answer, y *tally) {
	one := func(field string, ours *string, truth *[]string, same func(a, b string) bool) {
		if truth == nil {
			return
		}
		right := ours == nil && len(*truth) == 0 || ours != nil && slices.ContainsFunc(*truth, func(s string) bool { return same(*ours, s) })
		y.count(t, field, right, deref(ours), *truth)
	}
	one("name", a.brand.Name, l.Name, match.Name)
	one("description", a.brand.Description, l.Description, match.Text)
	one("share image", a.brand.OGImage, l.ShareImage, sameAddress)
	if l.Links == nil {
		return
	}
	for _, link := range a.brand.Links {
		accepted := (*l.Links)[link.Name]
		y.count(t, "link", slices.ContainsFunc(accepted, func(s string) bool { return match.Profile(link.URL, s) }), link.URL, accepted)
	}
}

// sameAddress compares host and path; * stands for anything in a label's address.
func sameAddress(ours, truth string) bool {
	if start, end, ok := strings.Cut(truth, "*"); ok {
		return strings.HasPrefix(ours, start) && strings.HasSuffix(ours, end)
	}
	a, errA := url.Parse(ours)
	b, errB := url.Parse(truth)
	return errors.Join(errA, errB) == nil && strings.EqualFold(a.Host, b.Host) && a.Path == b.Path
}
