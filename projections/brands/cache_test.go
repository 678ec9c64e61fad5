package brands

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func imported(domain, name string) eventschemas.Event {
	return eventschemas.BrandImported{
		BrandID: brand.ID(domain).String(), Domain: domain, Source: "test 1",
		Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()},
	}
}

func overridden(name string) eventschemas.Event {
	return eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(fmt.Sprintf("%q", name))}
}

func newModel(t *testing.T, e *projectionstest.Env, cfg Config) *Model {
	t.Helper()
	m := testmust.Get(New(cfg, e.Store))(t)
	t.Cleanup(m.Close)
	return m
}

// A reader reads the row. Then another name is committed and the cache is invalidated. Then the reader puts the old row
// into the cache.
func TestCache_OldRowAfterInvalidation_IsNotStored(t *testing.T) {
	projectionstest.Each(t, testCache_OldRowAfterInvalidation_IsNotStored)
}

func testCache_OldRowAfterInvalidation_IsNotStored(t *testing.T, e *projectionstest.Env) {
	m := newModel(t, e, Config{})
	r, _ := e.Start(engine.Config{}, m)
	e.Events("brand-acme.com", at, imported("acme.com", "Old"))
	e.CatchUp(r)
	m.loaded = func() {
		m.loaded = nil
		e.Events("brand-acme.com", at, overridden("New"))
		e.CatchUp(r)
	}
	old, err := m.Get(t.Context(), "acme.com")
	if err != nil || !strings.Contains(string(old.Body.AppendTo(nil, "")), `"name":"Old"`) {
		t.Fatalf("the reader of the old row: %v", err)
	}
	now := testmust.Get(m.Get(t.Context(), "acme.com"))(t)
	if body := now.Body.AppendTo(nil, ""); !bytes.Contains(body, []byte(`"name":"New"`)) {
		t.Errorf("after WaitFor a reader still gets %s", body)
	}
	if _, ok := m.cache.get("acme.com"); !ok {
		t.Error("the new row is not cached")
	}
}

// The same race with a rebuild instead of an event: rows of the old tables must not stay cached.
func TestCache_OldRowAfterSwap_IsNotStored(t *testing.T) {
	projectionstest.Each(t, testCache_OldRowAfterSwap_IsNotStored)
}

func testCache_OldRowAfterSwap_IsNotStored(t *testing.T, e *projectionstest.Env) {
	m := newModel(t, e, Config{})
	r, _ := e.Start(engine.Config{}, m)
	e.Events("brand-acme.com", at, imported("acme.com", "Acme"))
	e.CatchUp(r)
	tampered := `CAST('{"tampered":true}' AS BLOB)`
	if e.Shared() {
		tampered = `convert_to('{"tampered":true}', 'UTF8')`
	}
	e.Exec(fmt.Sprintf("UPDATE brands_v%d_g1_brands SET body = %s", version, tampered))
	m.loaded = func() {
		m.loaded = nil
		if err := r.Rebuild(e.Context(), nil, nil); err != nil {
			t.Error(err)
		}
	}
	testmust.Succeed(t, testmust.Err(m.Get(t.Context(), "acme.com")))
	now, err := m.Get(t.Context(), "acme.com")
	if err != nil || !bytes.Contains(now.Body.AppendTo(nil, ""), []byte(`"name":"Acme"`)) {
		t.Errorf("after the rebuild: %s, %v", now.Body.AppendTo(nil, ""), err)
	}
}

func TestCache_BytesAreLimited(t *testing.T) {
	const bound = 1 << 19
	e := projectionstest.Open(t)
	m := newModel(t, e, Config{CacheBytes: bound})
	r, _ := e.Start(engine.Config{}, m)
	long := strings.Repeat("語", 2500)
	const brands = 200 // about 1.6 MB
	for i := range brands {
		domain := fmt.Sprintf("b%d.com", i)
		ev := imported(domain, "Acme").(eventschemas.BrandImported)
		ev.Record.LongDescription = &long
		e.Events("brand-"+domain, at, ev)
	}
	e.CatchUp(r)
	for range 2 {
		for i := range brands {
			entry, err := m.Get(t.Context(), fmt.Sprintf("b%d.com", i))
			if err != nil || entry.Domain != fmt.Sprintf("b%d.com", i) {
				t.Fatal(entry, err)
			}
		}
	}
	m.cache.entries.CleanUp()
	if size := m.cache.entries.WeightedSize(); size > bound || size < bound/2 {
		t.Errorf("the cache holds %d bytes of at most %d", size, bound)
	}
}

func TestGet_Hit_ReadsNoTable(t *testing.T) { projectionstest.Each(t, testGet_Hit_ReadsNoTable) }

func testGet_Hit_ReadsNoTable(t *testing.T, e *projectionstest.Env) {
	m := newModel(t, e, Config{})
	r, _ := e.Start(engine.Config{}, m)
	e.Events("brand-acme.com", at, imported("acme.com", "Acme"))
	e.CatchUp(r)
	loads := 0
	m.loaded = func() { loads++ }
	for range 10 {
		testmust.Succeed(t, testmust.Err(m.Get(t.Context(), "acme.com")))
	}
	if loads != 1 {
		t.Errorf("ten lookups read the tables %d times", loads)
	}
}

// An event that is not folded yet keeps only the row of its own brand out of the cache, not those of other brands in
// the shard.
func TestCache_EventOfOtherBrandInShard_RowIsStored(t *testing.T) {
	c := testmust.Get(newCache(1 << 20))(t)
	defer c.close()
	other := ""
	for i := 0; other == ""; i++ {
		if d := fmt.Sprintf("b%d.com", i); c.shard(d) == c.shard("acme.com") {
			other = d
		}
	}
	c.event(other, 11)
	for domain, want := range map[string]bool{"acme.com": true, other: false} {
		c.put(c.begin(domain), &Entry{Domain: domain}, 10)
		if _, kept := c.get(domain); kept != want {
			t.Errorf("row of %s, read at position 10, after an event of %s at 11: cached = %t, want %t", domain, other, kept, want)
		}
	}
	c.put(c.begin(other), &Entry{Domain: other}, 11)
	if _, kept := c.get(other); !kept {
		t.Error("the row read at the position of its event was not cached")
	}
}

// For any number of events, a shard rejects every row that is older than the last event of its brand. It rejects other
// rows only if they are older than the last maxRecent events, and remembers at most 2*maxRecent domains.
func TestCache_ManyEventsInShard_RejectsOldRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s shard
		last, order := map[string]eventlog.Position{}, []eventlog.Position{}
		for range rapid.IntRange(1, 6*maxRecent).Draw(t, "events") {
			domain := fmt.Sprint(rapid.IntRange(0, 4*maxRecent).Draw(t, "domain"))
			at := eventlog.Position(7 * (len(order) + 1))
			s.note(domain, at)
			last[domain], order = at, append(order, at)
		}
		for domain, at := range last {
			if got := s.changed(domain); got < at {
				t.Fatalf("a row read at position %d is accepted, although the last event is at %d", got, at)
			}
		}
		if n := max(len(order)-maxRecent, 0); n == 0 && s.oldest > 0 || n > 0 && s.oldest > order[n-1] {
			t.Fatalf("after %d events, rows of other brands are rejected up to position %d", len(order), s.oldest)
		}
		if len(s.recent) > maxRecent || len(s.older) > maxRecent {
			t.Fatalf("%d and %d domains are remembered, want at most %d each", len(s.recent), len(s.older), maxRecent)
		}
	})
}
