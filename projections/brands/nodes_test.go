package brands

import (
	"fmt"
	"strings"
	"testing"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

func nameOf(t *testing.T, m *Model, domain string) string {
	t.Helper()
	entry, err := m.Get(t.Context(), domain)
	if err != nil {
		t.Fatalf("%s: %v", domain, err)
	}
	_, rest, _ := strings.Cut(string(entry.Body.AppendTo(nil, "")), `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// The cache of a node that does not fold returns the rows that another node folded, after the node's own Runner has
// seen them. This holds for single changes and for an import with too many of them. Unchanged entries stay cached.
func TestCache_AnotherNodeFolds_IsInvalidated(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	leading := newModel(t, e, Config{})
	r, _ := e.Start(engine.Config{}, leading)
	e.Events("brand-acme.com", at, imported("acme.com", "Old"))
	e.Events("brand-still.com", at, imported("still.com", "Still"))
	e.CatchUp(r)
	n := e.Node()
	m := newModel(t, n, Config{})
	follows, _ := n.Start(engine.Config{FollowOnly: true}, m)
	n.CatchUp(follows)
	loads := 0
	m.loaded = func() { loads++ }
	for range 3 {
		if a, s := nameOf(t, m, "acme.com"), nameOf(t, m, "still.com"); a != "Old" || s != "Still" {
			t.Fatal(a, s)
		}
	}
	if loads != 2 {
		t.Errorf("two brands were read %d times", loads)
	}
	for i := range 5 {
		name := fmt.Sprint("New", i)
		at := e.Events("brand-acme.com", at, overridden(name))
		testmust.Succeed(t, follows.WaitFor(n.Context(), Name, at))
		if got := nameOf(t, m, "acme.com"); got != name {
			t.Fatalf("after WaitFor the other node answers %s, want %s", got, name)
		}
	}
	before := loads
	if nameOf(t, m, "still.com"); loads != before {
		t.Error("a brand that did not change was evicted from the cache")
	}
	// A withdrawn brand is not returned.
	gone := e.Events("brand-still.com", at, eventschemas.BrandWithdrawn{Reason: "r"})
	testmust.Succeed(t, follows.WaitFor(n.Context(), Name, gone))
	if _, err := m.Get(t.Context(), "still.com"); err == nil {
		t.Error("Get returns a withdrawn brand from the other node's cache")
	}
	// A rebuild by the leader.
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	last := e.Events("brand-acme.com", at, overridden("Rebuilt"))
	testmust.Succeed(t, follows.WaitFor(n.Context(), Name, last))
	if got := nameOf(t, m, "acme.com"); got != "Rebuilt" {
		t.Errorf("after a rebuild the other node answers %s", got)
	}
}

// A reader on a node that does not fold reads the row before the commit, and puts it into the cache after the node was
// notified.
func TestCache_OldRowOnFollower_IsNotStored(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	leading := newModel(t, e, Config{})
	r, _ := e.Start(engine.Config{}, leading)
	e.Events("brand-acme.com", at, imported("acme.com", "Old"))
	e.CatchUp(r)
	n := e.Node()
	m := newModel(t, n, Config{})
	follows, _ := n.Start(engine.Config{FollowOnly: true}, m)
	n.CatchUp(follows)
	m.loaded = func() {
		m.loaded = nil
		if err := follows.WaitFor(n.Context(), Name, e.Events("brand-acme.com", at, overridden("New"))); err != nil {
			t.Error(err)
		}
	}
	if got := nameOf(t, m, "acme.com"); got != "Old" {
		t.Fatalf("the reader of the old row: %s", got)
	}
	if got := nameOf(t, m, "acme.com"); got != "New" {
		t.Errorf("after WaitFor a reader still gets %s", got)
	}
}

// A node that does not know yet that other tables became live still answers from the live ones, both by domain and by
// id.
func TestGet_RetiredTables_AreNotUsed(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	leading := newModel(t, e, Config{})
	r, _ := e.Start(engine.Config{}, leading)
	e.Events("brand-acme.com", at, imported("acme.com", "Old"))
	e.CatchUp(r)
	n := e.Node()
	m := newModel(t, n, Config{})
	deaf := n.New(engine.Config{FollowOnly: true}, m) // reads the registry once, and does not run
	testmust.Succeed(t, deaf.Start(n.Context()))
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	e.Events("brand-acme.com", at, overridden("New"))
	e.CatchUp(r)
	if got := nameOf(t, m, "acme.com"); got != "New" {
		t.Errorf("by the domain: %s", got)
	}
	again := newModel(t, n, Config{})
	testmust.Succeed(t, n.New(engine.Config{FollowOnly: true}, again).Start(n.Context()))
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	e.Events("brand-fresher.com", at, imported("fresher.com", "Fresher"))
	e.CatchUp(r)
	if entry, err := again.ByID(t.Context(), brand.ID("fresher.com")); err != nil || entry.Domain != "fresher.com" {
		t.Errorf("by the id: %+v, %v, want fresher.com", entry, err)
	}
}
