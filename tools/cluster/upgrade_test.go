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
	// trafficEvery is the interval between two requests during an upgrade.
	trafficEvery = 40 * time.Millisecond
	// otherEvery is the interval, in requests, between two that are not look-ups.
	otherEvery = 5
	// everyRole is the default of `letterhead serve --roles`.
	everyRole = "all"
)

// buildNext builds the next release from this tree and the edits.
func buildNext(t *testing.T) string {
	t.Helper()
	root := moduleRoot(t)
	folder := t.TempDir()
	replace, texts := map[string]string{}, edited(t, root)
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

// traffic is a constant load, sent through a simulated proxy that knows which nodes accept requests.
type traffic struct {
	who  customer
	seen *tally

	mu    sync.RWMutex // held for reading during a request
	nodes []*node
}

// add adds a node to the proxy.
func (f *traffic) add(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
}

// remove removes a node from the proxy, and returns when no requests are in progress.
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

// upgradeStatus is the output of `upgrade status --json`.
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

// The next release has a new version of the ledger, and a new version of an event with an upcaster. The test rolls it
// out, rolls it back, rolls it out again and finishes the upgrade, on the same services and under load.
// Rule 8.
func TestRollingUpgrade_ToNextRelease_ServesThroughout(t *testing.T) {
	const oldCharge, newCharge = 2, 3 // the versions of CreditsCharged that the releases write
	at := servicesOf(t)
	next := buildNext(t)
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
			t.Fatalf("%s exited: %s", name, n.output(0))
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

	old := launch("old", "", everyRole)
	until(t, readyWithin, "the starter index is served", func() bool {
		_, err := old.letterhead("brand", "get", hit)
		return err == nil
	})
	oldAPI := launch("old-api", "", "api")
	live.who = old.open(t, "custom", 100_000)
	live.add(old)
	live.add(oldAPI)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { steadily(ctx, trafficEvery, live.request) })
	defer clients.Wait()
	defer cancel()

	// A new node becomes ready and serves while an old node leads.
	first := launch("new-1", next, everyRole)
	live.add(first)
	if s := first.upgrade(t); s.Finished || s.Format != s.Release-1 {
		t.Errorf("upgrade status while old nodes run: %+v", s)
	}
	if _, err := first.letterhead("upgrade", "finish"); err == nil || !strings.Contains(err.Error(), "still run") {
		t.Errorf("upgrade finish while old nodes run: %v, want an error", err)
	}
	// A new node leads while an old node continues to serve.
	retire(old)
	until(t, readyWithin, "the new node folds", first.folds)
	until(t, readyWithin, "the new versions have caught up", func() bool {
		s := first.upgrade(t)
		return len(s.Models) == 1 && s.Models[0].Name == "ledger" && s.Level
	})
	live.pass(t, 40)
	oldAPI.must(t, "ledger", "show", "--account", live.who.id, "--last", "1")

	// Roll back after the new versions were built: an old node starts again and takes over.
	old = launch("old-again", "", everyRole)
	live.add(old)
	retire(first)
	until(t, readyWithin, "the old node folds", old.folds)
	live.pass(t, 40)
	old.must(t, "ledger", "show", "--account", live.who.id, "--last", "1")

	// Roll forward again.
	second := launch("new-2", next, everyRole)
	live.add(second)
	young := launch("new-api", next, "api")
	live.add(young)
	retire(old)
	retire(oldAPI)
	until(t, readyWithin, "the upgrade can be finished", func() bool { return second.upgrade(t).Ready })
	release := second.upgrade(t)
	versions := map[int]int{}
	for _, charge := range second.events(t, "account-"+live.who.id, "CreditsCharged") {
		versions[charge.SchemaVersion]++
	}
	if len(versions) != 1 || versions[oldCharge] == 0 {
		t.Errorf("before the upgrade is finished, charges have the versions %v, want only %d", versions, oldCharge)
	}
	young.must(t, "upgrade", "finish") // on a node that does not fold
	if s := second.upgrade(t); !s.Finished || s.Format != release.Release || len(s.Models) != 0 {
		t.Errorf("upgrade status after finish: %+v", s)
	}
	live.pass(t, 40)
	until(t, settledWithin, "charges have the new version", func() bool {
		charges := second.events(t, "account-"+live.who.id, "CreditsCharged")
		return charges[len(charges)-1].SchemaVersion == newCharge
	})

	// Now a rollback is impossible, and the old release reports that.
	outdated, err := c.newNode("old-late", everyRole)
	if err != nil {
		t.Fatal(err)
	}
	c.more = append(c.more, outdated)
	if err := outdated.start(); err != nil {
		t.Fatal(err)
	}
	_, ended := outdated.life()
	select {
	case <-ended:
	case <-time.After(readyWithin):
		t.Fatal("an old node runs after the upgrade is finished")
	}
	cmd, _ := outdated.life()
	if log := outdated.output(0); cmd.ProcessState.ExitCode() == 0 || !strings.Contains(log, "newer release") {
		t.Errorf("an old node exited with %d, want a failure about a newer release: %s", cmd.ProcessState.ExitCode(), log)
	} else {
		t.Logf("log of the old node: %s", strings.TrimSpace(log))
	}

	cancel()
	clients.Wait()
	t.Logf("%s", live.seen)
	live.seen.check(t, 0)
	c.apis = []*node{second}
	defer func() { c.apis = nil }() // the node is in c.more already
	c.agree(t, live.who, live.seen)
	c.verifiedOn(t, second)
	want := map[string]string{}
	for _, charge := range second.events(t, "account-"+live.who.id, "CreditsCharged") {
		want[charge.ID] = shownKey(t, charge)
	}
	wrong := 0
	for _, l := range second.ledger(t, live.who) {
		if l.Type == "CreditsCharged" && l.KeyID != want[l.EventID] {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d charges have a wrong key_id in the new version of the ledger", wrong, len(want))
	}
	for _, n := range []*node{second, young} {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}

// shownKey checks the event of a charge, and returns the key_id that the ledger shows for it after the upgrade.
func shownKey(t *testing.T, charge event) string {
	t.Helper()
	var body struct {
		KeyID string `json:"key_id"`
		Cause string
	}
	decode(t, string(charge.Data), &body)
	if want := map[int]string{2: "", 3: "lookup"}[charge.SchemaVersion]; body.KeyID == "" || body.Cause != want {
		t.Errorf("a charge of version %d: %s", charge.SchemaVersion, charge.Data)
	}
	return body.KeyID + " " + map[int]string{2: "unknown", 3: "lookup"}[charge.SchemaVersion]
}

// pass waits until n more requests have been answered.
func (f *traffic) pass(t *testing.T, requests int) {
	t.Helper()
	before := f.seen.status(http.StatusOK)
	until(t, settledWithin, fmt.Sprintf("%d more requests are answered", requests), func() bool {
		return f.seen.status(http.StatusOK) >= before+requests
	})
}
