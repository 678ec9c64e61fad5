//go:build services

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// trafficEvery is the pause between two requests of the traffic that goes on through an upgrade.
	trafficEvery = 40 * time.Millisecond
	// otherEvery of these is no look-up.
	otherEvery = 5
	// everyRole is what `letterhead serve` does without --roles.
	everyRole = "all"
)

// edits make the release after this one of the files of this one: CreditsCharged gets a version 3 whose upcaster has
// something to do, the ledger a version 4 that shows it, and both belong to the next data format.
var edits = []struct{ file, old, new string }{
	{"eventschemas/codec.go", "const Format = 2\n", "const Format = 3\n"},
	{"eventschemas/events.go", "\t\tKeyID string `json:\"key_id,omitempty\"`\n", "\t\tKeyID string `json:\"key_id,omitempty\"`\n\t\tCause string `json:\"cause,omitempty\"`\n"},
	{"eventschemas/table.go", "Define[CreditsCharged](chargeNamesItsKey)", `Define[CreditsCharged](chargeNamesItsKey, Change{
			Format: 3,
			Up:     func(v2 []byte) ([]byte, error) { return append([]byte("{\"cause\":\"unknown\","), v2[1:]...), nil },
			Down: func(ev Event) any {
				v2 := ev.(CreditsCharged)
				v2.Cause = ""
				return v2
			},
		})`},
	{"internal/searchindex/candidates.go", "return []Analyzer{{Version: Analysis, Format: 1, Terms: TermsOf, Find: Find}}",
		"return []Analyzer{{Version: Analysis + 1, Format: 3, Terms: TermsOf, Find: Find}, {Version: Analysis, Format: 1, Terms: TermsOf, Find: Find}}"},
	{"domain/account/charge.go", "KeyID:              in.KeyID,\n", "KeyID:              in.KeyID,\n\t\tCause:              \"lookup\",\n"},
	{"projections/ledger/ledger.go", "versionOf(withKeys, 2), versionOf(withoutKeys, 1)", "versionOf(withKeys+1, 3), versionOf(withKeys, 2)"},
	{"projections/ledger/fold.go", "d.keyID = ev.KeyID\n", "d.keyID, d.cause = ev.KeyID, ev.Cause\n"},
	{"projections/ledger/fold.go", "\tkeyID                       string\n", "\tkeyID, cause                string\n"},
	{"projections/ledger/fold.go", "entries = append(entries, text(d.keyID))", "if f.tables.Version > withKeys && d.cause != \"\" {\n\t\t\t\td.keyID += \" \" + d.cause\n\t\t\t}\n\t\t\tentries = append(entries, text(d.keyID))"},
}

