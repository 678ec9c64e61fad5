package icons_test

import (
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/icons"
	"letterhead/projections/projectionstest"
)

func TestFold_AnyBatches_SameRows(t *testing.T) {
	projectionstest.Replay(t, func(e *projectionstest.Env) projections.Projection { return icons.New(e.Store) })
}

func TestIsStock_IconOfFiveUnrelatedBrands_IsStock(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := icons.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		stock, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
		crawled := func(domain, name, final string, by *eventschemas.IconsByConvention) {
			e.Events("brand-"+domain, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
				eventschemas.CrawlSucceeded{CrawlID: "1", Record: eventschemas.Record{Name: &name}, FinalURL: final, ByConvention: by})
		}
		seen := func(icons ...string) *eventschemas.IconsByConvention {
			return &eventschemas.IconsByConvention{Assets: icons}
		}
		crawled("karvel.com", "Karvel", "https://karvel.com/", seen(stock, other))
		crawled("ostrin.com", "Ostrin", "https://ostrin.com/", seen(stock, stock))
		crawled("belfort.com", "Belfort", "https://www.belfort.com/en", &eventschemas.IconsByConvention{Assets: []string{stock}, Linked: []string{"globex.com", "x.com"}})
		crawled("mendip.com", "Mendip", "https://mendip-group.eu/", seen(stock))
		crawled("tarnow.com", "Tarnow", "https://tarnow.com/", nil) // declared
		e.CatchUp(r)
		is := func(icon string, now brand.Sighting) bool {
			t.Helper()
			return testmust.Get(m.IsStock(t.Context(), icon, now))(t)
		}
		tarnow := brand.Sighting{Domain: "tarnow.com", Name: "Tarnow", At: "tarnow.com"}
		for name, c := range map[string]struct {
			icon string
			now  brand.Sighting
			want bool
		}{
			"the fifth":          {stock, tarnow, true},
			"one of the four":    {stock, brand.Sighting{Domain: "karvel.com", Name: "Karvel", At: "karvel.com"}, false},
			"another icon":       {other, tarnow, false},
			"a redirect's end":   {stock, brand.Sighting{Domain: "mendip-group.eu", Name: "Upland", At: "mendip-group.eu"}, false},
			"linked by one":      {stock, brand.Sighting{Domain: "globex.com", Name: "Globex", At: "globex.com"}, false},
			"an icon never seen": {strings.Repeat("c", 64), tarnow, false},
		} {
			if got := is(c.icon, c.now); got != c.want {
				t.Errorf("%s: %t, want %t", name, got, c.want)
			}
		}
		// A brand that lost the icon had it all the same.
		crawled("tarnow.com", "Tarnow", "https://tarnow.com/", seen(stock))
		crawled("tarnow.com", "Tarnow", "https://tarnow.com/", nil)
		e.CatchUp(r)
		if !is(stock, brand.Sighting{Domain: "karvel.com", Name: "Karvel", At: "karvel.com"}) {
			t.Error("five brands are not enough, after one of them lost the icon")
		}
	})
}
