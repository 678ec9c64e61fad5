package ledger_test

import (
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/ledger"
	"letterhead/projections/projectionstest"
)

// Entries are written with each batch. Two leaders of a shared database that both take the same checkpoint for theirs
// would delete each other's entries, so the checkpoint moves with each batch there.
// Rule 8.
func TestFold_SharedDatabase_HoldsNoRows(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		v := ledger.New(e.Store).Versions()[0]
		for _, shared := range []bool{false, true} {
			tables := projections.NewTables(ledger.Name, &v, 1, "0")
			tables.Shared = shared
			fold := v.NewFold(tables, true)
			tables.Hold(true)
			opened := eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}
			testmust.Get(fold.Fold(t.Context(), e.Store.Read(), []*projections.Event{{
				Recorded: &eventlog.Recorded{Proposed: eventlog.Proposed{Type: opened.EventType(), OccurredAt: at}, Position: 1},
				Subject:  "a", Body: opened,
			}}))(t)
			if got := tables.Held() > 0; got == shared {
				t.Errorf("the fold holds rows: %t (shared tables: %t)", got, shared)
			}
		}
	})
}
