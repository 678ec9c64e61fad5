package brands_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/projections/projectionstest"
)

func pastBody(t *testing.T, e *projectionstest.Env, domain string, when time.Time) (string, error) {
	t.Helper()
	body, err := brands.AsOf(t.Context(), e.Log, domain, when)
	return string(body.AppendTo(nil, "https://b.example")), err
}

func TestAsOf_AnyMoment_IsWhatTheAPIAnsweredThen(t *testing.T) {
	e := projectionstest.Open(t)
	m, r := open(t, e)
	const domain, stream = "acme.com", "brand-acme.com"
	first, second := record("First"), record("Second")
	second.Complete = false
	type answer struct {
		at   time.Time
		body string // empty if there was none
	}
	answers := []answer{{at.Add(-time.Second), ""}}
	for i, ev := range []eventschemas.Event{
		requested("1", domain),
		eventschemas.CrawlFailed{CrawlID: "1", Outcome: "timeout", RememberSeconds: 300, Detail: "d"},
		imported(domain, "Imported"),
		requested("2", domain),
		eventschemas.CrawlSucceeded{CrawlID: "2", Record: first, FinalURL: "https://acme.com/"},
		eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`"Fixed"`)},
		requested("3", domain),
		eventschemas.CrawlSucceeded{CrawlID: "3", Record: second, FinalURL: "https://acme.com/"},
		eventschemas.OverrideRemoved{Field: "name"},
		eventschemas.BrandClaimed{},
	} {
		when := at.Add(time.Duration(i) * time.Hour)
		e.Events(stream, when, ev)
		e.CatchUp(r)
		a := answer{at: when}
		if entry, err := m.Get(t.Context(), domain); err == nil {
			a.body = string(entry.Body.AppendTo(nil, "https://b.example"))
		}
		answers = append(answers, a)
	}
	rapid.Check(t, func(rt *rapid.T) {
		a := rapid.SampledFrom(answers).Draw(rt, "answer")
		when := a.at.Add(rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Minute, time.Hour - time.Microsecond}).Draw(rt, "later"))
		if a.at.Before(at) {
			when = a.at
		}
		body, err := pastBody(t, e, domain, when)
		if a.body == "" {
			if !errors.Is(err, brands.ErrNotFound) {
				rt.Errorf("as of %s: %v, want %v", when, err, brands.ErrNotFound)
			}
			return
		}
		if err != nil || body != a.body {
			rt.Errorf("as of %s: %v\n%s\nwant\n%s", when, err, body, a.body)
		}
	})
}

func TestAsOf_WithdrawnOrRestrictedSince_IsNotShown(t *testing.T) {
	for name, c := range map[string]struct {
		since []eventschemas.Event
		err   error
	}{
		"nothing":   {nil, nil},
		"claimed":   {[]eventschemas.Event{eventschemas.BrandClaimed{}}, nil},
		"withdrawn": {[]eventschemas.Event{eventschemas.BrandWithdrawn{Reason: "owner"}}, brands.ErrNotFound},
		"restricted by a crawl": {[]eventschemas.Event{requested("1", "acme.com"), eventschemas.CrawlSucceeded{CrawlID: "1",
			Record: eventschemas.Record{Complete: true, NSFW: true, Restriction: &eventschemas.Restriction{Code: "adult", Message: "m"}}, FinalURL: "https://acme.com/"}}, brands.ErrRestricted},
		"restricted by an operator": {[]eventschemas.Event{eventschemas.FieldOverridden{Field: "restriction", Value: eventschemas.JSONText(`{"code":"legal","message":"m"}`)}}, brands.ErrRestricted},
		"restriction that ended": {[]eventschemas.Event{eventschemas.FieldOverridden{Field: "restriction", Value: eventschemas.JSONText(`{"code":"legal","message":"m"}`)},
			eventschemas.OverrideRemoved{Field: "restriction"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := projectionstest.Open(t)
			e.Events(brand.Stream("acme.com"), at, imported("acme.com", "Acme"))
			if len(c.since) > 0 {
				e.Events(brand.Stream("acme.com"), at.Add(time.Hour), c.since...)
			}
			if body, err := pastBody(t, e, "acme.com", at.Add(time.Minute)); !errors.Is(err, c.err) || err == nil && body == "" {
				t.Errorf("%s, %v, want %v", body, err, c.err)
			}
		})
	}
}

func TestAsOf_LongStream_IsReadInPages(t *testing.T) {
	e := projectionstest.Open(t)
	const domain = "acme.com"
	e.Events(brand.Stream(domain), at, imported(domain, "Acme"))
	const crawls = 150
	for i := range crawls {
		e.Events(brand.Stream(domain), at.Add(time.Duration(i+1)*time.Hour), eventschemas.FieldOverridden{Field: "quality_score", Value: eventschemas.JSONText([]string{"0.1", "0.2"}[i%2])})
	}
	before := testmust.Get(pastBody(t, e, domain, at.Add(100*time.Hour)))(t)
	if now, err := pastBody(t, e, domain, at.Add(101*time.Hour)); err != nil || now == before {
		t.Errorf("as of the next crawl: %v, the same body", err)
	}
	e.Events(brand.Stream(domain), at.Add(1000*time.Hour), eventschemas.BrandWithdrawn{Reason: "owner"})
	if _, err := pastBody(t, e, domain, at.Add(100*time.Hour)); !errors.Is(err, brands.ErrNotFound) {
		t.Errorf("after the withdrawal: %v", err)
	}
	if page, err := e.Log.ReadStream(t.Context(), brand.Stream(domain), 0, eventlog.Forward, 1000); err != nil || len(page) != crawls+2 {
		t.Errorf("%d events, %v", len(page), err)
	}
}
