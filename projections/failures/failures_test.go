package failures_test

import (
	"slices"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/failures"
	"letterhead/projections/projectionstest"
)

func TestFold_AnyBatches_SameRows(t *testing.T) {
	projectionstest.Replay(t, func(e *projectionstest.Env) projections.Projection { return failures.New(e.Store) })
}

func TestList_FailedCrawls_NewestFirst(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := failures.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		at := time.Date(2026, 11, 1, 0, 0, 0, 5000, time.UTC)
		failed := func(domain, crawl, outcome string) {
			e.Events("brand-"+domain, at,
				eventschemas.CrawlRequested{CrawlID: crawl, Domain: domain, Cause: "lookup", Priority: "live", AllowedMS: 1000},
				eventschemas.CrawlFailed{CrawlID: crawl, Outcome: outcome, RememberSeconds: 60, Detail: "The site " + outcome + "."})
		}
		failed("a.com", "1", "timeout")
		failed("b.com", "2", "dns")
		e.Events("brand-a.com", at, eventschemas.BrandDiscovered{BrandID: "b", Domain: "a.com"})
		failed("a.com", "3", "timeout")
		e.CatchUp(r)
		list := func(outcome string, before uint64, limit int) (crawls []string, last uint64) {
			t.Helper()
			all := testmust.Get(m.List(t.Context(), failures.Filter{Outcome: outcome}, before, limit))(t)
			for _, f := range all {
				crawls, last = append(crawls, f.CrawlID), f.Position
			}
			return crawls, last
		}
		first, last := list("", 0, 2)
		if second, _ := list("", last, 2); !slices.Equal(first, []string{"3", "2"}) || !slices.Equal(second, []string{"1"}) {
			t.Errorf("pages %v and %v, want [3 2] and [1]", first, second)
		}
		first, last = list("timeout", 0, 1)
		if second, _ := list("timeout", last, 9); !slices.Equal(first, []string{"3"}) || !slices.Equal(second, []string{"1"}) {
			t.Errorf("pages of timeouts %v and %v, want [3] and [1]", first, second)
		}
		all, err := m.List(t.Context(), failures.Filter{Outcome: "dns"}, 0, 9)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v, want one failure", all, err)
		}
		if want := (failures.Failure{Position: all[0].Position, At: at, Domain: "b.com", CrawlID: "2", Outcome: "dns", Detail: "The site dns."}); all[0] != want {
			t.Errorf("%+v, want %+v", all[0], want)
		}
	})
}
