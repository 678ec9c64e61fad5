package brands_test

import (
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/projections/projectionstest"
)

func TestListed_Symbols_NameTheirBrand(t *testing.T) { projectionstest.Each(t, testListed) }

func testListed(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	now := time.Now()
	m.SetNow(func() time.Time { return now })
	put := func(domain string, quality float64, ticker string, symbols ...string) {
		t.Helper()
		of := record(domain)
		of.QualityScore = quality
		if of.Company.Tickers = symbols; ticker != "" {
			of.Company.Ticker = &ticker
		}
		e.Events("brand-"+domain, at, eventschemas.BrandImported{BrandID: brand.ID(domain).String(), Domain: domain, Source: "test", Record: of})
	}
	is := func(want map[string]string) {
		t.Helper()
		e.CatchUp(r)
		now = now.Add(time.Minute)
		for symbol, domain := range want {
			got, whole, err := m.Listed(t.Context(), symbol)
			if err != nil || got != domain || !whole {
				t.Errorf("%q is %q, whole %t, %v; want %q", symbol, got, whole, err, domain)
			}
		}
	}
	is(map[string]string{"ACME": "", "": ""})
	put("acme.com", 0.5, "NASDAQ:ACME", "ACME", "ACMEB")
	put("plain.com", 0.9, "")
	put("other.com", 0.9, "NYSE:OTHR", "NYSE:OTHR", "NYSE:ACME")
	put("bare.com", 0.5, "", "BARE")
	is(map[string]string{
		"ACME": "acme.com", "acme": "acme.com", "NASDAQ:ACME": "acme.com", "nasdaq:acme": "acme.com", "ACMEB": "acme.com",
		"NYSE:ACME": "other.com", "OTHR": "other.com", "BARE": "bare.com", "LSE:ACME": "", "ticker": "", "ACM": "", "ACME\x00": "",
	})
	// A brand with a better record under the same main symbol comes first, and a change moves a symbol.
	put("better.com", 0.7, "LSE:ACME", "ACME")
	put("bare.com", 0.5, "", "NEWER")
	is(map[string]string{"ACME": "better.com", "NASDAQ:ACME": "acme.com", "BARE": "", "NEWER": "bare.com"})
	e.Events("brand-better.com", at, eventschemas.BrandWithdrawn{Reason: "owner"})
	is(map[string]string{"ACME": "acme.com", "LSE:ACME": ""})
	// Another node, or the next start, reads the same.
	again := testmust.Get(brands.New(brands.Config{}, e.Store))(t)
	t.Cleanup(again.Close)
	if _, _, err := again.Listed(t.Context(), "ACME"); err == nil {
		t.Error("a model that is not ready answers")
	}
}