// buildNext builds the release after this one from the same tree.
func buildNext(t *testing.T) string {
	t.Helper()
	root := moduleRoot(t)
	folder := t.TempDir()
	replace, texts := map[string]string{}, map[string]string{}
	for _, e := range edits {
		text, known := texts[e.file]
		if !known {
			text = readFile(t, filepath.Join(root, e.file))
		}
		if strings.Count(text, e.old) != 1 {
			t.Fatalf("%s does not hold %q once: the edits that make the next release do not fit this one any more", e.file, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	schema := readFile(t, filepath.Join(root, "eventschemas/schemas/CreditsCharged.v2.json"))
	schema = strings.ReplaceAll(schema, "CreditsCharged.v2.json", "CreditsCharged.v3.json")
	schema = strings.Replace(schema, `"record_revision"],`, `"record_revision", "cause"],`, 1)
	texts["eventschemas/schemas/CreditsCharged.v3.json"] = strings.Replace(schema, `"properties": {`, `"properties": {
    "cause": {"description": "What was charged for.", "type": "string", "minLength": 1},`, 1)
	for file, text := range texts {
		copied := filepath.Join(folder, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(folder, "next")
	build := exec.Command("go", "build", "-overlay", list, "-o", next, "letterhead/cmd/letterhead")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the next release: %v\n%s", err, out)
	}
	return next
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// traffic is a constant load from clients, through a proxy that knows which nodes accept requests.
type traffic struct {
	who  customer
	seen *tally

	mu    sync.RWMutex // held for reading while a request is under way
	nodes []*node
}

// add lets requests go to a node.
func (f *traffic) add(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
}

// remove takes a node from the proxy, and returns when nothing that it was asked is under way.
func (f *traffic) remove(gone *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rest []*node
	for _, n := range f.nodes {
		if n != gone {
			rest = append(rest, n)
		}
	}
	f.nodes = rest
}

func (f *traffic) request(i int) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := f.nodes[i%len(f.nodes)]
	var a answer
	var err error
	if i%otherEvery == 0 {
		path := []string{"/v1/me", "/v1/search?q=githb", "/readyz"}[i/otherEvery%3]
		a, err = n.get(path, f.who.secret)
		f.seen.count(a, err)
	} else {
		a, err = n.get(lookup(hit), f.who.secret)
		f.seen.lookup(a, err)
	}
	if err == nil && a.status != http.StatusOK {
		f.seen.mistake("%s: %s", a, a.body)
	}
}

// upgradeStatus is what `upgrade status --json` prints.
type upgradeStatus struct {
	Format, Release        int
	Finished, Level, Ready bool
	Models                 []struct {
		Name       string
		Live, Next int
	}
	Nodes []struct {
		Node   string
		Format int
	}
}

func (n *node) upgrade(t *testing.T) upgradeStatus {
	t.Helper()
	var s upgradeStatus
	decode(t, n.must(t, "upgrade", "status", "--json"), &s)
	return s
}

// folds reports whether the node folds the read models.
func (n *node) folds() bool { return strings.Contains(readLog(n), "this node folds the read models") }

func readLog(n *node) string {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return ""
	}
	return string(text)
}

// The release after this one, with a read model of a raised version and an event of a raised version whose upcaster has
// something to do, is rolled out over this one, rolled back, rolled out again and finished, on the same services and
// under traffic.
func TestRollingUpgrade_ToNextRelease_ServesThroughout(t *testing.T) {
	at := servicesOf(t)
	upgrade(t, at, "", buildNext(t), func(charge event, version int) string {
		var body struct {
			KeyID string `json:"key_id"`
			Cause string
		}
		decode(t, string(charge.Data), &body)
		if want := map[int]string{2: "", 3: "lookup"}[version]; body.KeyID == "" || body.Cause != want {
			t.Errorf("a charge of version %d: %s", version, charge.Data)
		}
		return body.KeyID + " " + map[int]string{2: "unknown", 3: "lookup"}[version]
	})
}

// LETTERHEAD_TEST_PREVIOUS names the published binary of the previous release.
func TestRollingUpgrade_FromPublishedRelease_ServesThroughout(t *testing.T) {
	at := servicesOf(t)
	previous := os.Getenv("LETTERHEAD_TEST_PREVIOUS")
	if previous == "" {
		t.Skip("LETTERHEAD_TEST_PREVIOUS does not name a binary of the previous release")
	}
	upgrade(t, at, previous, "", func(charge event, version int) string {
		var body struct {
			KeyID string `json:"key_id"`
		}
		decode(t, string(charge.Data), &body)
		if (body.KeyID != "") != (version == 2) {
			t.Errorf("a charge of version %d: %s", version, charge.Data)
		}
		return body.KeyID
	})
}

// upgrade goes from one binary to another. ofKey checks an event of a charge and says what the ledger has in key_id of
// it after the upgrade.
func upgrade(t *testing.T, at addresses, before, after string, ofKey func(charge event, version int) string) {
	c, err := newServices("lh"+random(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
	c.show(t)
	c.startStore(t)
	launch := func(name, release, roles string) *node {
		t.Helper()
		n, err := c.newNode(name, roles)
		if err != nil {
			t.Fatal(err)
		}
		n.release = release
		c.more = append(c.more, n)
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		until(t, readyWithin, name+" is ready", func() bool { return !n.alive() || n.ready() })
		if !n.alive() {
			t.Fatalf("%s has ended: %s", name, n.said(0))
		}
		return n
	}
	live := &traffic{seen: newTally()}
	retire := func(n *node) {
		t.Helper()
		live.remove(n)
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}

	old := launch("old", before, everyRole)
	until(t, readyWithin, "the starter index is served", func() bool {
		_, err := old.letterhead("brand", "get", hit)
		return err == nil
	})
	witness := launch("old-api", before, "api")
	live.who = old.open(t, "custom", 100_000)
	live.add(old)
	live.add(witness)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { steadily(ctx, trafficEvery, live.request) })
	defer clients.Wait()
	defer cancel()

	// New nodes beside an old leader are ready and serve.
	first := launch("new-1", after, everyRole)
	live.add(first)
	if s := first.upgrade(t); s.Finished || s.Format != s.Release-1 {
		t.Errorf("beside old nodes: %+v", s)
	}
	if _, err := first.letterhead("upgrade", "finish"); err == nil || !strings.Contains(err.Error(), "still run") {
		t.Errorf("finishing beside old nodes: %v", err)
	}
	// A new leader beside an old node, which goes on serving.
	retire(old)
	until(t, readyWithin, "the new node folds", first.folds)
	until(t, readyWithin, "the new versions are level", func() bool {
		s := first.upgrade(t)
		return len(s.Models) == 1 && s.Models[0].Name == "ledger" && s.Level
	})
	live.pass(t, 40)
	witness.must(t, "ledger", "show", "--account", live.who.id, "--last", "1")

	// Rollback, with the new versions built: an old node starts again and takes over.
	old = launch("old-again", before, everyRole)
	live.add(old)
	retire(first)
	until(t, readyWithin, "the old node folds", old.folds)
	live.pass(t, 40)
	old.must(t, "ledger", "show", "--account", live.who.id, "--last", "1")

	// Roll forward again.
	second := launch("new-2", after, everyRole)
	live.add(second)
	young := launch("new-api", after, "api")
	live.add(young)
	retire(old)
	retire(witness)
	until(t, readyWithin, "the upgrade can be finished", func() bool { return second.upgrade(t).Ready })
	release := second.upgrade(t)
	versions := map[int]int{}
	for _, charge := range second.events(t, "account-"+live.who.id, "CreditsCharged") {
		versions[charge.SchemaVersion]++
	}
	if len(versions) != 1 || versions[release.Release-1] == 0 {
		t.Errorf("before the end of the upgrade charges have the versions %v, want %d", versions, release.Release-1)
	}
	young.must(t, "upgrade", "finish") // on a node that does not fold
	if s := second.upgrade(t); !s.Finished || s.Format != release.Release || len(s.Models) != 0 {
		t.Errorf("after the end: %+v", s)
	}
	live.pass(t, 40)
	until(t, settledWithin, "charges have the new version", func() bool {
		charges := second.events(t, "account-"+live.who.id, "CreditsCharged")
		return charges[len(charges)-1].SchemaVersion == release.Release
	})

	// A rollback is now impossible, and the old release reports that.
	refused, err := c.newNode("old-refused", everyRole)
	if err != nil {
		t.Fatal(err)
	}
	refused.release = before
	c.more = append(c.more, refused)
	if err := refused.start(); err != nil {
		t.Fatal(err)
	}
	_, ended := refused.life()
	select {
	case <-ended:
	case <-time.After(readyWithin):
		t.Fatal("an old node runs after the end of the upgrade")
	}
	cmd, _ := refused.life()
	if said := refused.said(0); cmd.ProcessState.ExitCode() == 0 || !strings.Contains(said, "newer release") {
		t.Errorf("an old node ended with %d and said: %s", cmd.ProcessState.ExitCode(), said)
	} else {
		t.Logf("an old node says: %s", strings.TrimSpace(said))
	}

	cancel()
	clients.Wait()
	t.Logf("%s", live.seen)
	live.seen.check(t, 0)
	c.apis = []*node{second}
	defer func() { c.apis = nil }() // it is among more
	c.agree(t, live.who, live.seen)
	c.verifiedOn(t, second)
	want := map[string]string{}
	for _, charge := range second.events(t, "account-"+live.who.id, "CreditsCharged") {
		want[charge.ID] = ofKey(charge, charge.SchemaVersion)
	}
	wrong := 0
	for _, l := range second.ledger(t, live.who) {
		if l.Type == "CreditsCharged" && l.KeyID != want[l.EventID] {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d charges are not in the ledger as the new version has them", wrong, len(want))
	}
	for _, n := range []*node{second, young} {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}

// pass waits until n more requests have been answered.
func (f *traffic) pass(t *testing.T, requests int) {
	t.Helper()
	before := f.seen.status(http.StatusOK)
	until(t, settledWithin, fmt.Sprintf("%d more requests are answered", requests), func() bool {
		return f.seen.status(http.StatusOK) >= before+requests
	})
}
