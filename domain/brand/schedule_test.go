package brand_test

import (
	"fmt"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// due expects the next scheduled crawl between from and to after now, or none if from is negative.
func (s *scenario) due(from, to time.Duration) *scenario {
	s.t.Helper()
	at, ok := s.brand.NextCrawl()
	if from < 0 {
		if ok {
			s.t.Fatalf("due at %s, want never", at)
		}
		return s
	}
	if !ok || at.Before(s.now.Add(from)) || at.After(s.now.Add(to)) {
		s.t.Fatalf("due %v in %s, want in %s to %s", ok, at.Sub(s.now), from, to)
	}
	return s
}

func (s *scenario) neverDue() *scenario {
	s.t.Helper()
	return s.due(-1, 0)
}

func confirm(id string) command {
	return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) { return b.ConfirmCrawl(id) }
}

func TestNextCrawl_ReadyRecord_DueAfterWeeks(t *testing.T) {
	given(t, discovered(), requested("1"), succeeded("1", record("Acme"))).due(4*week, 5*week).
		when(schedule("2")).neverDue(). // while a crawl runs
		when(succeed("2", record("Acme"))).then(eventschemas.CrawlConfirmed{CrawlID: "2"}).due(4*week, 5*week)
}

func TestNextCrawl_PartialRecord_WaitsGrow(t *testing.T) {
	s := given(t, discovered(), requested("0"), succeeded("0", partial("Acme"))).due(6*time.Hour, 8*time.Hour)
	wait := 6 * time.Hour
	for i := range 12 {
		id := fmt.Sprint(i + 1)
		wait = min(2*wait, 4*week)
		s.waits(wait).when(schedule(id)).when(succeed(id, partial("Acme"))).due(wait, wait+wait/4)
	}
	s.when(schedule("whole")).when(succeed("whole", record("Acme"))).due(4*week, 5*week)
	s.when(schedule("less")).when(succeed("less", partial("Acme"))).due(6*time.Hour, 8*time.Hour)
}

func TestNextCrawl_FailedRefresh_WaitsGrow(t *testing.T) {
	s := given(t, discovered(), requested("0"), succeeded("0", record("Acme")), scheduled("1"))
	s.when(fail("1", brand.Timeout)).due(time.Hour, 75*time.Minute)
	s.waits(2*time.Hour).when(schedule("2")).when(fail("2", brand.Timeout)).due(2*time.Hour, 150*time.Minute)
	for i := range 12 {
		id := fmt.Sprint(i + 3)
		s.waits(day).when(schedule(id)).when(fail(id, brand.Timeout))
	}
	s.due(2*week, 18*day)
	s.waits(3*week).when(schedule("good")).when(succeed("good", record("Acme"))).due(4*week, 5*week)
}

func TestNextCrawl_RememberedFailure_Waits(t *testing.T) {
	s := given(t, discovered(), requested("0"), succeeded("0", record("Acme")), scheduled("1")).when(fail("1", brand.Blocked)).due(day, day)
	s.waits(day).when(schedule("2"))
	if len(s.events) != 1 {
		t.Fatalf("the scheduled crawl was rejected when it was due: %v", s.err)
	}
}

func TestNextCrawl_UnneededBrand_IsNeverDue(t *testing.T) {
	given(t).neverDue()
	given(t, discovered(), requested("1")).neverDue()
	given(t, discovered(), requested("1"), failed("1", brand.Blocked, day)).neverDue()
	given(t, imported("set 1", record("Acme"))).neverDue()
	given(t, discovered(), requested("1"), succeeded("1", record("Acme")), withdrawn()).neverDue()
}

func TestNextCrawl_SpreadsDomains(t *testing.T) {
	perDay := map[int]int{}
	for i := range 1000 {
		name := fmt.Sprintf("brand%d.com", i)
		b := brand.New(name)
		b.Apply(eventschemas.CrawlRequested{CrawlID: "1", Domain: name, Cause: brand.CauseLookup, Priority: brand.PriorityLive, AllowedMS: 8500}, 0, start)
		b.Apply(eventschemas.CrawlSucceeded{CrawlID: "1", Record: record("A"), FinalURL: "https://" + name + "/"}, 1, start)
		at, ok := b.NextCrawl()
		if !ok {
			t.Fatal("not due")
		}
		perDay[int(at.Sub(start)/day)]++
	}
	if len(perDay) != 7 {
		t.Errorf("the crawls are spread over %d days: %v, want 7", len(perDay), perDay)
	}
	for d, n := range perDay {
		if n < 100 || n > 200 {
			t.Errorf("day %d has %d of 1000 crawls", d, n)
		}
	}
}

func TestNextCrawl_RepeatedlyUnmodified_ForcesFullCrawl(t *testing.T) {
	found := eventschemas.CrawlSucceeded{CrawlID: "0", Record: record("Acme"), FinalURL: "https://acme.com/", ETag: `"v1"`, LastModified: "then"}
	s := given(t, discovered(), requested("0"), soon(found))
	for i := range 9 {
		etag, modified, ok := s.brand.Conditional()
		if whole := i%4 == 3; ok == whole {
			t.Fatalf("crawl %d: conditional = %v", i, ok)
		}
		if ok && (etag != `"v1"` || modified != "then") {
			t.Fatalf("the conditional crawl has ETag %q and Last-Modified %q", etag, modified)
		}
		id := fmt.Sprint(i + 1)
		s.when(schedule(id)).when(confirm(id)).then(eventschemas.CrawlConfirmed{CrawlID: id, ETag: `"v1"`, LastModified: "then"}).shows(brand.StatusReady, "Acme")
	}
}

func TestConditional_IncompleteRecord_NeedsFullCrawl(t *testing.T) {
	tagged := func(r eventschemas.Record) fact {
		return soon(eventschemas.CrawlSucceeded{CrawlID: "1", Record: r, FinalURL: "https://acme.com/", ETag: `"v1"`})
	}
	for name, s := range map[string]*scenario{
		"never crawled":   given(t, imported("set 1", record("Acme"))),
		"partial":         given(t, discovered(), requested("1"), tagged(partial("Acme"))),
		"nothing to say":  given(t, discovered(), requested("1"), succeeded("1", record("Acme"))),
		"the last failed": given(t, discovered(), requested("1"), tagged(record("Acme")), scheduled("2"), failed("2", brand.Timeout, time.Minute)),
	} {
		if _, _, ok := s.brand.Conditional(); ok {
			t.Errorf("%s: the crawl is conditional", name)
		}
	}
}

func TestConfirmCrawl_NeedsCrawledRecord(t *testing.T) {
	given(t, discovered(), requested("1")).when(confirm("1")).rejected(brand.ErrInvalidCrawl)
	given(t, imported("set 1", record("Acme")), scheduled("1")).when(confirm("1")).rejected(brand.ErrInvalidCrawl)
	given(t, discovered(), requested("1"), succeeded("1", record("Acme"))).when(confirm("another")).nothing()
}

func TestNextCrawl_RequestedCrawls_DoNotDelaySchedule(t *testing.T) {
	s := given(t, discovered(), requested("0"), succeeded("0", partial("Acme")))
	for i := range 8 {
		id := fmt.Sprint("paid", i)
		s.waits(time.Minute).when(refresh(id)).when(succeed(id, partial("Acme"))).due(6*time.Hour, 8*time.Hour)
	}
	for i := range 8 {
		id := fmt.Sprint("failed", i)
		s.waits(time.Minute).when(refresh(id)).when(fail(id, brand.Timeout)).due(time.Hour, 2*time.Hour)
	}
}
