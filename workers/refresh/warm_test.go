package refresh_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/warming"
	"letterhead/workers/refresh"
)

// lists opens the tables of warming in their own file.
func lists(t *testing.T) *warming.Table {
	t.Helper()
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "lists.db")}))(t)
	t.Cleanup(func() { store.Close() })
	return testmust.Get(warming.New(t.Context(), store))(t)
}

func begin(t *testing.T, table *warming.Table, domains ...string) {
	t.Helper()
	testmust.Get(table.Begin(t.Context(), "list "+domains[0], domains, time.Now()))(t)
}

// settled returns the list when it has ended.
func settled(t *testing.T, table *warming.Table) warming.List {
	t.Helper()
	for range 1000 {
		if l := testmust.Get(table.Last(t.Context()))(t); l.State != warming.Running {
			return l
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the list does not end")
	return warming.List{}
}

// answer ends the requested crawls, until the test ends.
func (w *world) answer(end func(a asked)) (domains func() []string) {
	var all []string
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case a := <-w.requested:
				all = append(all, a.Domain)
				end(a)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() []string { cancel(); <-ended; return all }
}

func TestWarm_List_OnlyCrawlsWhatIsNotFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := newWorld(t), lists(t)
		w.crawled(true, "fresh.com")
		w.imported("imported.com")
		testmust.Succeed(t, w.FailCrawl(t.Context(), commands.FailCrawl{Request: who, Domain: "failed.com", CrawlID: w.live("failed.com"), Outcome: brand.NoData}))
		w.live("withdrawn.com")
		testmust.Succeed(t, w.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: who, Domain: "withdrawn.com", Reason: "owner"}))
		begin(t, table, "fresh.com", "new.com", "imported.com", "failed.com", "withdrawn.com")
		domains := w.answer(func(a asked) {
			if a.Priority != brand.PriorityBulk || a.Cause != brand.CauseOperator || a.Force {
				t.Errorf("requested %+v, want bulk priority for an operator", a)
			}
			w.finds(a.Domain, a.ID, true)
		})
		stop := w.run(refresh.Config{Off: true, Warming: table}) // LETTERHEAD_REFRESH=off does not turn lists off
		got := settled(t, table)
		stop()
		if all := domains(); !slices.Equal(all, []string{"new.com", "imported.com"}) {
			t.Errorf("crawled %v", all)
		}
		if got.State != warming.Done || got.Requested != 2 || got.Fresh != 1 || got.Skipped != 2 || got.Repeated != 0 {
			t.Errorf("the list ended as %+v", got)
		}
	})
}

func TestWarm_Rate_IsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := newWorld(t), lists(t)
		begin(t, table, "a.com", "b.com", "c.com", "d.com", "e.com")
		domains := w.answer(func(a asked) { w.finds(a.Domain, a.ID, true) })
		stop := w.run(refresh.Config{Warming: table, WarmEvery: time.Minute})
		time.Sleep(2*time.Minute + time.Second)
		stop()
		if all := domains(); len(all) != 3 {
			t.Errorf("in two minutes %d crawls began, want 3", len(all))
		}
	})
}

// A process that ends at any moment, without ending its crawls, loses no domain and crawls none twice.
func TestWarm_ProcessEnds_ListContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := newWorld(t), lists(t)
		var all []string
		for i := range 20 {
			all = append(all, fmt.Sprintf("c%d.com", i))
		}
		begin(t, table, all...)
		times := map[string]int{}
		lost := 0
		domains := w.answer(func(a asked) {
			if times[a.Domain]++; times[a.Domain] == 1 && len(times)%5 == 0 { // its crawler was killed
				lost++
				testmust.Succeed(t, w.FailCrawl(t.Context(), commands.FailCrawl{Request: who, Domain: a.Domain, CrawlID: a.ID, Outcome: brand.Timeout}))
				return
			}
			w.finds(a.Domain, a.ID, true)
		})
		for range 5 {
			stop := w.run(refresh.Config{Warming: table})
			time.Sleep(1600 * time.Millisecond)
			stop()
		}
		stop := w.run(refresh.Config{Warming: table})
		got := settled(t, table)
		stop()
		domains()
		for _, d := range all {
			if b, err := w.State(t.Context(), d); err != nil || !b.Crawled() {
				t.Errorf("%s was not crawled: %v", d, err)
			}
		}
		if lost == 0 || got.Requested != len(all) || got.Repeated != lost {
			t.Errorf("the list ended as %+v after %d lost crawls", got, lost)
		}
	})
}

// Between the request and the save of the position, a killed process leaves a domain that is examined again.
func TestWarm_PositionNotSaved_CrawlIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := newWorld(t), lists(t)
		begin(t, table, "a.com", "b.com")
		l := testmust.Get(table.Last(t.Context()))(t)
		crawl := testmust.Get(w.Brands.RequestCrawl(t.Context(), commands.RequestCrawl{Request: who, CrawlID: l.CrawlID("a.com", false), Domain: "a.com", Cause: brand.CauseOperator, Priority: brand.PriorityBulk, Allowed: time.Minute}))(t)
		testmust.Succeed(t, w.FailCrawl(t.Context(), commands.FailCrawl{Request: who, Domain: "a.com", CrawlID: crawl.ID, Outcome: brand.DNS}))
		domains := w.answer(func(a asked) { w.finds(a.Domain, a.ID, true) })
		stop := w.run(refresh.Config{Warming: table})
		got := settled(t, table)
		stop()
		if all := domains(); !slices.Equal(all, []string{"b.com"}) || got.Requested != 2 || got.Skipped != 0 {
			t.Errorf("crawled %v; the list ended as %+v", all, got)
		}
	})
}

func TestWarm_Cancelled_RequestsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := newWorld(t), lists(t)
		begin(t, table, "a.com", "b.com", "c.com")
		domains := w.answer(func(a asked) {
			w.finds(a.Domain, a.ID, true)
			if a.Domain == "a.com" {
				testmust.Succeed(t, table.Cancel(t.Context()))
			}
		})
		stop := w.run(refresh.Config{Warming: table, WarmEvery: 10 * time.Second})
		time.Sleep(time.Minute)
		if got := testmust.Get(table.Last(t.Context()))(t); got.State != "cancelled" {
			t.Errorf("the list is %+v", got)
		}
		begin(t, table, "d.com") // there is room for another list
		time.Sleep(time.Minute)
		stop()
		if all := domains(); !slices.Equal(all, []string{"a.com", "d.com"}) {
			t.Errorf("crawled %v", all)
		}
	})
}

// The second examination of a domain waits for minutes until a lost crawl may be repeated.
func TestWarm_CancelledWhileItWaits_NextListBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := newWorld(t), lists(t)
		begin(t, table, "lost.com")
		domains := w.answer(func(a asked) {
			if a.Domain == "lost.com" {
				testmust.Succeed(t, w.FailCrawl(t.Context(), commands.FailCrawl{Request: who, Domain: a.Domain, CrawlID: a.ID, Outcome: brand.Timeout}))
				return
			}
			w.finds(a.Domain, a.ID, true)
		})
		stop := w.run(refresh.Config{Warming: table})
		time.Sleep(20 * time.Second)
		testmust.Succeed(t, table.Cancel(t.Context()))
		begin(t, table, "next.com")
		time.Sleep(20 * time.Second)
		stop()
		if all := domains(); !slices.Equal(all, []string{"lost.com", "next.com"}) {
			t.Errorf("crawled %v", all)
		}
	})
}
