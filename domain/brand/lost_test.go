package brand_test

import (
	"errors"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// Only its deadline ended a lost crawl, so the site may have crashed the crawler. Each request is on
// the stream before the work begins, so it counts although nothing was reported.
func TestLostCrawls_RememberedLongerEachTime(t *testing.T) {
	t.Parallel()
	const allowed = 8 * time.Second
	b, now := brand.New(domain), start
	apply := func(events []eventschemas.Event, err error) eventschemas.Event {
		t.Helper()
		if err != nil || len(events) == 0 {
			t.Fatalf("%v, %v", events, err)
		}
		for _, ev := range events {
			b.Apply(stored(t, ev), b.Events(), now)
		}
		return events[len(events)-1]
	}
	request := func(id string, force bool) brand.RequestCrawl {
		return brand.RequestCrawl{CrawlID: id, Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: allowed, Force: force, Now: now}
	}
	lose := func(id string) time.Duration {
		t.Helper()
		apply(b.RequestCrawl(request(id, false)))
		now = now.Add(allowed)
		failed := apply(b.ExpireCrawl(id, now)).(eventschemas.CrawlFailed)
		return time.Duration(failed.RememberSeconds) * time.Second
	}
	want := 5 * time.Minute
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		remembered := lose(id)
		if remembered != min(want, 6*time.Hour) {
			t.Errorf("the crawl %s is remembered for %v, want %v", id, remembered, want)
		}
		want *= 2
		// From the second on, not even a paid refresh tries it again immediately.
		var refused *brand.RememberedError
		_, err := b.RequestCrawl(request("again "+id, true))
		if forced := err == nil; forced != (id == "1") || !forced && (!errors.As(err, &refused) || !refused.Until.Equal(now.Add(remembered))) {
			t.Errorf("a refresh at once after the crawl %s: %v", id, err)
		}
		now = now.Add(remembered)
	}
	// An outcome reported by a crawler ends the sequence, and is charged as usual.
	apply(b.RequestCrawl(request("reported", false)))
	now = now.Add(allowed / 2)
	failed := apply(b.FailCrawl(brand.FailCrawl{CrawlID: "reported", Outcome: brand.Timeout, Detail: "Too slow."})).(eventschemas.CrawlFailed)
	if failed.RememberSeconds != 300 {
		t.Errorf("a timeout that was reported is remembered for %d s", failed.RememberSeconds)
	}
	apply(b.RequestCrawl(request("paid", true)))
	now = now.Add(allowed)
	failed = apply(b.ExpireCrawl("paid", now)).(eventschemas.CrawlFailed)
	if failed.RememberSeconds != 300 {
		t.Errorf("the first lost one of a new row is remembered for %d s", failed.RememberSeconds)
	}
}
