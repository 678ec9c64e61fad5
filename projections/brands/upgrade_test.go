package brands_test

import (
	"bytes"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testwait"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// The previous release wrote and showed tickers with their exchange. Its rows stay as it folds them until the upgrade is
// finished; the rows of this release have bare symbols.
func TestGet_TickersOfPreviousRelease_AreBareAfterUpgrade(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		ev := imported("acme.com", "Acme").(eventschemas.BrandImported)
		ev.Record.Company.Tickers = []string{"NYSE:ACM", "NYSE:ACM.B"}
		events, err := projectionstest.Group{Stream: "brand-acme.com", Events: []eventschemas.Event{ev}, At: at, RequestID: "r", Actor: "operator:test"}.Proposed("old")
		if err != nil {
			t.Fatal(err)
		}
		events[0].SchemaVersion = 1
		if _, err := e.Log.Append(t.Context(), "brand-acme.com", eventlog.Any(), events); err != nil {
			t.Fatal(err)
		}
		e.Events("brand-acme.com", at, eventschemas.BrandClaimed{}) // meets a stored state
		for _, release := range []struct {
			format int
			want   string
		}{{2, `"ticker":["NYSE:ACM","NYSE:ACM.B"]`}, {3, `"ticker":["ACM","ACM.B"]`}} {
			m, err := brands.New(brands.Config{}, e.Store)
			if err != nil {
				t.Fatal(err)
			}
			r, stop := e.Start(engine.Config{InForce: release.format}, m)
			e.CatchUp(r)
			var body []byte
			_, ok := testwait.Until(testwait.Timeout, func() bool { // the new tables are built beside those in use
				entry, err := m.Get(t.Context(), "acme.com")
				if err != nil {
					t.Fatal(err)
				}
				body = entry.Body.AppendTo(nil, "")
				return bytes.Contains(body, []byte(release.want))
			})
			if !ok {
				t.Errorf("with data format %d in force the record is %s, want %s", release.format, body, release.want)
			}
			stop()
			m.Close()
		}
	})
}
