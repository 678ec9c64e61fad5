package projectionstest

import (
	"testing"
	"time"

	"letterhead/projections"
	"letterhead/projections/engine"
)

// Replay tests that the rows of a read model depend only on events, not on batches and restarts: Verify finds no
// difference, and a rebuild gives the same rows. open makes the read model.
func Replay(t *testing.T, open func(e *Env) projections.Projection) {
	t.Helper()
	Each(t, func(t *testing.T, e *Env) {
		w := NewWorld(5, 5, 5, 12*time.Hour)
		for _, batch := range []int{1, 7, 1000} {
			r, stop := e.Start(engine.Config{BatchEvents: batch}, open(e))
			e.Fill(w, 300)
			e.CatchUp(r)
			stop()
		}
		model := open(e)
		r, _ := e.Start(engine.Config{}, model)
		e.CatchUp(r)
		live := e.Dump(model.Name())
		found, err := r.Verify(e.Context(), nil, nil)
		if err != nil || len(found) != 1 || !found[0].OK() || found[0].Rows == 0 {
			t.Fatalf("Verify() = %+v, %v", found, err)
		}
		if err := r.Rebuild(e.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		if rebuilt := e.Dump(model.Name()); rebuilt != live {
			t.Errorf("rebuilt rows:\n%s\nwant:\n%s", rebuilt, live)
		}
	})
}
