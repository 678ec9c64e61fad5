package brand_test

import (
	"errors"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// No crawler reported the outcome of a lost crawl before its deadline, so the site may have crashed the
// crawler. The crawl still counts, because its request is on the stream before the work begins.
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
		failed := apply(b.ExpireCrawl(id, now.Add(-allowed), now)).(eventschemas.CrawlFailed)
		return time.Duration(failed.RememberSeconds) * time.Second
	}
	want := 5 * time.Minute
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		remembered := lose(id)
		if remembered != min(want, 6*time.Hour) {
			t.Errorf("the crawl %s is remembered for %v, want %v", id, remembered, want)
		}
		want *= 2
		// After the second lost crawl even a paid refresh must wait.
		var rejected *brand.RememberedError
		_, err := b.RequestCrawl(request("again "+id, true))
		if forced := err == nil; forced != (id == "1") || !forced && (!errors.As(err, &rejected) || !rejected.Until.Equal(now.Add(remembered))) {
			t.Errorf("an immediate refresh after the crawl %s: %v", id, err)
		}
		now = now.Add(remembered)
	}
	// A reported outcome ends the sequence and is remembered for the usual time.
	apply(b.RequestCrawl(request("reported", false)))
	now = now.Add(allowed / 2)
	failed := apply(b.FailCrawl(brand.FailCrawl{CrawlID: "reported", Outcome: brand.Timeout, Detail: "Too slow."})).(eventschemas.CrawlFailed)
	if failed.RememberSeconds != 300 {
		t.Errorf("a reported timeout is remembered for %d s, want 300", failed.RememberSeconds)
	}
	apply(b.RequestCrawl(request("paid", true)))
	now = now.Add(allowed)
	failed = apply(b.ExpireCrawl("paid", now.Add(-allowed), now)).(eventschemas.CrawlFailed)
	if failed.RememberSeconds != 300 {
		t.Errorf("the first lost crawl of a new sequence is remembered for %d s, want 300", failed.RememberSeconds)
	}
}
