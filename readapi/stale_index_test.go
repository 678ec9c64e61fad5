package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/projections/brands"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// withdraw withdraws a brand, and waits until this node has read it from the log.
func (s *service) withdraw(domain string) {
	s.t.Helper()
	watch := s.tail.Watch(domain)
	defer watch.Close()
	s.must(s.brands.WithdrawBrand(s.t.Context(), commands.WithdrawBrand{Request: operator(), Domain: domain, Reason: "owner asked"}))
	seen, cancel := context.WithTimeout(s.t.Context(), waitLimit)
	defer cancel()
	_, _, err := watch.Wait(seen, "")
	s.must(err)
}

// No projection runs, so tables and cache still have the brand, but the node has read from the log
// that it was withdrawn.
func TestLookup_WithdrawnBrandInStaleIndex_Is404(t *testing.T) {
	s, index := startStale(t)
	c := s.account(plan.Growth, 50)
	id := s.known("acme.com", record("acme"))
	held, err := index.Get(t.Context(), "acme.com")
	s.must(err)
	index.held.Store(held)
	s.withdraw("acme.com")
	for _, path := range []string{"acme.com", id, "acme.com?refresh=true"} {
		c.get("/v1/brands/"+path).rejected(t, http.StatusNotFound, "no_brand_data")
	}
	if a := c.head("/v1/brands/acme.com"); a.status != http.StatusNotFound {
		t.Errorf("HEAD: status %d, want %d", a.status, http.StatusNotFound)
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 || b.balance() != 50 {
		t.Errorf("%d charges, %d holds, balance %d; want 0, 0 and 50", len(b.charges), b.holds, b.balance())
	}
}

// trailing is an index that has not processed anything yet.
type trailing struct{ lookup.Index }

func (trailing) Get(_ context.Context, domain string) (*brands.Entry, error) {
	return nil, fmt.Errorf("%s: %w", domain, brands.ErrNotFound)
}

func (trailing) ByID(_ context.Context, id uuid.UUID) (*brands.Entry, error) {
	return nil, fmt.Errorf("%s: %w", id, brands.ErrNotFound)
}

// Rule 7.
func TestLookup_IndexLags_FindsAnsweredBrands(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Index = trailing{d.Index} }
	})
	c := s.account(plan.Free, 50)
	s.crawler.finds("new.com", record("new"))
	s.crawler.finds("plain.com", plainRecord("plain"))
	first := c.get("/v1/brands/new.com")
	id := decodeBrand(t, first.body).ID
	if h := first.ok(t); h.Get("X-Cache") != "MISS" {
		t.Errorf("headers %v", h)
	}
	for _, identifier := range []string{"new.com", id, "urn:letterhead:brand:" + id} {
		a := c.get("/v1/brands/" + identifier)
		if h := a.ok(t); h.Get("X-Cache") != "HIT" || string(a.body) != string(first.body) {
			t.Errorf("%s: %v, body %s", identifier, h, a.body)
		}
		if h := c.head("/v1/brands/" + identifier); h.status != http.StatusOK || h.header.Get("Content-Length") != first.header.Get("Content-Length") {
			t.Errorf("HEAD %s: status %d, header %v", identifier, h.status, h.header)
		}
	}
	c.get("/v1/brands/plain.com").ok(t)
	if h := c.get("/v1/brands/plain.com").ok(t); h.Get("X-Cache") != "HIT" || h.Get("X-Credits-Remaining") != "46" {
		t.Errorf("headers %v", h)
	}
	if b := c.books(); len(b.charges) != 4 || b.holds != 2 || len(b.openHolds) != 0 || len(s.crawler.of("new.com")) != 1 {
		t.Errorf("%d charges, %d holds, %d open", len(b.charges), b.holds, len(b.openHolds))
	}
}

// stale is an index that keeps returning the brand that it had when it was stopped.
type stale struct {
	lookup.Index
	held atomic.Pointer[brands.Entry]
}

// startStale starts a service with such an index.
func startStale(t *testing.T) (*service, *stale) {
	t.Helper()
	index := &stale{}
	return start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { index.Index, d.Index = d.Index, index }
	}), index
}

func (s *stale) Get(ctx context.Context, domain string) (*brands.Entry, error) {
	if e := s.held.Load(); e != nil && e.Domain == domain {
		return e, nil
	}
	return s.Index.Get(ctx, domain)
}

func (s *stale) ByID(ctx context.Context, id uuid.UUID) (*brands.Entry, error) {
	if e := s.held.Load(); e != nil && e.ID == id.String() {
		return e, nil
	}
	return s.Index.ByID(ctx, id)
}

// The index lags behind a refresh that was answered, and behind one that failed.
// Rule 7.
func TestLookup_StaleIndex_NeverChargesForOlderRecord(t *testing.T) {
	s, index := startStale(t)
	c := s.account(plan.Growth, 50)
	id := s.known("acme.com", record("old"))
	stop := func() *brands.Entry { // stops the index at the current state of the log
		index.held.Store(nil)
		s.catchUp()
		held, err := index.Get(t.Context(), "acme.com")
		s.must(err)
		index.held.Store(held)
		return held
	}
	held := stop()
	s.crawler.finds("acme.com", record("fresh"))
	refreshed := c.get("/v1/brands/acme.com?refresh=true")
	refreshed.ok(t)
	for _, identifier := range []string{"acme.com", id} {
		a := c.get("/v1/brands/" + identifier)
		if h := a.ok(t); h.Get("X-Cache") != "HIT" || string(a.body) != string(refreshed.body) {
			t.Errorf("%s after the refresh: %v, body %s", identifier, h, a.body)
		}
		h := c.head("/v1/brands/" + identifier)
		if h.status != http.StatusOK || h.header.Get("Content-Length") != refreshed.header.Get("Content-Length") {
			t.Errorf("HEAD %s after the refresh: status %d, header %v", identifier, h.status, h.header)
		}
	}
	b := c.books()
	for _, charge := range b.charges {
		if charge.RecordRevision != b.charges[0].RecordRevision || charge.RecordRevision <= held.Revision {
			t.Errorf("charged for revision %d, answered %d, the index had %d", charge.RecordRevision, b.charges[0].RecordRevision, held.Revision)
		}
	}
	if len(b.charges) != 3 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, %d open holds; want 3 and 0", len(b.charges), len(b.openHolds))
	}

	stop()
	s.crawler.fails("acme.com", brand.FetchFailed)
	c.get("/v1/brands/acme.com?refresh=true").rejected(t, http.StatusBadGateway, "fetch_failed")
	a := c.get("/v1/brands/acme.com")
	a.ok(t)
	if got := decodeBrand(t, a.body); got.Status != "failed" || *got.Name != "fresh" {
		t.Errorf("after the failed refresh: status %s, name %s; want %q and %q", got.Status, *got.Name, "failed", "fresh")
	}
	stop()
	if again := c.get("/v1/brands/acme.com"); string(again.body) != string(a.body) {
		t.Errorf("the index returned %s", again.body)
	}
	if n := len(s.crawler.of("acme.com")); n != 2 {
		t.Errorf("%d crawls, want 2", n)
	}
}
