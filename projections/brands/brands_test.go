package brands_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func open(t *testing.T, e *projectionstest.Env) (*brands.Model, *engine.Runner) {
	t.Helper()
	m := testmust.Get(brands.New(brands.Config{}, e.Store))(t)
	t.Cleanup(m.Close)
	r, _ := e.Start(engine.Config{}, m)
	return m, r
}

func record(name string) eventschemas.Record {
	return eventschemas.Record{
		Name: &name, Company: eventschemas.EmptyCompany(), QualityScore: 0.5, Complete: true,
		Logos: []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{{ID: "ab", Format: "svg", Size: 3}}}},
	}
}

func imported(domain, name string) eventschemas.Event {
	return eventschemas.BrandImported{BrandID: brand.ID(domain).String(), Domain: domain, Source: "test 1", Record: record(name)}
}

func requested(crawl, domain string) eventschemas.Event {
	return eventschemas.CrawlRequested{CrawlID: crawl, Domain: domain, Cause: "lookup", Priority: "live", AllowedMS: 8500}
}

func TestGet_EachBrandEvent_UpdatesEntry(t *testing.T) { projectionstest.Each(t, testGet_LifeOfBrand) }

func testGet_LifeOfBrand(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	const domain, stream = "acme.com", "brand-acme.com"
	steps := []struct {
		event   eventschemas.Event
		status  string // empty if the brand is not found
		name    string
		changed bool // whether the search index must change
	}{
		{eventschemas.BrandDiscovered{BrandID: brand.ID(domain).String(), Domain: domain}, "", "", false},
		{requested("1", domain), "", "", false},
		{eventschemas.CrawlFailed{CrawlID: "1", Outcome: "timeout", RememberSeconds: 300, Detail: "d"}, "", "", false},
		{imported(domain, "Imported"), "partial", "Imported", true},
		{requested("2", domain), "partial", "Imported", false},
		{eventschemas.CrawlSucceeded{CrawlID: "2", Record: record("Crawled"), FinalURL: "https://acme.com/"}, "ready", "Crawled", true},
		{eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`"Fixed"`)}, "ready", "Fixed", true},
		{requested("3", domain), "ready", "Fixed", false},
		{eventschemas.CrawlFailed{CrawlID: "3", Outcome: "fetch_failed", RememberSeconds: 3600, Detail: "d"}, "failed", "Fixed", true},
		{eventschemas.BrandClaimed{}, "failed", "Fixed", true},
		{eventschemas.BrandWithdrawn{Reason: "owner"}, "", "", true},
	}
	var before eventlog.Position
	for i, s := range steps {
		e.Events(stream, at.Add(time.Duration(i)*time.Second), s.event)
		e.CatchUp(r)
		what := fmt.Sprintf("after %s (%d)", s.event.EventType(), i)
		entry, err := m.Get(t.Context(), domain)
		byID, idErr := m.ByID(t.Context(), brand.ID(domain))
		if s.status == "" {
			if !errors.Is(err, brands.ErrNotFound) || !errors.Is(idErr, brands.ErrNotFound) {
				t.Errorf("%s: %v, %v, want ErrNotFound twice", what, err, idErr)
			}
		} else {
			if err != nil || idErr != nil {
				t.Fatalf("%s: %v, %v", what, err, idErr)
			}
			body := string(entry.Body.AppendTo(nil, "http://x"))
			if entry.Status != s.status || !entry.HasLogo || entry.Domain != domain || entry.ID != brand.ID(domain).String() ||
				byID.Domain != domain || !strings.Contains(body, `"name":"`+s.name+`"`) || !strings.Contains(body, `"status":"`+s.status+`"`) {
				t.Errorf("%s: %+v %s", what, entry, body)
			}
		}
		docs, upTo, err := m.Changed(t.Context(), before, 10)
		if err != nil || upTo != eventlog.Position(i+1) || (len(docs) == 1) != s.changed {
			t.Errorf("%s: %d documents changed, up to %d, %v", what, len(docs), upTo, err)
		}
		if len(docs) == 1 {
			d := docs[0]
			if d.Domain != domain || d.Gone != (s.status == "") || d.Name != s.name || d.Position != eventlog.Position(i+1) {
				t.Errorf("%s: document %+v", what, d)
			}
		}
		before = upTo
	}
	if docs, _, err := m.Changed(t.Context(), 0, 10); err != nil || len(docs) != 1 || !docs[0].Gone {
		t.Errorf("all changes: %+v, %v, want one removed document", docs, err)
	}
}

