package backup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// Only streams of domains that never became brands, with an old enough last outcome, are omitted. All
// others are copied unchanged, including accounts with their hash chains.
func TestFailures_MixedStreams_SelectsOnlyOldFailedCrawls(t *testing.T) {
	from, to := embedded(t), embedded(t)
	w := newWriter(t, from)
	crawl := func(domain string, types ...string) {
		for _, typ := range types {
			w.append("brand-"+domain, w.event("brand-"+domain, typ, 1, []byte(`{}`)))
		}
	}
	w.charge("a", 300)
	crawl("failed.com", "CrawlRequested", "CrawlFailed")
	crawl("twice.com", "BrandDiscovered", "CrawlRequested", "CrawlFailed", "CrawlRequested", "CrawlFailed")
	crawl("open.com", "CrawlRequested", "CrawlFailed", "CrawlRequested")
	crawl("recovered.com", "CrawlRequested", "CrawlFailed", "CrawlRequested", "BrandDiscovered", "CrawlSucceeded", "CrawlRequested", "CrawlFailed")
	crawl("overridden.com", "CrawlRequested", "CrawlFailed", "FieldOverridden")
	crawl("later.com", "CrawlRequested", "CrawlFailed")
	w.append("account-brand", w.event("account-brand", "CrawlRequested", 1, []byte(`{}`)), w.event("account-brand", "CrawlFailed", 1, []byte(`{}`)))
	crawl("recent.com", "CrawlRequested", "CrawlFailed")
	before := birth.Add(time.Duration(w.n) * 1001 * time.Microsecond) // of the last event, which is not older
	crawl("later.com", "CrawlRequested", "CrawlFailed")
	w.charge("a", 5)

	f, err := backup.FindFailures(t.Context(), tiny(), from.log, before)
	testmust.Succeed(t, err)
	left := []string{"brand-failed.com", "brand-twice.com"}
	var want, taken, took []eventlog.Recorded
	for _, e := range all(t, from.log) {
		if slices.Contains(left, e.Stream) {
			taken = append(taken, e)
		} else {
			e.Position = eventlog.Position(len(want) + 1)
			want = append(want, e)
		}
	}
	if f.Streams != 2 || f.Events != 7 {
		t.Errorf("%d events of %d streams", f.Events, f.Streams)
	}
	err = f.Each(t.Context(), func(e *eventlog.Recorded) error { took = append(took, *e); return nil })
	testmust.Succeed(t, err)
	equal(t, took, taken)
	readers := map[string]eventlog.Position{"at the beginning": 0, "at the end": eventlog.Position(len(all(t, from.log)))}
	wantReaders := map[string]eventlog.Position{"at the beginning": 0, "at the end": eventlog.Position(len(want))}
	kept := 0
	for i, e := range all(t, from.log) { // a reader behind each event
		name := fmt.Sprint("behind ", i)
		if readers[name] = e.Position; !slices.Contains(left, e.Stream) {
			kept++
		}
		wantReaders[name] = eventlog.Position(kept)
	}
	rest := testmust.Get(f.CopyRest(t.Context(), to.log, readers))(t)
	equal(t, all(t, to.log), want)
	if rest.Events != uint64(len(want)) || rest.Accounts != 2 || rest.ChainEvents != 307 || rest.Position != eventlog.Position(len(want)) {
		t.Errorf("rest %+v", rest)
	}
	if !maps.Equal(rest.Readers, wantReaders) {
		t.Errorf("readers are at %v, want %v", rest.Readers, wantReaders)
	}
	if again, err := backup.FindFailures(t.Context(), tiny(), to.log, before); err != nil || again.Events != 0 {
		t.Errorf("again %+v, %v, want no events", again, err)
	}
}

// A migration omits old failures from an event store, continues after an interruption, and keeps the
// positions of readers. If the server continues to run, nothing is omitted.
func TestMigrate_WithoutOldFailures(t *testing.T) {
	from := embedded(t)
	w := newWriter(t, from)
	crawl := func(domain string, types ...string) {
		for _, typ := range types {
			w.append("brand-"+domain, w.event("brand-"+domain, typ, 1, []byte(`{}`)))
		}
	}
	w.charge("a", 3)
	crawl("failed.com", "CrawlRequested", "CrawlFailed")
	w.charge("a", 3)
	crawl("twice.com", "CrawlRequested", "CrawlFailed", "CrawlRequested", "CrawlFailed")
	crawl("waiting.com", "CrawlRequested")
	failures := func() *backup.Failures {
		t.Helper()
		f, err := backup.FindFailures(t.Context(), tiny(), from.log, birth.Add(time.Hour))
		if err != nil || f.Streams != 2 {
			t.Fatalf("FindFailures = %+v, %v, want 2 streams", f, err)
		}
		return f
	}
	source := from.source()
	source.Without = failures()
	source.Readers = map[string]eventlog.Position{"relay": eventlog.Position(len(all(t, from.log)) - 1)} // before the last request
	_, to := eventStore(t)
	target := backup.Target{Log: to, Positions: remembered{}, Done: []string{"relay", "other"}}
	if _, err := backup.Migrate(t.Context(), tiny(), false, source, target); err == nil {
		t.Error("a first pass omitted streams")
	}
	cut := &killable{Log: to}
	cut.left.Store(1)
	target.Log = cut
	if _, err := backup.Migrate(t.Context(), tiny(), true, source, target); !errors.Is(err, errKilled) {
		t.Fatalf("the migration was not interrupted: %v, want %v", err, errKilled)
	}
	target.Log = to
	out, err := backup.Migrate(t.Context(), tiny(), true, source, target)
	if err != nil || out.Events != 7 || out.Present == 0 || out.ChainEvents != 6 {
		t.Errorf("migrated %+v, %v", out, err)
	}
	var want, got []eventlog.Recorded
	for _, e := range all(t, from.log) {
		if e.Stream != "brand-failed.com" && e.Stream != "brand-twice.com" {
			e.Position = 0
			want = append(want, e)
		}
	}
	positions := []eventlog.Position{0}
	for _, e := range all(t, to) {
		positions = append(positions, e.Position)
		e.Position = 0
		got = append(got, e)
	}
	equal(t, got, want)
	saved := target.Positions.(remembered)
	if before, head := positions[len(positions)-2], positions[len(positions)-1]; saved["relay"] != before || saved["other"] != head {
		t.Errorf("readers begin at %v, want %d and %d", saved, before, head)
	}

	w.charge("a", 1)
	if _, err := backup.Migrate(t.Context(), tiny(), true, source, target); !errors.Is(err, backup.ErrDiffers) {
		t.Errorf("the source changed: %v, want %v", err, backup.ErrDiffers)
	}
}

// remembered are positions in memory.
type remembered map[string]eventlog.Position

func (r remembered) Reset(_ context.Context, name string, at eventlog.Position) error {
	r[name] = at
	return nil
}
