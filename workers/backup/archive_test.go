package backup_test

import (
	"slices"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/workers/backup"
)

// Only streams of domains that never were brands, and whose last outcome is old enough, are left out. All others are
// copied as they are, accounts with their hash chains.
func TestFailures_OnlyOldFailedBrandsAreLeftOut(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	equal(t, took, taken)
	rest, err := f.CopyRest(t.Context(), to.log)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, all(t, to.log), want)
	if rest.Events != uint64(len(want)) || rest.Accounts != 2 || rest.ChainEvents != 307 || rest.Position != eventlog.Position(len(want)) {
		t.Errorf("rest %+v", rest)
	}
	if again, err := backup.FindFailures(t.Context(), tiny(), to.log, before); err != nil || again.Events != 0 {
		t.Errorf("again %+v, %v", again, err)
	}
}
