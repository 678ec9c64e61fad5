package checkpoints_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/projections/checkpoints"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

func TestLastAndList_NewestFirst(t *testing.T) {
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
		first := checkpoints.Checkpoint{Size: 1, At: at, Note: "first"}
		for _, c := range []struct {
			before uint64
			limit  int
			want   []checkpoints.Checkpoint
		}{{0, 3, []checkpoints.Checkpoint{want, first}}, {0, 1, []checkpoints.Checkpoint{want}}, {2, 3, []checkpoints.Checkpoint{first}}, {1, 3, nil}} {
			if got, err := m.List(t.Context(), c.before, c.limit); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%d before %d: %+v, %v, want %+v", c.limit, c.before, got, err, c.want)
			}
		}
	})
}
