package refresh_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/workers/refresh"
)

// got returns the requests once the refresher is idle.
func (w *world) got() (all []asked) {
	synctest.Wait()
	for len(w.requested) > 0 {
		all = append(all, <-w.requested)
	}
	return all
}

// exactly expects n requests and no more.
func (w *world) exactly(n int, when string) []asked {
	w.t.Helper()
	got := w.got()
	if len(got) != n {
		w.t.Fatalf("%s: %d crawls were requested, want %d", when, len(got), n)
	}
	return got
}

func TestOpenCrawls_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []string
		for i := range 10 {
			all = append(all, fmt.Sprintf("d%d.com", i))
		}
		w.imported(all...)
		w.charge(all...)
		stop := w.run(refresh.Config{MaxOutstanding: 2})
		time.Sleep(time.Second)
		open := w.exactly(2, "at first")

		w.append(brand.Stream(open[0].Domain), eventschemas.CrawlFailed{CrawlID: "another", Outcome: brand.Blocked})
		w.live("elsewhere.com")
		w.exactly(0, "another crawl ended")
		w.fails(open[0])
		time.Sleep(time.Second)
		third := w.exactly(1, "one failed")[0]
		w.succeeds(open[1].Domain, open[1].ID)
		w.fails(third)
		time.Sleep(time.Second)
		w.exactly(2, "two ended")

		time.Sleep(refresh.DefaultAllowed - 2*time.Second)
		w.exactly(0, "before the deadline")
		time.Sleep(2 * time.Second)
		w.exactly(2, "their deadlines have passed without an end")
		stop()
	})
}

func TestOpenCrawls_ByDefault_AsManyAsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		all := []string{"a.com", "b.com", "c.com", "d.com", "e.com", "f.com"}
		w.imported(all...)
		w.charge(all...)
		stop := w.run(refresh.Config{})
		time.Sleep(time.Second)
		w.exactly(4, "at first")
		stop()
	})
}

func TestBrandCrawledMeanwhile_IsNotRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.imported("first.com", "waits.com", "last.com")
		w.charge("first.com", "waits.com", "last.com")
		stop := w.run(refresh.Config{MaxOutstanding: 1})
		time.Sleep(time.Second)
		first := w.exactly(1, "at first")[0]
		w.succeeds("waits.com", w.live("waits.com"))
		w.exactly(0, "a crawl of another caller ended")
		w.fails(first)
		time.Sleep(time.Second)
		if got := w.exactly(1, "the bound was ignored"); got[0].Domain != "last.com" {
			t.Errorf("got %s, want last.com", got[0].Domain)
		}
		stop()
	})
}