func TestChanged_ReportsImportedBrands(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("brand-acme.com", at, imported("acme.com", "Acme"), requested("1", "acme.com"),
			eventschemas.CrawlSucceeded{CrawlID: "1", Record: record("Acme"), FinalURL: "https://acme.com/"})
		e.Events("brand-other.com", at, eventschemas.BrandDiscovered{BrandID: brand.ID("other.com").String(), Domain: "other.com"},
			requested("2", "other.com"), eventschemas.CrawlSucceeded{CrawlID: "2", Record: record("Other"), FinalURL: "https://other.com/"})
		e.CatchUp(r)
		docs, _, err := m.Changed(t.Context(), 0, 10)
		if err != nil || len(docs) != 2 || !docs[0].Imported || docs[1].Imported {
			t.Errorf("%+v, %v, want the first imported and the second not", docs, err)
		}
	})
}

func TestRevision_IdentifiesAnswer(t *testing.T) {
	projectionstest.Each(t, testRevision_IdentifiesAnswer)
}

func testRevision_IdentifiesAnswer(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	e.Events("brand-acme.com", at, imported("acme.com", "A"), requested("1", "acme.com"),
		eventschemas.CrawlSucceeded{CrawlID: "1", Record: record("B"), FinalURL: "https://acme.com/"}, requested("2", "acme.com"))
	e.CatchUp(r)
	entry, err := m.Get(t.Context(), "acme.com")
	if err != nil || entry.Revision != 2 {
		t.Errorf("Get = %+v, %v, want revision 2", entry, err)
	}
}

func TestListAndChanged_InPages_ReturnAll(t *testing.T) {
	projectionstest.Each(t, testListAndChanged_InPages_ReturnAll)
}

func testListAndChanged_InPages_ReturnAll(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	const n = 25
	var want []string
	for i := range n {
		domain := fmt.Sprintf("b%02d.com", (i*7)%n)
		want = append(want, domain)
		e.Events("brand-"+domain, at, imported(domain, domain))
	}
	e.Events("brand-pending.com", at, eventschemas.BrandDiscovered{BrandID: "p", Domain: "pending.com"}, requested("1", "pending.com"))
	e.CatchUp(r)

	var changed []string
	for after := eventlog.Position(0); ; {
		docs, upTo, err := m.Changed(t.Context(), after, 4)
		testmust.Succeed(t, err)
		for _, d := range docs {
			changed = append(changed, d.Domain)
		}
		if after = upTo; len(docs) < 4 {
			break
		}
	}
	if !slices.Equal(changed, want) {
		t.Errorf("changed: %v, want %v", changed, want)
	}
	slices.Sort(want)
	if listed := list(t, m, brands.Selection{}, 4); !slices.Equal(listed, want) {
		t.Errorf("listed: %v, want %v", listed, want)
	}
}

// list returns the domains of a listing that is read in pages.
func list(t *testing.T, m *brands.Model, s brands.Selection, limit int) (domains []string) {
	t.Helper()
	for after := (*brands.Listed)(nil); ; {
		page := testmust.Get(m.List(t.Context(), s, after, limit))(t)
		for i := range page {
			after = &page[i]
			domains = append(domains, after.Domain)
		}
		if len(page) < limit {
			return domains
		}
	}
}

func TestList_Selection_FiltersAndSorts(t *testing.T) {
	projectionstest.Each(t, testList_Selection_FiltersAndSorts)
}

func testList_Selection_FiltersAndSorts(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	for i, domain := range []string{"b.com", "a.com", "d.com", "c.com"} {
		ev := eventschemas.BrandImported{BrandID: brand.ID(domain).String(), Domain: domain, Source: "test 1", Record: record(domain)}
		ev.Record.QualityScore = []float64{0.5, 0.1, 0.5, 0.9}[i]
		if domain == "c.com" {
			ev.Record.Logos = nil
		}
		e.Events("brand-"+domain, at, ev)
	}
	e.Events("brand-d.com", at, eventschemas.BrandClaimed{})
	e.Events("brand-gone.com", at, imported("gone.com", "gone.com"), eventschemas.BrandWithdrawn{Reason: "owner"})
	e.CatchUp(r)
	for _, c := range []struct {
		s    brands.Selection
		want string
	}{
		{brands.Selection{}, "a.com b.com c.com d.com"},
		{brands.Selection{Descending: true}, "d.com c.com b.com a.com"},
		{brands.Selection{Sort: "quality"}, "a.com b.com d.com c.com"},
		{brands.Selection{Sort: "quality", Descending: true}, "c.com d.com b.com a.com"},
		{brands.Selection{Sort: "revision", Descending: true}, "d.com c.com b.com a.com"},
		{brands.Selection{Sort: "logo"}, "c.com a.com b.com d.com"},
		{brands.Selection{Sort: "status"}, "a.com b.com c.com d.com"},
		{brands.Selection{Claimed: true}, "d.com"},
		{brands.Selection{WithoutLogo: true}, "c.com"},
		{brands.Selection{Status: "partial", Sort: "domain"}, "a.com b.com c.com d.com"},
		{brands.Selection{Status: "failed"}, ""},
	} {
		for _, limit := range []int{1, 2, 10} {
			if got := strings.Join(list(t, m, c.s, limit), " "); got != c.want {
				t.Errorf("%+v in pages of %d: %s, want %s", c.s, limit, got, c.want)
			}
		}
	}
	if _, err := m.List(t.Context(), brands.Selection{Sort: "taste"}, nil, 1); err == nil {
		t.Error("List accepted an unknown order")
	}
}

