package brand_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

const domain = "acme.com"

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// scenario is a brand with given events that receives commands.
type scenario struct {
	t      *testing.T
	brand  *brand.Brand
	now    time.Time
	events []eventschemas.Event
	err    error
}

// fact is an event that happened some time after the previous one.
type fact struct {
	after time.Duration
	event eventschemas.Event
}

func soon(ev eventschemas.Event) fact { return fact{time.Second, ev} }

func given(t *testing.T, facts ...fact) *scenario {
	t.Helper()
	s := &scenario{t: t, brand: brand.New(domain), now: start}
	for _, f := range facts {
		s.now = s.now.Add(f.after)
		s.happened(f.event)
	}
	return s
}

// happened encodes and decodes an event as a log does, checks its schema and folds it.
func (s *scenario) happened(ev eventschemas.Event) {
	s.t.Helper()
	s.brand.Apply(stored(s.t, ev), s.brand.Events(), s.now)
}

func stored(t interface {
	Helper()
	Fatalf(string, ...any)
}, ev eventschemas.Event) eventschemas.Event {
	t.Helper()
	encoded, err := eventschemas.Encode(ev)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if err := eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data); err != nil {
		t.Fatalf("%s: %v", encoded.Data, err)
	}
	back, err := eventschemas.Decode(encoded.Type, encoded.SchemaVersion, encoded.Data)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return back
}

type command func(b *brand.Brand, now time.Time) ([]eventschemas.Event, error)

// when runs a command and folds its events.
func (s *scenario) when(c command) *scenario {
	s.t.Helper()
	s.events, s.err = c(s.brand, s.now)
	for _, ev := range s.events {
		s.happened(ev)
	}
	return s
}

func (s *scenario) waits(d time.Duration) *scenario {
	s.now = s.now.Add(d)
	return s
}

func (s *scenario) then(want ...eventschemas.Event) *scenario {
	s.t.Helper()
	if s.err != nil {
		s.t.Fatalf("the command failed: %v", s.err)
	}
	got, expected := eventLines(s.t, s.events), eventLines(s.t, want)
	if got != expected {
		s.t.Fatalf("\n got %s\nwant %s", got, expected)
	}
	return s
}

// eventLines formats events in their stored form, one per line.
func eventLines(t *testing.T, events []eventschemas.Event) string {
	t.Helper()
	var out strings.Builder
	for _, ev := range events {
		encoded, err := eventschemas.Encode(ev)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		fmt.Fprintf(&out, "%s %s\n", encoded.Type, encoded.Data)
	}
	return out.String()
}

func (s *scenario) nothing() *scenario {
	s.t.Helper()
	return s.then()
}

func (s *scenario) rejected(want error) *scenario {
	s.t.Helper()
	if !errors.Is(s.err, want) || s.events != nil {
		s.t.Fatalf("got error %v and events %v, want error %v", s.err, s.events, want)
	}
	return s
}

func (s *scenario) remembered(outcome string, d time.Duration) *scenario {
	s.t.Helper()
	var r *brand.RememberedError
	if !errors.As(s.err, &r) || r.Outcome != outcome || !r.Until.Equal(s.now.Add(d)) {
		s.t.Fatalf("got error %v, want %s to be remembered for another %s", s.err, outcome, d)
	}
	return s
}

