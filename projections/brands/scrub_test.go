package brands

import (
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// TestScrub_DamagedBody_IsServedRightOnEveryNode damages the body of a record that two nodes then have in their caches.
// Rule 8.
func TestScrub_DamagedBody_IsServedRightOnEveryNode(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		leading := newModel(t, e, Config{})
		r, _ := e.Start(engine.Config{}, leading)
		e.Events("brand-acme.com", at, imported("acme.com", "Acme"))
		e.CatchUp(r)
		nodes := []*Model{leading}
		if e.Shared() {
			n := e.Node()
			m := newModel(t, n, Config{})
			follows, _ := n.Start(engine.Config{FollowOnly: true}, m)
			n.CatchUp(follows)
			nodes = append(nodes, m)
		}
		var table string
		if err := leading.Handle().Read(func(_ projections.Queryer, tables *projections.Tables) error {
			table = tables.Name("brands")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		set := "CAST(replace(CAST(body AS TEXT), 'Acme', 'Bcme') AS BLOB)"
		if e.Shared() {
			set = "convert_to(replace(convert_from(body, 'UTF8'), 'Acme', 'Bcme'), 'UTF8')"
		}
		e.Exec("UPDATE " + table + " SET body = " + set)
		for _, m := range nodes {
			if got := nameOf(t, m, "acme.com"); got != "Bcme" {
				t.Fatalf("the damage has no effect: %s", got)
			}
		}
		testmust.Succeed(t, r.ScrubOnce(e.Context(), Name))
		if got := nameOf(t, leading, "acme.com"); got != "Acme" {
			t.Errorf("after the scrub: %s, want Acme", got)
		}
		for i, m := range nodes {
			if _, ok := testwait.Until(testwait.Timeout, func() bool { return nameOf(t, m, "acme.com") == "Acme" }); !ok {
				t.Errorf("node %d answers %s after the scrub", i, nameOf(t, m, "acme.com"))
			}
		}
	})
}