func TestList_NotByDomain_HasNoMaximum(t *testing.T) {
	e := projectionstest.Open(t)
	m, r := open(t, e)
	for i := range brands.MaxPage + 1 {
		domain := fmt.Sprintf("b%d.com", i)
		e.Events("brand-"+domain, at, imported(domain, domain))
	}
	e.CatchUp(r)
	for sort, want := range map[string]int{"domain": brands.MaxPage, "quality": brands.MaxPage + 1} {
		if all, err := m.List(t.Context(), brands.Selection{Sort: sort}, nil, math.MaxInt); err != nil || len(all) != want {
			t.Errorf("by %s: %d brands, %v; want %d", sort, len(all), err, want)
		}
	}
}

func TestGet_UnknownBrand_IsNotFound(t *testing.T) {
	projectionstest.Each(t, testGet_UnknownBrand_IsNotFound)
}

func testGet_UnknownBrand_IsNotFound(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	e.CatchUp(r)
	if _, err := m.Get(t.Context(), "nobody.com"); !errors.Is(err, brands.ErrNotFound) {
		t.Errorf("unknown domain: %v, want %v", err, brands.ErrNotFound)
	}
	if _, err := m.ByID(t.Context(), uuid.New()); !errors.Is(err, brands.ErrNotFound) {
		t.Errorf("unknown id: %v, want %v", err, brands.ErrNotFound)
	}
	if docs, upTo, err := m.Changed(t.Context(), 17, 10); err != nil || len(docs) != 0 || upTo != 17 {
		t.Errorf("changes after the end: %v, %d, %v", docs, upTo, err)
	}
	if _, err := brands.New(brands.Config{CacheBytes: -1}, e.Store); err == nil {
		t.Error("New accepted a negative cache size")
	}
}

// The fold continues from the row of a brand whose state was evicted.
func TestFold_Restarted_ContinuesFromStoredState(t *testing.T) {
	projectionstest.Each(t, testFold_Restarted_ContinuesFromStoredState)
}

func testFold_Restarted_ContinuesFromStoredState(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	const n = 300 // more than are kept
	for i := range n {
		domain := fmt.Sprintf("b%d.com", i)
		e.Events("brand-"+domain, at, imported(domain, "first"), requested("1", domain))
	}
	e.CatchUp(r)
	for i := range n {
		domain := fmt.Sprintf("b%d.com", i)
		e.Events("brand-"+domain, at, eventschemas.CrawlConfirmed{CrawlID: "1"})
	}
	e.CatchUp(r)
	for i := range n {
		entry, err := m.Get(t.Context(), fmt.Sprintf("b%d.com", i))
		if err != nil || entry.Status != "ready" {
			t.Fatalf("brand %d: %+v, %v, want status ready", i, entry, err)
		}
	}
}

func TestDue_ReturnsBrandsByTime(t *testing.T) {
	projectionstest.Each(t, testDue_ReturnsBrandsByTime)
}

func testDue_ReturnsBrandsByTime(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	found := func(domain string, after time.Duration, complete bool, more ...eventschemas.Event) {
		rec := record("A")
		rec.Complete = complete
		events := []eventschemas.Event{
			eventschemas.BrandDiscovered{BrandID: brand.ID(domain).String(), Domain: domain}, requested("1", domain),
			eventschemas.CrawlSucceeded{CrawlID: "1", Record: rec, FinalURL: "https://" + domain + "/"},
		}
		e.Events("brand-"+domain, at.Add(after), append(events, more...)...)
	}
	found("partial1.com", 0, false)
	found("partial2.com", 24*time.Hour, false)
	found("ready.com", 0, true)
	found("running.com", 0, false, requested("2", "running.com"))
	found("withdrawn.com", 0, false, eventschemas.BrandWithdrawn{Reason: "owner"})
	e.Events("brand-imported.com", at, imported("imported.com", "A"))
	e.CatchUp(r)
	want := func(now time.Duration, domains ...string) {
		t.Helper()
		var got []string
		var after brands.Due
		for {
			page := testmust.Get(m.Due(t.Context(), at.Add(now), after, 1))(t)
			if len(page) == 0 {
				break
			}
			if after = page[0]; after.At.After(at.Add(now)) {
				t.Errorf("%s is due at %s", after.Domain, after.At)
			}
			got = append(got, after.Domain)
		}
		if !slices.Equal(got, domains) {
			t.Errorf("after %s: %v, want %v", now, got, domains)
		}
	}
	want(5 * time.Hour)
	want(9*time.Hour, "partial1.com")
	want(33*time.Hour, "partial1.com", "partial2.com")
	want(1000*time.Hour, "partial1.com", "partial2.com", "ready.com")
}
