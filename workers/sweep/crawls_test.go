package sweep_test

import (
	"context"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/workers/sweep"
)

// slack is the time that the sweeper leaves to a crawl's waiter.
const slack = 3 * time.Second

func (w *world) timedOut(domain string) eventschemas.CrawlFailed {
	w.Helper()
	return await(w, brand.Stream(domain), func(ev eventschemas.CrawlFailed) bool { return ev.Outcome == brand.Timeout })
}

// Rule 5.
func TestOverdueCrawl_TimesOut_LateSuccessStillCounts(t *testing.T) {
	w := newWorld(t)
	crawl := w.crawled("acme.com", brand.PriorityLive)
	w.sweeper(sweep.Config{}, parts{})
	w.sweeper(sweep.Config{}, parts{})
	w.pass(work + slack) // its waiter comes first
	w.sweptOver()
	if failed := w.failures("acme.com"); len(failed) > 0 {
		t.Fatalf("failed within the slack: %+v, want none", failed)
	}
	w.pass(time.Millisecond)
	if failed := w.timedOut("acme.com"); failed.CrawlID != crawl.ID {
		t.Errorf("failed %+v, want crawl %s", failed, crawl.ID)
	}
	w.sweptOver()
	if n := len(w.failures("acme.com")); n != 1 {
		t.Errorf("failed %d times", n)
	}
	w.succeed("acme.com", crawl.ID)
	if state := w.state("acme.com"); !state.Crawled() || !state.Known() {
		t.Error("the late success did not count")
	}
}

func TestCrawl_EndedInTime_IsNotSwept(t *testing.T) {
	w := newWorld(t)
	succeeded, failed := w.crawled("succeeded.com", brand.PriorityLive), w.crawled("failed.com", brand.PriorityLive)
	w.succeed("succeeded.com", succeeded.ID)
	err := w.brands.FailCrawl(t.Context(), commands.FailCrawl{Request: w.request(), Domain: "failed.com", CrawlID: failed.ID, Outcome: brand.NoData})
	testmust.Succeed(t, err)
	confirmed, err := w.brands.RequestCrawl(t.Context(), commands.RequestCrawl{
		Request: w.request(), Domain: "succeeded.com", Cause: brand.CauseRefresh, Priority: brand.PriorityLive, Allowed: work, Force: true,
	})
	testmust.Succeed(t, err)
	w.succeed("succeeded.com", confirmed.ID) // with the same record: confirmed
	w.crawled("withdrawn.com", brand.PriorityLive)
	testmust.Succeed(t, w.brands.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: w.request(), Domain: "withdrawn.com", Reason: "owner"}))
	w.pass(time.Hour)
	watched := w.watched(nil)
	w.sweeper(sweep.Config{}, parts{accountWriter: watched, crawls: watched})
	w.sweptOver()
	for _, domain := range []string{"succeeded.com", "failed.com", "withdrawn.com"} {
		if n := watched.times(domain); n > 0 {
			t.Errorf("%s was swept %d times", domain, n)
		}
	}
}

func TestTwoCrawls_NewerOneTimesOut(t *testing.T) {
	w := newWorld(t)
	older := w.crawled("acme.com", brand.PriorityBulk)
	w.sweeper(sweep.Config{}, parts{})
	w.pass(work) // so the older one is overdue long before the newer one
	newer := w.crawled("acme.com", brand.PriorityLive)
	w.pass(slack + time.Second)
	w.sweptOver()
	if failed := w.failures("acme.com"); len(failed) > 0 {
		t.Fatalf("the crawl that was superseded failed: %+v, want none", failed)
	}
	w.pass(work)
	if failed := w.timedOut("acme.com"); failed.CrawlID != newer.ID {
		t.Errorf("crawl %s timed out, want %s; %s was superseded", failed.CrawlID, newer.ID, older.ID)
	}
	w.sweptOver()
	if n := len(w.failures("acme.com")); n != 1 {
		t.Errorf("%d failures, want one", n)
	}
}

func TestLateEndOfOlderCrawl_NewerOneKeepsItsDeadline(t *testing.T) {
	w := newWorld(t)
	older := w.crawled("acme.com", brand.PriorityBulk)
	newer := w.crawled("acme.com", brand.PriorityLive)
	w.succeed("acme.com", older.ID) // superseded, and still of use
	w.sweeper(sweep.Config{}, parts{})
	w.sweptOver()
	w.pass(time.Hour)
	if failed := w.timedOut("acme.com"); failed.CrawlID != newer.ID {
		t.Errorf("crawl %s timed out, want %s", failed.CrawlID, newer.ID)
	}
}

// Rule 5.
func TestCrawl_WaiterAndSweeper_EndItOnce(t *testing.T) {
	w := newWorld(t)
	crawl := w.crawled("acme.com", brand.PriorityLive)
	w.pass(time.Hour)
	w.sweeper(sweep.Config{}, parts{})
	waiter := make(chan error, 1)
	go func() { waiter <- w.brands.ExpireCrawl(context.Background(), "acme.com", crawl.ID) }()
	testmust.Succeed(t, <-waiter)
	w.sweptOver()
	if n := len(w.failures("acme.com")); n != 1 {
		t.Errorf("failed %d times", n)
	}
}
