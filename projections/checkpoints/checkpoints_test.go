package checkpoints_test

import (
	"errors"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/projections/checkpoints"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

func TestLast_IsTheLatestNote(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := checkpoints.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		e.CatchUp(r)
		if c, err := m.Last(t.Context()); !errors.Is(err, checkpoints.ErrNone) {
			t.Errorf("without checkpoints: %+v, %v, want ErrNone", c, err)
		}
		at := time.Date(2026, 11, 1, 0, 0, 0, 5000, time.UTC)
		for i, note := range []string{"first", "second"} {
			e.Events(eventschemas.CheckpointsStream, at.AddDate(0, 0, i), eventschemas.CheckpointBegun{}, eventschemas.LedgerCheckpointed{Position: 1, Note: note})
		}
		e.Events(eventschemas.CheckpointsStream, at.AddDate(0, 0, 9), eventschemas.CheckpointBegun{})
		e.CatchUp(r)
		want := checkpoints.Checkpoint{Size: 2, At: at.AddDate(0, 0, 1), Note: "second"}
		if c, err := m.Last(t.Context()); err != nil || *c != want {
			t.Errorf("%+v, %v, want %+v", c, err, want)
		}
	})
}
