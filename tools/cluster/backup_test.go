//go:build services

package cluster

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"letterhead/tools/e2e/program"
)

// A backup taken while look-ups are charged restores a prefix of the ledger into one folder. An incremental backup
// afterwards restores everything.
func TestBackup_ServingCluster_Restores(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 2000)
	seen := newTally()
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() {
		steadily(ctx, 30*time.Millisecond, func(i int) {
			seen.lookup(c.apis[i%apiNodes].get(lookup(hit), who.secret))
		})
	})
	place := filepath.Join(scratch, c.name+"-backup")
	c.apis[0].must(t, "backup", place)
	stop()
	load.Wait()
	seen.check(t, 0)
	c.agree(t, who, seen)
	all := c.apis[1].ledger(t, who)

	during := restored(t, "during", place)
	defer during.kill()
	some := during.ledger(t, who)
	if len(some) == 0 || len(some) > len(all) || !slices.EqualFunc(some, all[:len(some)], sameLine) {
		t.Errorf("a backup under load restored %d lines, which are not the first lines of the ledger of %d", len(some), len(all))
	}
	c.apis[2].must(t, "backup", place)
	after := restored(t, "after", place)
	defer after.kill()
	if whole := after.ledger(t, who); !slices.EqualFunc(whole, all, sameLine) {
		t.Errorf("the incremental backup restored %d lines of the ledger, want the same %d as before", len(whole), len(all))
	}
	after.want(t, http.StatusOK, lookup(hit), who.secret)
	if got, want := after.standing(t, who).Balance, c.apis[0].standing(t, who).Balance-1; got != want {
		t.Errorf("after one look-up on the restored node the balance is %d, want %d", got, want)
	}
}

// sameLine compares lines without their positions, which differ between logs.
func sameLine(a, b line) bool { return a == b }

// restored fills a data folder from a backup and serves it.
func restored(t *testing.T, name, place string) *node {
	t.Helper()
	n := embedded(t, "restored-"+name)
	n.must(t, "restore", place)
	n.serve(t)
	n.must(t, "projections", "verify")
	n.must(t, "ledger", "verify")
	return n
}

// embedded prepares a node that keeps everything in its data folder.
func embedded(t *testing.T, name string) *node {
	t.Helper()
	listen, err := program.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	name += "-" + random()
	n := &node{data: filepath.Join(scratch, name), url: "http://" + listen}
	n.process = newProcess(name, []string{"LETTERHEAD_REFRESH=off"}, "--data", n.data, "serve", "--listen", listen)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", n.name, n.output(0))
		}
		n.kill()
	})
	return n
}

// serve starts a node and waits until it is ready.
func (n *node) serve(t testing.TB) {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	until(t, readyWithin, n.name+" is ready", func() bool { return !n.alive() || n.ready() })
	if !n.alive() {
		t.Fatalf("%s exited:\n%s", n.name, n.output(0))
	}
}

// An operator migrates a data folder to a cluster: one pass while the folder's server runs and one after it has
// stopped. Then the nodes must serve the same data.
func TestMigration_FromOneFolder_KeepsLedgerAndBrands(t *testing.T) {
	at := servicesOf(t)
	old := embedded(t, "old")
	old.serve(t)
	who := old.open(t, "custom", 200)
	seen := newTally()
	spend := func(n *node, times int) {
		for range times {
			seen.lookup(n.want(t, http.StatusOK, lookup(hit), who.secret), nil)
		}
	}
	spend(old, 20)
	old.must(t, "brand", "override", "--reason", "test", hit, "description", `"Moved by hand."`)

	c, err := newCluster("lh"+random(), at)
	if err != nil {
		t.Fatal(err)
	}
	c.show(t)
	defer func() {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}()
	// From here on, one process of each kind is enough.
	c.apis, c.crawlers, c.projectors, c.relays = c.apis[:1], c.crawlers[:1], c.projectors[:1], c.relays[:1]
	c.startStore(t)
	target := c.apis[0]
	migrate := []string{"migrate", "--to", target.setting("LETTERHEAD_EVENTSTORE"), "--database", target.setting("LETTERHEAD_DATABASE"), "--assets", target.setting("LETTERHEAD_ASSETS")}
	old.must(t, migrate...)
	spend(old, 20) // after the first pass
	before := old.ledger(t, who)
	if err := old.stop(); err != nil {
		t.Fatal(err)
	}
	old.must(t, migrate...)

	c.mend(t)
	if lines := target.ledger(t, who); !slices.EqualFunc(lines, before, sameLine) {
		t.Errorf("the ledger has %d lines after the migration and %d before, or their contents differ", len(lines), len(before))
	}
	spend(target, 20)
	c.agree(t, who, seen)
	c.verifiedOn(t, target)
	var brand struct{ Description string }
	decode(t, target.must(t, "brand", "get", hit), &brand)
	if brand.Description != "Moved by hand." {
		t.Errorf("the description is %q, want the overridden one", brand.Description)
	}
	until(t, settledWithin, "search finds the migrated brand", func() bool {
		a, err := target.get("/v1/search?q=github", who.secret)
		return err == nil && a.status == http.StatusOK && len(a.body) > 100
	})
	// The migration causes no crawls of brands that were crawled before it.
	if crawls := c.crawlsDone(); crawls != 0 {
		t.Errorf("%g unrequested crawls ran after the migration", crawls)
	}
}
