package commands

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

func brandsOnFile(t *testing.T) (*Brands, eventlog.Log) {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	b := testmust.Get(NewBrands(BrandsConfig{}, log))(t)
	return b, log
}

func lookupOf(domain string) RequestCrawl {
	return RequestCrawl{Request: Request{ID: "r", Actor: "account:a"}, Domain: domain, Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: time.Minute}
}

// Of many callers that request one unknown domain, one starts a crawl and all others join it, even
// through different nodes.
func TestRequestCrawl_ConcurrentCallers_StartOneCrawl(t *testing.T) {
	here, log := brandsOnFile(t)
	there, err := NewBrands(BrandsConfig{}, log)
	testmust.Succeed(t, err)
	crawls := make([]Crawl, 40)
	var wg sync.WaitGroup
	for i := range crawls {
		node := here
		if i%2 == 1 {
			node = there
		}
		wg.Go(func() {
			var err error
			if crawls[i], err = node.RequestCrawl(context.Background(), lookupOf("acme.com")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	started := 0
	for _, c := range crawls {
		if c.ID != crawls[0].ID {
			t.Errorf("two crawls: %s and %s", c.ID, crawls[0].ID)
		}
		if !c.Joined {
			started++
		}
	}
	if started != 1 {
		t.Errorf("%d callers started the crawl, want 1", started)
	}
	events := testmust.Get(log.ReadStream(t.Context(), brand.Stream("acme.com"), 0, eventlog.Forward, 100))(t)
	if len(events) != 1 || events[0].Type != "CrawlRequested" {
		t.Fatalf("the stream holds %d events", len(events))
	}
	for _, r := range events {
		if err := eventschemas.ValidateJSON(r.Type, r.SchemaVersion, r.Data); err != nil {
			t.Error(err)
		}
		if r.Metadata.RequestID != "r" || r.Metadata.CorrelationID != "r" || r.Metadata.Actor != "account:a" {
			t.Errorf("metadata %+v", r.Metadata)
		}
	}
}

func TestRequestCrawl_RememberedFailure_NeedsForceOrTime(t *testing.T) {
	b, _ := brandsOnFile(t)
	crawl, err := b.RequestCrawl(t.Context(), lookupOf("acme.com"))
	testmust.Succeed(t, err)
	fail := FailCrawl{Request: Request{ID: "c", Actor: "system:crawl"}, Domain: "acme.com", CrawlID: crawl.ID, Outcome: brand.Blocked, Detail: "status 403"}
	for range 2 { // a repeat is a no-op
		testmust.Succeed(t, b.FailCrawl(t.Context(), fail))
	}
	_, err = b.RequestCrawl(t.Context(), lookupOf("acme.com"))
	var remembered *brand.RememberedError
	if !errors.As(err, &remembered) || remembered.Outcome != brand.Blocked {
		t.Fatalf("the next look-up got %v", err)
	}
	forced := lookupOf("acme.com")
	forced.Force, forced.Cause = true, brand.CauseRefresh
	if c, err := b.RequestCrawl(t.Context(), forced); err != nil || c.Joined || c.ID == crawl.ID {
		t.Fatalf("a paid refresh got %+v %v", c, err)
	}
	state, err := b.State(t.Context(), "acme.com")
	if err != nil || state.Events() != 3 {
		t.Fatalf("the stream holds %d events (%v), not requested, failed, requested", state.Events(), err)
	}
}

func TestImportBrand_SameSource_ImportsOnce(t *testing.T) {
	b, _ := brandsOnFile(t)
	name := "Acme"
	in := ImportBrand{Request: Request{ID: "i", Actor: "system:starter"}, Domain: "acme.com", Source: "set@1", Record: eventschemas.Record{Name: &name}}
	for i, want := range []bool{true, false} {
		got, err := b.ImportBrand(t.Context(), in)
		if err != nil || got != want {
			t.Fatalf("import %d: %t %v", i, got, err)
		}
	}
	if _, err := b.RequestCrawl(t.Context(), lookupOf("acme.com")); !errors.Is(err, brand.ErrAlreadyKnown) {
		t.Fatalf("a look-up of an imported brand got %v", err)
	}
}

// lossy drops the reply of every append after the commit.
type lossy struct {
	eventlog.Log
	lost int
}

func (l *lossy) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	appended, err := l.Log.Append(ctx, stream, expected, events)
	if err == nil && l.lost < 1 {
		l.lost++
		return eventlog.Appended{}, eventlog.ErrAmbiguous
	}
	return appended, err
}

func TestRequestCrawl_LostReply_StartsOneCrawl(t *testing.T) {
	_, log := brandsOnFile(t)
	b := testmust.Get(NewBrands(BrandsConfig{}, &lossy{Log: log}))(t)
	if c, err := b.RequestCrawl(t.Context(), lookupOf("acme.com")); err != nil || c.Joined {
		t.Fatalf("%+v %v", c, err)
	}
	state, err := b.State(t.Context(), "acme.com")
	if err != nil || state.Events() != 1 {
		t.Fatalf("%d events %v, want 1", state.Events(), err)
	}
}

// An answer is repeated unchanged after later events of the brand, even if they fill more than one page of a read.
func TestStateAt_ReturnsBrandAtRevision(t *testing.T) {
	b, log := brandsOnFile(t)
	var proposed []eventlog.Proposed
	for i := range streamPage + 2 {
		first := "0"
		event := eventschemas.Event(eventschemas.BrandImported{BrandID: testBrand, Domain: "acme.com", Source: "set@1", Record: eventschemas.Record{Name: &first}})
		if i > 0 {
			event = eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(strconv.Quote(strconv.Itoa(i)))}
		}
		one := testmust.Get(propose(eventschemas.Encoder{}, brand.Stream("acme.com"), []eventschemas.Event{event}, Request{ID: "r", Actor: "operator:a"}, strconv.Itoa(i), time.Now().UTC().Truncate(time.Microsecond)))(t)
		proposed = append(proposed, one...)
	}
	testmust.Succeed(t, testmust.Err(log.Append(t.Context(), brand.Stream("acme.com"), eventlog.After(0), proposed)))
	for _, revision := range []uint64{0, 1, 2, streamPage - 1, streamPage, streamPage + 1} {
		state, err := b.StateAt(t.Context(), "acme.com", revision)
		if err != nil || state.Events() != revision+1 {
			t.Fatalf("at %d: %d events, %v", revision, state.Events(), err)
		}
		if name := state.View().Record.Name; name == nil || *name != strconv.FormatUint(revision, 10) {
			t.Errorf("at %d: name %v", revision, name)
		}
	}
	for domain, revision := range map[string]uint64{"acme.com": streamPage + 2, "nobody.com": 0} {
		if state, err := b.StateAt(t.Context(), domain, revision); !errors.Is(err, ErrUnknownRevision) || state != nil {
			t.Errorf("revision %d of %s: %v, %v", revision, domain, state, err)
		}
	}
}