func (s *scenario) shows(status string, name string) *scenario {
	s.t.Helper()
	v := s.brand.View()
	if v.Status != status || text(v.Record.Name) != name {
		s.t.Fatalf("view has status %q and name %q, want %q and %q", v.Status, text(v.Record.Name), status, name)
	}
	return s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func ptr[T any](v T) *T { return &v }

func record(name string) eventschemas.Record {
	return eventschemas.Record{Name: &name, Complete: true, QualityScore: 0.5, Company: eventschemas.EmptyCompany()}.Normalized()
}

func partial(name string) eventschemas.Record {
	r := record(name)
	r.Complete = false
	return r
}

// Facts.

func discovered() fact {
	return soon(eventschemas.BrandDiscovered{BrandID: brand.ID(domain).String(), Domain: domain})
}

func requested(id string) fact {
	return soon(requestedEvent(id, brand.PriorityLive, brand.CauseLookup))
}

func scheduled(id string) fact {
	return soon(requestedEvent(id, brand.PriorityBulk, brand.CauseSchedule))
}

func requestedEvent(id, priority, cause string) eventschemas.CrawlRequested {
	return eventschemas.CrawlRequested{CrawlID: id, Domain: domain, Cause: cause, Priority: priority, AllowedMS: 8500}
}

func succeeded(id string, r eventschemas.Record) fact {
	return soon(eventschemas.CrawlSucceeded{CrawlID: id, Record: r, FinalURL: "https://acme.com/"})
}

func confirmed(id string) fact { return soon(eventschemas.CrawlConfirmed{CrawlID: id}) }

func failed(id, outcome string, remember time.Duration) fact {
	return soon(failedEvent(id, outcome, remember))
}

func failedEvent(id, outcome string, remember time.Duration) eventschemas.CrawlFailed {
	return eventschemas.CrawlFailed{CrawlID: id, Outcome: outcome, RememberSeconds: int64(remember / time.Second)}
}

func imported(source string, r eventschemas.Record) fact {
	return soon(eventschemas.BrandImported{BrandID: brand.ID(domain).String(), Domain: domain, Source: source, Record: r})
}

func overriddenFact(field, value string) fact {
	return soon(eventschemas.FieldOverridden{Field: field, Value: json.RawMessage(value)})
}

func claimed() fact   { return soon(eventschemas.BrandClaimed{}) }
func withdrawn() fact { return soon(eventschemas.BrandWithdrawn{Reason: "owner"}) }

// Commands.

func crawl(id, cause, priority string, force bool) command {
	return func(b *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
		return b.RequestCrawl(brand.RequestCrawl{
			CrawlID: id, Cause: cause, Priority: priority, Allowed: 8500 * time.Millisecond, Force: force, Now: now,
		})
	}
}

func lookup(id string) command   { return crawl(id, brand.CauseLookup, brand.PriorityLive, false) }
func refresh(id string) command  { return crawl(id, brand.CauseRefresh, brand.PriorityLive, true) }
func schedule(id string) command { return crawl(id, brand.CauseSchedule, brand.PriorityBulk, false) }

func succeed(id string, r eventschemas.Record) command {
	return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
		return b.SucceedCrawl(brand.SucceedCrawl{CrawlID: id, Record: r, FinalURL: "https://acme.com/"})
	}
}

func fail(id, outcome string) command {
	return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
		return b.FailCrawl(brand.FailCrawl{CrawlID: id, Outcome: outcome})
	}
}

// expire ends a crawl that a crawler has begun immediately.
func expire(id string) command {
	return func(b *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
		_, begun, _, _ := b.Running()
		return b.ExpireCrawl(id, begun, now)
	}
}

// expireLate ends a crawl that a crawler has begun after some time; 0 if none has.
func expireLate(id string, after time.Duration) command {
	return func(b *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
		_, begun, _, _ := b.Running()
		if begun = begun.Add(after); after == 0 {
			begun = time.Time{}
		}
		return b.ExpireCrawl(id, begun, now)
	}
}

func importing(source string, r eventschemas.Record) command {
	return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
		return b.Import(brand.Import{Source: source, Record: r})
	}
}

func override(field, value string) command { return overrideFor(field, value, "") }

func overrideFor(field, value, reason string) command {
	return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
		return b.Override(field, json.RawMessage(value), reason)
	}
}

func removeOverride(field string) command {
	return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) { return b.RemoveOverride(field) }
}

func claim(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error)    { return b.Claim() }
func withdraw(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) { return b.Withdraw("owner") }
