package readapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
)

// An answer of megabytes arrives complete, and another can follow on the connection.
func TestBatch_LargestAnswer_ArrivesWhole(t *testing.T) {
	s, c := startWith(t, plan.Custom, 10)
	large := record("large")
	text := strings.Repeat("Ünïcode & <words>. ", 130)
	large.LongDescription = &text
	large.Logos[0].Tags = slices.Repeat([]string{"Ünïcode words"}, 3000)
	s.known("large.com", large)
	single := c.get("/v1/brands/large.com")
	single.ok(t)
	for range 2 {
		a := c.asks(slices.Repeat([]string{"large.com"}, 100)...)
		a.ok(t)
		var got struct {
			Results []struct{ Brand json.RawMessage }
		}
		s.must(json.Unmarshal(a.body, &got))
		if len(a.body) < 100*50_000 || len(got.Results) != 100 || a.header.Get("Content-Length") != strconv.Itoa(len(a.body)) {
			t.Fatalf("%d bytes, %d results, length %s", len(a.body), len(got.Results), a.header.Get("Content-Length"))
		}
		for _, result := range got.Results {
			if !bytes.Equal(result.Brand, single.body) {
				t.Fatalf("%d bytes for a record of %d", len(result.Brand), len(single.body))
			}
		}
	}
	if n := len(c.books().charges); n != 3 {
		t.Errorf("%d charges, want 3", n)
	}
}

// Concurrent batches and look-ups share few credits and few crawls, and none is spent twice or lost.
func TestBatches_WithLookups_SpendEachCreditOnce(t *testing.T) {
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 1_000_000 })
	c := s.account(plan.Custom, 60)
	for _, domain := range numbered("known-%d.com", 10) {
		_, err := s.brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record("known")})
		s.must(err)
	}
	s.catchUp()
	for i, domain := range numbered("new-%d.com", 10) {
		if i%2 == 0 {
			s.crawler.finds(domain, record("new"))
		} else {
			s.crawler.fails(domain, brand.NoData)
		}
	}
	identifiers := append(numbered("known-%d.com", 10), numbered("new-%d.com", 10)...)
	var mu sync.Mutex
	paid := map[string][]string{} // by request
	answered := func(a answer, domains ...string) {
		mu.Lock()
		defer mu.Unlock()
		id := a.header.Get("X-Request-Id")
		paid[id] = append(paid[id], domains...)
	}
	together(24, func(i int) {
		if i%2 == 0 {
			a := c.get("/v1/brands/known-3.com")
			if a.status == http.StatusOK {
				answered(a, "known-3.com")
			} else {
				a.rejected(t, 402, "insufficient_credits")
			}
			return
		}
		a := c.asks(identifiers...)
		if a.status != http.StatusOK {
			a.rejected(t, 402, "insufficient_credits")
			return
		}
		for _, item := range a.items(t, identifiers) {
			switch item.said() {
			case "200":
				answered(a, *item.Domain)
			case "402 insufficient_credits", "404 no_brand_data":
			default:
				t.Errorf("%s: %s", item.Identifier, item.said())
			}
		}
	})
	b := c.books()
	charged := map[string][]string{}
	for _, charge := range b.charges {
		charged[charge.RequestID] = append(charged[charge.RequestID], charge.Domain)
	}
	for id := range charged {
		slices.Sort(charged[id])
		slices.Sort(paid[id])
		if !slices.Equal(charged[id], paid[id]) {
			t.Errorf("request %s was charged for %q and answered %q", id, charged[id], paid[id])
		}
	}
	if len(charged) != len(paid) || b.balance() != 0 || b.lowest < 0 || len(b.openHolds) != 0 || len(b.reversals) != 0 {
		t.Errorf("%d requests charged, %d answered; balance %d, lowest %d, %d holds open, %d reversals",
			len(charged), len(paid), b.balance(), b.lowest, len(b.openHolds), len(b.reversals))
	}
}
