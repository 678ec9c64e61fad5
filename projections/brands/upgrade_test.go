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

// The previous release wrote and showed tickers with their exchange, and accepted any URL as a link. Its rows stay as
// it folds them until the upgrade is finished, because nodes of both releases write the same rows; the rows of this
// release have bare symbols and links to networks.
func TestGet_ValuesOfPreviousRelease_AreCleanAfterUpgrade(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		ev := imported("acme.com", "Acme").(eventschemas.BrandImported)
		ev.Record.Company.Tickers = []string{"NYSE:ACM", "NYSE:ACM.B"}
		ev.Record.Links = []eventschemas.Link{{Name: "github", URL: "https://github.com/acme"}}
		events, err := projectionstest.Group{Stream: "brand-acme.com", Events: []eventschemas.Event{ev}, At: at, RequestID: "r", Actor: "operator:test"}.Proposed("old")
		if err != nil {
			t.Fatal(err)
		}
		events[0].SchemaVersion = 1
		if _, err := e.Log.Append(t.Context(), "brand-acme.com", eventlog.Any(), events); err != nil {
			t.Fatal(err)
		}
		e.Events("brand-acme.com", at, eventschemas.FieldOverridden{ // meets a stored state
			Field: "links", Value: eventschemas.JSONText(`[{"name":"twitter","url":"javascript:x"},{"name":"github","url":"https://github.com/acme"}]`),
		})
		for _, release := range []struct {
			format         int
			tickers, links string
		}{
			{2, `"ticker":["NYSE:ACM","NYSE:ACM.B"]`, `"links":[{"name":"twitter","url":"javascript:x"},{"name":"github","url":"https://github.com/acme"}]`},
			{3, `"ticker":["ACM","ACM.B"]`, `"links":[{"name":"github","url":"https://github.com/acme"}]`},
		} {
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
				return bytes.Contains(body, []byte(release.tickers))
			})
			if !ok || !bytes.Contains(body, []byte(release.links)) {
				t.Errorf("with data format %d in force the record is %s, want %s and %s", release.format, body, release.tickers, release.links)
			}
			stop()
			m.Close()
		}
	})
}
